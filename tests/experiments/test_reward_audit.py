"""The audit of a run: a small rollout file of which every count is known, and a finished bench."""

import html
import json
import random
import re
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.__main__ import main as bench
from experiments.reward_audit.__main__ import main
from experiments.reward_audit.findings import audit
from experiments.reward_audit.replies import BeforeAndAfter, Replies, of_run
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.stages import world

HOSTILE = "<script>document.title='moved'</script>"
PASSAGE = "The old mill stood by the river. It was closed in the wet spring of that year."
QUOTE = "It was closed in the wet spring of that year."
ANSWERS = ["The mill was closed in spring. It was old.", "The mill burnt."]


def claim(text: str, supported: bool = True, quote: str = QUOTE, analysis: str = "") -> dict[str, Any]:
    fields = {"claim": text, "is_supported": supported, "analysis": analysis or f"About: {text}"}
    return {**fields, "grounding_evidence": [quote] if quote else []}


def rollout(
    uid: str,
    claims: list[list[dict[str, Any]]],
    *,
    echoes: list[str] | None = None,
    alphas: tuple[float, ...] = (0.0, -1.0),
    answers: list[str] | None = None,
    variant: str = "paper",
    passage: str = PASSAGE,
) -> dict[str, Any]:
    """A row as verl writes it."""
    answers = answers or ANSWERS
    [message] = judge_messages(variant, "What of the mill?", passage, answers)
    items = [{"id": "ABCD"[at], "answer": (echoes or answers)[at], "atomic_claims": of} for at, of in enumerate(claims)]
    truth = {"alphas": alphas, "reference": passage, "variant": variant, "answers": answers}
    prompt = f"user\n{message['content']}\nassistant\n"
    return {"input": prompt, "output": json.dumps(items), "gts": json.dumps(truth), "uid": f"{uid}_0_0", "score": 1.0}


PLAIN = [
    [claim("The mill was closed in spring."), claim("The mill was old.", quote="The old mill stood")],
    [claim("The mill burnt.", False, "")],
]
GAMED = [
    [
        claim("The mill was closed in spring.", quote=QUOTE.replace(" ", ""), analysis="It fits."),
        claim("the mill was  closed in spring.", analysis="It fits."),
        claim("The mill was old.", analysis="It fits."),
    ],
    [claim("The mill burnt.", False, "", analysis="Not so.")],
]


def write_run(folder: Path, steps: dict[int, list[Any]], which: str = "train", torn: str = "") -> Path:
    (folder / "metrics").mkdir(parents=True, exist_ok=True)
    (folder / "rollouts" / which).mkdir(parents=True, exist_ok=True)
    logged = "".join(json.dumps({"step": step, "data": {}}) + "\n" for step in steps)
    (folder / "metrics" / "attempt-1.jsonl").write_text(logged)
    for step, rows in steps.items():
        lines = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        (folder / "rollouts" / which / f"{step}.jsonl").write_text(lines + torn)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    broken = {**rollout("b", PLAIN), "output": "nonsense"}
    late = [
        rollout("c", GAMED),
        rollout("d", GAMED, alphas=(-1.0, 0.0)),
        rollout("d", PLAIN, echoes=["", ""]),
        "no rollout",
        {**rollout("e", PLAIN), "input": HOSTILE},
    ]
    return write_run(tmp_path / "run", {1: [rollout("a", PLAIN), broken], 2: late}, torn='{"input": "')


def figures_of(run: Path, *words: str) -> list[dict[str, Any]]:
    assert main([str(run), *words]) == 0
    comparisons: list[dict[str, Any]] = json.loads((run / "reward_audit.json").read_text())["comparisons"]
    return comparisons


