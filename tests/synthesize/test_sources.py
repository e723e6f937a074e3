"""Questions from files, in every layout of Natural Questions, and from the world; records that give none."""

import gzip
import hashlib
import html
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from synthesize.natural_questions import BadRecord, read_record
from synthesize.sources import Tally, questions_sha256

GOOD = {"id": "a", "question": "who", "passage": "Somebody did."}
SURROGATE = "holds half a character (a lone surrogate)"
FAULTS = [
    ({"id": "b", "question": "who"}, "bad_field", "field 'passage' is missing"),
    ({**GOOD, "id": 7}, "bad_field", "field 'id' must be str, found int"),
    ({**GOOD, "id": "b", "passage": " \n"}, "empty", "field 'passage' is empty"),
    ({**GOOD, "id": "", "passage": "x"}, "empty", "field 'id' is empty"),
    ({**GOOD, "id": "b", "passage": "half \ud83d"}, "lone_surrogate", f"field 'passage' {SURROGATE}"),
    ({**GOOD, "id": "b \udc00"}, "lone_surrogate", f"field 'id' {SURROGATE}"),
    (GOOD, "duplicate_id", "duplicate id 'a'"),
    ('{"id": "b", ', "not_json", "not valid JSON"),
    ("[" * 100_000, "not_json", "not valid JSON"),
    ('{"id": ' + "7" * 5000 + "}", "not_json", "not valid JSON"),
    ("[1]", "not_json", "expected a JSON object"),
    (b'{"id": "\xff"}', "not_json", "not UTF-8 text"),
    ({"prompt": "x", "text": "y"}, "unknown_layout", "no layout has the fields 'prompt', 'text'"),
    ({}, "unknown_layout", "no layout has the fields (none); rows of your own have 'id', 'question' and 'passage'"),
    ({"query": "q", "contexts": ["p"], "answer": "a"}, "unknown_layout", "no layout has the fields 'query', "),
    ({**GOOD, "id": "b", "answers": "a"}, "bad_field", "field 'answers' must be a list of str"),
]


@pytest.mark.parametrize("bad, reason, message", FAULTS)
def test_a_bad_row_is_counted_and_named_or_an_error(load, write_rows, tmp_path, bad, reason, message):
    source, tally = write_rows(tmp_path / "rows.jsonl", [GOOD, "", bad, {**GOOD, "id": "c"}]), Tally()
    assert [q.id for q in load(source, tally=tally)] == ["a", "c"]
    assert (tally.read, tally.usable, tally.left_out) == (3, 2, {reason: 1})
    [[named]] = tally.named.values()
    assert named.startswith(f"{source}:3: {message}")
    assert json.dumps(tally.as_row())
    with pytest.raises(InputError) as caught:
        load(source)
    assert str(caught.value) == named and "\n" not in named


def test_every_bad_row_is_counted_and_the_first_are_named(load, write_rows, tmp_path):
    empty, tally = {**GOOD, "id": "b", "passage": ""}, Tally()
    rows = [row for number in range(5) for row in ({**GOOD, "id": str(number)}, "{", empty)]
    load(write_rows(tmp_path / "rows.jsonl", rows), 5, tally=tally)
    assert tally.read == 15 and tally.left_out == {"not_json": 5, "empty": 5}
    lines = {reason: [int(named.split(":")[1]) for named in faults] for reason, faults in tally.named.items()}
    assert lines == {"not_json": [2, 5, 8], "empty": [3, 6, 9]}


@pytest.mark.parametrize("n_questions", [None, 1])
def test_with_nothing_usable_the_first_fault_stands_in_the_error(load, write_rows, tmp_path, n_questions):
    source = write_rows(tmp_path / "rows.jsonl", ["{", "[]"])
    with pytest.raises(InputError, match=r"holds no questions \(2 records, .* not_json 2; .*rows.jsonl:1: not valid"):
        load(source, n_questions, tally=Tally())


ROWS = [{**GOOD, "id": str(n), "passage": hashlib.sha256(str(n).encode()).hexdigest() * 5} for n in range(3000)]
WHOLE = gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode(), mtime=0)


