"""Which column is what: every name and layout of the table, what the user says, and no guess between two."""

import json
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.cases.columns import Columns, choose
from rag_zeval.cases.fields import FIELDS
from rag_zeval.cases.layouts import LAYOUTS, Layout
from rag_zeval.cases.names import NAMES, field_of, plain_name
from rag_zeval.cases.paths import option
from rag_zeval.cases.reading import question_id, read_cases
from rag_zeval.cases.survey import Survey
from rag_zeval.cases.wanted import Wanted
from rag_zeval.errors import InputError

BASE = {"question": "q?", "answer": "a", "contexts": ["c"]}
EXAMPLES: tuple[dict[str, Any], ...] = (  # for each layout, a row as the tool writes it
    {"user_input": "q?", "response": "a", "retrieved_contexts": ["c"], "reference": "t", "reference_contexts": ["g"]},
    {"user_input": "q?", "reference_contexts": ["g"], "reference": "t", "synthesizer_name": "s", "answer": "a",
     "retrieved_contexts": ["c"]},
    {"question": "q?", "contexts": ["g"], "ground_truth": "t", "evolution_type": "simple", "metadata": [],
     "episode_done": True, "answer": "a", "retrieved_contexts": ["c"]},
    {"query_id": "1", "query": "q?", "response": "a", "gt_answer": "t", "retrieved_context": [{"doc_id": "d",
     "text": "c"}]},
    {"query_id": "1", "query": "q?", "query_run": 1, "passage_id": "[1]", "passage": "c", "generated_answer": "a"},
    {"context.span_id": "s", "document_position": 0, "input": "q?", "output": "a", "reference": "c"},
    {"context.span_id": "s", "document_position": 0, "input": "q?", "output": "a", "document": "c"},
    {"input": "q?", "actual_output": "a", "expected_output": "t", "retrieval_context": "c", "name": "1",
     "source_file": None, "additional_metadata": None},
    {"input": "q?", "actual_output": "a", "expected_output": "t", "retrieval_context": ["c"], "name": "1"},
    {"request_id": "1", "request": "q?", "response": "a", "expected_response": "t", "expected_facts": ["f"],
     "retrieved_context": [{"doc_uri": "d", "content": "c"}]},
    {"input": "q?", "output": "t", "generated_output": "a", "context": "c", "metadata": None},
    {"question": "q?", "truth": "t", "snippets": ["s"], "gold_chunk_ids": ["d.md#1"], "documents": ["d.md"],
     "answer": "a", "contexts": ["c"]},
    {"question": "q?", "answers": ["t", "t2"], "ctxs": [{"id": "d", "title": "T", "text": "c"}], "output": "a"},
    {"question": "q?", "example_answer": "t", "context": ["c"], "reasoning": "r", "pred_answer": "a", "metric": 1},
    {"question": "q?", "example_response": "t", "context": ["c"], "pred_response": "a", "SemanticF1": 1},
    {"question": "q?", "answer": "t", "supporting_facts": [["T", 0]], "context": [["T", ["c"]]], "prediction": "a"},
    {"question": "q?", "answer": "t", "paragraphs": [{"title": "T", "paragraph_text": "c"}],
     "question_decomposition": [{"question": "p?", "answer": "s"}], "predicted_answer": "a"},
)  # fmt: skip


def chosen(*columns: str, names: Mapping[str, str] | None = None) -> Columns:
    return choose(Survey(there=Counter(columns)), Wanted(names or {}))


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
    assert field_of(spelt if not name.startswith("_") else name) == field


