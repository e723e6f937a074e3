"""How the answers' faithfulness falls with alpha, by what needs no label: the assumption that ranking rewards rest on.

Four measures of an answer: does a gold answer stand in it, how many of its words stand in the passage, how much of it
is the passage's words in order, how near its meaning is. None is faithfulness itself; all four should fall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any, TypedDict

from rich.console import Console
from rich.table import Column, Table

from rag_zeval.files import Row
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.stages.answer_quality import common_subsequence
from rag_zeval.stages.gold_answers import answer_words, contains_answer

MEASURES = {
    "gold_answer": "gold answer contained",
    "passage_words": "words in the passage",
    "rouge_l": "ROUGE-L precision",
    "cosine": "cosine to the passage",
}
Values = Mapping[float, float]  # of a question's answers by alpha, those that have one


class Interval(TypedDict):
    """A mean of n values with its 95% interval; None for no values."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def passage_words(text: str, passage: str) -> float | None:
    """Share of a text's different words that stand in the passage, in [0, 1]; None without words."""
    words = set(answer_words(text))
    return len(words & set(answer_words(passage))) / len(words) if words else None


def rouge_l_precision(text: str, passage: str) -> float | None:
    """Share of a text's words that stand in the passage in their order (Lin 2004), in [0, 1]; None without words."""
    words = answer_words(text)
    return common_subsequence(words, answer_words(passage)) / len(words) if words else None


def measure_faithfulness(rows: Sequence[Row], embeddings: str | None = None) -> dict[str, Any]:
    """For each measure of MEASURES that the rows allow: its mean by alpha, its order in pairs of alphas, and overall.

    rows: of `responses.jsonl`; those without answers are left out. embeddings: a folder or endpoint of sentence vectors
    for the cosine. A measure has `by_alpha` (an Interval with its `alpha`, largest first), `pairs` (for two alphas
    `higher` and `tied`: Intervals of the share of questions whose answer at the larger alpha has more, or as much) and
    `ordered` (the share whose answers fall with every step of alpha).
    """
    answered = [row for row in rows if row["status"] == "ok"]
    cosines = _cosines(answered, embeddings) if embeddings else {}
    values: dict[str, list[Values]] = {
        "gold_answer": [
            _by_alpha(row, lambda text, row=row: float(contains_answer(text, row["gold_answers"])))
            for row in answered
            if row.get("gold_answers")
        ],
        "passage_words": [
            _by_alpha(row, lambda text, row=row: passage_words(text, row["passage"])) for row in answered
        ],
        "rouge_l": [_by_alpha(row, lambda text, row=row: rouge_l_precision(text, row["passage"])) for row in answered],
        "cosine": [
            _by_alpha(row, lambda text, row=row: cosines.get((row["passage"], text))) for row in answered if embeddings
        ],
    }
    alphas = sorted({response["alpha"] for row in answered for response in row["responses"]}, reverse=True)
    return {name: _fall(of_questions, alphas) for name, of_questions in values.items() if any(of_questions)}


def _by_alpha(row: Row, measure: Any) -> dict[float, float]:
    measured = {response["alpha"]: measure(response["text"]) for response in row["responses"]}
    return {alpha: value for alpha, value in measured.items() if value is not None}


def _cosines(rows: Sequence[Row], embeddings: str) -> dict[tuple[str, str], float | None]:
    """By passage and answer; None where one of them has no vector."""
    from rich.progress import track

    from rag_zeval.models.as_finished import as_finished
    from rag_zeval.models.embeddings import cosine
    from rag_zeval.models.open import open_embedder

    embedder = open_embedder(embeddings)
    pairs = dict.fromkeys((row["passage"], response["text"]) for row in rows for response in row["responses"])
    texts = list(dict.fromkeys(text for pair in pairs for text in pair if text.strip()))
    vectors = {
        texts[at]: embedding.vector
        for at, embedding in track(
            as_finished(embedder.embed, texts, embedder.at_once), "sentence vectors", total=len(texts)
        )
    }
    return {
        (passage, text): cosine(one, other)
        for passage, text in pairs
        if (one := vectors.get(passage)) and (other := vectors.get(text))
    }


def _fall(questions: Sequence[Values], alphas: Sequence[float]) -> dict[str, Any]:
    whole = [values for values in questions if len(values) == len(alphas)]
    return {
        "by_alpha": [{"alpha": alpha, **_interval([v[alpha] for v in questions if alpha in v])} for alpha in alphas],
        "pairs": [_pair(questions, *pair) for pair in combinations(alphas, 2)],
        "ordered": _interval([float(strictly_ranked([*values.values()], [*values])) for values in whole]),
    }


def _pair(questions: Sequence[Values], larger: float, smaller: float) -> dict[str, Any]:
    both = [(values[larger], values[smaller]) for values in questions if larger in values and smaller in values]
    return {
        "alphas": [larger, smaller],
        "higher": _interval([float(first > second) for first, second in both]),
        "tied": _interval([float(first == second) for first, second in both]),
    }


def _interval(values: Sequence[float]) -> Interval:
    """Wilson's interval for shares (all values 0 or 1), else the bootstrap's."""
    from rag_zeval.statistics.bootstrap import mean_interval, share_interval  # numpy: only once all is answered

    if not values:
        return Interval(mean=None, low=None, high=None, n=0)
    if set(values) <= {0.0, 1.0}:
        low, high = share_interval(int(sum(values)), len(values))
    else:
        low, high = mean_interval([[value] for value in values])
    return Interval(mean=fmean(values), low=low, high=high, n=len(values))


def print_faithfulness(measures: Mapping[str, Any]) -> None:
    """Means by alpha and the order in pairs, as `measure_faithfulness` has them."""
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    headings = [MEASURES[name] for name in measures]
    for title, first, rows in (
        ("faithfulness without labels, mean [95%]", "alpha", _alpha_rows(measures)),
        ("two answers to one question: the larger alpha has more (as much)", "alphas", _pair_rows(measures)),
    ):
        table = Table(Column(first, justify="right", no_wrap=True), title=title)
        for heading in headings:
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def _alpha_rows(measures: Mapping[str, Any]) -> list[list[str]]:
    columns = [measure["by_alpha"] for measure in measures.values()]
    rows = [[f"{cells[0]['alpha']:g}", *map(_shown, cells)] for cells in zip(*columns, strict=True)]
    counts = ["n", *(" / ".join(str(n) for n in dict.fromkeys(at["n"] for at in column)) for column in columns)]
    return [*rows, counts]


def _pair_rows(measures: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [
            " / ".join(f"{alpha:g}" for alpha in cells[0]["alphas"]),
            *(f"{_shown(cell['higher'])} ({_share(cell['tied'])})" for cell in cells),
        ]
        for cells in zip(*(measure["pairs"] for measure in measures.values()), strict=True)
    ]
    return [*rows, ["all fall", *(_shown(measure["ordered"]) for measure in measures.values())]]


def _shown(interval: Interval) -> str:
    mean = interval["mean"]
    return "-" if mean is None else f"{mean:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def _share(interval: Interval) -> str:
    return "-" if interval["mean"] is None else f"{interval['mean']:.3f}"