def test_every_figure_is_what_was_put_into_the_rollouts(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [found] = figures_of(run)
    values = {name: (line["before"]["value"], line["after"]["value"]) for name, line in found["figures"].items()}
    counts = {name: (line["before"]["n"], line["after"]["n"]) for name, line in found["figures"].items()}
    expected = {
        "format_failed": (1 / 2, 1 / 3),
        "echo_differs": (0, 1 / 3),
        "claims": (1.5, 2),
        "claims_alpha_0": (2, 2),  # GAMED with its three claims once for α = 0 and once for α = -1
        "claims_alpha_-1": (1, 2),
        "claims_A": (2, 3),
        "claims_B": (1, 1),
        "supported": (2 / 3, 3 / 4),
        "supported_alpha_0": (1, 3 / 4),
        "supported_alpha_-1": (0, 3 / 4),
        "supported_A": (1, 1),
        "supported_B": (0, 0),
        "quotes_spaceless": (0, 1 / 3),
        "quotes_unrelated": (0, 2 / 3),  # one has no words without its spaces, one is of another claim
        "claims_repeated": (0, 1 / 4),
        "analyses_repeated": (0, 3 / 4),
    }
    assert {name for name in values if not name.startswith("rho")} == expected.keys()
    for name, sides in expected.items():
        assert values[name] == pytest.approx(sides), name
    assert counts["quotes_spaceless"] == (2, 6) and counts["claims_repeated"] == (3, 8) and counts["claims_A"] == (1, 2)
    assert [(found[side]["label"], found[side]["replies"]) for side in ("before", "after")] == [
        ("step 1", 2),
        ("step 2", 3),
    ]
    said = capsys.readouterr().out
    assert "step 2: 2 lines left out (first: train/2.jsonl:4: not valid JSON" in said
    assert found["after"]["damaged"][1].startswith("train/2.jsonl:5: field 'input'")


def test_the_intervals_resample_prompts(run: Path) -> None:
    """Of one prompt nothing can be resampled; a share of 0 still has a width."""
    [found] = figures_of(run)
    figures = found["figures"]
    assert figures["claims"]["before"]["prompts"] == 1 and figures["claims"]["before"]["low"] is None
    never = figures["supported_B"]["after"]
    assert (never["value"], never["low"], never["prompts"]) == (0, pytest.approx(0, abs=1e-9), 2) and never[
        "high"
    ] > 0.5
    some = [rollout(f"p{at}", PLAIN if at % 2 else GAMED) for at in range(8)]
    [alone] = figures_of(write_run(run, {1: some, 2: some}))
    [tenfold] = figures_of(write_run(run, {1: some * 10, 2: some}))
    once, again = (of["figures"]["claims_A"]["before"] for of in (alone, tenfold))
    assert once["low"] == again["low"] < again["value"] < again["high"] == once["high"]


def nano_rollout(seed: int, by: str) -> dict[str, Any]:
    """A judge of the nano world: by the truth, or by what is shown first."""
    rng = random.Random(seed)
    asked = world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)
    answers = [world.answer_with_errors(asked, wrong, rng) for wrong in rng.sample(range(5), 4)]
    claims = []
    for at, answer in enumerate(answers):
        said = [world.read_claim(sentence + ".") for sentence in answer.rstrip(".").split(". ")]
        claims.append(
            [
                claim(
                    world.claim(asked.person, key, value),
                    at < 2 if by == "place" else asked.facts[key] == value,
                    asked.sentences[key],
                )
                for key, value in filter(None, said)
            ]
        )
    options: dict[str, Any] = {"alphas": (0.0, -0.5, -1.0, -1.4), "answers": answers, "passage": asked.passage}
    return rollout(f"n{seed}", claims, variant="compact", **options)


def test_in_the_nano_world_the_truth_is_held_fixed(tmp_path: Path) -> None:
    sides = {1: [nano_rollout(at, "truth") for at in range(30)], 2: [nano_rollout(at, "place") for at in range(30)]}
    [found] = figures_of(write_run(tmp_path / "nano", sides))
    figures = found["figures"]
    assert "echo_differs" not in figures  # this prompt does not ask for an echo
    assert figures["verdicts_right"]["before"]["value"] == 1.0 == figures["entailed"]["before"]["value"]
    assert figures["verdicts_right"]["after"]["value"] < 0.7 and figures["verdicts_right"]["apart"]
    assert figures["entailed"]["after"]["value"] < 0.9
    assert figures["rho_position_partial"]["before"]["value"] is None  # the score is the support: nothing is left
    assert figures["rho_position_partial"]["after"]["high"] < -0.7
    assert figures["supported_A"]["after"]["value"] == 1.0 and figures["supported_D"]["after"]["value"] == 0.0


