"""The rows of both trainers: whose answers, in what order, and what is to be replied."""

import hashlib
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.files import write_json
from rag_zeval.judge.parser import as_reply, parse_ranking, parse_strict
from rag_zeval.judge.prompt import RANKING, VARIANTS, judge_messages
from rag_zeval.judge.scoring import rank_scores, strictly_ranked, support_scores
from rag_zeval.scorers.word_rule import is_contested, judge_by_words
from rag_zeval.stages.answer_quality import AnswerFilter, find_flags, similarity
from train.__main__ import prepare_rows
from train.curriculum import (
    Question,
    build_curriculum,
    build_row,
    candidate_sets,
    check_answers,
    count_shown,
    describe,
    flag_questions,
    read_questions,
    write_parquet,
)
from train.run_folder import RunFolder
from train.settings import Stage
from train.sft.rows import Lesson, build_rows, draw_lessons, ranking_reply, rule_reply

ALPHAS = [0.0, -0.5, -1.0, -1.4]


def question(name: str, texts: list[str] | None = None) -> Question:
    texts = texts or [f"Answer {at} of {name}." for at in range(4)]
    return Question(name, f"What of {name}?", f"The passage of {name}.", dict(zip(ALPHAS, texts, strict=True)))


def build(questions: list[Question], train: list[Stage], val: list[Stage], **changes: Any) -> Any:
    tokens = changes.pop("prompt_tokens", lambda messages: 1)
    usual = {"seed": 0, "variant": "compact", "answer_filter": AnswerFilter(), "same_questions": False}
    usual |= {"single_answer_every": None}
    verl = SimpleNamespace(data=SimpleNamespace(max_prompt_length=50))
    settings: Any = SimpleNamespace(**{**usual, "only_contested": None, "max_rule_tokens": None, **changes}, verl=verl)
    settings.stages, settings.validation = train, val
    return build_curriculum(settings, questions, tokens)


def ids_of(rows: list[Any]) -> list[str]:
    return [row["extra_info"]["id"] for row in rows]


def alphas_of(rows: list[Any]) -> list[list[float]]:
    return [row["extra_info"]["alphas"] for row in rows]


def test_stages_come_in_order_with_questions_of_their_own_for_validation() -> None:
    questions = [question(f"q{at}") for at in range(40)]
    curriculum = build(questions, [Stage(3, 20), Stage(4, 25)], [Stage(3, 5), Stage(4, 5)])
    info = [row["extra_info"] for row in curriculum.train]
    assert [(i["k"], i["stage"]) for i in info] == [(3, 1)] * 20 + [(4, 2)] * 25
    assert [i["index"] for i in info] == list(range(45))
    ids, validation = ids_of(curriculum.train), set(ids_of(curriculum.val))
    assert len(set(ids[:20])) == 20 and len(set(ids[20:])) == 25
    assert len(validation) == 10 and not validation & set(ids)
    assert {row["extra_info"]["split"] for row in curriculum.val} == {"val"}
    assert ids[:20] != sorted(ids[:20])  # shuffled


def test_stages_may_pass_over_one_set_of_questions() -> None:
    alike = [question(f"alike{at}", ["He sang.", "He sang.", "She sang.", "She rowed."]) for at in range(30)]
    questions = [question(f"q{at}") for at in range(30)] + alike  # half of them can be shown with three answers only
    stages = [Stage(3, 20), Stage(4, 20)]
    curriculum = build(questions, stages, [Stage(3, 5)], same_questions=True)
    first, second = ids_of(curriculum.train)[:20], ids_of(curriculum.train)[20:]
    assert first != second and sorted(first) == sorted(second)
    assert curriculum.counts["train stage 1"]["left_out"]["identical"] > 0
    assert not set(ids_of(curriculum.val)) & set(first)
    assert set(ids_of(build(questions, stages, [Stage(3, 5)]).train[:20])) & {q.id for q in alike}
    with pytest.raises(InputError, match=r"train stage 2 \(K=4\) needs 21 rows, but 20 questions gave 20"):
        build(questions, [Stage(3, 20), Stage(4, 21)], [], same_questions=True)


