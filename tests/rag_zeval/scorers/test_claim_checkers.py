"""The scorers that ask a claim checker: checked_claims and hhem."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import CheckerStub
from scripted_backend import ScriptedBackend

from eval_benchmarks.__main__ import main
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import RANKING
from rag_zeval.models.nli import NLI
from rag_zeval.scorers.claim_checkers import LONGEST_SOURCES, CheckedClaims, Hhem, support
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.scorers.sentences import pieces

MINICHECK = ["LABEL_0", "LABEL_1"]


def stated(premise: str, hypothesis: str) -> float:
    return float(hypothesis.rstrip(".") in premise)


SENTENCES = st.lists(st.integers(1, 5), min_size=1, max_size=8).map(
    lambda lengths: [f"{' '.join(f'Fact{i}x{k}' for k in range(n))}." for i, n in enumerate(lengths)]
)


@given(SENTENCES, st.integers(1, 3), st.integers(2, 14))
def test_pieces_are_the_document_in_order_and_as_few_as_fit(sentences: list[str], claim: int, window: int) -> None:
    checker, words = CheckerStub(stated, window), " ".join(["word"] * claim)
    found = pieces(" ".join(sentences), lambda piece: checker.fits((piece, words)))
    assert " ".join(found) == " ".join(sentences)
    assert all(checker.fits((piece, words)) or piece in sentences for piece in found)
    for piece, after in itertools.pairwise(found):  # its next sentence would not have fitted
        longer = f"{piece} {next(one for one in sentences if after.startswith(one))}"
        assert not checker.fits((longer, words))


@given(SENTENCES, st.integers(6, 12), st.randoms(use_true_random=False))
def test_support_is_the_largest_that_a_piece_gives(sentences: list[str], window: int, rng: Any) -> None:
    given_: list[float] = []

    def says(premise: str, hypothesis: str) -> float:
        given_.append(rng.random())
        return given_[-1]

    assert support(CheckerStub(says, window), " ".join(sentences), "word") == max(given_)
    for sentence in sentences:  # each claim finds the sentence that states it, wherever the cuts are
        assert support(CheckerStub(stated, max(window, 10)), " ".join(sentences), sentence) == 1
    assert support(CheckerStub(stated, window), " ".join(sentences), "word " * window) is None


def trajectory(*answers: list[str]) -> dict[str, Any]:
    claims = [[{"claim": claim, "is_supported": True} for claim in answer] for answer in answers]
    return {"trajectory": [{"atomic_claims": one} for one in claims], "status": "ok"}


def checked(parts: dict[str, Any], checker: CheckerStub, answers: tuple[str, ...] = ("a", "a")) -> Scored:
    example = Example("x", "q", "A is so. B is so.", answers, truth="never looked at", chunks=("nor this",))
    judged = {"x": Scored("x", (Score(1.0),) * len(answers), parts)}
    (row,) = CheckedClaims(checker, judged, "judge").score([example])
    return row


def test_the_value_is_the_share_of_the_judges_claims_that_the_checker_supports() -> None:
    levels = {"low": 0.49, "even": 0.5, "high": 1.0}
    checker = CheckerStub(lambda premise, hypothesis: levels[hypothesis])
    row = checked(trajectory(["low", "even", "high"], ["low"], []), checker, ("a",) * 3)
    assert row.scores == (Score(2 / 3), Score(0.0), Score(None, "failed: no claims"))
    assert row.parts == {"answers": [{"support": [0.49, 0.5, 1.0]}, {"support": [0.49]}, {"support": []}]}
    assert {premise for premise, _ in checker.asked} == {"A is so. B is so."}
    assert (row.calls, row.final) == (0, True)


def test_what_the_checker_cannot_say_is_missing_with_its_reason() -> None:
    row = checked(trajectory(["A is so", "word " * 9], ["A is so"]), CheckerStub(stated, 8))
    assert row.values == (None, 1)
    assert row.scores[0].status == "failed: a claim, with a sentence of the reference, does not fit the checker"
    assert row.parts["answers"][0] == {"support": [1, None]}
    row = checked({"trajectory": None, "status": "failed: format: no JSON"}, CheckerStub(stated))
    assert row.scores == (Score(None, "failed: no claims to check: format: no JSON"),) * 2

    def broken(premise: str, hypothesis: str) -> float:
        raise RuntimeError("out of\nmemory")

    row = checked(trajectory(["A is so"], ["B is so"]), CheckerStub(broken))
    assert row.scores == (Score(None, "failed: RuntimeError: out of memory"),) * 2


@pytest.mark.parametrize("unread", range(4))
def test_the_claims_of_an_answer_after_one_that_was_not_read_stay_its_own(unread: int) -> None:
    """So it is if each answer is judged alone. The third answer is blank, so it has no trajectory either."""
    of = trajectory(["A is so"], ["C is so"], [], ["B is so", "C is so"]) | {"status": "failed: format: no JSON"}
    of["trajectory"][2] = None
    whole = checked(of, CheckerStub(stated), ("a", "a", "", "a"))
    assert whole.values == (1, 0, None, 0.5)
    of["trajectory"][unread] = None
    row = checked(of, CheckerStub(stated), ("a", "a", "", "a"))
    assert row.values == tuple(None if at == unread else value for at, value in enumerate(whole.values))
    assert row.scores[2] == Score(None, "failed: no answer")
    assert unread == 2 or row.scores[unread] == Score(None, "failed: no claims to check: format: no JSON")
    assert [bool(one) for one in row.parts["answers"]] == [at not in (2, unread) for at in range(4)]


def test_other_claims_make_another_row_file() -> None:
    def identity(parts: dict[str, Any], judge: str = "judge") -> str:
        return CheckedClaims(CheckerStub(stated), {"x": Scored("x", (), parts)}, judge).identity

    assert identity(trajectory(["A"])) == identity(trajectory(["A"]))
    others = [identity(trajectory(["B"])), identity(trajectory(["A"], [])), identity(trajectory(["A"]), "another")]
    assert len({identity(trajectory(["A"])), *others}) == 4


def test_hhem_asks_about_the_whole_answer_and_all_sources() -> None:
    checker = CheckerStub(lambda premise, hypothesis: 0.25, 40)
    answers = ("A is so. B is not.", "word " * 40)
    with_chunks = Example("1", "q", "reference", answers, chunks=("first", "second"))
    rows = [*Hhem(checker).score([with_chunks, Example("2", "q", "reference", answers)])]
    assert [premise for premise, _ in checker.asked] == ["first second"] * 2 + ["reference"] * 2
    assert [hypothesis for _, hypothesis in checker.asked] == [*answers] * 2
    for row in rows:
        assert row.scores == (Score(0.25), Score(None, "failed: sources and answer do not fit the checker"))
    long = Example("3", "q", "r", ("a",), chunks=("x" * (LONGEST_SOURCES - 1), ""))
    longer = Example("4", "q", "r", ("a",), chunks=("x" * LONGEST_SOURCES, ""))
    status = "failed: the sources have 8193 characters, more than 8192"
    assert [row.scores for row in Hhem(checker).score([long, longer])] == [(Score(0.25),), (Score(None, status),)]


def sentences(rows: list[dict[str, Any]]) -> None:
    """The words of the rows, two a sentence."""
    for row in rows:
        for place, name in ((row, "gt_answer"), (row["model1"], "response"), (row["model2"], "response")):
            words = place[name].split()
            place[name] = " ".join(f"{one} {other}." for one, other in zip(words[::2], words[1::2], strict=True))


def test_the_bench_checks_each_judges_claims_and_asks_nobody_twice(
    literal_judge: Any, write_nli: Any, write_ragchecker: Any, tmp_path: Path, capsys: Any
) -> None:
    folder, out = write_nli(tmp_path / "minicheck", MINICHECK, True, 40), tmp_path / "out"
    words = [f"data_dir={write_ragchecker(3, change=sentences, shipped=False)}", "benchmarks=[ragchecker_meta]"]
    words += [f"models=['{literal_judge.spec()}']", f"out_dir={out}", "bootstrap.draws=20", "judge.variant=paper"]
    words += ["scorers=[bleu,hhem,rag_zeval,checked_claims]", "judge.swapped=true", "judge.trials=2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    for name in ("hhem", "checked_claims"):
        assert f"left out: {name}: claim_checker.model is not a folder with a model" in shown
    asked = len(literal_judge.requests)
    assert asked == 3 * 2 * 2
    words.append(f"claim_checker.model={folder}")
    assert main(words) == 0

    def trials(name: str) -> list[list[dict[str, Any]]]:
        files = sorted((out / "rows").glob(f"ragchecker_meta__{name}__*"))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]

    checker, examples = NLI(str(folder)), {one.id: one for one in RagcheckerMeta(tmp_path / "data").examples}
    judged = {row["id"]: Scored.from_row(row) for row in trials("rag_zeval")[0]}
    checked = {one.id: one.values for one in CheckedClaims(checker, judged, "").score(examples.values())}
    assert len(set(checked.values())) > 1 and len(trials("checked_claims")) == 2
    for trial in trials("checked_claims"):
        assert {row["id"]: Scored.from_row(row).values for row in trial} == checked
    (whole,) = trials("hhem")
    assert {row["id"]: Scored.from_row(row).values for row in whole} == {
        one.id: pytest.approx(one.values, abs=1e-5) for one in Hhem(checker).score(examples.values())
    }
    summary = json.loads((out / "summary.json").read_text())
    found = {(r["benchmark"], r["scorer"], r["model"], r["trials"], r["coverage"]) for r in summary if not r["minus"]}
    assert {row for row in found if row[1] in ("checked_claims", "hhem")} == {
        ("ragchecker_meta", "checked_claims", literal_judge.spec(), 2, 1),
        ("ragchecker_meta", "hhem", None, 1, 1),
    }
    assert len(literal_judge.requests) == asked


def test_a_ranker_has_no_claims_to_check(
    write_nli: Any, write_ragchecker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, model = {"variant": RANKING.name}, tmp_path / "ranker"
    model.mkdir()
    (model / "rag_zeval.json").write_text(json.dumps(card))
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").touch()
    ranker = ScriptedBackend(lambda request: '["A", "B"]', card=card)
    monkeypatch.setattr("eval_benchmarks.jobs.open_backend", lambda *_, **__: ranker)
    words = [f"data_dir={write_ragchecker(3, shipped=False)}", f"out_dir={tmp_path / 'out'}", "bootstrap.draws=20"]
    words += ["benchmarks=[ragchecker_meta]", "scorers=[rag_zeval,checked_claims]", f"models=[{model}]"]
    assert main([*words, f"claim_checker.model={write_nli(tmp_path / 'nli', MINICHECK)}"]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert {row["scorer"] for row in manifest["rows"]} == {"sft_ranker"}
    line = f"left out: ragchecker_meta, checked_claims by {model}: a ranker writes no claims"
    assert line in manifest["notes"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("claim_checker.model=no/such", "no/such: no model in this folder (config.json is missing)"),
        ("scorers=[checked_claims]", "checked_claims checks the claims that rag_zeval writes; add rag_zeval"),
        (
            "claim_checker.model={code}",
            "{code}: its config.json asks for code of its own; claim_checker.remote_code=true runs it",
        ),
        (
            "claim_checker.model={sentiment}",
            "{sentiment}: is not a trained NLI model (labels: good, bad; missing weights: 0)",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    write_nli: Any, write_ragchecker: Any, tmp_path: Path, capsys: Any, setting: str, message: str
) -> None:
    folders = {"code": tmp_path / "code", "sentiment": tmp_path / "sentiment"}
    folders["code"].mkdir()
    (folders["code"] / "config.json").write_text(json.dumps({"auto_map": {"AutoConfig": "own.Own"}}))
    (folders["code"] / "own.py").write_text("raise SystemExit('was run')")
    write_nli(folders["sentiment"], ["good", "bad"])
    words = [f"data_dir={write_ragchecker(3)}", f"out_dir={tmp_path / 'out'}", "benchmarks=[ragchecker_meta]"]
    assert main([*words, "scorers=[hhem]", setting.format(**folders)]) == 2
    error = f"error: {setting.partition('=')[0]}: {message.format(**folders)}\n"
    assert capsys.readouterr().err.endswith(error)  # after a bar of loading
