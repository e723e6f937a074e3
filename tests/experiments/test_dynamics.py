"""The dynamics of a run: what is read from a log that is still written, what is drawn, and what is said instead."""

import base64
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.arm_report import grounding_figure, reward_figure
from experiments.dynamics.__main__ import main
from experiments.dynamics.entailment import SPECS, entailment_by_step, open_scorer
from experiments.dynamics.figures import FIGURES, absent, draw, window
from experiments.dynamics.run import (
    DrawnRun,
    RolloutGroup,
    claims_in_between,
    derived_curves,
    describe_beside,
    describe_changes,
    describe_groups,
    difference,
    read_groups,
    read_runs,
    validation_points,
)
from experiments.paper.figures import with_entailment
from experiments.training_curves import METRICS
from rag_zeval.models.nli import NLI
from rag_zeval.stages import world

HOSTILE = "<script>document.title='moved'</script> $\\frac{"
VALIDATED = "val-aux/rag_zeval/{}/mean@1"


def log(run: Path, attempt: int, steps: dict[int, dict[str, Any]], torn: str = "") -> None:
    (run / "metrics").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in steps.items()]
    (run / "metrics" / f"attempt-{attempt}.jsonl").write_text("".join(lines) + torn)


def trained(step: int, **changes: float) -> dict[str, float]:
    """Everything that training logs in a step."""
    values = dict.fromkeys(METRICS, 0.5 + step / 100) | {"lost": 0, "errors": 0, "candidates": 3.0 if step < 5 else 4.0}
    del values["validation"]
    return {METRICS[name]: value for name, value in {**values, **changes}.items()}