@pytest.mark.parametrize(
    "name, content, rows",
    [
        ("0.jsonl.gz", b'{"id": "not compressed"}\n', 0),
        ("0.jsonl.gz", WHOLE[:10] + b"\xff" * 30, 0),
        ("0.parquet", b"PAR1", 0),
        ("0.parquet", b"PAR1" + b"\0" * 50 + b"PAR1", 0),
        *(("0.jsonl.gz", WHOLE[: max(5, int(kept * len(WHOLE)))], kept * 3000) for kept in (0, 0.001, 0.5, 0.99)),
    ],
)
def test_a_broken_file_gives_the_rows_before_the_break_and_the_next_is_read(
    load, write_rows, tmp_path, name, content, rows
):
    (tmp_path / name).write_bytes(content)
    write_rows(tmp_path / "1.jsonl", [{**GOOD, "id": "in the next file"}])
    tally = Tally()
    *before, last = load(tmp_path, tally=tally)
    assert last.id == "in the next file"
    assert [q.passage for q in before] == [row["passage"] for row in ROWS[: len(before)]]
    assert rows * 0.8 - 600 <= len(before) <= rows
    assert tally.left_out == {"unreadable": 1} and tally.usable == tally.read == len(before) + 1
    assert tally.named["unreadable"][0].startswith(f"{tmp_path / name}: cannot be read: ")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)


def test_a_source_without_files_is_an_error(load, tmp_path):
    (tmp_path / "notes.txt").write_text("{}")
    for source in (tmp_path, tmp_path / "*", tmp_path / "nowhere.jsonl"):
        with pytest.raises(InputError, match=r"no such file, and no file that ends in .*\.parquet"):
            load(source)


