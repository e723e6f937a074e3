"""The paper's tables with our numbers, as Markdown, LaTeX, CSV and one HTML page.

Table 6 compares the settings of the training run with the paper's, and Table 7 the rows of the ranker. A last table
says whether the differences in Tables 3 to 5 are significant: the trained judge minus each arm, here and in the paper.
"""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from omegaconf import OmegaConf

from eval_benchmarks.output.cases import Case, case_page
from eval_benchmarks.output.comparisons import paired_test
from eval_benchmarks.output.page import embedded, render, write_or_remove
from eval_benchmarks.output.published import SETTINGS, SFT_ROWS
from eval_benchmarks.output.table import NONE, Table, latex, markdown
from experiments.markdown import TEMPLATES
from experiments.paper.bench_runs import TablesPlan
from experiments.paper.cells import LEVEL, Cell, Line
from experiments.paper.figures import FIGURE_2, FIGURE_3, FIGURE_4
from experiments.paper.methods import ARM_TABLES, NEGATIVE, OTHER_NEGATIVE, TRAINED, PaperRow
from rag_zeval.files import Row, write_text
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.stages.config import load_config
from rag_zeval.text import with_interval

TITLES = {
    1: "Table 1: WikiEval, how often the grounded answer scores higher; ties count as right, half, wrong",
    2: "Table 2: RAGChecker meta-evaluation, correlation with people's preferences",
    3: "Table 3: the accuracy reward, all pairs or the best only",
    4: "Table 4: the curriculum, and a fixed number of candidates",
    5: "Table 5: evidence, and a ranker without a trajectory",
    8: "Table 8: metrics of ARES and TruLens on the RAGChecker meta-evaluation",
}
NEGATIVES = (
    f"Table 1: the paper's values are compared with those for the negative {NEGATIVE}, because only with it BLEU and "
    f"ROUGE-L give the printed .860 and .900. 'ungrounded' has the same measures for {OTHER_NEGATIVE}, the answer "
    "written without the context, which the paper's text describes; it prints no values for it"
)
DAGGER = f"†: better than every other method measured, paired tests, Holm's p < {LEVEL}"
CASES = "cases.html"
RAGCHECKER_INSTANCES = 280  # pairs of answers in RAGChecker's meta-evaluation
ARM_LEVEL = 0.05  # significance level of these differences
STEP = 0.001
DIFFERENCE_HEADS = ("method", "metric", "minus it, here", "p", "minus it, paper", "scores must correlate above")
DIFFERENCES = "Tables 3 to 5: is it a difference? The trained judge minus each arm"
EXPLAINED = (
    "Tables 3 to 5: 'here' has the paired difference with its 95% interval over instances, and over seeds if there are "
    f"several. A difference of the paper, over {RAGCHECKER_INSTANCES} instances, has p < {ARM_LEVEL} only if the "
    "scores of the two judges correlate more than the last column says (Williams' test, Steiger 1980; for Pearson). "
    "The paper does not say how much they do"
)
StandIn = Callable[[PaperRow], str | None]
SHORT = {
    f"{negative}/pairwise_{ties}": f"{ties}{what}"
    for negative, what in {NEGATIVE: "", OTHER_NEGATIVE: ", ungrounded"}.items()
    for ties in ("best", "middle", "worst")
}
CELL_HEADS = "metric value ci_low ci_high n trials significant printed open".split()  # columns of a cell in the CSV
SETTING_KEYS = {  # keys of configs/train.yaml
    "batch size": "verl.data.train_batch_size",
    "optimizer": "verl.actor_rollout_ref.actor.optim.optimizer",
    "learning rate": "verl.actor_rollout_ref.actor.optim.lr",
    "warm-up steps": "verl.actor_rollout_ref.actor.optim.lr_warmup_steps",
    "schedule": "verl.actor_rollout_ref.actor.optim.lr_scheduler_type",
    "KL coefficient": "verl.actor_rollout_ref.actor.kl_loss_coef",
    "rollout temperature": "verl.actor_rollout_ref.rollout.temperature",
    "rollouts": "verl.actor_rollout_ref.rollout.n",
    "rollout length": "verl.data.max_response_length",
}