def validated(**parts: float) -> dict[str, float]:
    return {METRICS["validation"]: 0.25, **{VALIDATED.format(name): value for name, value in parts.items()}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Cut off after step 6, taken up after step 4, and now at step 8."""
    folder = tmp_path / "runs" / "nano"
    parts = {"format": 0.5, "claims": 2.0, "evidence": 0.4, "quote_tokens": 6.0, "accuracy": 0.25}
    log(folder, 1, {0: validated(**parts), **{step: trained(step) for step in range(1, 7)}}, torn='{"step":7,"da')
    log(folder, 2, {step: trained(step, reward=-0.25) for step in range(5, 9)}, torn='{"ste')
    return folder


def rollout(seed: int, *, entailed: int, not_entailed: int) -> dict[str, Any]:
    """A row as verl dumps it: one candidate whose claims, all said to be supported, have good quotes and bad ones."""
    rng = random.Random(seed)
    asked = world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)
    good, bad = asked.keys[0], asked.keys[1]
    claims = [
        {
            "claim": world.claim(asked.person, good, asked.facts[good]),
            "grounding_evidence": [asked.sentences[good if at < entailed else bad]],
            "analysis": "",
            "is_supported": True,
        }
        for at in range(entailed + not_entailed)
    ]
    refuted = {**claims[0], "is_supported": False, "grounding_evidence": [asked.sentences[bad]]}
    output = json.dumps([{"id": "A", "atomic_claims": [*claims, refuted]}])
    truth = json.dumps({"alphas": [0.0], "reference": asked.passage, "variant": "compact"})
    return {"input": "asked", "output": output, "gts": truth, "score": 1.0, "step": 1}


def dump(run: Path, which: str, step: int, rows: Sequence[Any], torn: str = "") -> Path:
    path = run / "rollouts" / which / f"{step}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows) + torn)
    return path


def ranked(candidates: int) -> dict[str, Any]:
    truth = {"alphas": [-0.5] * candidates, "variant": "compact"}
    return {"input": "?", "output": "[]", "gts": json.dumps(truth)}


GROUPS = {
    "the ranking": [1.5, 0, -0.5],
    "the format alone": [0, 0, -0.5],
    "the evidence alone": [1.5, 1.25],
    "nothing": [0, 0],
}


def of_prompts(kinds: Sequence[str], rng: random.Random) -> list[dict[str, Any]]:
    rows = [
        {**ranked(2), "uid": f"{at}_{n}_0", "score": score}
        for at, kind in enumerate(kinds)
        for n, score in enumerate(GROUPS[kind])
    ]
    rows += [{**ranked(1), "uid": f"single_{n}_0", "score": -0.5 * n} for n in range(2)]  # one answer has no ranking
    rng.shuffle(rows)
    return rows


SOME = st.lists(st.sampled_from(sorted(GROUPS)), max_size=6)


@given(SOME, SOME, st.randoms(use_true_random=False))
def test_what_rollouts_differ_in_is_counted_by_prompt(first: list[str], later: list[str], rng: random.Random) -> None:
    """Whatever order the rollouts were written in, and though a later step has prompts of the same ids."""
    with tempfile.TemporaryDirectory() as folder:
        torn = '{"uid": "torn_0_0", "sco'
        dump(Path(folder), "train", 1, [{**ranked(2), "score": 1.5}, *of_prompts(first, rng)], torn)
        dump(Path(folder), "train", 2, [*of_prompts(later, rng), "no rollout"], torn)
        dump(Path(folder), "train", 3, [{**ranked(2), "uid": "later_0_0", "score": 0}])  # the log has no such step
        groups = read_groups(Path(folder), {1: {}, 2: {}})
    assert Counter(difference(group.rewards) for group in groups) == Counter([*first, *later])
    assert describe_groups(groups).count(" for ") == (4 if groups else 0)
    assert [group.step for group in groups] == [1] * len(first) + [2] * len(later)


def test_a_prompt_that_comes_again_is_compared_with_itself() -> None:
    first = [RolloutGroup(1, "a", [0.0, 1.5]), RolloutGroup(1, "b", [0.0, 0.0]), RolloutGroup(2, "c", [1.5])]
    assert describe_changes(first) == ""
    later = [RolloutGroup(3, "a", [0.0, 0.0]), RolloutGroup(5, "b", [1.5, -0.5]), RolloutGroup(9, "a", [1.5, 1.25])]
    assert describe_changes([*first, *later]) == (
        "2 prompts came again, 6 steps later (median): reward +0.562 [+0.500, +0.625], "
        "right rankings +0.500 [+0.500, +0.500]"
    )


def test_a_run_is_compared_with_another_on_the_prompts_that_both_had() -> None:
    other = [RolloutGroup(1, "a", [0.0]), RolloutGroup(7, "a", [1.0]), RolloutGroup(2, "b", [1.5, 1.5])]
    run = [RolloutGroup(1, "b", [1.5]), RolloutGroup(2, "c", [0.0]), RolloutGroup(4, "a", [1.5, 1.5])]
    assert describe_beside(run, other, "first") == (
        "beside first, on the same prompts: steps 1-1, 1 of them, reward +0.000, right rankings +0.000; "
        "steps 4-4, 1 of them, reward +1.000, right rankings +0.500"
    )
    assert describe_beside(run[1:2], other, "first") == ""


def test_a_run_that_goes_on_is_read_up_to_its_last_whole_step(run: Path) -> None:
    [found] = read_runs([run], "val", None)
    assert found.name == "runs/nano" and found.last_step == 8
    assert found.state == (
        "8 steps logged: K=3, K=4 from step 5; not finished: still running, or interrupted; "
        "2 attempts, a repeated step counts once"
    )
    assert found.curves["reward"].tolist() == pytest.approx([0.51, 0.52, 0.53, 0.54, -0.25, -0.25, -0.25, -0.25])
    (run / "manifest.json").write_text("{}")
    log(run, 3, {step: trained(step, lost=2.0 * (step == 9), errors=0.1) for step in (9, 10)})
    [found] = read_runs([run], "val", None)
    assert "10 steps logged" in found.state and "; finished; 3 attempts" in found.state
    assert found.state.endswith("; 2 rollouts lost; 2 steps with reward errors")


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=5), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_claims_in_between_are_those_of_the_rollouts(rollouts: list[list[int]], rng: random.Random) -> None:
    """Each step has rollouts with the same number of candidates, the best first and the worst last."""
    steps = [[rng.sample(claims, len(claims)) for _ in range(3)] for claims in rollouts]
    logged = {
        "candidates": np.array([float(len(step[0])) for step in steps]),
        "claims": np.array([np.mean([np.mean(one) for one in step]) for step in steps]),
        "claims_best": np.array([np.mean([one[0] for one in step]) for step in steps]),
        "claims_worst": np.array([np.mean([one[-1] for one in step]) for step in steps]),
    }
    wanted = [np.mean([one[1:-1] for one in step]) if len(step[0]) > 2 else np.nan for step in steps]
    assert claims_in_between(logged) == pytest.approx(np.array(wanted), nan_ok=True)
    mixed = claims_in_between({**logged, "candidates": logged["candidates"] + 0.5})
    assert np.isnan(mixed).all()


@given(st.lists(st.none() | st.integers(1, 9), min_size=1, max_size=12))
def test_a_validation_row_without_the_format_is_no_row_with_0_claims(claims: list[int | None]) -> None:
    """None: the row does not keep the format, and verl takes it for 0."""
    n, kept = len(claims), [count for count in claims if count is not None]
    points = validation_points({10: validated(claims=sum(kept) / n, format=len(kept) / n)})
    if kept:
        assert [at.tolist() for at in points["val_claims"]] == [[10.0], pytest.approx([np.mean(kept)])]
    else:
        assert "val_claims" not in points
    assert points["val_reward"][1].tolist() == [0.25] and "val_accuracy" not in points


def test_without_quotes_there_is_no_grounding(run: Path) -> None:
    nan = float("nan")
    logged = {"quote_tokens": np.array([0.0, 12.0]), "evidence": np.array([0.0, 0.9]), "quotes": np.array([0.0, 0.1])}
    derived = derived_curves(logged)
    assert np.array_equal(derived["evidence"], [nan, 0.9], equal_nan=True)
    assert derived["quotes"].tolist() == [0.0, 0.1]
    log(run, 3, {step: trained(step, quote_tokens=0, evidence=0, quotes=0) for step in range(1, 9)})
    [found] = read_runs([run], "val", None)
    assert not found.has("evidence") and found.missing["evidence"] == "no rollout quotes anything"
    assert found.has("quotes")


def test_what_a_log_lacks_is_said_and_not_drawn(run: Path) -> None:
    gone = {METRICS[name]: None for name in ("quotes", "kl", "candidates")}
    log(run, 2, {step: {**trained(step), **gone} for step in range(1, 9)})
    log(run, 1, {})
    [found] = read_runs([run], "val", None)
    said = {figure.name: list(absent(figure, [found])) for figure in FIGURES}
    assert "quotes per claim: reward_extra/quotes/mean is not in the log" in said["quotes"]
    assert "KL to the base: actor/kl_loss is not in the log" in said["ties-and-length"]
    assert "claims per answer, by α, in between: no step has more than two candidates" in said["claims-by-rank"]
    assert "reward, validation: not measured on the validation rows" in said["figure-4"]
    assert any(line.startswith("entailment (0 to 1): not computed; --entailment takes it") for line in said["figure-3"])
    assert said["failures"] == []
    assert "K is not logged" in found.state


def test_every_line_has_a_reason_for_not_being_there_and_the_figure_drawn_before_goes(run: Path) -> None:
    assert main([str(run)]) == 0
    log(run, 1, {1: {METRICS["reward"]: 0.5}})
    log(run, 2, {})
    [found] = read_runs([run], "val", None)
    names = {name for figure in FIGURES for panel in figure.panels for name in panel.lines}
    assert {name for name in names if not found.has(name)} == names - {"reward"} <= found.missing.keys()
    assert main([str(run)]) == 0
    assert [path.name for path in (run / "dynamics").iterdir()] == ["figure-4.png"]


def test_several_runs_are_named_where_only_some_lack_a_line(run: Path) -> None:
    other = run.parent / "other"
    log(other, 1, {step: trained(step) for step in range(1, 400)})
    runs = read_runs([run, other, run], "val", None)
    assert [one.name for one in runs] == ["nano", "other"]
    assert (window(runs), window(runs[:1])) == (15, 5)
    [grounding] = [figure for figure in FIGURES if figure.name == "figure-3"]
    lines = list(absent(grounding, runs))
    assert "claims per answer, validation: not measured on the validation rows (other)" in lines
    assert len([line for line in lines if line.startswith("entailment")]) == 1
    alone, both = (draw(grounding, some) for some in (runs[:1], runs))
    assert alone and both and alone != both


def test_runs_are_told_apart_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the runs has which curve is seen in a figure of one colour too."""
    monkeypatch.setattr("experiments.dynamics.figures.COLOURS", ["black"] * 6)
    monkeypatch.setattr("experiments.arm_report.OF_ARMS", ["black"] * 6)
    first, second = ({"reward": np.full(40, value), "candidates": np.full(40, 3.0)} for value in (0.1, 0.9))
    one, other = (DrawnRun("run", "", curves, {}, {}, None) for curves in (first, second))
    [reward] = [figure for figure in FIGURES if figure.name == "figure-4"]
    assert draw(reward, [one, other]) != draw(reward, [other, one])
    arms, swapped = ({"a": [a], "b": [b]} for a, b in ((first, second), (second, first)))
    assert reward_figure(arms) != reward_figure(swapped)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=1, max_size=4),
    st.sampled_from(["val", "train"]),
)
def test_the_oracle_is_the_share_of_supported_claims_that_their_quotes_state(
    tmp_path_factory: pytest.TempPathFactory, counts: list[tuple[int, int]], which: str
) -> None:
    run = tmp_path_factory.mktemp("run")
    dump(run, which, 1, [rollout(seed, entailed=yes, not_entailed=no) for seed, (yes, no) in enumerate(counts)])
    points, source = entailment_by_step(run, {1: {}}, which, open_scorer("oracle"))
    yes, everything = sum(yes for yes, _ in counts), sum(map(sum, counts))
    assert [at.tolist() for at in points] == [[1.0], [pytest.approx(yes / everything)]]
    assert source == (
        f"by the exact oracle of the nano world, over {everything} supported claims of {len(counts)} rollouts; "
        "left out: nothing"
    )