def test_files_are_read_whole_unless_drawn_from(load, write_rows, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", ({**GOOD, "id": str(n)} for n in range(30)))
    whole = load(source, seed=5)
    assert [q.id for q in whole] == [str(n) for n in range(30)] and whole[0].facts is None
    assert questions_sha256(load(source, 10, 5)) != questions_sha256(load(source, 10, 6)) != questions_sha256(whole)
    with pytest.raises(InputError, match="holds no questions"):
        load(write_rows(tmp_path / "empty.jsonl", []))


@pytest.fixture(scope="module")
def draw(load, write_rows, tmp_path_factory):
    """The ids drawn from rows in some order, and the tally; those in `long` are too long."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"

    def draw(order, n_questions, seed, long=()):
        tally = Tally()
        source = write_rows(path, ({**GOOD, "id": id_} for id_ in order))
        questions = load(source, n_questions, seed, tally=tally, too_long=lambda question: question.id in long)
        return [question.id for question in questions], tally

    return draw


@given(st.lists(st.integers(0, 10**30).map(str), unique=True, min_size=1, max_size=40), st.integers(0, 9), st.data())
def test_a_draw_depends_on_seed_and_ids_alone(draw, order, seed, data):
    long = set(data.draw(st.lists(st.sampled_from(order), max_size=len(order) - 1)))
    fitting = [id_ for id_ in order if id_ not in long]
    everything, _ = draw(fitting, len(fitting), seed)
    assert sorted(everything) == sorted(fitting)
    n_questions = data.draw(st.integers(1, len(fitting)))
    some, tally = draw(data.draw(st.permutations(order)), n_questions, seed, long)
    assert some == everything[:n_questions]  # too long ones take no place, the order in the file none either
    assert tally.left_out["too_long"] <= len(long) and tally.usable == len(order)
    with pytest.raises(
        InputError, match=f"holds {len(fitting)} questions, fewer than n_questions=.*too_long {len(long)}|none"
    ):
        draw(order, len(fitting) + 1, seed, long)


def test_a_draw_favours_no_place_in_the_file(draw):
    draws = Counter(id_ for seed in range(300) for id_ in draw(map(str, range(40)), 10, seed)[0])
    mean, sigma = 300 / 4, (300 * 0.25 * 0.75) ** 0.5
    assert len(draws) == 40 and all(abs(n - mean) < 5 * sigma for n in draws.values())


def test_only_what_comes_up_in_the_draw_is_measured(load, write_rows, tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", ({**GOOD, "id": str(n)} for n in range(2000)))
    measured = []
    load(source, 10, too_long=lambda q: bool(measured.append(q.id)))
    assert 10 <= len(measured) == len(set(measured)) < 150  # about 10 (1 + ln 200)


MEASURE = """
import json, resource, sys, time
from rag_zeval.stages.config import check_settings
from synthesize.settings import Settings
from synthesize.sources import Tally, load_questions
tally, start = Tally(), time.monotonic()
drawn = load_questions(check_settings(Settings, json.loads(sys.argv[1])), tally, lambda q: len(q.passage) % 50 == 0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"drawn": len(drawn), "read": tally.read, "seconds": time.monotonic() - start, "mib": peak}))
"""


@pytest.mark.slow
def test_a_million_rows_stream_in_little_memory(settings, tmp_path):
    source = tmp_path / "rows.jsonl"
    with open(source, "w", encoding="utf-8") as file:
        for n in range(1_000_000):
            passage = f"It is said of number {n} that " + "it is a number, " * (20 + n % 10)
            file.write(json.dumps({"id": f"id-{n}", "question": f"what is {n}", "passage": passage}) + "\n")
    command = [sys.executable, "-c", MEASURE, settings(source=str(source), n_questions=5500).model_dump_json()]
    measured = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(measured)
    assert measured["drawn"] == 5500 and measured["read"] == 1_000_000
    assert measured["mib"] < 500 and measured["seconds"] < 300


def test_world_questions_know_their_facts(load):
    asked = load("nano", 5, 1, split="dev")
    assert len({q.id for q in asked}) == 5 and all(q.facts and q.id.startswith("nano-dev-1-") for q in asked)
    with pytest.raises(InputError, match="n_questions"):
        load("nano")


def test_a_split_of_files_goes_by_the_questions_words(load, write_rows, tmp_path):
    rows = [{**GOOD, "id": f"{at}", "question": f"Who wrote number {at}?"} for at in range(300)]
    other = [{**row, "id": f"x{row['id']}", "question": f" who  WROTE, number {row['id']}"} for row in reversed(rows)]
    source, renamed = write_rows(tmp_path / "a.jsonl", rows), write_rows(tmp_path / "b.jsonl", other)
    splits, tally = {}, Tally()
    for split in ("train", "dev", "test"):
        splits[split] = {q.id for q in load(source, split=split, tally=tally)}
        assert {q.id for q in load(renamed, split=split)} == {f"x{id_}" for id_ in splits[split]}
    assert sum(map(len, splits.values())) == 300 == len(set.union(*splits.values()))
    assert 10 < len(splits["dev"]) < 50 and 40 < len(splits["test"]) < 85
    assert tally.left_out == {"other_split": 600} and not tally.named
    assert len(load(source)) == 300


@pytest.mark.skipif("RAG_ZEVAL_DATA" not in os.environ, reason="RAG_ZEVAL_DATA is not set")
def test_the_real_questions_split_and_samples_that_everybody_saw_never_train(load):
    folder = Path(os.environ["RAG_ZEVAL_DATA"]) / "natural_questions"
    seen = {q.question for q in load(folder / "nq_demo_100.jsonl")}
    assert len(seen) == 100
    parts = {split: load(folder / "nq_open_oracle_2200.jsonl.gz", split=split) for split in ("train", "dev", "test")}
    assert sum(map(len, parts.values())) == 2200 and len(parts["train"]) >= 1490 and len(parts["test"]) >= 500
    assert all(q.gold_answers for part in parts.values() for q in part)
    assert not seen & {q.question for q in parts["train"]} and seen & {q.question for q in parts["test"]}


def test_questions_without_gold_answers_have_the_hash_they_had_before_there_were_any(load):
    [question] = load("nano", 1)
    row = {"facts": dict(question.facts), "id": question.id, "passage": question.passage, "question": question.question}
    assert questions_sha256([question]) == hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()


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
