"""Writes a judge card: one Markdown page on how far a judge can be trusted, from results that people labelled."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.audit.corrected_table import groups_of, means_by_group
from rag_zeval.audit.labelled_results import LabelledResults, read_labelled
from rag_zeval.audit.sheet import Item
from rag_zeval.budget import Price
from rag_zeval.files import Row, write_text
from rag_zeval.results import COSTS, SHOWN, ResultFile, judge_of
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import cost_lines, summarize
from rag_zeval.statistics.bootstrap import mean_interval
from rag_zeval.statistics.judge_bias import FEATURES, JudgedAnswer, judge_bias
from rag_zeval.templates import TEMPLATES, templates
from rag_zeval.text import in_markdown, with_interval


@dataclass(frozen=True)
class Consistency:
    """How much the scores of an answer differ between trials, over the answers with scores in several trials.

    answers: their number. same: how many of them have the same score in all trials. spread: the mean of largest minus
    smallest score. interval: its 95% bootstrap interval over cases; None if there is only one case.
    """

    answers: int
    same: int
    spread: float
    interval: tuple[float, float] | None


def write_judge_card(
    path: Path, sheet: Path, results: Path, threshold: float = 0.5, prices: Mapping[str, Price] | None = None
) -> None:
    """Write the card of the judge whose results a labelled sheet was drawn from. Missing facts are shown as unknown.

    threshold: the minimum score that counts as good. prices: by name of the model.
    Raises InputError as `read_labelled` does, and for a result file that lacks the fields of a report.
    """
    labelled = read_labelled(sheet, results, threshold)
    rows = [row for row in ResultFile(results, {**SHOWN, **COSTS}) if row["metric"] == labelled.plan.metric]
    models = {row.get("model") for row in rows}
    spending = Spending({name: price for name, price in (prices or {}).items() if name in models})
    for row in rows:
        spending.add(row)
    summary = summarize(rows)
    judged = _judged_answers(labelled, rows)
    timed = [row["seconds"] for row in rows if row["calls"]]
    card = templates(TEMPLATES, filters={"plain": in_markdown}, trim_blocks=True, keep_trailing_newline=True)
    text = card.get_template("judge_card.md").render(
        labelled=labelled,
        files=(sheet.name, results.name),
        judges=sorted(filter(None, {judge_of(row) for row in rows})),
        summary=summary,
        means=means_by_group(groups_of(labelled.items), labelled.labels, labelled.plan),
        by_feature=means_by_group(_groups_by_feature(labelled.items, judged), labelled.labels, labelled.plan),
        bias={
            name: [
                with_interval(one.value, one.low, one.high, "+.3f") if one else "unknown"
                for one in (bias.correlation, bias.partial)
            ]
            for name, bias in judge_bias(judged).items()
        },
        consistency=_consistency(rows),
        costs=cost_lines(summary, spending),
        dollars=spending.dollars,
        seconds=statistics.fmean(timed) if timed else None,
    )
    write_text(path, text)


def _judged_answers(labelled: LabelledResults, rows: Sequence[Row]) -> list[JudgedAnswer]:
    """Return the items with the position of their answers in the prompt. The support is the label, or None."""
    places = {(row["case"], system): at for row in rows for at, system in enumerate(row["systems"], 1)}
    return [
        JudgedAnswer(
            prompt=item.case,
            position=places[item.case, item.system],
            answer=item.answer,
            passage="\n".join(text for _, text in item.sources),
            score=item.score,
            support=labelled.labels[item.id].value if item.id in labelled.labels else None,
        )
        for item in labelled.items
    ]


def _groups_by_feature(items: Sequence[Item], judged: Sequence[JudgedAnswer]) -> dict[str, Sequence[Item]]:
    """Group the items by length of the answer (up to the median, or longer) and by position in the prompt.

    If no answer is longer than the median, the longest ones count as longer. A feature that is the same for all items
    gives no groups.
    """
    lengths, places = ([FEATURES[name](one) for one in judged] for name in ("length", "position"))
    longest = max(lengths)
    middle = min(statistics.median_low(lengths), max((n for n in lengths if n < longest), default=longest))
    words = [f"answers of at most {middle:g} words" if n <= middle else "longer answers" for n in lengths]
    shown = [f"shown as number {place:g}" for place in places]
    groups: dict[str, Sequence[Item]] = {}
    for values, names in ((lengths, words), (places, shown)):
        different = list(dict.fromkeys(name for _, name in sorted(zip(values, names, strict=True))))
        for name in different if len(different) > 1 else ():
            groups[name] = [item for item, of in zip(items, names, strict=True) if of == name]
    return groups


def _consistency(rows: Sequence[Row]) -> Consistency | None:
    """Compare the scores of each answer between trials. None if no answer has a score in two trials."""
    scores: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for system, score in zip(row["systems"], row["scores"], strict=True):
            if score is not None:
                scores.setdefault((row["case"], system), []).append(score)
    by_case: dict[str, list[float]] = {}
    for (case, _), of_answer in scores.items():
        if len(of_answer) > 1:
            by_case.setdefault(case, []).append(max(of_answer) - min(of_answer))
    spreads = [spread for of_case in by_case.values() for spread in of_case]
    if not spreads:
        return None
    bounds = mean_interval(list(by_case.values()))
    return Consistency(len(spreads), spreads.count(0), statistics.fmean(spreads), bounds)