def test_no_name_stands_for_two_fields() -> None:
    counts = Counter(plain_name(name) for names in NAMES.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == []
    assert NAMES.keys() < FIELDS.keys()


@pytest.mark.parametrize(("layout", "example"), zip(LAYOUTS, EXAMPLES, strict=True))
def test_the_example_of_every_layout_is_read(layout: Layout, example: dict[str, Any]) -> None:
    read = read_cases([example])
    (case,) = read.cases
    assert read.columns.layout == f"columns of {layout.name}"
    assert (case.question, list(case.answers.values()), case.contexts) == ("q?", ["a"], ("c",))
    assert case.truth == ("t" if "truth" in layout.columns else None)
    without = [{name: None if name in layout.columns.values() else value for name, value in example.items()}]
    filled = read_cases([{**without[0], layout.columns["question"]: "q?"}, example]).columns
    assert filled == read.columns  # nulls in the first row change nothing


def told_names(error: InputError) -> dict[str, str]:
    """Return the choice of columns that a message tells to type."""
    options, _, shown = str(error).partition(". Add ")[2].partition(", if that is right: ")
    assert shown
    return dict(option.split("=", 1) for option in shlex.split(options) if option != "--map")


def test_documents_of_our_questions_are_not_what_was_retrieved() -> None:
    (example,) = (row for row in EXAMPLES if "documents" in row)
    row = {name: value for name, value in example.items() if name != "contexts"}
    assert read_cases([row]).cases[0].contexts == ()
    with pytest.raises(InputError, match=r"the answer.*without answers, `rag-zeval collect` asks"):
        read_cases([{name: value for name, value in row.items() if name != "answer"}])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ("question", "answer", "response", "contexts"),
            "'answer', 'response' could each hold the answer: add --map answer=answer or --map answer=response; "
            "if 'answer' holds the ground truth, --map answer=response --map truth=answer",
        ),
        (
            ("question", "answer", "chunks", "documents"),
            "could each hold the retrieved contexts: add --map contexts=chunks or --map contexts=documents",
        ),
        (
            ("question", "answer", "expected", "reference"),
            "columns 'expected' and 'reference' could each hold the ground truth: add --map truth=expected or --map "
            "truth=reference; if the answers are to be judged by 'reference', --map reference=reference",
        ),
        (
            ("question", "answer", "answers", "contexts"),
            "if 'answers' are gold answers, add --map answer=answer --map truth=answers",
        ),
        (
            ("question", "answer"),
            "no column found for the retrieved contexts or the ground truth; columns: 'question', 'answer'. If the "
            "retrieved contexts or the ground truth are in another file, add --join FILE. To judge the answers without",
        ),
        (
            ("contexts",),
            "no column found for the question, the answer; columns: 'contexts'",
        ),
        (
            ("question", "answer", "Doc", "Doc 1", "Doc 2"),
            'could each hold the retrieved contexts: add --map contexts=Doc or --map "contexts=Doc *"',
        ),
        (
            ("When is it open?", "At nine.", "x"),
            "the first line must name the columns, such as question,answer,contexts",
        ),
        (("# Answers of May",), "the first line must name the columns, such as question,answer,contexts"),
    ],
)
def test_nothing_is_guessed_between_two_or_out_of_nothing(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        chosen(*columns)
    assert message in str(error.value)


def test_a_prompt_gives_way_to_the_query_but_not_to_an_input() -> None:
    columns = chosen("query", "prompts", "answer", "contexts")
    assert columns.of["question"] == "query"
    assert columns.overlooked == {"prompts": "if it holds the question, add --map question=prompts"}
    with pytest.raises(InputError, match="'prompt', 'input' could each hold the question"):
        chosen("prompt", "input", "answer", "contexts")


def test_of_an_instruction_and_an_input_the_one_that_differs_from_row_to_row_is_the_question() -> None:
    def rows(**columns: tuple[str, str, str]) -> list[dict[str, Any]]:
        both = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return [{**one, "answer": "a", "contexts": "It opens at nine."} for one in both]

    questions, rule = ("Who?", "When?", "Where?"), ("Be brief.",) * 3
    for one, other in (("instruction", "input"), ("input", "instruction")):
        assert read_cases(rows(**{one: questions, other: rule})).columns.of["question"] == one
        assert read_cases(rows(**{one: questions, other: ("", "", "x")})).columns.of["question"] == one
    assert read_cases(rows(instruction=rule, query=questions)).columns.of["question"] == "query"
    assert read_cases(rows(input=rule)).columns.of["question"] == "input"  # several answers to one question
    with pytest.raises(InputError, match="no column found for the question"):
        read_cases(rows(instruction=rule))  # it may be that of the system
    with pytest.raises(InputError, match="'instruction', 'input' could each hold the question"):
        read_cases(rows(instruction=questions, input=("Now", "Then", "Later")))


def test_our_own_name_is_taken_before_others_which_are_told() -> None:
    columns = chosen("question", "prompt", "answer", "contexts", "documents", "time")
    assert (columns.of["question"], columns.of["contexts"]) == ("question", "contexts")
    assert columns.unused == ("prompt", "documents", "time") and set(columns.overlooked) == {"prompt", "documents"}
    assert columns.overlooked["documents"] == "if it holds the retrieved contexts, add --map contexts=documents"


def test_answers_that_may_be_meant_instead_are_told() -> None:
    columns = chosen(
        "question", "contexts", "answer", "gpt4_answer", "GPT Response", "answer_relevancy", "response_time"
    )
    assert columns.of["answer"] == "answer" and list(columns.overlooked) == ["gpt4_answer", "GPT Response"]
    assert columns.overlooked["gpt4_answer"] == "if it holds the answer, add --map answer=gpt4_answer"
    columns = chosen("question", "contexts", "answer", "possible_answers")
    assert columns.overlooked == {"possible_answers": "if it holds the ground truth, add --map truth=possible_answers"}
    others = {"answer_v2": "It is.", "answer_relevancy": 0.5, "answer_language": "en", "response_reason": "So it is."}
    told = read_cases([{"question": "q?", "answer": "It was.", "contexts": "c", **others}]).columns.overlooked
    assert told == {"answer_v2": "if it holds the answer, add --map answer=answer_v2"}


ONE, TWO = "It opens at nine.", "It opens at ten."


@pytest.mark.parametrize(
    ("columns", "systems"),
    [
        ({"Baseline Response": ONE, "Tuned Response": TWO}, ["Baseline Response", "Tuned Response"]),
        ({"gpt_answer": "ten", "llama_answer": "nine", "human_answer": ONE}, ["gpt_answer", "llama_answer"]),
        ({"answer_gpt": ONE, "answer_llama": TWO, "answer_orig": ONE}, ["answer_gpt", "answer_llama"]),
        ({"response1": "ten", "response2": "nine", "response3": None}, ["response1", "response2"]),
        ({"summary_1": ONE, "summary_2": TWO, "summary_note": ONE}, ["summary_1", "summary_2"]),
        ({"No RAG": ONE, "RAG": TWO}, ["No RAG", "RAG"]),
        ({"dense_search": ONE, "hybrid_search": TWO}, ["dense_search", "hybrid_search"]),
        ({"rag": {"reply": ONE}, "base": {"reply": TWO}}, ["rag.reply", "base.reply"]),
        ({"gpt_answer": 1, "llama_answer": True}, []),
        ({"gpt_answer": ["ten"], "llama_answer": ["nine"]}, []),
        ({"#1": ONE, "#2": TWO}, ["#1", "#2"]),
        ({"question_fr": ONE, "question_de": TWO}, []),
        ({"first_reason": ONE, "last_reason": TWO}, []),
        ({"raw_output": ONE, "final_output": TWO}, []),  # of one system
        ({"steps": [{"answer": ONE}, {"answer": TWO, "id": 2}]}, []),
    ],
)
def test_columns_that_seem_to_be_answers_of_several_systems_are_told_together(
    columns: dict[str, Any], systems: list[str]
) -> None:
    row = {"question": "q?", "contexts": "c", **columns}
    with pytest.raises(InputError) as error:
        read_cases([row])
    _, said, typed = str(error.value).partition(" seem to be answers of several systems: add ")
    assert typed.count("answer=") == len(systems)
    if systems:
        typed = " ".join(option("answer", name) for name in systems)
        assert f"'{systems[0]}' and '{systems[1]}'{said}{typed}" in str(error.value)
        assert [*read_cases([row], {"answer": systems}).cases[0].answers] == systems
        alone = read_cases([row], {"answer": systems[0]}).columns.overlooked
        assert alone.get(systems[1], typed).endswith(typed)


def test_an_answer_beside_those_of_other_systems_is_told_with_them() -> None:
    row = {"question": "q?", "answer": ONE, "base_answer": TWO, "contexts": "c"}
    told = {"base_answer": "if it holds another system's answer, add --map answer=answer --map answer=base_answer"}
    assert read_cases([{**row, "truth": "t"}]).columns.overlooked == told
    assert read_cases([row]).columns.overlooked == {
        "base_answer": "if it holds the answer, add --map answer=base_answer"
    }
    several = (
        "'rag_answer', 'model_answer' are answers of several systems, --map answer=rag_answer --map answer=model_answer"
    )
    row = {"question": "q?", "rag_answer": ONE, "model_answer": TWO, "contexts": "c"}
    with pytest.raises(InputError, match=f"or --map answer=model_answer; if {several}$"):
        read_cases([row])
    with pytest.raises(
        InputError, match=f"{several}; if 'answer' holds .* --map answer=model_answer --map truth=answer$"
    ):
        read_cases([{**row, "answer": ONE}])


def test_a_column_without_values_gives_way() -> None:
    columns = choose(
        Survey(there=Counter({"question": 1, "answer": 1, "contexts": 0, "chunks": 1, "prompt": 0})), Wanted()
    )
    assert columns.of["contexts"] == "chunks" and columns.overlooked == {}


VERDICTS = [{"question": f"q{at}?", "result": said} for at, said in enumerate(("PASS", "failed"))]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{**BASE, "contexts": count} for count in (5, "0", 12.5)],
            "; column 'contexts' is not used: it holds numbers, such as '5'; to use it all the same, add --map context",
        ),
        (
            [BASE | {"contexts": [{"rank": 1, "title": "When it opens and when it closes"}, {"rank": 2}]}],
            "it holds objects without a text; write the texts that were retrieved into them",
        ),
        ([{**BASE, "contexts": said} for said in (True, "no", "Sí")], "such as 'True'"),
        ([{**BASE, "contexts": ["doc_1", "Handbook of 2024.PDF"]}, BASE | {"contexts": []}], "such as 'doc_1'"),
        ([{**BASE, "contexts": ["Opening hours (https://x.org/a?b=c)"]}], "such as 'Opening hours (https://x.org/a?b"),
        ([{"user_input": "q?", "response": "a", "retrieved_contexts": "['d_1', 'd_2']"}], "such as 'd_1'"),  # ragas
        (
            [{"inputs": {"question": "q?"}, "outputs": {"answer": "a", "documents": ["d_1"]}}],
            "no column found for the retrieved c",
        ),
        (
            [{**row, "truth": "At nine.", "generated_sql": "SELECT a FROM b"} for row in VERDICTS],
            "says 'SELECT a FROM b'; column 'result' is not used: it holds verdicts or labels, "
            "such as 'PASS'; to use it all the same, add --map answer=result",
        ),
        ([{**BASE, "answer": n % 2, "truth": 1} for n in range(3)], "verdicts or labels, such as '0'"),
        ([{**BASE, "answer": [n, 24]} for n in range(3)], "lists of labels, such as '[0, 24]'"),
    ],
)
def test_a_column_whose_values_contradict_its_name_is_not_taken(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases(rows)
    assert message in str(error.value)


def test_another_column_takes_the_place_of_one_whose_values_contradict_its_name() -> None:
    row = {"question": "q?", "answer": "a", "documents": ["d_1"], "ground_truth": "t"}
    assert read_cases([row]).cases[0].contexts == ()
    assert "to use it all the same, add --map contexts=documents" in str(read_cases([row]))
    assert read_cases([row], {"contexts": "documents"}).cases[0].contexts == ("d_1",)
    read = read_cases([{**row, "chunks": ["It is.", "7"]}])
    assert read.columns.of["contexts"] == "chunks" and read.columns.overlooked == {}
    assert read_cases([{**BASE, "contexts": ['{"city":"Rome","km2":1285}', "Rome;1285"]}]).cases[0].contexts
    assert (
        read_cases([{**BASE, "answer": None, "response": "So.", **row} for row in VERDICTS]).columns.of["answer"]
        == "response"
    )
    read = read_cases([{**BASE, "contexts": None, "expected": "correct", "reference": "At nine."}])
    assert (read.cases[0].truth, read.cases[0].reference) == (None, "At nine.")
    for said in (["yes", "no"], ["pass", "It is."]):  # which may be answers
        assert read_cases([{**BASE, "answer": one} for one in said]).columns.of["answer"] == "answer"


def test_of_numbered_columns_those_with_texts_are_contexts_or_are_told_once() -> None:
    row = {"question": "q?", "answer": "a", "truth": "t", "chunk_1": "a.pdf", "chunk_2": "b.pdf"}
    texts = {"context_1": "It is.", "context_2": "So it is."}
    assert read_cases([row | texts]).cases[0].contexts == ("It is.", "So it is.")
    others = {"retrieved_cont1": "It is.", "retrieved_cont2": "So it is.", "retrieved_page1": 3, "retrieved_page2": 5}
    assert read_cases([row | others]).columns.overlooked == {
        "chunk_*": "it holds ids, links or names of files, such as 'a.pdf'; "
        'to use it all the same, add --map "contexts=chunk_*"',
        "retrieved_cont*": 'if it holds the retrieved contexts, add --map "contexts=retrieved_cont*"',
    }


def test_labels_are_no_ground_truth_and_an_empty_column_of_answers_is_told() -> None:
    row = {**BASE, "expected": "should_refuse"}
    assert read_cases([row, {**row, "expected": "cited_answer"}]).cases[0].truth is None
    assert read_cases([row, {**row, "expected": "Refuse it."}]).cases[0].truth == "should_refuse"
    read = read_cases([{"question": "q?", "contexts": "c", "generated_answer": None, "actual_answer": "a"}])
    assert read.columns.overlooked == {"generated_answer": "it is empty in every row, so 'actual_answer' is judged"}


def test_a_copy_of_a_column_that_is_used_is_not_told() -> None:
    row = {"user_input": "q?", "response": "a", "retrieved_contexts": ["c"], "question": "q?", "contexts": "['c']"}
    assert read_cases([row, {**row, "response": "b", "answer": None}]).columns.overlooked == {}
    assert [*read_cases([row, {**row, "contexts": "['d']"}]).columns.overlooked] == ["contexts"]


def test_an_optional_field_that_several_columns_could_hold_is_left_out_and_told() -> None:
    read = read_cases([{**BASE, "doc_ids": ["d1"], "chunk_ids": ["d1#1"]}])
    assert read.cases[0].context_ids == () and read.columns.unused == ("doc_ids", "chunk_ids")
    told = (
        "could each hold the ids of the retrieved contexts: add --map context_ids=doc_ids or --map context_ids=chunk_"
    )
    assert f"  ids of the retrieved contexts: not read; columns 'doc_ids', 'chunk_ids' {told}" in str(read)


def test_one_id_of_several_contexts_is_another_document() -> None:
    row = {**BASE, "contexts": ["It is.", "So it is."], "doc_id": "d1"}  # that of the gold document, perhaps
    read = read_cases([row])
    assert read.cases[0].context_ids == () and "it holds one id a row, such as 'd1', for several contexts" in str(read)
    assert read_cases([{**row, "retrieved_ids": ["d1", "d2"]}]).cases[0].context_ids == ("d1", "d2")
    for one in ({**row, "contexts": "It is."}, {**row, "doc_id": ["d1"]}):
        assert read_cases([one]).cases[0].context_ids == ("d1",)
    read = read_cases([{**row, "doc_ids": "d1|d2"}])
    assert read.cases[0].context_ids == () and "it holds several ids in one text, such as 'd1|d2'" in str(read)
    with pytest.raises(InputError, match="may hold several ids in one text"):
        read_cases([{**row, "context_ids": "d1|d2"}])


def test_what_deepeval_calls_context_is_not_what_was_retrieved() -> None:
    columns = chosen("input", "actual_output", "expected_output", "context")
    assert "contexts" not in columns.of and "ideal context" in columns.overlooked["context"]
    assert chosen("input", "actual_output", "context", names={"contexts": "context"}).of["contexts"] == "context"


def test_the_contexts_that_ragas_wrote_a_question_from_are_not_what_was_retrieved() -> None:
    row = {"question": "q?", "contexts": ["g"], "ground_truth": "t", "evolution_type": "simple", "episode_done": True}
    read = read_cases([{**row, "answer": "a"}])
    assert read.cases[0].contexts == () and "put in what was retrieved, add --map contexts=contexts" in str(read)
    assert read_cases([{**row, "answer": "a"}], {"contexts": "contexts"}).cases[0].contexts == ("g",)


def test_a_layout_is_known_in_any_writing_but_a_plural_is_another_name() -> None:
    columns = chosen("input", "actualOutput", "Expected Output", "context", "retrievalContext")
    assert columns.layout == "columns of DeepEval" and "ideal context" in columns.overlooked["context"]
    assert (columns.of["contexts"], columns.of["truth"]) == ("retrievalContext", "Expected Output")
    assert "passage" not in chosen("query", "passages", "generated_answer").of


def test_ids_are_no_texts() -> None:
    assert chosen("question", "answer", "contexts", "prediction_id", "retrieved_document_ids").overlooked == {}


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("expected", ["2:155", "2:156"], "gold_chunk_ids"),
        ("expected", '["2:155"]', "gold_chunk_ids"),
        ("expected", ["Be patient.", "2:155"], "truth"),
        ("expected", ["1984"], "truth"),
        ("expected", "2:155", "truth"),
        ("relevant", ["faq.md"], "gold_chunk_ids"),
        ("relevant", [1, 0], None),
        ("relevant", "doc_1", None),
        ("relevant_docs", ["paper-4"], "gold_chunk_ids"),
        ("expectedDocuments", ["106730"], "gold_chunk_ids"),
        ("expected_source", "faq.md", "gold_chunk_ids"),
        ("expected_sources", ["It is so."], None),
        ("relevant_docs", ["说明书"], None),
        ("relevant_chunk_ids", [8, 9], "gold_chunk_ids"),
        ("relevant_chunk_ids", "8, 9", None),
        ("retrieved", ["doc_1"], "context_ids"),
        ("retrieved", 1, None),
    ],
)
def test_what_a_name_leaves_open_is_decided_by_all_items(name: str, value: Any, field: str | None) -> None:
    rows = [{"question": "q?", "answer": "a", "contexts": ["c"], name: one} for one in (value, None, value)]
    of = read_cases(rows).columns.of
    assert [ours for ours, column in of.items() if column == name] == ([field] if field else [])