def test_the_papers_figure_3_has_the_entailment_of_the_training_rollouts(run: Path) -> None:
    dump(run, "train", 2, [rollout(0, entailed=1, not_entailed=1), rollout(1, entailed=2, not_entailed=0)])
    judges: Any = SimpleNamespace(logged=lambda arm: ["curriculum"], folder=lambda name: run)
    [curves], reason = with_entailment(judges, "oracle")
    assert reason is None and len(curves["entailment"]) == 8
    assert curves["entailment"][1] == 0.75 and np.isnan(np.delete(curves["entailment"], 1)).all()
    two_panels = {name: curve for name, curve in curves.items() if name != "entailment"}
    wide, narrow = (int.from_bytes(grounding_figure([of])[16:20], "big") for of in (curves, two_panels))
    assert 2 * wide == 3 * narrow
    assert with_entailment(judges, None) == ([], f"entailment={SPECS} measures it in the saved rollouts")
    (run / "rollouts" / "train" / "2.jsonl").unlink()
    [curves], reason = with_entailment(judges, "oracle")
    assert "entailment" not in curves and reason is not None and "holds no rollouts" in reason


def test_rollouts_that_cannot_be_used_are_counted_and_named(run: Path) -> None:
    good = rollout(0, entailed=1, not_entailed=0)
    unquoted = good["output"].replace(json.loads(good["output"])[0]["atomic_claims"][0]["grounding_evidence"][0], "")
    unreadable = good["output"].replace('"claim": "', '"claim": "Well, ')
    rows = [good, {**good, "output": unquoted}, "not JSON at all", {**good, "gts": HOSTILE}, {"output": "x"}]
    rows += [{**good, "gts": good["gts"].replace("compact", "no-evidence")}, {**good, "output": unreadable}]
    dump(run, "val", 8, rows, torn='{"input": "as')
    dump(run, "val", 9, [good])  # of the attempt that was cut off, perhaps: step 9 is not logged
    [found] = read_runs([run], "val", open_scorer("oracle"))
    assert found.entailment and found.entailment.endswith(
        "over 1 supported claims of 2 rollouts; left out: 1 rollouts without the format, 1 claims it cannot read, "
        "4 lines that are not rollouts (first: val/8.jsonl:3: not valid JSON: Expecting value at column 1)"
    )