def test_validation_rollouts_and_later_steps(run: Path) -> None:
    steps = {step: [rollout(f"s{step}", PLAIN)] for step in range(11)}
    comparison = of_run(write_run(run, steps, "val"), "val")
    assert (comparison.before.label, comparison.after.label) == ("steps 0 to 2", "steps 8 to 10")
    assert comparison.name == "validation rollouts"
    sections = audit(BeforeAndAfter("x", comparison.before, Replies("empty")))
    assert all(line.after.n == 0 for section in sections for line in section.lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{run}", "--rollouts=val"], "rollouts of 0 logged steps; early and late steps need two"),
        (["{run}/metrics"], "no training run here"),
        (["{run}", "{run}/../unfinished"], "manifest.json: is missing"),
        (["{run}/../unread"], "no rollout of step 2 can be read (first: train/2.jsonl:1: not valid JSON"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(run: Path, words: list[str], said: str, refusal: Any) -> None:
    write_run(run.parent / "unread", {1: [rollout("a", PLAIN)], 2: ["no rollout"]})
    (run.parent / "unfinished" / "rows").mkdir(parents=True)
    assert said in refusal(main, [word.replace("{run}", str(run)) for word in words])


def test_the_same_prompts_have_a_paired_difference(run: Path) -> None:
    def judged(*replies: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        return [rollout(f"p{at}", claims) for at, claims in enumerate(replies)]

    sides = {1: judged(PLAIN, GAMED, PLAIN, PLAIN), 2: judged(GAMED, GAMED, GAMED, PLAIN)}
    [found] = figures_of(write_run(run, sides))
    claims = found["figures"]["claims_A"]  # 2, 3, 2, 2 before and 3, 3, 3, 2 after
    assert claims["difference"]["value"] == pytest.approx(2 / 4) and claims["difference"]["n"] == 4
    assert 0 <= claims["difference"]["low"] < claims["difference"]["high"] == 1
    assert found["figures"]["claims_B"]["difference"] == {"value": 0, "low": None, "high": None, "n": 4, "prompts": 4}
    assert not found["figures"]["claims_B"]["apart"]
    spaceless = found["figures"]["quotes_spaceless"]  # 1 of 9 quotes before, 3 of 11 after
    assert spaceless["difference"]["value"] == pytest.approx(3 / 11 - 1 / 9)
    sides[2] = judged(*[GAMED] * 4)
    sides[1] = judged(*[PLAIN] * 4)
    [found] = figures_of(write_run(run, sides))
    assert found["figures"]["claims_A"]["difference"]["low"] == 1 and found["figures"]["claims_A"]["apart"]
    [found] = figures_of(write_run(run, {1: sides[1], 2: [*sides[2], rollout("new", PLAIN)]}))
    assert found["figures"]["claims_A"]["difference"] is None


def test_a_bench_compares_its_first_model_with_its_last(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    models = "models=[checkpoints/nano-base,checkpoints/nano-judge]"
    words = [models, "benchmarks=[nano_eval]", "scorers=[rag_zeval]", "nano_eval.n=3", "bootstrap.draws=20"]
    assert bench([*words, "judge.processes=1", f"out_dir={out}"]) == 0
    _, found = figures_of(run, str(out))
    assert found["name"] == "nano_eval"
    assert [found[side]["label"] for side in ("before", "after")] == ["checkpoints/nano-base", "checkpoints/nano-judge"]
    assert found["before"]["replies"] == found["after"]["replies"] == 6
    assert not any("alpha" in name or name == "echo_differs" for name in found["figures"])
    assert found["figures"]["claims_A"]["after"]["n"] == 6 and found["figures"]["claims_D"]["after"]["n"] == 3
    [rows] = (out / "rows").glob("*nano-judge*")
    first, *others = rows.read_text().splitlines()
    partly = json.loads(first)
    partly["parts"]["trajectory"][0] = None  # of one answer there is no judgement
    rows.write_text("\n".join([json.dumps(partly), *others]) + "\n")
    [found] = figures_of(out)
    assert found["figures"]["claims_A"]["after"]["n"] == 5 and found["figures"]["claims_A"]["difference"]["n"] == 5


@pytest.fixture
def hostile_page(run: Path) -> Path:
    folder = run.rename(run.parent / HOSTILE.replace("/", "∕"))
    figures_of(folder)
    return folder / "reward_audit.html"


def test_the_page_is_one_file_without_scripts(hostile_page: Path, read_tags: Any) -> None:
    page = hostile_page.read_text()
    tags = read_tags(page)
    assert "script" not in tags.seen and tags.links == [] and "&lt;script&gt;" in page
    assert page.count("Look for:") == page.count("<h3>") >= 5


def test_a_browser_runs_no_text_of_it(hostile_page: Path, opened: Callable[[Path], str]) -> None:
    title = rf"<title>Reward audit: [^<]*{re.escape(html.escape(HOSTILE.partition('=')[0]))}"
    assert re.search(title, opened(hostile_page)), "a script ran, or the page did not open"


def test_the_page_about_rewards_names_figures_that_there_are(run: Path) -> None:
    write_run(run, {1: [rollout("a", PLAIN), rollout("b", GAMED)], 2: [rollout("c", GAMED)]})
    names = {line.name for section in audit(of_run(run, "train")) for line in section.lines}
    nano = {step: [nano_rollout(at, "place") for at in range(4)] for step in (1, 2)}
    names |= {line.name for section in audit(of_run(write_run(run, nano), "train")) for line in section.lines}
    table = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text().split("| figure |\n", 1)[1].split("\n\n")[0]
    told = {name for row in table.splitlines()[1:] for name in re.findall(r"`([a-z_*]+)`", row.rsplit("|", 2)[1])}
    assert len(told) >= 10
    for name in told:
        assert any(fnmatch(known, name) for known in names), name