def test_ids_leave_the_ground_truth_to_a_text_and_are_told_if_several_could_be_gold() -> None:
    row = {"question": "q?", "answer": "a", "gold": ["7:1"], "reference_answer": "t"}
    (case,) = (read := read_cases([row])).cases
    assert (case.truth, case.gold_chunk_ids) == ("t", ("7:1",)) and not read.columns.overlooked
    read = read_cases([{**row, "relevant_doc_ids": ["7"], "expected_chunk_ids": ["7:1"]}])
    assert read.cases[0].gold_chunk_ids == () and not read.columns.overlooked
    told = "columns 'relevant_doc_ids', 'expected_chunk_ids' could each hold the ids of the gold chunks: add --map"
    assert read.columns.ambiguous["gold_chunk_ids"].startswith(told)
    read = read_cases([{**row, "gold": None, "relevant_doc_ids": "7, 8"}])
    told = "if it holds the ids of the gold chunks, add --map gold_chunk_ids=relevant_doc_ids"
    assert read.columns.overlooked == {"relevant_doc_ids": told}


@pytest.mark.parametrize(
    ("contexts", "ids", "taken"),
    [(["c"], "d1", True), (["c", "d"], "d1", False), (["c", "d"], ["d1", "d2"], True), ("c", 7, True)],
)
def test_one_id_beside_several_contexts_is_not_theirs(contexts: Any, ids: Any, taken: bool) -> None:
    of = read_cases([{"question": "q?", "answer": "a", "contexts": contexts, "doc_id": ids}]).columns.of
    assert ("context_ids" in of) == taken
    assert "context_ids" not in read_cases([{"question": "q?", "answer": "a", "truth": "t", "doc_id": "d"}]).columns.of


