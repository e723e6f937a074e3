from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.prompt import judge_messages
from train.curriculum import (
    Question,
    Stage,
    build_curriculum,
    build_row,
    choose_candidates,
    read_questions,
    read_stages,
    write_parquet,
)

ALPHAS = [0.0, -0.5, -1.0, -1.4]


def question(name: str, texts: list[str] | None = None) -> Question:
    texts = texts or [f"Answer {at} of {name}." for at in range(4)]
    return Question(name, f"What of {name}?", f"The passage of {name}.", dict(zip(ALPHAS, texts, strict=True)))


def build(questions: list[Question], train: list[Stage], val: list[Stage], **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "seed": 0,
        "variant": "compact",
        "filter_identical": True,
        "prompt_tokens": lambda messages: len(messages[0]["content"].split()),
        "max_prompt_tokens": 10_000,
    }
    return build_curriculum(questions, train, val, **{**settings, **changes})


def test_stages_come_in_order_with_questions_of_their_own_for_validation() -> None:
    questions = [question(f"q{at}") for at in range(40)]
    curriculum = build(questions, [Stage(3, 20), Stage(4, 25)], [Stage(3, 5), Stage(4, 5)])
    info = [row["extra_info"] for row in curriculum.train]
    assert [i["k"] for i in info] == [3] * 20 + [4] * 25
    assert [i["index"] for i in info] == list(range(45))
    assert [i["stage"] for i in info] == [1] * 20 + [2] * 25
    assert len({i["id"] for i in info[:20]}) == 20 and len({i["id"] for i in info[20:]}) == 25
    validation = {row["extra_info"]["id"] for row in curriculum.val}
    assert len(validation) == 10 and not validation & {i["id"] for i in info}
    assert {row["extra_info"]["split"] for row in curriculum.val} == {"val"}
    assert [i["id"] for i in info[:20]] != sorted(i["id"] for i in info[:20])  # shuffled


def test_a_row_tells_the_judge_everything_but_the_alphas() -> None:
    q = question("q1")
    row = build_row(q, [-1.0, 0.0, -0.5], "compact")
    assert row["prompt"] == judge_messages(
        "compact", q.question, q.passage, [q.answers[-1.0], q.answers[0.0], q.answers[-0.5]]
    )
    truth = json.loads(row["reward_model"]["ground_truth"])
    assert truth == {"alphas": [-1.0, 0.0, -0.5], "reference": q.passage, "variant": "compact"}
    assert row["reward_model"]["style"] == "rule" and row["data_source"] == "rag_zeval"


@given(
    st.lists(st.sampled_from(["a b", "a  b", "a b c", "", "d"]), min_size=4, max_size=4),
    st.integers(2, 4),
    st.integers(0, 9),
)
def test_identical_answers_never_stand_in_one_row(texts: list[str], k: int, seed: int) -> None:
    q = question("q", texts)
    chosen = choose_candidates(q, k, seed, filter_identical=True)
    distinct = {tuple(text.split()) for text in texts if text.strip()}
    if chosen is None:
        assert len(distinct) < k  # nothing that could be ranked is thrown away
    else:
        assert len(chosen) == k == len({tuple(q.answers[alpha].split()) for alpha in chosen})
    unfiltered = choose_candidates(q, k, seed, filter_identical=False)
    assert (unfiltered is None) == (sum(bool(text.strip()) for text in texts) < k)


def test_the_choice_and_the_order_of_candidates_are_drawn() -> None:
    chosen = [choose_candidates(question(f"q{at}"), 3, 0, True) for at in range(300)]
    assert {frozenset(c or ()) for c in chosen} == {frozenset(ALPHAS) - {alpha} for alpha in ALPHAS}
    best_at = [c.index(max(c)) for c in chosen if c]
    assert all(60 < best_at.count(place) < 140 for place in range(3))


@given(st.integers(0, 5), st.randoms(use_true_random=False))
def test_rows_depend_on_the_questions_not_on_their_order(seed: int, rng: random.Random) -> None:
    questions = [question(f"q{at}") for at in range(12)]
    first = build(questions, [Stage(3, 6)], [Stage(4, 3)], seed=seed)
    rng.shuffle(questions)
    again = build(questions, [Stage(3, 6)], [Stage(4, 3)], seed=seed)
    assert first.train == again.train and first.val == again.val


