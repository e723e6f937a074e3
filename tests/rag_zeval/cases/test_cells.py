"""What stands in a cell: lists as programs print them come back as they were, and what cannot be read is refused."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.cases.cells import as_chunks, as_id, as_ids, as_text, as_texts, as_truth, is_nothing, is_object
from rag_zeval.errors import InputError

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(
    lambda text: not is_nothing(text)
)
WAYS = {
    "JSON": json.dumps,
    "JSON, escaped twice": lambda texts: json.dumps(json.dumps(texts)),
    "Python's list": str,
    "Python's tuple": lambda texts: str(tuple(texts)),
    "numpy's str": lambda texts: str(np.array(texts, dtype=object)),
    "numpy's repr": lambda texts: repr(np.array(texts, dtype=object)),
    "LangChain": lambda texts: str([Document(text) for text in texts]),
    "objects": lambda texts: json.dumps([{"page_content": text, "metadata": {"source": "a.pdf"}} for text in texts]),
}


class Document:
    """Printed as LangChain's."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return f"Document(metadata={{'source': 'a.pdf', 'page': 3}}, page_content={self.text!r})"


@pytest.mark.parametrize("way", WAYS)
@given(texts=st.lists(words, min_size=1, max_size=4))
def test_a_printed_list_comes_back_or_is_refused(way: str, texts: list[str]) -> None:
    if way == "Python's tuple" and len(texts) == 1 and texts[0].count("'"):
        return  # ("it's",) may be a text in brackets
    assert as_chunks(WAYS[way](texts))[0] == tuple(texts)


@given(texts=st.lists(words, min_size=1, max_size=3), way=st.sampled_from(["JSON", "Python's list"]), data=st.data())
def test_a_list_that_was_cut_off_is_refused(texts: list[str], way: str, data: Any) -> None:
    """As Excel cuts a cell at 32,767 characters: half a list is never one passage."""
    printed = WAYS[way](texts)
    cut = printed[: data.draw(st.integers(2, len(printed) - 1))]
    with pytest.raises(InputError, match="looks like a list"):
        as_chunks(cut)


@pytest.mark.parametrize(
    "text",
    [
        "[1] looks like a list",
        "[Music] hi",
        '("The Act") means "x"',
        "a|b",
        "It's [so]",
        '{braces} of "prose"',
        "array",
    ],
)
def test_other_text_is_one_chunk(text: str) -> None:
    assert as_chunks(text) == ((text,), ())