def test_ids_of_which_none_was_retrieved_are_told() -> None:
    row = {**BASE, "context_ids": ["faq.md#1"], "expected_sources": ["faq.md"]}
    told = "warning: no retrieved id, such as 'faq.md#1', is a gold chunk of any question, such as 'faq.md'"
    assert told in str(read_cases([row]))
    assert "warning" not in str(read_cases([row, {**row, "question": "r?", "context_ids": ["faq.md"]}]))


@pytest.mark.parametrize(
    ("against", "missing"),
    [
        ("truth", "ground truth"),
        ("contexts", "retrieved contexts"),
        ("both", "retrieved contexts, the ground truth"),
        ("reference", "reference to judge by"),
    ],
)
def test_what_answers_are_checked_against_is_asked_for(against: str, missing: str) -> None:
    row = {"question": "q?", "answer": "a", "proposed_reference_answer": "t", "key_facts": ["It is so."]}
    with pytest.raises(InputError, match=f"no column found for the {missing}; columns:") as error:
        read_cases([row], against=against)
    assert ("truth=proposed_reference_answer" in str(error.value)) or against not in ("truth", "both")


def test_no_other_text_takes_the_place_of_what_answers_are_checked_against() -> None:
    row = {"question": "q?", "response": "a", "contexts": ["c"], "truth": "t"}
    for against, told in (("contexts", "retrieved contexts are"), ("truth", "ground truth is")):
        others = {name: text for name, text in row.items() if name != against}
        with pytest.raises(InputError, match=rf"'. If the {told} in another file, add --join FILE$"):
            read_cases([others], against=against)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("q1 0 d1 2", "looks like qrels of TREC, .* rag-zeval retrieval ANSWERS --qrels QRELS"),
        ("q1\t0\td1\t0", "looks like qrels"),
        ("q1\twhat is it?\td1\t2", "looks like qrels"),
        ("query-id\tcorpus-id\tscore", "looks like qrels"),
        ("q1 Q0 d1 1 9.97 bm25", "looks like a run of TREC, .* ir_measures QRELS RUN"),
        ("q1\tQ0\td1\t1\t-9e-2\tbm25", "looks like a run"),
    ],
)
def test_a_file_of_trec_is_named(tmp_path: Path, first: str, told: str) -> None:
    (tmp_path / "f.txt").write_text(f"{first}\n{first.replace('q', 'p')}\n")
    with pytest.raises(InputError, match=told):
        read_cases(tmp_path / "f.txt")


