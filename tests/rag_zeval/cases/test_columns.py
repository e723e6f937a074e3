"""Which column is what: every name and layout of the table, what the user says, and no guess between two."""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.cases.columns import Columns, choose
from rag_zeval.cases.names import FIELDS, LAYOUTS, NAMES, Layout, fields_of, plain_name
from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import InputError

BASE = {"question": "q?", "answer": "a", "contexts": ["c"]}


def chosen(*columns: str, names: Mapping[str, str] | None = None) -> Columns:
    return choose(Counter(columns), (), names or {}, [])


@pytest.mark.parametrize(("field", "name"), [(field, name) for field, names in NAMES.items() for name in names])
def test_every_name_of_the_table_is_taken_and_told(field: str, name: str) -> None:
    others = [ours for ours in ("question", "answer", "contexts") if ours != field and field != "reference"]
    columns = chosen(*(others or ["question", "answer"]), name)
    assert columns.of[field] == name and not columns.unused


@given(st.sampled_from([(field, name) for field, names in NAMES.items() for name in names]), st.data())
def test_case_and_spelling_of_a_name_do_not_matter(entry: tuple[str, str], data: Any) -> None:
    field, name = entry
    words = name.strip("_").split("_")
    spelt = data.draw(
        st.sampled_from(
            [
                "_".join(words),
                " ".join(words).title(),
                "-".join(words),
                "".join([words[0], *map(str.title, words[1:])]),
                name.upper(),
            ]
        )
    )
    assert field in fields_of(spelt if not name.startswith("_") else name)


def test_no_name_stands_for_two_fields() -> None:
    counts = Counter(plain_name(name) for names in NAMES.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == []
    assert NAMES.keys() < FIELDS.keys()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_example_of_every_layout_is_read(layout: Layout) -> None:
    read = read_cases([layout.example])
    (case,) = read.cases
    assert read.columns.layout == f"columns of {layout.name}"
    assert (case.question, list(case.answers.values()), case.contexts) == ("q?", ["a"], ("c",))
    assert case.truth == ("t" if "truth" in layout.columns else None)
    without = [{name: None if name in layout.columns.values() else value for name, value in layout.example.items()}]
    filled = read_cases([{**without[0], layout.columns["question"]: "q?"}, layout.example]).columns
    assert filled == read.columns  # nulls in the first row change nothing


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ("question", "answer", "response", "contexts"),
            "'answer', 'response' could each hold the answer: add --map answer=answer or --map answer=response; "
            "if another holds the ground truth, also --map truth=COLUMN",
        ),
        (
            ("question", "answer", "chunks", "documents"),
            "could each hold the retrieved contexts: add --map contexts=chunks or --map contexts=documents",
        ),
        (
            ("question", "answer", "contexts", "reference"),
            "'reference' beside 'contexts' could hold the ground truth, or the text to judge by: "
            "add --map truth=reference or --map reference=reference",
        ),
        (
            ("question", "answer", "answers", "contexts"),
            "if 'answers' are gold answers, add --map answer=answer --map truth=answers",
        ),
        (
            ("question", "answer"),
            "no column found for the retrieved contexts; columns: 'question', 'answer'. Add --map contexts=COLUMN",
        ),
        (
            ("contexts",),
            "no column found for the question, the answer; columns: 'contexts'. "
            "Add --map question=COLUMN --map answer=COLUMN",
        ),
        (
            ("question", "answer", "Doc", "Doc 1", "Doc 2"),
            "'Doc', 'Doc *' could each hold the retrieved contexts: add --map contexts=Doc or --map 'contexts=Doc *'",
        ),
        (
            ("When is it open?", "At nine.", "x"),
            "the first line must name the columns, such as question,answer,contexts",
        ),
    ],
)
def test_nothing_is_guessed_between_two_or_out_of_nothing(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        chosen(*columns)
    assert message in str(error.value)


def test_our_own_name_is_taken_before_others_which_are_told() -> None:
    columns = chosen("question", "prompt", "answer", "contexts", "documents", "time")
    assert (columns.of["question"], columns.of["contexts"]) == ("question", "contexts")
    assert columns.unused == ("prompt", "documents", "time") and set(columns.overlooked) == {"prompt", "documents"}
    assert columns.overlooked["documents"] == "if it holds the retrieved contexts, add --map contexts=documents"


def test_answers_that_may_be_meant_instead_are_told() -> None:
    columns = chosen(
        "question", "contexts", "answer", "gpt4_answer", "Bot Response", "answer_relevancy", "response_time"
    )
    assert columns.of["answer"] == "answer" and list(columns.overlooked) == ["gpt4_answer", "Bot Response"]
    assert columns.overlooked["gpt4_answer"] == "if it holds the answer, add --map answer=gpt4_answer"


def test_a_column_without_values_gives_way() -> None:
    assert choose({"question": 1, "answer": 1, "contexts": 0, "chunks": 1}, (), {}, []).of["contexts"] == "chunks"


def test_what_deepeval_calls_context_is_not_what_was_retrieved() -> None:
    columns = chosen("input", "actual_output", "expected_output", "context")
    assert "contexts" not in columns.of and "ideal context" in columns.overlooked["context"]
    assert chosen("input", "actual_output", "context", names={"contexts": "context"}).of["contexts"] == "context"


def test_a_layout_is_known_in_any_writing_but_a_plural_is_another_name() -> None:
    columns = chosen("input", "actualOutput", "Expected Output", "context", "retrievalContext")
    assert columns.layout == "columns of DeepEval" and "ideal context" in columns.overlooked["context"]
    assert (columns.of["contexts"], columns.of["truth"]) == ("retrievalContext", "Expected Output")
    assert "passage" not in chosen("query", "passages", "generated_answer").of


def test_ids_are_no_texts() -> None:
    assert chosen("question", "answer", "contexts", "prediction_id", "retrieved_document_ids").overlooked == {}


def test_no_gold_passages_and_no_other_speaker_are_suggested_as_the_answer() -> None:
    system = {"input": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "q?"}], "ideal": "t"}
    for row in ({"user_input": "q?", "reference_contexts": "['It is a text.']", "reference": "t"}, system):
        with pytest.raises(InputError, match=r"--map answer=COLUMN$"):
            read_cases([row])