def write_page(
    plan: TablesPlan,
    lines: Mapping[int, Sequence[Line]],
    notes: Sequence[str],
    figures: Mapping[str, bytes],
    case: Case | None,
) -> Path:
    """Write index.html, tables.md, tables.tex, tables.csv, the figures, and cases.html if there is a case.

    A figure or case that an earlier run left, and that this one does not have, is removed. lines: those of the measured
    tables. figures: PNG by title, `Figure N: ...`. Returns the path of index.html.
    """
    out, tables = Path(plan.settings.out_dir), all_tables(plan, lines)
    needs = {line.row: why for of_table in lines.values() for line in of_table if (why := line.cells[0].open)}
    about = {NEGATIVES: 1 in lines, EXPLAINED: bool(set(ARM_TABLES) & set(lines)), DAGGER: True}
    notes = [*notes, *open_rows(needs), *(note for note, needed in about.items() if needed)]
    write_text(out / "tables.md", markdown(tables, notes))
    write_text(out / "tables.tex", latex(tables, notes))
    write_text(out / "tables.csv", _comma_separated(lines, plan.stand_in))
    for title in (FIGURE_2, FIGURE_3, FIGURE_4):
        write_or_remove(out / f"{title.partition(':')[0].lower().replace(' ', '-')}.png", figures.get(title))
    write_or_remove(out / CASES, case_page(case).encode() if case else None)
    page = render(
        "paper.html",
        folder=TEMPLATES,
        tables=tables,
        notes=notes,
        figures={title: embedded(image) for title, image in figures.items()},
        prompt=VARIANTS["paper"].template,
        cases=CASES if case else None,
    )
    write_text(out / "index.html", page)
    return out / "index.html"


def all_tables(plan: TablesPlan, lines: Mapping[int, Sequence[Line]], intervals: bool = True) -> list[Table]:
    """Return the chosen tables in the order of their numbers, and then the table of differences, if there is one."""
    tables = {number: measured_table(number, of_table, plan.stand_in, intervals) for number, of_table in lines.items()}
    if 6 in plan.settings.tables:
        tables[6] = settings_table(plan.settings.profile)
    if 7 in plan.settings.tables:
        tables[7] = ranker_rows_table(plan.judges.ranker_rows())
    compared = differences_table(lines)
    return [*(tables[number] for number in sorted(tables)), *filter(None, [compared])]


def measured_table(number: int, lines: Sequence[Line], stand_in: StandIn, intervals: bool) -> Table:
    """Return a table of measured cells and the paper's values. Brackets after a model hold what stands in for it."""
    columns = {SHORT.get(cell.metric, cell.metric): cell.printed is not None for cell in lines[0].cells}
    values = (
        head for name, has_paper in columns.items() for head in ([name, f"{name}, paper"] if has_paper else [name])
    )
    heads = ["method", "model", "scorer", *values, "n", "trials"]
    where = f" ({lines[0].row.benchmark})" if number in ARM_TABLES else ""
    return Table(TITLES[number] + where, heads, [_cells(line, stand_in(line.row), intervals) for line in lines])


def _cells(line: Line, stand_in: str | None, intervals: bool) -> list[str]:
    printed, first = line.row.printed, line.cells[0]
    dagger = "†" if printed.significant else ""
    numbers = [
        text
        for cell in line.cells
        for text in (_shown(cell, intervals), None if cell.printed is None else f"{cell.printed:.3f}{dagger}")
        if text is not None
    ]
    counts = [NONE, NONE] if first.open else [str(first.n), str(first.trials)]
    model = f"{printed.model} ({stand_in})" if stand_in and line.scorer else printed.model or NONE
    return [line.row.name, model, line.scorer.scorer if line.scorer else NONE, *numbers, *counts]


def _shown(cell: Cell, intervals: bool) -> str:
    low, high = (cell.ci_low, cell.ci_high) if intervals else (None, None)
    return with_interval(cell.value, low, high) + ("†" if cell.significant else "")


def open_rows(needs: Mapping[PaperRow, str]) -> list[str]:
    """Return a line for each thing that rows need, with the names of these rows."""
    of_reason: dict[str, list[str]] = {}
    for row, why in needs.items():
        by = f" by {row.model}" if row.model else ""
        of_reason.setdefault(why, []).append(f"{row.name}{by} (Table {row.printed.table})")
    return [f"open, {why}: {', '.join(rows)}" for why, rows in of_reason.items()]