def test_without_rollouts_the_page_says_why(run: Path) -> None:
    [found] = read_runs([run], "train", open_scorer("oracle"))
    assert found.missing["entailment"].endswith("holds no rollouts of a step that is logged")
    foreign = rollout(0, entailed=1, not_entailed=0)
    foreign["output"] = re.sub(r'"claim": "[^"]*"', '"claim": "Paris is in France."', foreign["output"])
    dump(run, "train", 3, [foreign])
    [found] = read_runs([run], "train", open_scorer("oracle"))
    assert found.missing["entailment"].startswith("no claim that the exact oracle of the nano world could say anything")
    dump(run, "train", 5, [rollout(0, entailed=1, not_entailed=1)])
    [found] = read_runs([run], "train", open_scorer("oracle"))
    assert np.flatnonzero(~np.isnan(found.curves["entailment"])).tolist() == [4]


def test_an_nli_model_reads_the_quotes_in_a_row_and_then_the_claim(write_nli: Any, tmp_path: Path) -> None:
    folder = write_nli(tmp_path / "nli", ["CONTRADICTION", "ENTAILMENT", "NEUTRAL"])
    scorer = open_scorer(f"nli:{folder}")
    again = ("the dog", ("a cat",))
    claims = [("the cat sat", ("on a mat", "the dog")), again, ("the cat " * 10, ("too long",)), again]
    scores = scorer.score(claims)
    first, second = NLI(str(folder)).score([("on a mat the dog", "the cat sat"), ("a cat", "the dog")])
    assert scores == [pytest.approx(first, abs=1e-6), pytest.approx(second, abs=1e-6), None, scores[1]]
    assert first != pytest.approx(second, abs=1e-3)
    assert scorer.score([]) == [] and scorer.score(claims[::-1]) == scores[::-1]