def test_the_last_turn_of_dialogues_is_suggested() -> None:
    turns = [{"type": "human", "content": "q?"}, {"type": "ai", "content": "a"}]
    data = [
        {"messages": turns[:], "contexts": "c"},
        {"messages": [{"type": "human", "content": "hi"}, *turns[::-1], *turns]},
    ]
    with pytest.raises(InputError, match=r"question=messages.-2.content --map answer=messages.-1.content, if"):
        read_cases(data)
    read = read_cases(data, {"question": "messages.-2.content", "answer": "messages.-1.content"})
    assert [(case.question, *case.answers.values()) for case in read.cases] == [("q?", "a")] * 2


def test_the_users_word_comes_first() -> None:
    columns = chosen("question", "answers", "ctxs", "output", "answer", names={"answer": "output"})
    assert (columns.of["answer"], columns.of["truth"]) == ("output", "answers")
    columns = chosen("question", "answers", "contexts", "output", names={"answer": "output"})
    assert columns.of["answer"] == "output" and "answers" not in columns.of
    assert columns.overlooked["answers"] == "if it holds the ground truth, add --map truth=answers"
    columns = chosen("user_input", "response", "reference", "retrieved_contexts", names={"reference": "reference"})
    assert (columns.of["reference"], columns.of["question"]) == (
        "reference",
        "user_input",
    ) and "truth" not in columns.of


