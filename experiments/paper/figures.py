"""The paper's Figures 2 to 4, 6 and 7, drawn from what was measured and trained here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.cases import Case, find_case
from eval_benchmarks.output.densities import draw_density
from eval_benchmarks.output.figure import BLUE, RED, png, style
from eval_benchmarks.trials import ScorerTrials
from experiments.arm_report import grounding_figure, reward_figure
from experiments.arm_results import read_results
from experiments.dynamics.entailment import SPECS, entailment_by_step, open_scorer
from experiments.paper.bench_runs import TablesPlan
from experiments.paper.cells import Line
from experiments.paper.methods import ARMS, NEGATIVE, TRAINED
from experiments.paper.trained_judges import TrainedJudges
from experiments.training_curves import Curves, by_step, read_curves
from rag_zeval.errors import InputError
from rag_zeval.stages.training_log import read_run

FIGURE_2 = "Figure 2: scores of faithful and unfaithful answers on WikiEval"
FIGURE_3 = "Figure 3: evidence grounding, claims per answer and entailment of the training rollouts"
FIGURE_4 = "Figure 4: reward of the training rollouts; compare curves only where the number of candidates is the same"
CURRICULA = (TRAINED, "static-3", "static-4")  # the arms in Figure 4
PANELS = (("RAG-Zeval", "qwen-7b"), ("TruLens", "qwen-72b"), ("RAGAS", "qwen-72b"), ("RAG-Checker", "qwen-72b"))
X = np.linspace(-0.1, 1.1, 241)
JUDGES = ("RAG-Zeval w/o RL", "RAG-Zeval")  # the judges in Figures 6 and 7, both of 7B


def draw_figures(lines: Mapping[int, Sequence[Line]], plan: TablesPlan) -> tuple[dict[str, bytes], list[str]]:
    """Draw Figure 2 from the rows of Table 1, and Figures 3 and 4 from trained arms, as far as these exist.

    Returns PNGs by title, and notes on what could not be drawn or shows other runs.
    """
    drawn, notes, judges = dict[str, bytes](), list[str](), plan.judges
    if image := score_densities(lines.get(1, ()), plan.settings.mocked):
        drawn[FIGURE_2] = image
    elif 1 in lines:
        notes.append(f"Figure 2: needs one of {', '.join(map(', '.join, PANELS))} in Table 1")
    curves = {arm: of for arm in CURRICULA if (of := judges.curves(arm))}
    if TRAINED in curves:
        measured, reason = with_entailment(judges, plan.settings.entailment)
        drawn[FIGURE_3] = grounding_figure(measured or curves[TRAINED])
        notes += [f"Figure 3 has no entailment: {reason}"] if reason else []
    if curves:
        drawn[FIGURE_4] = reward_figure(curves)
        if any(read_results(judges.experiment)[arm] for arm in curves):
            notes.append(f"Figure 4: of the trainings whose result files are in {judges.experiment.results}")
    else:
        notes.append("Figures 3, 4: need an arm that was trained here, or its results")
    return drawn, notes


def with_entailment(judges: TrainedJudges, spec: str | None) -> tuple[list[Curves], str | None]:
    """Return the training curves of the trained judge with entailment added, and why something is missing, else None.

    There is a curve for each run whose log is here. Entailment is how far quotes entail claims in the training
    rollouts. The reason says why there are no curves, or why a curve has no entailment.
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
    """Return one example as the untrained and the trained 7B judge judged it, from Table 2 or else from Table 1.

    example: its id. None takes the example on which the two judges differ most. Returns None if both judged no such
    example.
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
    """Draw Figure 2 from the rows of Table 1, with a panel for each of the paper's four methods that was measured.

    Returns PNG; None if none of the methods was measured. mocked: the models that the mock judge stands in for; the
    titles say so. As in the paper, the scores of faithful answers are red, and those of unfaithful ones blue. A curve
    is a kernel density (Gaussian, Scott's bandwidth) of the scores of all trials. If all scores are the same, it is a
    vertical line.
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
    """Return who gave the scores of a panel. If the mock judge stood in for a model, it says so."""
    if method in ARMS:
        return f"judge in {scorer.model}"
    return f"mock judge in the place of {model}" if model in mocked else model


def _scores(scorer: ScorerTrials) -> Any:
    benchmark = scorer.benchmark
    assert isinstance(benchmark, Wikieval)
    pairs = [pair for trial in scorer.trials for pair in benchmark.scores(trial.scored, NEGATIVE)]
    return np.array(pairs, dtype=float).reshape(-1, 2).T
