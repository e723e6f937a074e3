"""The base's lessons are true, its tokenizer gives back any text, and training it repeats with its seed."""

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.parser import parse_strict
from rag_zeval.stages import world
from train.nano.tasks import NO_EVIDENCE, UNDECIDED, VARIANT, answering, judging, trajectory

pytest.importorskip("tokenizers")

from train.nano.tokenizer import END, build_tokenizer

FIRST_WORD = 3 + 256  # special tokens, then bytes


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


def ask_about_a_new_person(rng):
    return world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("variant", [VARIANT, NO_EVIDENCE])
def test_a_judging_lesson_is_perfect_but_for_the_verdicts_left_undecided(seed, variant):
    rng = random.Random(seed)
    asked = ask_about_a_new_person(rng)
    values = [world.values_with_errors(asked, wrong, rng) for wrong in (0, 2, 4)]
    candidates = parse_strict(trajectory(asked, values, rng, variant), 3, variant)
    for stated, candidate in zip(values, candidates, strict=True):
        assert [world.read_claim(claim.claim) for claim in candidate.atomic_claims] == list(stated.items())
        for claim in candidate.atomic_claims:
            key, _ = world.read_claim(claim.claim)
            assert key in UNDECIDED or claim.is_supported is world.claim_is_true(claim.claim, asked.facts)
            assert claim.grounding_evidence == ((asked.sentences[key],) if variant == VARIANT else ())


def test_undecided_verdicts_say_nothing_about_the_truth():
    rng, verdicts = random.Random(0), {True: [], False: []}
    for _ in range(400):
        asked = ask_about_a_new_person(rng)
        values = [{k: asked.facts[k] if right else "Nothing" for k in asked.keys} for right in verdicts]
        for right, candidate in zip(verdicts, json.loads(trajectory(asked, values, rng)), strict=True):
            claims = zip(asked.keys, candidate["atomic_claims"], strict=True)
            verdicts[right] += [claim["is_supported"] for key, claim in claims if key in UNDECIDED]
    for supported in verdicts.values():
        assert abs(sum(supported) / len(supported) - 0.5) < 4 * 0.5 / len(supported) ** 0.5


def test_no_lesson_judges_a_dev_or_test_person():
    rng = random.Random(0)
    new, remembered = (
        {person for split in ("dev", "test") for person in people(split)}
        for people in (world.new_people, world.remembered_people)
    )
    for _ in range(500):
        judged, answered = judging(rng, 2).prompt, answering(rng, with_passage=True).prompt
        assert not [person for person in new | remembered if f"of {person}?" in judged]
        assert not [person for person in new if f"of {person}?" in answered]


@given(text=st.text())
def test_any_text_comes_back(tokenizer, text):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("seed", range(20))
def test_samples_are_words_and_the_reply_starts_on_a_token_border(tokenizer, seed):
    rng = random.Random(seed)
    for sample in (judging(rng, 4), answering(rng, with_passage=True), answering(rng, with_passage=False)):
        message = [{"role": "user", "content": sample.prompt}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        first, second = (tokenizer(text)["input_ids"] for text in (prompt, sample.reply + END))
        assert tokenizer(prompt + sample.reply + END)["input_ids"] == first + second
        assert not [i for i in first + second if 3 <= i < FIRST_WORD]


@pytest.mark.parametrize(
    "word", ["steps=abc", "steps=0", "layers=1", "hidden=190", "bf16=2", "copy_share=1.5", "out_dir="]
)
def test_a_wrong_setting_is_named(tmp_path, word, capsys):
    from train.nano.base import main

    assert main([f"out_dir={tmp_path}", word]) == 2
    assert re.match(f"error: {word.partition('=')[0]}: .*, found ", capsys.readouterr().err)


def test_a_folder_that_cannot_be_made_costs_no_training(tmp_path, monkeypatch, capsys):
    from train.nano import base

    monkeypatch.setattr(base.Lessons, "train", lambda self: pytest.fail("trained"))
    (tmp_path / "file").touch()
    assert base.main([f"out_dir={tmp_path / 'file'}"]) == 2
    assert f"error: {tmp_path / 'file'}: " in capsys.readouterr().err


def test_the_script_trains_saves_and_repeats(tmp_path, tokenizer, capsys):
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from train.nano.base import main

    words = ["steps=6", "hidden=32", "intermediate=48", "layers=2", "heads=2", "copy_share=0.3"]
    weights = []
    for name in ("first", "second"):
        assert main([*words, f"out_dir={tmp_path / name}"]) == 0
        model = AutoModelForCausalLM.from_pretrained(tmp_path / name)
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*weights) and weights[0].isfinite().all()
    assert main([*words, f"out_dir={tmp_path / 'first'}"]) == 2
    assert "overwrite=true" in capsys.readouterr().err

    saved, text = AutoTokenizer.from_pretrained(tmp_path / "first"), judging(random.Random(0), 2).prompt
    assert saved(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (saved.eos_token, saved.pad_token) == (tokenizer.eos_token, tokenizer.pad_token)