@pytest.fixture
def hostile(run: Path) -> Path:
    """A run whose folder and rollouts try to leave their place."""
    folder = run.parent / HOSTILE.replace("/", "∕")
    run.rename(folder)
    dump(folder, "val", 8, [rollout(0, entailed=1, not_entailed=0), json.dumps({"output": "x", "gts": HOSTILE})])
    return folder


def test_the_page_is_one_file_with_its_figures_inside(
    hostile: Path, read_tags: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in hostile.rglob("*") if path.is_file()}
    assert main([str(hostile), "--entailment", "oracle"]) == 0
    assert "entailment by the exact oracle" in capsys.readouterr().out
    page = (hostile / "dynamics.html").read_text()
    tags = read_tags(page)
    assert "script" not in tags.seen and tags.seen.count("img") == len(FIGURES) == len(tags.links)
    inside = [base64.b64decode(link.removeprefix("data:image/png;base64,"), validate=True) for link in tags.links]
    assert inside == [(hostile / "dynamics" / f"{figure.name}.png").read_bytes() for figure in FIGURES]
    assert all(png.startswith(b"\x89PNG") for png in inside)
    assert "&lt;script&gt;" in page and page.count("Look for:") == len(FIGURES)
    assert {path: path.read_bytes() for path in before} == before  # the run may be going on
    assert not list(hostile.rglob("*.part"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{run}", "{run}"], "say where to write it with --out-dir FOLDER"),
        (["{run}"] * 7 + ["--out-dir=x"], "at most 6 can be drawn"),
        (["--out-dir=x", "runs/b"], "runs/b: no training run here"),
        (["{run}/../unrewarded"], "no step with reward_extra/score/mean is logged"),
        (["{run}", "--rollouts=train"], "give that as well"),
        (["{run}", "--entailment=oracle:x"], "expected oracle"),
        (["{run}", "--entailment=nli:{run}"], "entailment nli:"),
        (["{run}", "--out-dir={run}/metrics/attempt-1.jsonl"], "attempt-1.jsonl"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(run: Path, words: list[str], said: str, refusal: Any) -> None:
    log(run.parent / "unrewarded", 1, {0: validated(), 1: {"train/loss": 0.5}})
    assert said in refusal(main, [word.replace("{run}", str(run)) for word in words], first=False)


def test_a_browser_opens_it(hostile: Path, tmp_path: Path, opened: Callable[[Path], str]) -> None:
    assert main([str(hostile), "--entailment=oracle", f"--out-dir={tmp_path / 'page'}"]) == 0
    document = opened(tmp_path / "page" / "dynamics.html")
    assert "<title>Training dynamics: runs/&lt;script&gt;" in document, "a script ran, or the page did not open"
    assert document.count("<img") == len(FIGURES)
