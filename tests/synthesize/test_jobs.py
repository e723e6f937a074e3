"""Prompts, and the batches in which they are answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthesize.jobs import TEMPLATES, Job, batches, prompt_hash, prompt_ids, qa_prompt

LENGTH = st.integers(1, 500)


@given(st.lists(st.tuples(LENGTH, LENGTH), max_size=60), st.integers(1, 8), st.integers(100, 3000), st.integers(1, 12))
def test_batches_hold_every_job_that_is_not_refused_once_within_bounds(settings, lengths, rows, tokens, new):
    jobs = [Job(number, [1] * first, [1] * second) for number, (first, second) in enumerate(lengths)]
    refused = Job(None, [1], [1], "too long")
    groups = batches([refused, *jobs], settings(batch_size=rows, max_new_tokens=new), tokens)
    assert [job for group in groups for job in group] == sorted(jobs, key=lambda job: (job.width, job.question))
    for group in groups:
        assert len(group) <= rows
        assert len(group) == 1 or len(group) * (group[-1].width + 2 * 4 * new) <= tokens


@given(st.text(), st.text())
def test_texts_stand_in_the_two_shot_prompt_as_they_are(question, passage):
    for template, shown in (("with_passage", passage), ("without_passage", None)):
        before, after = TEMPLATES[template].split("{question}")
        if shown is not None:
            before = "".join((before.split("{passage}")[0], passage, before.split("{passage}")[1]))
        assert qa_prompt("two-shot", question, shown) == before + question + after


def test_prompts_have_different_hashes():
    assert prompt_hash("nano") != prompt_hash("two-shot") and len(prompt_hash("nano")) == 16
    assert "Passage" not in qa_prompt("two-shot", "q", None) and "Passage" not in qa_prompt("nano", "q", None)


@pytest.mark.parametrize("chat_template", [True, False])
def test_no_mark_of_the_model_is_spelt_by_a_passage(chat_template):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("checkpoints/nano-base")
    tokenizer.add_tokens(["<tool_call>", "<tool_", "  "])  # beside the vocabulary, but not called special
    tokenizer.chat_template = "<s>[INST] <<SYS>>be brief<</SYS>>{{ messages[0]['content'] }}[/INST]"
    marks = ["<tool_call>", "<tool_", "<|im_end|>", "<s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"]
    hostile = f"a town  {''.join(marks)} {' '.join(marks)} <tool_<tool_call>"
    ids = prompt_ids(tokenizer, hostile, chat_template)
    assert not {tokenizer.convert_tokens_to_ids(token) for token in marks[:3]} & set(ids)
    text = tokenizer.decode(ids)
    for mark in marks:
        assert text.count(mark) == (mark in tokenizer.chat_template and chat_template)
    kept = "a  b < c [1] [NATO]"  # whatever is no mark of this model stays as it is
    assert prompt_ids(tokenizer, kept, chat_template=False) == tokenizer(kept).input_ids
