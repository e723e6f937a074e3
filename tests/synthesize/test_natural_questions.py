"""One record in every layout of Natural Questions: the same question and passage; records that give none."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from synthesize.natural_questions import BadRecord, read_record
from synthesize.sources import Tally

TAGS = ("<P>", "</P>", "<H1>", '<Th colspan="2">', "</Td>", "<Li>")
MARKS = (",", ".", "(", ")", "[", "]", "``", "''", "'s", "n't", "&amp;", "&lt;b&gt;", "-", "–", "$", "%", ";", "?", ":")
NONE = {"start_token": -1, "end_token": -1}
words = st.text("abXY09é漢😀\u2003", min_size=1, max_size=6)  # str.split() takes the last for a space


@dataclass(frozen=True)
class Page:
    id: int
    question: str
    tokens: list[str]
    start: int
    end: int
    short: tuple[tuple[int, int], ...] = ()


@st.composite
def pages(draw):
    tokens = draw(st.lists(words | st.sampled_from(TAGS + MARKS), min_size=1, max_size=30))
    start = draw(st.integers(0, len(tokens) - 1))
    end = draw(st.integers(start + 1, len(tokens)))
    places = st.integers(start, end - 1)
    short = draw(st.lists(places.flatmap(lambda at: st.tuples(st.just(at), st.integers(at + 1, end))), max_size=2))
    page = Page(draw(st.integers(0, 2**70)), draw(words), tokens, start, end, tuple(short))
    assume(any(token not in TAGS for token in page.tokens[page.start : page.end]))
    return page


def original(page):
    """As published, but for most of what nothing reads: titles, byte offsets."""
    span = {"start_token": page.start, "end_token": page.end, "start_byte": 6, "end_byte": 9, "candidate_index": 0}
    return {
        "example_id": page.id,
        "question_text": page.question,
        "document_html": "<html>" + " ".join(page.tokens),
        "document_tokens": [{"token": token, "html_token": token in TAGS} for token in page.tokens],
        "long_answer_candidates": [{**span, "top_level": True}],
        "annotations": [
            {"annotation_id": 1, "long_answer": span, "yes_no_answer": "NONE", "short_answers": spans(page)}
        ],
    }


def spans(page):
    return [{"start_token": start, "end_token": end} for start, end in page.short]


def simplified(page):
    """As simplify_nq_example of the data's authors: a blank inside a token becomes "_", byte offsets go."""
    long_answer = {"start_token": page.start, "end_token": page.end}
    return {
        "example_id": page.id,
        "question_text": page.question,
        "document_text": " ".join(token.replace(" ", "_") for token in page.tokens),
        "annotations": [{"annotation_id": 1, "long_answer": long_answer, "short_answers": spans(page)}],
    }


def hub(page):
    whole = original(page)
    tokens = {"token": page.tokens, "is_html": [token in TAGS for token in page.tokens]}
    short = {key: [span[key] for span in spans(page)] for key in ("start_token", "end_token")}
    long_answer = whole["annotations"][0]["long_answer"]
    return {
        "id": str(page.id),
        "document": {"title": "a title", "html": whole["document_html"], "tokens": tokens},
        "question": {"text": page.question, "tokens": [page.question]},
        "long_answer_candidates": {"start_token": [page.start], "end_token": [page.end], "top_level": [True]},
        "annotations": {"id": ["1"], "long_answer": [long_answer], "short_answers": [short], "yes_no_answer": [-1]},
    }


def old_hub(page):
    """Without candidates, and with less in a long answer."""
    span = {"start_token": page.start, "end_token": page.end}
    row = hub(page)
    row["annotations"]["long_answer"] = [span]
    del row["long_answer_candidates"]
    return row


def listed_hub(page):
    """A list of dicts where the hub has a dict of lists."""
    row, whole = hub(page), original(page)
    return {**row, "document": {"tokens": whole["document_tokens"]}, "annotations": whole["annotations"]}


PAGE_LAYOUTS = (original, simplified, hub, old_hub, listed_hub)