def test_a_text_that_stands_for_a_lost_object_is_refused() -> None:
    """JavaScript's String() of an object: its content is not in the file."""
    for text in ("[object Object]", " [object Object],[object Object]\n", "[object Promise]"):
        for read in (as_text, as_chunks, as_truth):
            with pytest.raises(InputError, match="in place of an object: export it as JSON"):
                read(text)
    assert as_text("It prints [object Object].") == "It prints [object Object]."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"doc1": "It is.", "doc2": "So."}, '"contexts=C.doc*", or {}. Found only doc1, doc2'),
        ({"0": "It is."}, '"contexts=C.*", or {}. Found only 0'),
        ([{"body": "It is.", "text": "So."}], "contexts=C.body, or {}. Found body and text"),
        ([{"v": "It is.", "at": 3}], "contexts=C.v, or {}. Found only v, at"),
        ({"list": [{"element": "It is."}]}, "contexts=C.list.element, or {}. Found only list"),
        ({"title": "It", "url": "b"}, "contexts=C.NAME, or {}. Found only title, url"),
    ],
)
def test_chunks_that_are_no_texts_are_named_with_a_way_out(value: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        as_chunks(value, "C")
    call_it = "call it one of text, page_content, content, passage"
    assert f"Name the path of the text, as in --map {message.format(call_it)}" in str(error.value)


@pytest.mark.parametrize(
    "value", [None, "", " \n", "nan", "None", r"\N", "\u200b", [], [""], [None], "[nan]", "[None]", [float("nan")]]
)
def test_what_says_nothing_is_nothing(value: Any) -> None:
    assert as_chunks(value) == ((), ()) and as_texts(value) == () and as_truth(value) is None
    assert isinstance(value, list) or str(value).startswith("[") or as_text(value) is None


@given(st.lists(st.text("ab\u2028\x0b\x1c", min_size=1), min_size=1), st.sampled_from([" ", "\n ", "\r\n", "\r"]))
def test_a_printed_array_may_have_any_line_ends(texts: list[str], between: str) -> None:
    texts = [f"{text}c" for text in texts]
    assert as_chunks(f"[{between.join(map(chr(39).__add__, (f'{text}{chr(39)}' for text in texts)))}]")[0] == (*texts,)


def test_nulls_among_chunks_are_left_out_with_their_ids() -> None:
    chunks = [{"id": "a", "text": "x"}, {"id": "b", "text": None}, {"id": "c", "content": "y"}]
    assert as_chunks(chunks) == (("x", "y"), ("a", "c"))
    assert as_chunks([{"text": "x"}, {"text": "y", "id": "b"}]) == (("x", "y"), ())  # ids of some are of no use


@pytest.mark.parametrize(
    ("chunk", "ids"),
    [
        ({"document.content": "c", "document.id": "1", "document.score": 0.5}, ("1",)),  # OpenInference
        ({"content": {"text": "c", "type": "TEXT"}, "metadata": {"uri": "u"}, "score": 0.5}, ()),  # Bedrock
        ({"_index": "i", "_id": "1", "_source": {"text": "c", "title": "t"}, "highlight": {"text": ["x"]}}, ("1",)),
        ({"id": "1", "data": {"snippet": "c", "title": "t"}}, ("1",)),  # Cohere
        ({"chunkInfo": {"content": "c", "documentMetadata": {"uri": "u"}}}, ()),  # Vertex AI Search
        ({"retrievedContext": {"text": "c", "title": "t"}}, ()),  # Gemini
        ({"file": {"id": "f"}, "highlight": {"type": "text", "content": "c"}}, ()),  # Pinecone Assistant
        ({"node": {"text": "c", "id_": "1"}, "score": 0.5}, ("1",)),
        ({"title": "t", "url": "u", "snippet": "c"}, ()),  # Perplexity
        ({"chunkText": "c", "source": "0"}, ()),  # Google's check of grounding
        ({"content": "c", "snippet": "other", "data": {"text": "another"}, "document": {"name": "d"}}, ()),
    ],
)
def test_the_text_of_a_chunk_may_be_in_an_object_of_it(chunk: dict[str, Any], ids: tuple[str, ...]) -> None:
    for held in ([chunk], {"citations": [chunk], "intent": "x"}, {"took": 3, "hits": {"total": 1, "hits": [chunk]}}):
        assert as_chunks(held) == as_chunks(json.dumps(held)) == (("c",), ids)


def test_the_result_of_a_query_of_chroma_holds_chunks() -> None:
    found = {"ids": [["1", "2"]], "documents": [["c", "d"]], "metadatas": [[None, None]], "distances": [[0.1, 0.2]]}
    assert as_chunks(found) == as_chunks({"docs": ["c", "d"]}) == (("c", "d"), ())
    with pytest.raises(InputError):  # of two queries
        as_chunks({**found, "documents": [["c", "d"], ["e", "f"]]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            [{"type": "text", "text": "It opens "}, {"type": "text", "text": "at nine.", "citations": [{}]}],
            "It opens at nine.",
        ),
        ([{"type": "output_text", "text": "a", "annotations": []}], "a"),
        ([{"text": "a", "fileData": None}], "a"),
        (["a"], "a"),
        ([None], None),
        ([{"type": "text", "text": ""}], None),
    ],
)
def test_one_text_in_a_list_and_its_parts_are_that_text(value: Any, text: str | None) -> None:
    assert as_text(value) == text and not is_object(value)


BOTH, TITLE = ("Ann's.", "Bob\ns."), "A title"


@pytest.mark.parametrize(
    ("chunks", "ids"),
    [
        ([f"page_content={text!r} metadata={{'at': datetime(2024), 'k': <K.A: 1>}}" for text in BOTH], ()),
        ([f"Document(id={at!r}, metadata={{}}, page_content={text!r})" for at, text in enumerate(BOTH)], ("0", "1")),
        ([{"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": text}} for text in BOTH], ()),
        ([{"document": {"id": text[:3], "content": text}, "score": 0.5} for text in BOTH], ("Ann", "Bob")),
        ([{"id_": text[:3], "text_resource": {"text": text, "url": None}} for text in BOTH], ("Ann", "Bob")),
        ([{"pageContent": text, "metadata": {"loc": {"lines": {"from": 1}}}} for text in BOTH], ()),
        ([[{"page_content": text}, 0.5] for text in BOTH], ()),
        (str([({"text": text, "document": {"doc_id": 7}}, 0.5) for text in BOTH]), ()),
        (f"[{', '.join(f'Hit(node=Node(of={{<K.A: 1>: 2}}, text={text!r}), score=1)' for text in BOTH)}]", ()),
        ({"is_selected": [0, 1], "passage_text": [*BOTH], "url": ["u", "v"]}, ()),
        ([{"source": {"id": "kb"}, "document": [text], "distances": [0.5]} for text in BOTH], ()),
        ([{"document": "T", "snippet": text} for text in BOTH], ()),
        ([{"document": text, "snippet": text[:3]} for text in BOTH], ()),
        ([[TITLE, []], *([TITLE, [f"{text} ", "So."]] for text in BOTH)], None),
        ({"title": [TITLE, TITLE], "sentences": [[text, " So."] for text in BOTH]}, None),
    ],
)
def test_chunks_of_other_tools_are_texts_without_scores_and_metadata(chunks: Any, ids: tuple[str, ...] | None) -> None:
    wanted = BOTH if ids is not None else tuple(f"{text} So." for text in BOTH)
    assert as_chunks(chunks) == (wanted, ids or ())