NESTED = {
    "id": "7", "inputs": {"question": "q?"}, "reference_outputs": {"answer": "t"},
    "outputs": {"answer": "a", "documents": [{"page_content": "c"}]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "typed"),
    [
        (NESTED, "--map question=inputs.question --map answer=outputs.answer --map contexts=outputs.documents"),
        ({**NESTED, "inputs": '{"question": "q?"}'}, "--map question=inputs.question"),
        ({"ask": "who?", "say": "It is he.", "kb": ["c"]}, "--map question=ask --map answer=say --map contexts=kb"),
        ({**BASE, "contexts": None, "questoin": "q?", "question": {"x": 1}}, "--map question=questoin"),
        ({"question": "q?", "[gpt] answer": "It is.", "contexts": "c"}, "--map 'answer=[gpt] answer'"),
        (
            {"question": "q?", "answer": {"role": "assistant", "content": "a"}, "contexts": "c"},
            "--map answer=answer.content",
        ),
        ({"question": "q?", "llama answer": "nine", "contexts": "c"}, "--map 'answer=llama answer'"),
        ({**BASE, "question": json.dumps([{"role": "user", "content": "q?"}])}, "--map question=question.-1.content"),
        (
            {"item": {"question": "q?", "ground_truth": "It is."}, "sample": {"said": "So it is."}, "contexts": "c"},
            "--map question=item.question --map answer=sample.said --map truth=item.ground_truth",
        ),
        (
            {"fields": {"query": "q?", "response": "a", "document_1": "c", "document_2": "d"}},
            "--map 'contexts=fields.document_*'",
        ),
        ({"question": "q?", "answer": "a", "top1_chunk": "c", "top2_chunk": "d"}, "--map 'contexts=top*_chunk'"),
        ({"Frage": "q?", "answer": "a", "Kontext 1": "c", "Kontext 2": "d"}, "--map 'contexts=Kontext *'"),
        (
            {"messages": [{"role": role, "content": f"{role}?"} for role in ("system", "user", "assistant")]},
            "--map question=messages.-2.content --map answer=messages.-1.content --map contexts=messages.0.content",
        ),
    ],
)
def test_all_that_is_missing_is_told_with_a_command_that_works(row: dict[str, Any], typed: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert typed in str(error.value) and str(error.value).endswith(", if that is what they hold")
    options = shlex.split(str(error.value).partition(". Add ")[2].removesuffix(", if that is what they hold"))
    names = dict(option.split("=", 1) for option in options if option != "--map")
    (case,) = read_cases([row], names).cases
    assert case.question.endswith("?") and next(iter(case.answers.values()))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"contexts": "NOTHERE"},
            "--map contexts=NOTHERE: no row has 'NOTHERE'; columns: 'question', 'answer', 'contexts'",
        ),
        ({"contexts": "contexts.0.text"}, "no row has 'contexts.0.text'"),
        ({"contexts": "contexts.²"}, "no row has 'contexts.²'"),
        ({"anwser": "answer"}, "unknown field 'anwser' (did you mean 'answer'?)"),
    ],
)
def test_a_map_to_nowhere_is_an_error(names: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases([BASE], names)
    assert message in str(error.value)


@pytest.mark.parametrize("printed", [json.dumps, str])
def test_paths_go_into_objects_lists_and_printed_ones(printed: Callable[[Any], str]) -> None:
    row = {"run": printed({"in": {"q": "q?"}, "out": [{"text": "a"}]}), "docs": [{"body": "x"}, {"body": "y"}]}
    names = {"question": "run.in.q", "answer": "run.out.0.text", "contexts": "docs.body"}
    (case,) = read_cases([row], names).cases
    assert (case.question, case.answers, case.contexts) == ("q?", {"answer": "a"}, ("x", "y"))


def test_names_on_a_path_may_have_dots_and_numbers() -> None:
    row = {
        **BASE,
        "span.retrieval": [{"doc.text": "x"}, {"doc.text": "y"}],
        "hits": {"2": {"b": "two"}, "1": {"b": "one"}},
    }
    for path, found in {"span.retrieval.doc.text": ("x", "y"), "hits.*.b": ("one", "two")}.items():
        read = read_cases([row], {"contexts": path})
        assert read.cases[0].contexts == found and path.partition(".")[0] not in read.columns.unused
    with pytest.raises(InputError, match=r"no row has 'hits\.\*\.c'"):
        read_cases([row], {"contexts": "hits.*.c"})


@pytest.mark.parametrize(
    "name", ["contexts.{}", "contexts/{}", "contexts[{}]", "docs.{}.text", "docs[{}].page_content"]
)
def test_lists_that_were_flattened_into_columns_are_contexts(name: str) -> None:
    row = {"question": "q?", "answer": "a", **{name.format(at): str(at) for at in (10, 0, 2)}, "docs.0.score": 0.5}
    read = read_cases([row])
    assert read.cases[0].contexts == ("0", "2", "10") and read.columns.unused == ("docs.0.score",)


def test_a_number_in_a_name_may_be_too_long_to_be_one() -> None:
    (case,) = read_cases(
        [{**BASE, "context_1": "one", f"context_{'9' * 5000}": "two"}], {"contexts": "context_*"}
    ).cases
    assert case.contexts == ("one",)


@given(
    st.lists(st.none() | st.text("ab", min_size=1), min_size=1, max_size=12), st.sampled_from(["context_", "Doc ", "p"])
)
def test_numbered_columns_are_contexts_in_the_order_of_their_numbers(texts: list[str | None], stem: str) -> None:
    named = {f"{stem}{number}": text for number, text in enumerate(texts, 1)}
    read = read_cases(
        [{"question": "q?", "answer": "a", **dict(sorted(named.items()))}], {} if stem != "p" else {"contexts": "p*"}
    )
    assert read.cases[0].contexts == tuple(text for text in texts if text is not None)
    assert read.columns.of["contexts"] == f"{stem}*" and not read.columns.unused