def test_training_may_be_on_contested_sets_alone() -> None:
    texts = ["It is a passage.", "A passage, of q for once.", "Nobody knows it.", "Nothing of the kind."]
    questions = [question(f"plain{at}") for at in range(30)] + [question(f"q{at}", texts) for at in range(30)]
    curriculum = build(questions, [Stage(2, 12)], [Stage(2, 20)], only_contested=True)
    assert all(q.startswith("q") for q in ids_of(curriculum.train))
    assert {q[0] for q in ids_of(curriculum.val)} == {"p", "q"}  # they say how it does on all
    by_id = {q.id: q for q in questions}
    for row in curriculum.train:
        asked = by_id[row["extra_info"]["id"]]
        answers = [asked.answers[alpha] for alpha in row["extra_info"]["alphas"]]
        assert is_contested(asked.question, asked.passage, answers)
    assert curriculum.counts["train stage 1"]["left_out"]["uncontested"] > 0
    assert "uncontested" not in curriculum.counts["val stage 1"]["left_out"]


@pytest.mark.parametrize("rows", [4, 9, 10, 19, 20, 25, None])
def test_every_so_many_th_row_may_show_a_single_answer(rows: int | None) -> None:
    texts = ["It is a passage.", "A passage, of q for once.", "Nobody knows it.", "Nothing of the kind."]
    questions = [question(f"plain{at}") for at in range(9)] + [question(f"q{at}", texts) for at in range(28)]
    stages = [Stage(2, rows), Stage(2, rows)]
    curriculum = build(questions, stages, [Stage(2, 1)], only_contested=True, single_answer_every=10)
    places = [row["extra_info"]["k"] for row in curriculum.train]
    for at in (1, 2):
        info = [row["extra_info"] for row in curriculum.train if row["extra_info"]["stage"] == at]
        assert rows is None or len(info) == rows
        assert [i["k"] for i in info] == [1 if place % 10 == 0 else 2 for place in range(1, len(info) + 1)]
        assert len({i["id"] for i in info}) == len(info)  # a stage uses a question once
        assert curriculum.counts[f"train stage {at}"]["rows"] == len(info)
    assert [i["index"] for i in (row["extra_info"] for row in curriculum.train)] == list(range(len(places)))
    assert not set(ids_of(curriculum.val)) & set(ids_of(curriculum.train))
    said = list(describe(curriculum.counts))
    assert rows != 25 or "train stage 1: 25 rows with K=2, 2 of them with K=1; " in said[1]


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("every", [2, 5, 10])
@pytest.mark.parametrize("n", [1, 9, 10, 19, 20, 43])
def test_all_questions_are_used_once_by_a_stage_that_takes_all_with_single_answers(
    n: int, every: int, same: bool
) -> None:
    questions = [question(f"q{at}") for at in range(n + 1)]  # one for validation
    stages = [Stage(3, None), Stage(3, None)]
    curriculum = build(questions, stages, [Stage(3, 1)], single_answer_every=every, same_questions=same)
    asked = {q.id for q in questions} - set(ids_of(curriculum.val))
    for at in (1, 2):
        info = [row["extra_info"] for row in curriculum.train if row["extra_info"]["stage"] == at]
        assert [i["k"] for i in info] == [1 if place % every == 0 else 3 for place in range(1, len(info) + 1)]
        # at most one is left over: it can neither rank, which would need a single answer more, nor show a single one
        assert {i["id"] for i in info} <= asked and n - 1 <= len({i["id"] for i in info}) == len(info)
        counts = curriculum.counts[f"train stage {at}"]
        assert (counts["rows"], counts.get("single", 0)) == (len(info), len(info) // every)
        assert sum(counts["alphas"].values()) == len(info) - len(info) // every
    exact = build(questions, [Stage(3, n)], [Stage(3, 1)], single_answer_every=every)
    assert sorted(ids_of(exact.train)) == sorted(asked)


def words(messages: list[dict[str, str]]) -> int:
    """Words of a reply."""
    return sum(len(message["content"].split()) for message in messages if message["role"] == "assistant")


def test_sets_about_which_a_judge_would_write_too_much_are_left_out() -> None:
    texts = {
        "short": ["It rains.", "It snows."] * 2,
        "long": ["It rains, and it snows, and it thaws.", "It snows."] * 2,
    }
    questions = [question(f"{name}{at}", texts[name]) for name in texts for at in range(9)]
    everything = [Stage(2, 10)], []
    assert len(build(questions, *everything, prompt_tokens=words).train) == 10
    few = r"gave 9; left out: 9 too long \(.*, and trajectories of the word rule over 40 are too long"
    with pytest.raises(InputError, match=few):
        build(questions, *everything, prompt_tokens=words, max_rule_tokens=40)
    assert len(build(questions, [Stage(2, 9)], [], prompt_tokens=words, max_rule_tokens=40).train) == 9
    four = [question(f"q{at}", ["It rains.", "It snows.", "It hails.", "It thaws."]) for at in range(9)]
    assert len(build(four, [Stage(2, 9)], [], prompt_tokens=words, max_rule_tokens=40).train) == 9
    with pytest.raises(InputError, match=r"train stage 1 .* left out: 9 too long"):  # for the second stage
        build(four, [Stage(2, 9), Stage(4, 9)], [], same_questions=True, prompt_tokens=words, max_rule_tokens=40)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reward_gets_the_answers_where_they_are_repeated(variant: str, tmp_path: Path) -> None:
    q = replace(question("q1"), answers={0.0: "It rains.", -1.0: "It snows."})
    row = build_row(q, [-1.0, 0.0], variant)
    answers = ["It snows.", "It rains."]
    assert row["prompt"] == judge_messages(variant, q.question, q.passage, answers)  # everything but the alphas
    assert row["reward_model"]["style"] == "rule" and row["data_source"] == "rag_zeval"
    truth, echoes = json.loads(row["reward_model"]["ground_truth"]), VARIANTS[variant].echo_answer
    known = {"alphas": [-1.0, 0.0], "reference": q.passage, "variant": variant}
    assert truth == {**known, "answers": answers} if echoes else truth == known
    folder, settings = RunFolder(tmp_path), SimpleNamespace(variant=variant)
    write_json(folder.counts, {})
    for path in (folder.train_rows, folder.val_rows):
        write_parquet(path, [row] * 3)
    prepare_rows(settings, folder)  # type: ignore[arg-type]  # of a run that is taken up again
    truth.pop("answers", None)
    row["reward_model"]["ground_truth"] = json.dumps(truth)
    write_parquet(folder.val_rows, [row] * 3)  # as a version before wrote it
    if echoes:
        with pytest.raises(InputError, match=r"val\.parquet: field 'answers' is missing.* Remove .*data and run"):
            prepare_rows(settings, folder)  # type: ignore[arg-type]
    else:
        prepare_rows(settings, folder)  # type: ignore[arg-type]


def test_a_file_without_rows_lacks_nothing_and_one_that_is_gone_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "val.parquet", [])
    check_answers(tmp_path / "val.parquet", "paper")
    with pytest.raises(InputError, match=r"train\.parquet: cannot be read"):
        check_answers(tmp_path / "train.parquet", "paper")