@given(pages(), st.sampled_from(["long_answer", "page"]))
def test_every_layout_gives_the_same_question_and_passage(page, kind):
    first, *others = [read_record(json.loads(json.dumps(layout(page))), kind) for layout in PAGE_LAYOUTS]
    assert others == [first] * len(others)
    id_, question, passage, gold = first
    assert (id_, question) == (str(page.id), page.question)
    assert set(gold) <= {passage_of(page.tokens[start:end]) for start, end in page.short}
    bare = [
        {"id": id_, "question": question, "passage": passage, "title": "a title", "answers": []},
        {"query": question, "answer": passage},
        {
            "question": question,
            "answers": ["x"],
            "ctxs": [{"text": "x", "hasanswer": True, "isgold": False}, {"text": passage, "isgold": True}],
        },
        {"question": question, "ctxs": [{"text": "x", "hasanswer": False}, {"text": passage, "hasanswer": True}]},
    ]
    assert [read_record(record, kind)[1:] for record in bare] == [
        (question, passage, answers) for answers in ((), (), ("x",), ())
    ]


def passage_of(tokens):
    return read_record(simplified(Page(1, "q", list(tokens), 0, len(tokens))), "long_answer")[2]


def test_gold_answers_are_those_of_all_annotators_each_once():
    page = Page(1, "q", "<P> It has 2,579 steps . </P>".split(), 0, 7, ((3, 5), (3, 4)))
    row = simplified(page)
    row["annotations"] = [*row["annotations"], {**row["annotations"][0], "short_answers": [spans(page)[0]]}]
    outside = {"start_token": 5, "end_token": 99}
    row["annotations"].append(
        {**row["annotations"][0], "short_answers": [outside, {"start_token": -1, "end_token": -1}]}
    )
    assert read_record(row, "long_answer")[3] == ("2,579 steps", "2,579")
    assert read_record({"id": "1", "question": "q", "passage": "p", "answers": ["a", " ", "a", "b"]}, "page")[3] == (
        "a",
        "b",
    )
    with pytest.raises(InputError, match="field 'answers' must be a list of str"):
        read_record({"id": "1", "question": "q", "passage": "p", "answers": "a"}, "page")


def squeezed(tokens):
    text = "".join("".join(html.unescape(token).split()) for token in tokens if token not in TAGS)
    return text.replace("``", '"').replace("''", '"')


@given(pages())
def test_a_passage_is_its_tokens_but_for_tags_and_spaces(page):
    for kind, tokens in (("long_answer", page.tokens[page.start : page.end]), ("page", page.tokens)):
        passage = read_record(simplified(page), kind)[2]
        assert "".join(passage.split()) == squeezed(tokens)
        assert passage == " ".join(passage.split())


def test_a_passage_reads_as_prose():
    text = "x <P> `` Tom &amp; Jerry '' ( 1940 ) did n't end ; Tom 's cat , 7 % of it . </P> y"
    page = Page(1, "q", text.split(" "), 1, len(text.split(" ")) - 1)
    assert read_record(hub(page), "long_answer")[2] == "\"Tom & Jerry\" (1940) didn't end; Tom's cat, 7% of it."


@given(pages())
def test_the_first_annotator_who_marked_one_counts(page):
    row = simplified(page)
    expected = read_record(row, "long_answer")
    [marked] = row["annotations"]
    other = {**marked, "long_answer": {"start_token": 0, "end_token": 1}}
    row["annotations"] = [{**marked, "long_answer": NONE}, marked, other]
    assert read_record(row, "long_answer") == expected
    row["annotations"] = [{**marked, "long_answer": NONE}]
    for kind in ("long_answer", "page"):
        with pytest.raises(BadRecord) as caught:
            read_record(row, kind)
        assert caught.value.reason == "no_long_answer"


@given(pages(), st.sampled_from(PAGE_LAYOUTS), st.sampled_from([(-1, 3), (3, -1), (2, 2), (5, 3), (0, 31), (-7, 1)]))
def test_an_offset_outside_the_page_gives_no_passage(page, layout, span):
    row = layout(page)
    answers = row["annotations"]
    answer = answers["long_answer"][0] if isinstance(answers, dict) else answers[0]["long_answer"]
    answer["start_token"], answer["end_token"] = span
    with pytest.raises(BadRecord, match="long answer") as caught:
        read_record(row, "long_answer")
    assert caught.value.reason == "bad_offset"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 40) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["token", "text", "x"]), inner),
)