def _comma_separated(lines: Mapping[int, Sequence[Line]], stand_in: StandIn) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", "method", "model", "stand_in", "scorer", *CELL_HEADS])
    for number, of_table in lines.items():
        for line in of_table:
            scorer = line.scorer.scorer if line.scorer else None
            for cell in line.cells:
                values = (getattr(cell, head) for head in CELL_HEADS)
                writer.writerow([number, line.row.name, line.row.model, stand_in(line.row), scorer, *values])
    return text.getvalue()


def settings_table(profile: str) -> Table:
    """Return Table 6: each of the paper's settings beside the profile's."""
    config = load_config("train", [f"profile={profile}"])
    here = {name: OmegaConf.select(config, key) for name, key in SETTING_KEYS.items()}
    data, actor = config.verl.data, config.verl.actor_rollout_ref.actor
    here["gradient accumulation"] = data.train_batch_size // actor.ppo_mini_batch_size
    here["epochs"] = f"{len(config.stages)} stages, each once" if config.verl.trainer.total_epochs == 1 else NONE
    lines = [(name, f"{here[name]}", f"{value}") for name, value in SETTINGS.items()]
    return Table("Table 6: settings of the training run", ("setting", profile, "paper"), lines)


def ranker_rows_table(stages: Sequence[Row] | None) -> Table:
    """Return Table 7: questions and sets of answers, for each number of candidates and in total.

    stages: the counts that `train.sft.rows.draw_lessons` returns for each stage; None if there are no answers to count.
    """
    here = {stage["k"]: stage for stage in stages or ()}
    numbers = [
        (str(k), *(here.get(k, {}).get(what) for what in ("questions", "sets")), *printed)
        for k, printed in SFT_ROWS.items()
    ]
    totals = [None if None in column else sum(column) for column in list(zip(*numbers, strict=True))[1:]]
    lines = [
        (k, *(NONE if number is None else f"{number:,}" for number in row))
        for k, *row in [*numbers, ("total", *totals)]
    ]
    heads = ("candidates", "questions", "sets", "questions, paper", "sets, paper")
    return Table("Table 7: rows of the SFT ranker", heads, lines)


def differences_table(lines: Mapping[int, Sequence[Line]]) -> Table | None:
    """Return a table with a line for each arm and metric of Tables 3 to 5; None if none of them was chosen."""
    found: list[tuple[str, ...]] = []
    for number in ARM_TABLES:
        of_table = lines.get(number, ())
        for reference in (line for line in of_table if line.row.arm == TRAINED):
            for arm in (line for line in of_table if line.row.arm != TRAINED):
                pairs = zip(reference.cells, arm.cells, strict=True)
                found += [_compared(reference, arm, one, other) for one, other in pairs]
    return Table(DIFFERENCES, DIFFERENCE_HEADS, found) if found else None


def _compared(reference: Line, arm: Line, one: Cell, other: Cell) -> tuple[str, ...]:
    here, p = NONE, NONE
    if reference.scorer and arm.scorer and one.open is None and other.open is None:
        own, minus = reference.scorer.metrics[one.metric], arm.scorer.metrics[other.metric]
        if test := paired_test(own, minus, reference.draws):
            low, high = test.interval or (None, None)
            here = with_interval(test.difference, low, high, "+.3f")
            p = NONE if test.p is None else f"{test.p:.4f}"
    assert one.printed is not None and other.printed is not None
    needed = correlation_needed(one.printed, other.printed, RAGCHECKER_INSTANCES) if one.metric == "pearson" else None
    printed = f"{one.printed - other.printed:+.3f}"
    return arm.row.name, one.metric, here, p, printed, NONE if needed is None else f"{needed:.3f}"


def correlation_needed(first: float, second: float, n: int) -> float | None:
    """Return how strongly two scorers must correlate for the difference of their correlations to be significant.

    first, second: Pearson's r of each with the same labels, of n instances. Returns the smallest correlation between
    their values, in steps of STEP, at which Williams' t (Steiger 1980, Psychological Bulletin 87, equation 7) has
    p < ARM_LEVEL, two-sided. None if there is no such correlation.
    """
    from scipy import stats

    least = stats.t.ppf(1 - ARM_LEVEL / 2, n - 3)
    highest = first * second + math.sqrt((1 - first**2) * (1 - second**2))  # no three variables can correlate more
    for between in np.arange(0.0, highest, STEP):
        determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
        noise = 2 * (n - 1) / (n - 3) * determinant + ((first + second) / 2) ** 2 * (1 - between) ** 3
        if abs(first - second) * math.sqrt((n - 1) * (1 + between) / noise) > least:
            return float(between)
    return None