@given(
    st.lists(st.sampled_from(["a b c d", "a  b c d", "a b c e", "a b f g", "h i", "", " "]), min_size=4, max_size=4),
    st.frozensets(st.sampled_from(ALPHAS)),
    st.sampled_from([AnswerFilter(), AnswerFilter(identical=False), AnswerFilter(near_identical=0.7, unfinished=True)]),
    st.integers(2, 4),
    st.integers(0, 9),
)
def test_the_sets_are_all_those_without_a_flag(
    texts: list[str], unfinished: frozenset[float], wanted: AnswerFilter, k: int, seed: int
) -> None:
    q = replace(question("q", texts), unfinished=unfinished)
    usable = [a for a in ALPHAS if q.answers[a].strip() and not (wanted.unfinished and a in unfinished)]
    highest = wanted.near_identical or (1 if wanted.identical else 2)  # only the same words are 1
    fit = {
        frozenset(chosen)
        for chosen in itertools.combinations(usable, k)
        if all(similarity(q.answers[a], q.answers[b]) < highest for a, b in itertools.combinations(chosen, 2))
    }
    flags = find_flags(q.answers, q.passage, unfinished, wanted)
    drawn = list(candidate_sets(q, k, seed, flags))
    assert {frozenset(chosen) for chosen in drawn} == fit and len(drawn) == len(fit)


def sha256(drawn: Any) -> str:
    return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()


