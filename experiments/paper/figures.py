"""Figures 2 to 4, 6 and 7 of what was measured and trained here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.cases import Case, find_case
from eval_benchmarks.output.curves import BLUE, RED, Curves, by_step, png, read_curves, style
from eval_benchmarks.output.densities import draw_density
from eval_benchmarks.trials import ScorerTrials
from experiments.arm_report import grounding_figure, reward_figure
from experiments.arm_results import read_results
from experiments.dynamics.entailment import SPECS, entailment_by_step, open_scorer
from experiments.paper.bench_runs import TablesPlan
from experiments.paper.cells import Line
from experiments.paper.methods import ARMS, NEGATIVE, TRAINED
from experiments.paper.trained_judges import TrainedJudges
from rag_zeval.errors import InputError
from rag_zeval.stages.training_log import read_run

FIGURE_2 = "Figure 2: scores of faithful and unfaithful answers on WikiEval"
FIGURE_3 = "Figure 3: evidence grounding, claims per answer and entailment of the training rollouts"
FIGURE_4 = "Figure 4: reward of the training rollouts; compare curves only where the number of candidates is the same"
CURRICULA = (TRAINED, "static-3", "static-4")  # of Figure 4
SMOOTHING = 5  # steps of the moving average
PANELS = (("RAG-Zeval", "qwen-7b"), ("TruLens", "qwen-72b"), ("RAGAS", "qwen-72b"), ("RAG-Checker", "qwen-72b"))
X = np.linspace(-0.1, 1.1, 241)
JUDGES = ("RAG-Zeval w/o RL", "RAG-Zeval")  # of Figures 6 and 7, both of 7B


class PaperFigures(NamedTuple):
    """PNG by title; and a line for each figure, or part of one, that could not be drawn or shows other runs."""

    drawn: dict[str, bytes]
    notes: list[str]


def draw_figures(lines: Mapping[int, Sequence[Line]], plan: TablesPlan) -> PaperFigures:
    """Figure 2 of Table 1's rows, and Figures 3 and 4 of the arms that were trained, as far as they are there."""
    drawn, notes, judges = dict[str, bytes](), list[str](), plan.judges
    if image := score_densities(lines.get(1, ()), plan.settings.mocked):
        drawn[FIGURE_2] = image
    elif 1 in lines:
        notes.append(f"Figure 2: needs one of {', '.join(map(', '.join, PANELS))} in Table 1")
    curves = {arm: of for arm in CURRICULA if (of := judges.curves(arm))}
    if TRAINED in curves:
        measured, reason = with_entailment(judges, plan.settings.entailment)
        drawn[FIGURE_3] = grounding_figure(measured or curves[TRAINED], SMOOTHING)
        notes += [f"Figure 3 has no entailment: {reason}"] if reason else []
    if curves:
        drawn[FIGURE_4] = reward_figure(curves, SMOOTHING)
        if any(read_results(judges.experiment)[arm] for arm in curves):
            notes.append(f"Figure 4: of the trainings whose result files are in {judges.experiment.results}")
    else:
        notes.append("Figures 3, 4: need an arm that was trained here, or its results")
    return PaperFigures(drawn, notes)


def with_entailment(judges: TrainedJudges, spec: str | None) -> tuple[list[Curves], str | None]:
    """The curves of the trained judge's runs that are here, with how far quotes entail claims in the training rollouts;
    and why there are none, or no entailment in them.
    """
    if spec is None:
        return [], f"entailment={SPECS} measures it in the saved rollouts"
    curves, reason, scorer = list[Curves](), None, open_scorer(spec)
    for name in judges.logged(TRAINED):
        steps = read_run(judges.folder(name))
        of_run = read_curves(steps)
        try:
            points, _ = entailment_by_step(judges.folder(name), steps, "train", scorer)
            of_run["entailment"] = by_step(points, max(steps))[1:]
        except InputError as error:
            reason = str(error)
        curves.append(of_run)
    return curves, reason if curves else f"no run of {TRAINED} with its rollouts is here"


def judged_example(lines: Mapping[int, Sequence[Line]], example: str | int | None) -> Case | None:
    """What the untrained and the trained judge of 7B make of one example: of Table 2, else of Table 1.

    `example`: its id, None: where they differ most. None if there is none that both judged.
    """
    for table in (2, 1):
        of_method = {
            line.row.printed.method: line.scorer for line in lines.get(table, ()) if line.row.model == "qwen-7b"
        }
        judges = [scorer for method in JUDGES if (scorer := of_method.get(method)) is not None]
        if case := find_case(judges, None if example is None else str(example)):
            return case
    return None


def score_densities(lines: Sequence[Line], mocked: Sequence[str] = ()) -> bytes | None:
    """Figure 2 as PNG, of the rows of Table 1: a panel for each of the paper's four methods that was measured.

    None without any. mocked: models whose place the mock judge takes; titles say so. As in the paper, the scores of
    faithful answers are red, and those of unfaithful ones blue.
    A kernel density (Gaussian, Scott's bandwidth) of all trials' scores; scores that are all the same are drawn as a
    line at their place.
    """
    from matplotlib.figure import Figure

    measured = {
        (line.row.printed.method, line.row.model): line.scorer
        for line in lines
        if line.scorer and not line.row.original
    }
    panels = [(name, scorer) for name in PANELS if (scorer := measured.get(name)) is not None]
    if not panels:
        return None
    figure = Figure(figsize=(3.4 * len(panels), 3.2), layout="constrained")
    for ax, ((method, model), scorer) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        style(ax, "score")
        ax.set_title(f"{method}, {panel_judge(method, model, scorer, mocked)}", fontsize=9)
        for scores, colour, label in zip(_scores(scorer), (RED, BLUE), ("faithful", "unfaithful"), strict=True):
            draw_density(ax, scores, X, colour, shade=0.12, label=label)
        ax.set_xlim(X[0], X[-1])
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=8, frameon=False)
    return png(figure)


def panel_judge(method: str, model: str, scorer: ScorerTrials, mocked: Sequence[str]) -> str:
    """Who gave the scores of a panel, never a model that did not."""
    if method in ARMS:
        return f"judge in {scorer.model}"
    return f"mock judge in the place of {model}" if model in mocked else model


def _scores(scorer: ScorerTrials) -> Any:
    benchmark = scorer.benchmark
    assert isinstance(benchmark, Wikieval)
    pairs = [pair for trial in scorer.trials for pair in benchmark.scores(trial.scored, NEGATIVE)]
    return np.array(pairs, dtype=float).reshape(-1, 2).T