def test_no_gold_passages_and_no_other_speaker_are_suggested_as_the_answer() -> None:
    system = {"input": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "q?"}], "ideal": "t"}
    gold = {"question": "q?", "reference_answer": "t", "reference_context": "It is.", "Grader Reason": "So it is."}
    hits = {"question": "q?", "hits": [{"says": "It is."}], "reference": "t"}
    human = {"question": "q?", "human_answer": "It is.", "Expert Response": "It is.", "contexts": ["c"]}
    ragas = {"user_input": "q?", "reference_contexts": "['It is a text.']", "reference": "t"}
    for row in (ragas, system, gold, hits, human):
        with pytest.raises(InputError, match=r"--map answer=COLUMN$|in another file, add --join FILE$"):
            read_cases([row])
    with pytest.raises(InputError, match=r"--map answer=llm_answer, if"):
        read_cases([{**human, "llm_answer": "So it is."}])
    told = read_cases([{**human, "answer": "So it is."}]).columns.overlooked
    assert told["human_answer"] == "if it holds the ground truth, add --map truth=human_answer"


SAID = "The museum opens at nine, and it closes at five."
TEXT = "The museum opens at nine o'clock every day of the week, except on Mondays."


@pytest.mark.parametrize(
    ("row", "typed"),
    [
        (
            {"pertanyaan": "apa?", "jawaban_benar": "t u v w", "jawaban_sistem": SAID, "model": "m"},
            {"question": "pertanyaan", "answer": "jawaban_sistem", "truth": "jawaban_benar"},
        ),
        (
            {"Pertanyaan": "apa?", "Jawaban Sistem": SAID, "Jawaban Rujukan": TEXT},
            {"question": "Pertanyaan", "answer": "Jawaban Sistem", "truth": "Jawaban Rujukan"},
        ),
        ({"Frage": "q?", "Respuesta (Ground Truth)": "t"}, {"question": "Frage", "truth": "Respuesta (Ground Truth)"}),
        ({"Testfrage": "q?", "Antwort": SAID, "truth": "t"}, {"question": "Testfrage", "answer": "Antwort"}),
        (
            {"问题": "什么？", "说": "博物馆每天九点开门，五点关门。", "truth": "t"},
            {"question": "问题", "answer": "说"},
        ),
        ({"a": "ما هو؟", "b": "يفتح المتحف في الساعة التاسعة كل يوم", "truth": "t"}, {"question": "a", "answer": "b"}),
        (
            {"question": "q?", "file": "an old leaflet.pdf", "label": SAID, "said": SAID, "truth": "t"},
            {"answer": "said"},
        ),
        (
            {"question": "q?", "said": SAID, "hits": [{"title": "The opening hours of it", "quote": TEXT}] * 2},
            {"answer": "said", "contexts": "hits.quote"},
        ),
        ({"question": "q?", "answer": "a", "kb_article": TEXT, "n_docs": 3}, {"contexts": "kb_article"}),
        ({"question": "q?", "answer": "a", "expected_docs": TEXT, "retrieved": TEXT}, {"contexts": "retrieved"}),
        ({"question": "q?", "truth": "t", "replies": [{"answer_text": SAID}]}, {"answer": "replies.answer_text"}),
        (
            {"question": "q?", "answer": "a", "eval": {"gold": ["It is."], "reference_answer": SAID}},
            {"truth": "eval.reference_answer"},
        ),
        (
            {"question": "q?", "used": {"completion": 7}, "run": {"output": SAID, "original_answer": SAID}},
            {"answer": "run.output"},
        ),
    ],
)
def test_what_is_suggested_is_what_was_meant(row: dict[str, Any], typed: dict[str, str]) -> None:
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert told_names(error.value) == typed


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q?", "truth": "t", "chat_history": [{"outputs": {"answer": SAID}}]},
        {"question": "q?", "truth": "t", "model": "the old one", "category": SAID, "url": "https://a.org/b c"},
        {
            "question": "q?",
            "answer": "a",
            "n_chunks": 5,
            "used_context": True,
            "source_title": "The opening hours of it",
        },
        {"question": "q?", "answer": "a", "gold_set": {"evidence": TEXT}, "checks": [{"missing": TEXT}]},
        {"id": 1, "answer": "a", "citations": [{"source": "a.pdf", "page": 5}]},
        {"question": "q?", "answer": "a", "sources": "Opening hours of it - Page 7; House rules - Page 6"},
        {"question": "q?", "answer": "a", "retrieved_topics": "the opening hours", "retrieved_text_len": "long or so"},
        {"question": "q?", "truth": "t", "comentario": SAID, "is_generated": "TRUE"},
        {"question": "q?", "truth": "t", "evidence": [{"quote": SAID}]},
        {"decision": "yes", "content": SAID},  # which may be the answer
        {"question": "q?", "answer": "a", "doc": {"reference": "a7f9#3"}},
        {
            "question": "q?",
            "answer": "a",
            "log": [{"role": "system", "content": TEXT}, {"role": "tool", "content": ""}],
        },
    ],
)
def test_nothing_is_suggested_that_nobody_meant(row: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        read_cases([{**row, **({"question": f"{number}?"} if "question" in row else {})} for number in range(3)])
    assert " Add --map" not in str(error.value)


def test_what_a_file_lacks_is_told() -> None:
    for row, told in (
        ({"question": "q?", "truth": "t"}, "If these are questions without answers"),
        ({"qid": "7", "answer": "a"}, "If the questions are in another file"),
        ({"question": "q?", "answer": "a"}, "If the retrieved contexts or the ground truth are in another file"),
        (
            {"question": "q?", "answer": "a", "citations": [{"quote": TEXT}]},
            "or --map truth=COLUMN; if another file does, --join FILE. .* If 'answer' holds the right answers",
        ),
        (
            {"question": "q?", "response": "a", "topic": "the opening hours"},
            "without either, add --criteria relevance$",
        ),
        ({"qid": "7", "answer": "a", "said": TEXT}, "If the questions are in another file"),
        ({"question": "q?", "response": "a", "faithfulness": {"unsupported": [TEXT]}}, "relevance$"),  # a judge's
        ({"question": "q?", "contexts": TEXT, "trace": TEXT}, r"questions. If the answers are in another .* FILE$"),
        (
            {"question": "q?", "response": "a", "citations": [{"text": 1}, {"text": 2}]},
            "relevance$",
        ),
        ({"Question": "q?", "Answer": "a"}, "check-set FILE --map truth=Answer` checks the questions$"),
        ({"question": "q?", "Respuesta": "Abre a las nueve."}, r"check-set FILE --map truth=Respuesta` "),
        ({"question": "q?", "answer": "a", "tokens": {"answer": 131}}, r"questions$"),  # a number is no ground truth
        (
            {"question": "q?", "run": {"final_answer": TEXT, "other_answer": TEXT, "is_sure": True}},
            "--map answer=run.final_answer, if that is right",  # a record, not two systems
        ),
        (
            {"question": "q?", "staff_answer": TEXT, "gpt_answer": f"{TEXT} No.", "sistema_answer": f"{TEXT} Yes."},
            r"\. 'gpt_answer' and 'sistema_answer' seem to be answers of several systems",  # and what a person wrote
        ),
        (
            {"no": 1, "chat": "User: When?\nBot: At nine.\nUser: Where?\nBot: In Ulm."},
            r"'chat'\. 'chat' seems to hold whole dialogues: write question and answer into columns of their own$",
        ),
        ({"S.No.": 1, "said": "It opens at nine."}, "columns: 'S.No.', 'said'"),
    ):
        with pytest.raises(InputError, match=told):
            read_cases([row])


def test_a_prompt_without_its_answer_is_no_dialogue() -> None:
    with pytest.raises(InputError, match=r"Add --map question=run.prompt, if that is right"):
        read_cases([{"run": {"prompt": "Human: When?\n\nAssistant:"}, "answer": "a", "truth": "t"}])


def test_a_question_may_be_asked_again_but_not_in_all_rows() -> None:
    rows = [{"customer_message": asked, "reply": SAID} for asked in ["Is it open?", "I lost my ticket"] * 4]
    with pytest.raises(InputError) as error:
        read_cases(rows)
    assert told_names(error.value) == {"question": "customer_message"}
    with pytest.raises(InputError, match=r"'reply'. If another column holds the question, add"):
        read_cases(rows[1::2])


def test_other_columns_may_hold_the_question_and_the_answer_and_one_of_contexts_and_truth() -> None:
    told = "holds the question and the answer, and the retrieved contexts or the ground truth, add --map question="
    ways = "COLUMN and --map answer=COLUMN, and --map contexts=COLUMN or --map truth=COLUMN"
    with pytest.raises(InputError, match=told + ways):
        read_cases([{"name": at, "said": TEXT} for at in range(3)])


def test_contexts_inside_an_unused_column_are_told() -> None:
    row = {"input": "q?", "output": "a", "expected": "t", "metadata": {"context": ["It is."], "document": "a.pdf"}}
    assert read_cases([row]).columns.overlooked == {
        "metadata.context": "if it holds the retrieved contexts, add --map contexts=metadata.context"
    }
    assert read_cases([{**row, "metadata": {"document": "a.pdf"}}]).columns.overlooked == {}
    row = {"question": "q?", "golden_answers": ["t"], "output": {"pred": "a", "hits": [{"contents": "It is."}]}}
    told = "column 'output.hits' is not used; if it holds the retrieved contexts, add --map contexts=output.hits"
    assert f"warning: {told}" in str(read_cases([row]))


def test_passages_in_a_column_called_like_the_text_of_a_chunk_may_be_contexts() -> None:
    row = {"question": "q?", "answer": "a", "contents": TEXT, "body": "large"}
    told = {"contents": "if it holds the retrieved contexts, add --map contexts=contents"}
    assert read_cases([{**row, "truth": "t"}]).columns.overlooked == told
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert told_names(error.value) == {"contexts": "contents"}


def test_what_an_annotation_says_is_no_ground_truth() -> None:
    row = {"answer": "a", "data": {"question": "q?", "docs": ["It is."]}, "annotations": [{"ground_truth": False}]}
    with pytest.raises(InputError, match=r"Add --map question=data.question --map contexts=data.docs, if"):
        read_cases([row])


def test_a_tool_is_not_taken_for_the_speaker_of_the_question() -> None:
    asked = [{"type": "human", "content": "q?"}]
    said = [*asked, {"type": "tool", "content": "It is."}, {"type": "ai", "content": "a"}]
    with pytest.raises(InputError, match=r"contexts=outputs.messages.1.content, if"):
        read_cases([{"inputs": {"messages": asked}, "outputs": {"messages": said}}])


@pytest.mark.parametrize(
    ("row", "typed"),
    [
        (
            {"doc": {"question": "q?", "answer": "It is."}, "target": "It is.", "said": 1},
            "--map question=doc.question, if",
        ),
        ({"question": "q?", "truth": "t", "said": {"it": "a"}, "s_1": 0.5, "s_2": 0.4}, "add --join FILE\n"),
        ({"question": "q?", "pairs": [{"question": "p?"}], "scores": [0.5], "tags": ["d1"]}, "add --join FILE\n"),
        (
            {"messages": [{"role": "user", "content": "q?"}, {"role": "assistant", "content": "a"}]},
            "answer=messages.-1.content, if",
        ),
        ({"run": {"prompt": "Be good."}, "query": {"text": "when"}, "contexts": "c"}, "--map question=query.text"),
    ],
)
def test_no_suggestion_that_cannot_be_read_or_repeats_the_ground_truth(row: dict[str, Any], typed: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert typed in f"{error.value}\n"


def test_the_sources_of_the_last_message_are_suggested_and_no_question_before_the_last() -> None:
    answer = {"role": "assistant", "content": "a", "sources": [{"document": ["c", "d"], "distances": [0.5, 0.4]}]}
    data = [{"messages": [{"role": "user", "content": "q?"}, answer]}]
    with pytest.raises(InputError) as error:
        read_cases(data)
    assert "-2.content --map answer=messages.-1.content --map contexts=messages.-1.sources" in str(error.value)
    (case,) = read_cases(
        data, {"question": "messages.-2.content", "answer": "messages.-1.content", "contexts": "messages.-1.sources"}
    ).cases
    assert case.contexts == ("c", "d")
    longer = {"messages": [data[0]["messages"][0], answer, {"role": "user", "content": "r?"}, {"role": "tool"}, answer]}
    with pytest.raises(
        InputError, match=r"Add --map answer=messages.-1.content --map contexts=messages.-1.sources, if"
    ):
        read_cases([*data, longer])


@pytest.mark.parametrize(("role", "text", "system"), [("speaker", "text", "agent"), ("from", "value", "gpt")])
def test_dialogues_may_name_role_and_text_otherwise(role: str, text: str, system: str) -> None:
    said = [{role: "human", text: "hi"}, {role: system, text: "Hello."}, {role: "human", text: "q?"}]
    with pytest.raises(InputError) as error:
        read_cases([{"turns": [*said, {role: system, text: "a"}], "contexts": "c"}])
    assert told_names(error.value) == {"question": f"turns.-2.{text}", "answer": f"turns.-1.{text}"}
    (case,) = read_cases([{"contexts": "c", "output": "a", "input": said[-1:]}]).cases
    assert case.question == "q?"


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


def test_a_reference_beside_contexts_is_the_ground_truth() -> None:
    assert chosen("question", "answer", "contexts", "reference").of["truth"] == "reference"
    columns = chosen("question", "answer", "contexts", "ground_truth", "reference")
    assert columns.of["truth"] == "ground_truth" and "reference" not in columns.of
    assert chosen("question", "answer", "reference").of["reference"] == "reference"
    (case,) = read_cases([{"question": "q?", "answer": "a", "reference": "t"}], against="truth").cases
    assert (case.truth, case.reference) == ("t", None)


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
        (
            {**NESTED, "inputs": {"q": "q?"}, "outputs": {"said": "It is so, we say.", "docs": ["c"]}},
            "--map answer=outputs.said",
        ),
        (
            {"ask": "who?", "say": "It is he, we say.", "kb": ["It is he who did what was done, they say."]},
            "--map question=ask --map answer=say --map contexts=kb",
        ),
        ({**BASE, "contexts": None, "questoin": "q?", "question": {"x": 1}}, "--map question=questoin"),
        (
            {"question": "q?", "llm": {"replies": ["a"]}, "hits": [{"node": {"text_resource": {"text": "c"}}}]},
            "--map answer=llm.replies.0 --map contexts=hits",
        ),
        (
            {"topic": "q?", "answer": [{"text": "It is.", "citations": [0]}], "references": [{"content": ["c"]}]},
            "--map question=topic --map answer=answer.text --map contexts=references",
        ),
        ({"question": "q?", "[gpt] answer": "It is.", "contexts": "c"}, '--map "answer=[gpt] answer"'),
        (
            {"question": "q?", "answer": {"author": "bot", "content": "It is."}, "contexts": "c"},
            "--map answer=answer.content",
        ),
        ({"question": "q?", "llama answer": "nine", "contexts": "c"}, '--map "answer=llama answer"'),
        (
            {**BASE, "question": json.dumps([{"role": role, "content": "q?"} for role in ("system", "user")])},
            "question.-1",
        ),
        (
            {
                "item": {"question": "q?", "ground_truth": "It is."},
                "sample": {"said": "So it is, we say."},
                "contexts": "c",
            },
            "--map answer=sample.said",
        ),
        (
            {"fields": {"query": "q?", "response": "a", "document_1": "c", "document_2": "d"}},
            '--map "contexts=fields.document_*"',
        ),
        ({"question": "q?", "answer": "a", "top1_chunk": "c", "top2_chunk": "d"}, '--map "contexts=top*_chunk"'),
        (
            {"inputs.question": "q?", "outputs.docs.0": "c", "outputs.docs.1": "d", "outputs.output": "a"},
            'Add --map "contexts=outputs.docs.*"',
        ),
        (
            {
                "input": {"q": "q?"},
                "output": "a",
                "reference.text": "t",
                "tags": ["x"],
                "notes": [{"reason": "It is."}],
            },
            "--map question=input.q --map truth=reference.text",
        ),
        (
            {"input": "q?", "output": "a", "f_calls": [{"args": {"context": text}, "ret": 0.5} for text in "cd"]},
            "--map contexts=f_calls.args.context",
        ),
        (
            {"ask": "q?", "contexts": "c", "said": {"choices": [{"message": {"role": "assistant", "content": "a"}}]}},
            "--map question=ask --map answer=said.choices.message.content",
        ),
        (
            {"input": "q?", "output": "a", "hits": [{"body": "It is.", "metadata": {"document": "a.pdf"}}]},
            "--map contexts=hits",
        ),
        (
            {"data": {"question": "q?", "answer": "a"}, "predictions": [], "contexts": "c"},
            "--map question=data.question --map answer=data.answer",
        ),
        ({"Frage": "q?", "answer": "a", "Kontext 1": "c", "Kontext 2": "d"}, '--map "contexts=Kontext *"'),
        (
            {"messages": [{"role": role, "content": f"{role}?"} for role in ("system", "user", "assistant")]},
            "--map question=messages.-2.content --map answer=messages.-1.content --map contexts=messages.0.content",
        ),
    ],
)
def test_all_that_is_missing_is_told_with_a_command_that_works(row: dict[str, Any], typed: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert typed in str(error.value)
    (case,) = read_cases([row], told_names(error.value)).cases
    assert case.question.endswith("?") and next(iter(case.answers.values()))


INPUTS, OUTPUTS = {"question": "q?", "question_type": "x"}, {"response": "a", "contexts": [{"content": "c"}]}


def completion(text: str | None = "a", **context: Any) -> list[dict[str, Any]]:
    return [{"index": 0, "message": {"role": "assistant", "content": text, **context}, "finish_reason": "stop"}]


def turn(*passages: str) -> dict[str, Any]:
    passed = {"retrievalResults": [{"content": {"text": text}} for text in passages]}
    truths = [{"content": [{"text": "t"}]}]
    output = {"text": "a", "retrievedPassages": passed}
    return {"prompt": {"content": [{"text": "q?"}]}, "referenceResponses": truths, "output": output}


GEMINI = {
    "content": {"parts": [{"text": "a"}]},
    "groundingMetadata": {"groundingChunks": [{"retrievedContext": {"text": "c"}}]},
}
RECORDS = {
    "LangSmith": NESTED,
    "objects in cells": {**NESTED, "inputs": '{"question": "q?"}'},
    "MLflow": {
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "expectations": {"expected_response": "t", "expected_facts": ["f"], "expected_retrieved_context": ["g"]},
    },
    "Azure": {
        "inputs.query": "q?", "inputs.response": "a", "inputs.context": "c", "inputs.ground_truth": "t",
        "outputs.groundedness.groundedness": 5, "outputs.f1.f1_result": "pass",
    },
    "OpenAI": {"item": {"question": "q?", "answer": "g", "context": "c", "truth": "t"}, "sample": {"output_text": "a"}},
    "Foundry": {
        "datasource_item": {"query": "q?", "truth": "t", "context": "c", "sample.output_text": "a"}, "results": [],
    },
    "output items": {
        "id": "outputitem_7", "datasource_item": {"input": "q?", "answer": "g", "ground_truth": "t", "context": "c"},
        "sample": {"input": [{"role": "user", "content": "p"}], "output": [{"role": "assistant", "content": "a"}]},
    },
    "messages": {
        "request": json.dumps({"messages": [{"role": "user", "content": "q?"}]}), "contexts": "c", "ideal": "t",
        "response": {"message": {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, "id": "x"},
    },
    "Ollama": {"question": "q?", "contexts": "c", "truth": "t", "message": {"role": "assistant", "content": "a"}},
    "a reply's fields": {"query": "q?", "response": {"answer": "a", "documents": ["c"]}, "ground_truth": "t"},
    "Perplexity": {
        "id": "7", "question": "q?", "choices": completion(), "search_results": [{"snippet": "c"}], "truth": "t",
    },
    "On Your Data": {
        "question": "q?", "truth": "t", "choices": completion(context={"citations": [{"content": "c"}], "intent": "x"}),
    },
    "completions": {"query": "q?", "response": json.dumps({"choices": completion()}), "contexts": "c", "truth": "t"},
    "Gemini": {"prompt": "q?", "truth": "t", "response": {"candidates": [GEMINI]}},
    "Bedrock": {
        "input": {"text": "q?"}, "output": {"text": "a"}, "truth": "t",
        "citations": [{"retrievedReferences": []}, {"retrievedReferences": [{"content": {"text": "c"}}]}],
    },
    "Bedrock's evaluation": {"conversationTurns": [turn("c")]},
    "Vertex": {
        "query": "q?", "truth": "t", "answer": {"answerText": "a", "references": [{"chunkInfo": {"content": "c"}}]},
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_records_and_replies_of_model_apis_are_read(kind: str) -> None:
    (case,) = read_cases([RECORDS[kind]]).cases
    assert (case.question, list(case.answers.values()), case.contexts, case.truth) == ("q?", ["a"], ("c",), "t")
    assert case.id == ("7" if kind in ("LangSmith", "objects in cells") else question_id("q?"))  # not that of a reply


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"inputs": INPUTS, "outputs": {**OUTPUTS, "query": "q?"}},
            "'inputs.question', 'outputs.query' could each hold the question: add --map question=inputs.question or",
        ),
        ({"inputs": {**INPUTS, "answer": "It is gold."}, "contexts": "c"}, "Add --map answer=inputs.answer, if"),
        ({"question": "q?", "answer": "a", "metadata": {"context": "c"}}, "Add --map contexts=metadata.context, if"),
        (
            {"question": "q?", "contexts": "c", "message": {"role": "user", "content": "a b"}},
            r"the answer; .* `rag-zeval check-set` checks the questions\. .* --join FILE$",
        ),
        ({"question": "q?", "contexts": "c", "choices": completion() * 2}, "'choices.message.content': must be a text"),
        ({"conversationTurns": [turn("c"), turn("d")]}, "column 'conversationTurns.prompt.content.text': must be a"),
        ({"prompt": "q?", "response": "a", "context": [1, 2, 3]}, "the retrieved contexts.* are in another file"),
    ],
)
def test_of_records_and_replies_nothing_is_guessed(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_cases([row])


@pytest.mark.parametrize(
    ("row", "typed"),
    [
        (
            {"messages": [{"role": "user", "content": "q?"}, {"role": "assistant", "content": "a", "context": "c"}]},
            "--map contexts=messages.-1.context",
        ),
        (
            {"messages": [
                {"role": "user", "content": "q?"},
                {"role": "tool", "content": json.dumps({"citations": [{"content": "c"}], "intent": "x"})},
                {"role": "assistant", "content": "a"},
            ]},
            "--map contexts=messages.1.content.citations",
        ),
        ({"query": "q?", "answer": "a", "snippets": [{"type": "text", "content": "c"}]}, "--map contexts=snippets"),
        ({"query": "q?", "answer": "a", "results": [{"chunk": "c", "url": "u"}]}, "--map contexts=results"),
        (
            {"question": "q?", "message": {"role": "assistant", "content": "a"}, "citations": [
                {"position": 5, "references": [{"highlight": {"content": "c"}}]},
                {"position": 9, "references": []},
            ]},
            "--map contexts=citations.references",
        ),
        (
            {"input": "q?", "output": [
                {"type": "file_search_call", "queries": ["q"], "results": [{"text": "c", "file_id": "f"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            ]},
            "--map answer=output.-1.content --map contexts=output.0.results",
        ),
    ],
)  # fmt: skip
def test_the_path_of_contexts_is_told(row: dict[str, Any], typed: str) -> None:
    with pytest.raises(InputError) as error:
        read_cases([row])
    assert f"{typed}, if that is right" in str(error.value)
    (case,) = read_cases([row], told_names(error.value)).cases
    assert (case.question, list(case.answers.values()), case.contexts) == ("q?", ["a"], ("c",))


def test_expected_contexts_are_no_retrieved_ones() -> None:
    expected = {"expected_facts": ["f"], "expected_retrieved_context": [{"content": "g"}]}
    with pytest.raises(InputError, match=r"the retrieved contexts or .* are in another file"):
        read_cases([{"inputs": INPUTS, "outputs": "a", "expectations": expected}])


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
        (
            {"answer": "answer", "truth": "answer"},
            "--map answer=answer --map truth=answer: one column cannot hold both",
        ),
        ({"answer": ["answer", "NOTHERE"]}, "--map answer=NOTHERE: no row has 'NOTHERE'"),
        ({"answer": []}, "names 0 columns, must name 1 to 26, each once"),
        ({"truth": ["a", "b"]}, "--map truth=a --map truth=b: a field has one column; only answer may have several"),
    ],
)
def test_a_map_to_nowhere_is_an_error(names: dict[str, Any], message: str) -> None:
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
    texts = {name.format(at): f"No. {at}" for at in (10, 0, 2)}
    read = read_cases([{"question": "q?", "answer": "a", **texts, "docs.0.score": 0.5}])
    assert read.cases[0].contexts == ("No. 0", "No. 2", "No. 10") and read.columns.unused == ("docs.0.score",)


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