def test_the_default_filter_draws_what_it_drew_before_there_were_more() -> None:
    """The hashes are of what was drawn for both trainers when `filter_identical` was the only filter."""
    texts = ["", "He sang.", "He  sang.", "He rowed.", "He sang and rowed.", "She sang.", "She rowed a boat."]
    questions = [
        question(f"q{n}", [texts[n % 7], texts[n // 7 % 7], texts[n // 49 % 7], texts[n // 343]]) for n in range(7**4)
    ]
    built = build(questions, [Stage(3, 200), Stage(4, 150)], [Stage(3, 32), Stage(4, 32)])
    rows = [row["extra_info"] for row in built.val + built.train]
    expected = "b12ccb8602b04c563e60f9c8be69b204ac2f4c1b61045385730b40541fb42465"
    assert sha256([[row["id"], row["alphas"]] for row in rows]) == expected
    drawn, _ = draw(questions, [Stage(4, 100), Stage(3, 100), Stage(2, 100)])
    expected = "34829d6957208bff02143da9e73ca21e401d944536dc582fa6cf132b59a85663"
    assert sha256([[lesson.question.id, lesson.alphas] for lesson in drawn]) == expected


def unlikeliest(shown: list[list[float]]) -> float:
    """The smallest p-value of a count of an α at a letter, if each letter were equally likely for it."""
    from scipy.stats import binomtest

    places = list(count_shown(shown)["positions"].values())
    totals = {f"{alpha:g}": sum(alpha in row for row in shown) for alpha in ALPHAS}
    return min(
        binomtest(place.get(alpha, 0), n, 1 / len(places)).pvalue for place in places for alpha, n in totals.items()
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_no_letter_is_more_likely_to_show_an_alpha(seed: int, k: int) -> None:
    """Also where half of the questions have the same answer at two α, so that sets are not equally likely."""
    questions = [question(f"q{at}", ["Same.", "Same.", "b", "c"] if at % 2 and k < 4 else None) for at in range(600)]
    flags = flag_questions(questions, {}, AnswerFilter())
    shown = [next(candidate_sets(q, k, seed, flags[q.id])) for q in questions]
    assert {frozenset(row) for row in shown} == set(map(frozenset, itertools.combinations(ALPHAS, k)))
    assert unlikeliest(shown) > 1e-7
    assert unlikeliest([sorted(row) for row in shown]) < 1e-7  # a bias would be seen


@given(st.integers(0, 5), st.randoms(use_true_random=False))
def test_rows_depend_on_the_questions_not_on_their_order(seed: int, rng: random.Random) -> None:
    questions = [question(f"q{at}") for at in range(12)]
    first = build(questions, [Stage(3, 6)], [Stage(4, 3)], seed=seed)
    rng.shuffle(questions)
    again = build(questions, [Stage(3, 6)], [Stage(4, 3)], seed=seed)
    assert first.train == again.train and first.val == again.val


def test_a_second_stage_of_the_same_candidates_draws_anew() -> None:
    questions = [question(f"q{at}") for at in range(300)]
    once, twice = (build(questions, stages, []).train for stages in ([Stage(3, 300)], [Stage(3, 300), Stage(3, 300)]))
    assert twice[:300] == once  # the first stage of a K is what it was
    drawn = [dict(zip(ids_of(rows), alphas_of(rows), strict=True)) for rows in (once, twice[300:])]
    assert drawn[0].keys() == drawn[1].keys()
    same = sum(drawn[1][name] == shown for name, shown in drawn[0].items())
    assert same < 30  # by chance one in 24: four sets, each in six orders
    between = build(questions, [Stage(4, 300), Stage(3, 300), Stage(4, 300)], []).train
    alone = build(questions, [Stage(4, 9), Stage(3, 300)], []).train
    assert alphas_of(between[300:600]) == alphas_of(alone[9:])  # a stage of another K changes nothing


def test_a_replaced_question_leaves_the_others_where_they_are() -> None:
    questions = [question(f"q{at}") for at in range(30)]
    ids = ids_of(build(questions, [Stage(4, 20)], []).train)
    gone = ids.pop(7)
    same = [question(q.id, ["Same."] * 4) if q.id == gone else q for q in questions]
    curriculum = build(same, [Stage(4, 20)], [])
    assert ids_of(curriculum.train)[:19] == ids
    assert curriculum.counts["train stage 1"]["left_out"]["identical"] == 1
    assert "train stage 1: 20 rows with K=4; questions replaced: 1 identical" in describe(curriculum.counts)


def test_a_question_that_comes_twice_under_two_ids_is_not_in_validation_and_in_training() -> None:
    once = [question(f"q{at}") for at in range(30)]
    twice = [*once, *(replace(each, id=f"again {each.id}") for each in once)]
    for same in (False, True):
        built = build(twice, [Stage(3, None), Stage(4, None)], [Stage(3, 7), Stage(4, 7)], same_questions=same)
        trained, validation = ({id_.rpartition(" ")[2] for id_ in ids_of(rows)} for rows in (built.train, built.val))
        assert not trained & validation and trained | validation == {each.id for each in once}


def test_long_prompts_are_counted_and_replaced() -> None:
    questions = [question(f"q{at}") for at in range(20)]
    long = {"q3", "q8"}
    count = lambda messages: 99 if any(f"of {name}?" in messages[0]["content"] for name in long) else 9  # noqa: E731
    curriculum = build(questions, [Stage(3, None)], [], prompt_tokens=count)
    assert set(ids_of(curriculum.train)) == {q.id for q in questions} - long
    assert curriculum.counts["train stage 1"]["left_out"]["too_long"] == 2
    few = r"needs 19 rows, but 20 questions gave 18; left out: 2 too long \(prompts over 50 tokens"
    with pytest.raises(InputError, match=few):
        build(questions, [Stage(3, 19)], [], prompt_tokens=count)


def test_counts_say_what_is_shown_where_and_what_is_left_out() -> None:
    questions = [question(f"q{at}") for at in range(20)]
    questions += [question(f"same{at}", ["x", "x", "y", "z"]) for at in range(3)]
    questions += [replace(question("cut"), unfinished=frozenset([0.0, -1.0]))]
    questions += [question("empty", ["", "x", "y", "y"])]
    built = build(questions, [Stage(4, None), Stage(3, None)], [], answer_filter=AnswerFilter(unfinished=True))
    assert built.flagged["0"] == {"empty": 1, "unfinished": 1} and built.flagged["0 / -0.5"] == {"identical": 3}
    four, three = built.counts["train stage 1"], built.counts["train stage 2"]
    none = dict.fromkeys(("near_identical", "repetition", "passage", "too_long"), 0)
    assert four["left_out"] == {"empty": 1, "identical": 3, "unfinished": 1, **none}
    assert three["left_out"] == {"empty": 0, "identical": 1, "unfinished": 1, **none}
    assert four["rows"] == 20 and four["alphas"] == {"0 -0.5 -1 -1.4": 20}
    assert three["rows"] == 23 == sum(three["alphas"].values())
    shown = alphas_of(built.train)[20:]
    assert list(three["positions"]) == list("ABC")
    for at, place in enumerate(three["positions"].values()):
        assert place == {f"{a:g}": n for a in ALPHAS if (n := sum(row[at] == a for row in shown))}


def test_more_candidates_than_alphas_are_refused() -> None:
    stages = [Stage(3, 1), Stage(5, 1)]
    for key, asked in {"stages": (stages, []), "validation": ([], stages)}.items():
        with pytest.raises(InputError, match=rf"^{key}\[1\]: K=5, but there are answers at 4 alphas only$"):
            build([question("q")], *asked)


def response(alpha: Any, text: Any = "An answer.") -> dict[str, Any]:
    return {"alpha": alpha, "text": text, "n_tokens": 3, "finished": True, "true_support": None}


def line(name: str, responses: list[Any], **changes: Any) -> dict[str, Any]:
    return {"id": name, "status": "ok", "question": "Q?", "passage": "P.", "responses": responses, **changes}


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "responses.jsonl")


def test_questions_are_read_and_failed_rows_counted(tmp_path: Path) -> None:
    responses = [response(a, f"{a}") for a in ALPHAS[:2]]
    responses += [{**response(-1.0), "finished": False}, {"alpha": -1.4, "text": "x"}]
    (folder := tmp_path / "run [1]").mkdir()  # brackets would be a glob's, but this file is there
    path = written(folder, [line("a", responses), {"id": "b", "status": "failed: too long"}])
    [read], failed = read_questions(path)
    assert failed == 1 and read.id == "a" and list(read.answers) == ALPHAS
    assert read.unfinished == {-1.0}
    [picked], _ = read_questions(path, [-0.5, 0])
    assert picked.answers == {-0.5: "-0.5", 0.0: "0.0"}


def test_each_question_is_in_one_half_and_no_passage_in_both(tmp_path: Path) -> None:
    lines = [line(f"q{at}", [response(0)], passage=f"Passage {at // 2}.") for at in range(40)]
    path = written(tmp_path, lines)
    first, second = (read_questions(path, half=half)[0] for half in ("first", "second"))
    assert sorted(q.id for q in first + second) == sorted(row["id"] for row in lines)
    assert min(len(first), len(second)) >= 10
    assert not {q.passage for q in first} & {q.passage for q in second}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([line("a", [response(0)]), line("a", [response(0)])], r":2: duplicate id 'a'"),
        ([line("a", [response(True)])], r":1: field 'responses\[0\]': field 'alpha' .* found bool"),
        ([line("a", [response(0, None)])], r":1: field 'responses\[0\]': field 'text' must be str"),
        ([line("a", [response(0), 3])], r":1: field 'responses\[1\]': expected a JSON object, found int"),
        ([line("a", [response(0), response(0)])], r":1: field 'responses': alpha=0 occurs twice"),
        ([line("a", [response(0)]), line("b", [response(-1)])], r":2: field 'responses': no answer for alpha=0"),
        ([{"id": "a"}], r":1: field 'status' is missing"),
    ],
)  # fmt: skip
def test_malformed_responses_are_named(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_questions(written(tmp_path, rows))


def test_parquet_gives_back_the_rows_even_with_half_an_emoji(tmp_path: Path) -> None:
    """Half an emoji, of a broken cut, is no longer there once the answers are read."""
    broken = [response(alpha, f"It rains \ud83d {alpha}.") for alpha in ALPHAS]
    lines = [line(f"q{at}\ud83d", broken, question="Q \ud83d?", passage="P \ud83d.") for at in range(8)]
    rows = build(read_questions(written(tmp_path, lines))[0], [Stage(3, 4), Stage(4, 4)], []).train
    write_parquet(tmp_path / "data" / "train.parquet", rows)
    assert pyarrow.parquet.read_table(tmp_path / "data" / "train.parquet").to_pylist() == rows
    truth = json.loads(rows[0]["reward_model"]["ground_truth"])
    assert truth["reference"] == "P \ufffd." and truth["reference"] in rows[0]["prompt"][0]["content"]
    assert rows[0]["extra_info"]["id"].endswith("\ufffd") and "rains \ufffd" in rows[0]["prompt"][0]["content"]


def draw(
    questions: list[Question],
    stages: list[Stage],
    seed: int = 0,
    wanted: AnswerFilter | None = None,
    variant: str = RANKING.name,
    most: int | None = None,
) -> tuple[list[Lesson], list[dict[str, Any]]]:
    flags = flag_questions(questions, {"rows": stages}, wanted or AnswerFilter())
    settings: Any = SimpleNamespace(rows=stages, seed=seed, variant=variant, sets_per_question=most)
    return draw_lessons(settings, questions, flags)


def rows_of(lessons: list[Lesson], variant: str, tokens: Any = lambda messages: 1) -> Any:
    settings: Any = SimpleNamespace(variant=variant, verl=SimpleNamespace(data=SimpleNamespace(max_length=2000)))
    return build_rows(settings, lessons, tokens)


@given(st.integers(2, 4).flatmap(lambda k: st.permutations(ALPHAS).map(lambda alphas: tuple(alphas[:k]))))
def test_the_ranking_reply_puts_the_largest_alpha_first(alphas: tuple[float, ...]) -> None:
    ranking = parse_ranking(ranking_reply(alphas), len(alphas))
    assert strictly_ranked(rank_scores(ranking), alphas)  # closest to the passage scores highest


@given(
    st.lists(st.lists(st.sampled_from(["a b", "a  b", "a b c", "", "d"]), min_size=4, max_size=4), max_size=12),
    st.lists(st.tuples(st.integers(2, 4), st.one_of(st.none(), st.integers(1, 6))), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_a_question_gives_all_its_sets_to_one_k(
    texts: list[list[str]], stages: list[tuple[int, int | None]], seed: int
) -> None:
    questions = [question(f"q{at}", four) for at, four in enumerate(texts)]
    try:
        drawn, counts = draw(questions, [Stage(k, rows) for k, rows in stages], seed)
    except InputError:
        return
    groups = [list(group) for _, group in itertools.groupby(drawn, key=lambda c: (c.question.id, len(c.alphas)))]
    assert len({group[0].question.id for group in groups}) == len(groups)  # never in two places
    for group in groups:
        answers = group[0].question.answers
        assert len({frozenset(c.alphas) for c in group}) == len(group)  # no set twice
        for candidates in group:
            shown = [tuple(answers[alpha].split()) for alpha in candidates.alphas]
            assert len(set(shown)) == len(shown) and all(shown)
    assert sum(of["sets"] for of in counts) == len(drawn)
    wanted = [rows for _, rows in stages]
    if None not in wanted:
        assert len(drawn) == sum(rows or 0 for rows in wanted)


def test_all_sets_of_a_question_are_used_and_table_7_comes_out() -> None:
    """3,877 pairs, 3,874 triplets and 3,883 quadruplets, from as many questions as the paper trains on."""
    questions = [question(f"q{at}") for at in range(5500)]
    drawn, _ = draw(questions, [Stage(2, 3877), Stage(3, 3874), Stage(4, 3883)])
    sizes = [len(candidates.alphas) for candidates in drawn]
    assert [sizes.count(k) for k in (2, 3, 4)] == [3877, 3874, 3883]
    assert len({c.question.id for c in drawn}) == 647 + 969 + 3883
    shown_first = [candidates.alphas[0] for candidates in drawn]
    assert all(0.2 < shown_first.count(alpha) / len(drawn) < 0.3 for alpha in ALPHAS)  # no letter gives α away


def test_what_is_flagged_is_never_shown_and_counted_where_its_turn_came() -> None:
    cut = Question("cut", "Q?", "P.", dict(zip(ALPHAS, "abcd", strict=True)), frozenset([0.0]))
    questions = [cut, question("same", ["x", "x", "y", "z"]), question("whole")]
    drawn, counts = draw(questions, [Stage(4, None), Stage(3, None)], 0, AnswerFilter(unfinished=True))
    assert {(c.question.id, frozenset(c.alphas)) for c in drawn} == {
        ("whole", frozenset(ALPHAS)),
        ("cut", frozenset(ALPHAS[1:])),
        ("same", frozenset([0.0, -1.0, -1.4])),
        ("same", frozenset(ALPHAS[1:])),
    }
    assert [(of["k"], of["sets"], sum(of["left_out"].values())) for of in counts] == [(4, 1, 2), (3, 3, 0)]
    assert counts[0]["left_out"]["unfinished"] == counts[0]["left_out"]["identical"] == 1


def test_a_limit_of_sets_spreads_the_rows_over_more_questions() -> None:
    questions, stages = [question(f"q{at}") for at in range(12)], [Stage(3, 6), Stage(2, 6)]
    for most, asked in ((None, 3), (1, 12), (2, 6)):
        drawn, _ = draw(questions, stages, most=most)
        assert len(drawn) == 12 and len({of.question.id for of in drawn}) == asked


def test_too_few_questions_are_an_error_with_the_figures() -> None:
    with pytest.raises(InputError, match=r"rows: K=4 needs 3, but the 2 questions left gave 2"):
        draw([question("a"), question("b")], [Stage(4, 3)])
    with pytest.raises(InputError, match=r"rows: K=3 needs some, but the 1 .* gave 0; left out: 1 identical"):
        draw([question("a", ["x", "x", "y", "y"])], [Stage(3, None)])


def test_rows_hold_the_prompt_and_the_ranking_and_too_long_ones_are_counted() -> None:
    orders = [random.Random(at).sample(ALPHAS, 3) for at in range(3)]
    drawn = [Lesson(question(f"q{at}"), alphas, ranking_reply(alphas)) for at, alphas in enumerate(orders)]
    long = question("long", [f"Answer {at} of long. " * 100 for at in range(4)])
    drawn.insert(1, Lesson(long, [0.0, -0.5, -1.0], "no matter"))
    rows, counts = rows_of(drawn, RANKING.name, lambda messages: sum(len(m["content"]) for m in messages))
    assert {key: counts[key] for key in ("drawn", "too_long", "train_rows")} == {
        "drawn": 4, "too_long": 1, "train_rows": 3
    }  # fmt: skip
    assert sum(counts["shown"]["K=3"]["alphas"].values()) == 3
    assert all(sum(place.values()) == 3 for place in counts["shown"]["K=3"]["positions"].values())
    assert [row["id"] for row in rows] == ["q0", "q1", "q2"]
    asked = drawn[3].question
    user, assistant = rows[2]["messages"]
    assert [user] == judge_messages(
        "ranking-only", asked.question, asked.passage, [asked.answers[alpha] for alpha in drawn[3].alphas]
    )
    assert assistant == {"role": "assistant", "content": ranking_reply(drawn[3].alphas)}
    assert rows[2]["k"] == 3 and rows[2]["alphas"] == drawn[3].alphas


PASSAGE = "The tower was built in Toronto and opened in 1976. It has 2,579 steps."


def test_with_a_trajectorys_prompt_the_word_rules_trajectory_is_taught() -> None:
    answers = {0.0: "It opened in 1976 in Toronto.", -0.5: "Nobody knows.", -1.0: "?!", -1.4: "It opened in Toronto."}
    asked = Question("q", "Which tower?", PASSAGE, answers)
    drawn, _ = draw([asked], [Stage(2, None)], variant="compact")
    # an answer without a sentence cannot be ranked, nothing tells 0 and -1.4 apart, and -1.4 is above -0.5
    assert [{*lesson.alphas} for lesson in drawn] == [{0.0, -0.5}]
    rows, _ = rows_of(drawn, "compact")
    user, assistant = rows[0]["messages"]
    answers = asked.answers_at(drawn[0].alphas)
    assert [user] == judge_messages("compact", asked.question, asked.passage, answers)
    trajectory = judge_by_words(asked.question, asked.passage, answers, 0.5)
    assert assistant == {"role": "assistant", "content": as_reply(trajectory, "compact")}
    with pytest.raises(InputError, match=r"K=3 needs some, .* left out: 1 unranked"):
        draw([asked], [Stage(3, None)], variant="compact")


def test_the_rule_is_as_strict_as_alpha_wants_it() -> None:
    for first, second, verdicts in (
        ("It opened in Paris.", "It opened in Paris, 1978.", [True, False]),  # 1 of 2 and 1 of 3 words: half will do
        ("It opened in Toronto.", "It opened in Paris, Toronto.", [True, False]),  # 2 of 2, 2 of 3: more is asked
        ("It opened in Paris, 1978.", "It sank in Paris, 1978.", [True, False]),  # 1 of 3, 0 of 3: less
        ("It opened in Toronto.", "It sank.", [True, False]),
    ):
        asked = Question("q", "Which tower?", PASSAGE, {0.0: first, -1.4: second})
        reply = rule_reply(asked, (0.0, -1.4), "compact")
        assert reply is not None
        judged = parse_strict(reply, 2, "compact")
        assert [of.atomic_claims[0].is_supported for of in judged] == verdicts
        backwards = Question("q", "Which tower?", PASSAGE, {0.0: second, -1.4: first})
        assert rule_reply(backwards, (0.0, -1.4), "compact") is None


@given(
    st.lists(
        st.lists(st.sampled_from("tower opened 1976. steps; Paris, and London".split()), max_size=9).map(" ".join),
        min_size=4,
        max_size=4,
    ),
    st.integers(1, 4),
)
def test_whatever_is_taught_ranks_as_alpha_does(texts: list[str], k: int) -> None:
    asked = Question("q", "Which tower?", PASSAGE, dict(zip(ALPHAS, texts, strict=True)))
    try:
        drawn, _ = draw([asked], [Stage(k, None)], variant="compact")
    except InputError:
        return
    for lesson in drawn:
        judged = parse_strict(lesson.reply, k, "compact")
        assert strictly_ranked(support_scores(judged), lesson.alphas)
        for candidate in judged:
            claims = [claim.claim for claim in candidate.atomic_claims]
            assert claims and len({*claims}) == len(claims)