@given(pages(), st.sampled_from(PAGE_LAYOUTS), st.data())
def test_whatever_stands_in_a_field_a_record_is_read_or_refused(page, layout, data):
    row = json.loads(json.dumps(layout(page)))
    at = row
    for _ in range(data.draw(st.integers(0, 4))):  # down to some field of some part of the record
        values = at.values() if isinstance(at, dict) else at
        inner = [value for value in values if isinstance(value, dict | list) and value]
        if not inner:
            break
        at = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
    if data.draw(st.booleans()):
        at[key] = data.draw(json_values)
    else:
        del at[key]
    try:
        *texts, gold = read_record(row, "long_answer")
        assert all(isinstance(text, str) for text in [*texts, *gold])
    except InputError as error:
        assert "\n" not in str(error)


def test_retrieved_passages_of_which_none_is_marked_give_no_question():
    with pytest.raises(BadRecord, match="no passage") as caught:
        read_record({"question": "q", "ctxs": [{"isgold": False, "hasanswer": True}]}, "long_answer")
    assert caught.value.reason == "no_long_answer"


def test_files_of_every_layout_draw_the_same_questions(load, write_rows, tmp_path):
    tokens = ["<P>", *"It is word and word .".split(), "</P>", "more"]
    many = [Page(2**64 + n, f"question {n}", [*tokens, str(n)], n % 3, 4 + n % 5) for n in range(150)]
    layouts = {
        "nq-train-00.jsonl.gz": original,
        "simplified-nq-train.jsonl.gz": simplified,
        "hub.jsonl": hub,
        "hub.parquet": hub,
        "old.parquet": old_hub,
    }
    sources = [write_rows(tmp_path / name, map(layout, reversed(many))) for name, layout in layouts.items()]
    sources += [tmp_path / "parts", tmp_path / "parts" / "*", tmp_path / "**" / "[012].parquet"]
    (tmp_path / "parts").mkdir()
    for part in range(3):
        write_rows(tmp_path / "parts" / f"{part}.parquet", map(hub, many[part::3]))
    (tmp_path / "parts" / "README.md").write_text("no data")
    first, *others = [load(source, 40, 3) for source in sources]
    assert others == [first] * len(others) and len({q.id for q in first}) == 40
    assert all(int(q.id) > 2**63 for q in first)


def test_pairs_in_a_parquet_file_get_ids_of_their_own(load, write_rows, tmp_path):
    rows = [{"query": f"question {n % 90}", "answer": f"A Title It is {n % 90}."} for n in range(100)]
    tally = Tally()
    pairs = load(write_rows(tmp_path / "pairs.parquet", rows), tally=tally)
    assert [(q.question, q.passage) for q in pairs] == [(r["query"], r["answer"]) for r in rows[:90]]
    assert len({q.id for q in pairs}) == 90 and tally.left_out == {"duplicate_id": 10}
    assert tally.named["duplicate_id"][0].startswith(f"{tmp_path / 'pairs.parquet'}:91: ")


@pytest.mark.skipif("RAG_ZEVAL_DATA" not in os.environ, reason="RAG_ZEVAL_DATA is not set")
@pytest.mark.parametrize("layout", ["original", "simplified", "hf"])
def test_the_toy_record_is_the_same_in_the_three_official_layouts(load, layout):
    folder = Path(os.environ["RAG_ZEVAL_DATA"]) / "natural_questions"
    answer = "Google was founded in 1998 by: Larry Sergey"
    for kind, passage in (("long_answer", answer), ("page", f"Google inc. {answer}")):
        [toy] = load(folder / f"toy_nq_{layout}_format.jsonl", passage=kind)
        assert (toy.id, toy.question, toy.passage) == ("797803103760793766", "who founded google", passage)