def test_a_replaced_question_leaves_the_others_where_they_are() -> None:
    questions = [question(f"q{at}") for at in range(30)]
    ids = [row["extra_info"]["id"] for row in build(questions, [Stage(4, 20)], []).train]
    gone = ids[7]
    same = [question(q.id, ["Same."] * 4) if q.id == gone else q for q in questions]
    curriculum = build(same, [Stage(4, 20)], [])
    assert [row["extra_info"]["id"] for row in curriculum.train][:19] == [name for name in ids if name != gone]
    assert curriculum.counts["train stage 1"]["identical"] == 1


def test_long_prompts_are_counted_and_replaced() -> None:
    questions = [question(f"q{at}") for at in range(20)]
    long = {"q3", "q8"}
    count = lambda messages: 99 if any(f"of {name}?" in messages[0]["content"] for name in long) else 9  # noqa: E731
    curriculum = build(questions, [Stage(3, 18)], [], prompt_tokens=count, max_prompt_tokens=50)
    assert not long & {row["extra_info"]["id"] for row in curriculum.train}
    assert curriculum.counts["train stage 1"]["too_long"] <= 2
    with pytest.raises(
        InputError, match=r"needs 19 rows, but 20 questions gave 18: 0 had identical.* 2 prompts over 50"
    ):
        build(questions, [Stage(3, 19)], [], prompt_tokens=count, max_prompt_tokens=50)


def test_counts_say_which_alphas_are_in_a_stage() -> None:
    curriculum = build([question(f"q{at}") for at in range(20)], [Stage(4, None)], [Stage(3, 2)])
    assert curriculum.counts["train stage 1"] == {
        "k": 4, "rows": 18, "identical": 0, "too_long": 0, "alphas": {"0 -0.5 -1 -1.4": 18}
    }  # fmt: skip
    assert sum(curriculum.counts["val stage 1"]["alphas"].values()) == 2


def response(alpha: Any, text: Any = "An answer.") -> dict[str, Any]:
    return {"alpha": alpha, "text": text, "n_tokens": 3, "finished": True, "true_support": None}


def line(name: str, responses: list[Any], **changes: Any) -> dict[str, Any]:
    return {"id": name, "status": "ok", "question": "Q?", "passage": "P.", "responses": responses, **changes}


def test_questions_are_read_and_failed_rows_counted(write_responses: Callable[..., str]) -> None:
    rows = [line("a", [response(a, f"{a}") for a in ALPHAS]), {"id": "b", "status": "failed: too long"}]
    questions, failed = read_questions(write_responses(rows))
    assert failed == 1 and [q.id for q in questions] == ["a"] and list(questions[0].answers) == ALPHAS
    picked, _ = read_questions(write_responses(rows), [-1, 0])
    assert picked[0].answers == {-1.0: "-1.0", 0.0: "0.0"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([line("a", [response(0)]), line("a", [response(0)])], r":2: field 'id': 'a' stands twice"),
        ([line("a", [response("0")])], r":1: field 'responses\[0\].alpha' must be a number, found str"),
        ([line("a", [response(True)])], r":1: field 'responses\[0\].alpha' must be a number, found bool"),
        ([line("a", [response(0, None)])], r":1: field 'responses\[0\].text' must be str"),
        ([line("a", [response(0), response(0)])], r":1: field 'responses': alpha=0 stands twice"),
        ([line("a", [response(0)]), line("b", [response(-1)])], r":2: field 'responses': no answer for alpha=0"),
        ([line("a", [response(0)], passage=None)], r":1: field 'passage' must be str"),
        ([{"id": "a"}], r":1: field 'status' is missing"),
    ],
)  # fmt: skip
def test_malformed_responses_are_named(write_responses: Callable[..., str], rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_questions(write_responses(rows))


def test_missing_responses_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no responses here"):
        read_questions(str(tmp_path / "none.jsonl"))


@pytest.mark.parametrize(
    "entry",
    [
        {"k": 3, "row": 120},
        {"k": 3, "rows": 1, "seed": 2},
        {"k": 1, "rows": 3},
        {"k": 3, "rows": 0},
        {"rows": 3},
        {"k": "3", "rows": 3},
        3,
    ],
)
def test_malformed_stages_are_named(entry: Any) -> None:
    with pytest.raises(InputError, match=r"stages\[1\]: must (be|have)"):
        read_stages([{"k": 3, "rows": None}, entry], "stages")


def test_parquet_gives_back_the_rows(tmp_path: Path) -> None:
    import pyarrow.parquet

    rows = build([question(f"q{at}") for at in range(8)], [Stage(3, 4), Stage(4, 4)], []).train
    write_parquet(tmp_path / "data" / "train.parquet", rows)
    assert pyarrow.parquet.read_table(tmp_path / "data" / "train.parquet").to_pylist() == rows