@pytest.mark.parametrize(
    "text",
    ["Client(key='x')", "content='x", "text='a' at={} text='b' at={}", "text = 'x'", "Document(page_content=f('x')"],
)
def test_code_that_prints_no_chunk_is_a_text(text: str) -> None:
    assert as_chunks([text]) == ((text,), ()) and as_text(text) == text


@pytest.mark.parametrize(
    "value",
    [
        {"text": ["nine", "at nine"], "answer_start": [0, 3]},
        {"value": "nine", "aliases": ["9"], "type": "Number"},
        [{"answer": "nine", "provenance": []}, {"provenance": []}],
    ],
)
def test_a_ground_truth_may_be_inside_of_an_object(value: Any) -> None:
    assert as_truth(value) == "nine"
    assert as_truth({"text": [], "answer_start": []}) is None  # SQuAD: the question has no answer


def test_numbers_and_ids_are_texts() -> None:
    assert [as_text(value) for value in (1967, 7.0, 1.5, True, "7.0")] == ["1967", "7", "1.5", "True", "7.0"]
    assert [as_id(value) for value in (7.0, 7, "007", "7.0", "a b\xa0")] == ["7", "7", "007", "7.0", "a b"]
    assert as_ids("['a' 'b']") == ("a", "b") and as_ids("[1, 2]") == ("1", "2") and as_ids("d1") == ("d1",)
    assert as_truth(date(1967, 1, 1)) == "1967-01-01" and as_chunks(Decimal("1.5")) == (("1.5",), ())
    assert as_truth(b"Z\xc3\xbcrich") == "Z\u00fcrich" and as_chunks(b"['a', 'b']")[0] == ("a", "b")
    assert as_truth(1967) == "1967" and as_ids(7.0) == ("7",) and as_chunks(7) == (("7",), ())


RUN = ["[__import__('os').abort()]", "[f'{exit()}']", "array(open('/etc/passwd'))", "['a'.__class__]"]


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        *((as_ids, value, "may hold several ids") for value in ("d1|d2", "d1, d2", "[1 2 3]")),
        (as_chunks, [["a", "b"]], "found a list in it: write each context as one text"),
        (as_chunks, [["in 2019", 5.1], ["in 2020", 6.0]], "must be a list of texts, found a list in it"),  # a table
        (as_text, b"\xff", "must be a text, found bytes"),
        (
            as_chunks,
            [{"d.title": "x", "d.body": "y"}],
            "Name .*, or call it one of text, page_content, content, passage. Found only d.title, d.body",
        ),
        (as_chunks, [{"text": "x", "content": "y"}], "Found text and content"),
        (
            as_chunks,
            [{"id": "1", "metadata": {"text": "x"}}],
            "contexts=COLUMN.metadata.text, or call .* Found only id, metadata",
        ),
        *(
            (as_text, value, "must be a text, found a list")
            for value in (
                ["a", "b"],
                [{"text": "a"}, {"text": "b"}],  # gold answers
                [{"text": "a", "thought": True}],
                [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "name": "search"}],
            )
        ),
        (as_chunks, "['a' 'b', 'c']", "looks like a list"),
        *((as_chunks, f"['a', {sign}0x{'f' * 5000}]", "looks like a list") for sign in ("", "-")),
        (as_chunks, 7.5j, "must be a list of texts, found complex"),
        *((as_chunks, f"['x', {code}]", "looks like a list") for code in RUN),  # nothing in a cell is run
    ],
)
def test_what_is_neither_ids_nor_a_list_of_texts_is_refused(read: Any, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(value)
