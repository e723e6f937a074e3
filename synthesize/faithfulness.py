"""How the answers' faithfulness falls with alpha, by what needs no label: the assumption that ranking rewards rest on.

Four measures of an answer: does a gold answer stand in it, how many of its words stand in the passage, how much of it
is the passage's words in order, how near its meaning is. None is faithfulness itself; all four should fall.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from rag_zeval.files import Row
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.progress import Progress
from rag_zeval.stages.answer_quality import answer_words, common_subsequence, contains_answer
from rag_zeval.text import with_interval
from synthesize.statistics import mean_of, print_table

MEASURES = {
    "gold_answer": "gold answer contained",
    "passage_words": "words in the passage",
    "rouge_l": "ROUGE-L precision",
    "cosine": "cosine to the passage",
}
Values = Mapping[float, float]  # of a question's answers by alpha, those that have one


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
    for the cosine. A measure has `by_alpha` (a `mean_of` with its `alpha`, largest first), `pairs` (for two alphas
    `higher` and `tied`: `mean_of` the share of questions whose answer at the larger alpha has more, or as much) and
    `ordered` (the share whose answers fall with every step of alpha).
    """
    answered = [row for row in rows if row["status"] == "ok"]
    cosines = _cosines(answered, embeddings) if embeddings else {}

    def gold_answer(text: str, row: Row) -> float | None:
        return float(contains_answer(text, row["gold_answers"])) if row.get("gold_answers") else None

    measures = {
        "gold_answer": gold_answer,
        "passage_words": lambda text, row: passage_words(text, row["passage"]),
        "rouge_l": lambda text, row: rouge_l_precision(text, row["passage"]),
        "cosine": lambda text, row: cosines.get((row["passage"], text)),
    }
    alphas = sorted({response["alpha"] for row in answered for response in row["responses"]}, reverse=True)
    values = {name: [_by_alpha(row, measure) for row in answered] for name, measure in measures.items()}
    return {name: _fall(of_questions, alphas) for name, of_questions in values.items() if any(of_questions)}


def _by_alpha(row: Row, measure: Callable[[str, Row], float | None]) -> Values:
    measured = {response["alpha"]: measure(response["text"], row) for response in row["responses"]}
    return {alpha: value for alpha, value in measured.items() if value is not None}


def _cosines(rows: Sequence[Row], embeddings: str) -> dict[tuple[str, str], float | None]:
    """By passage and answer; None where one of them has no vector."""
    from rag_zeval.models.as_finished import as_finished
    from rag_zeval.models.embeddings import cosine
    from rag_zeval.models.open import open_embedder

    embedder = open_embedder(embeddings)
    pairs = dict.fromkeys((row["passage"], response["text"]) for row in rows for response in row["responses"])
    texts = list(dict.fromkeys(text for pair in pairs for text in pair if text.strip()))
    vectors = {}
    with Progress() as progress, progress.job("sentence vectors", len(texts)) as shown:
        for at, embedding in as_finished(embedder.embed, texts, embedder.at_once):
            vectors[texts[at]] = embedding.vector
            shown.advance()
    return {
        (passage, text): cosine(one, other)
        for passage, text in pairs
        if (one := vectors.get(passage)) and (other := vectors.get(text))
    }


def _fall(questions: Sequence[Values], alphas: Sequence[float]) -> dict[str, Any]:
    whole = [values for values in questions if len(values) == len(alphas)]
    return {
        "by_alpha": [{"alpha": alpha, **mean_of([v[alpha] for v in questions if alpha in v])} for alpha in alphas],
        "pairs": [_pair(questions, *pair) for pair in combinations(alphas, 2)],
        "ordered": mean_of([float(strictly_ranked([*values.values()], [*values])) for values in whole]),
    }


def _pair(questions: Sequence[Values], larger: float, smaller: float) -> dict[str, Any]:
    both = [(values[larger], values[smaller]) for values in questions if larger in values and smaller in values]
    return {
        "alphas": [larger, smaller],
        "higher": mean_of([float(first > second) for first, second in both]),
        "tied": mean_of([float(first == second) for first, second in both]),
    }


def print_faithfulness(measures: Mapping[str, Any]) -> None:
    """Means by alpha and the order in pairs, as `measure_faithfulness` has them."""
    headings = [MEASURES[name] for name in measures]
    print_table("faithfulness without labels, mean [95%]", ["alpha", *headings], _alpha_rows(measures))
    more = "two answers to one question: the larger alpha has more (as much)"
    print_table(more, ["alphas", *headings], _pair_rows(measures))


def _alpha_rows(measures: Mapping[str, Any]) -> list[list[str]]:
    columns = [measure["by_alpha"] for measure in measures.values()]
    rows = [[f"{cells[0]['alpha']:g}", *map(_shown, cells)] for cells in zip(*columns, strict=True)]
    counts = ["n", *(" / ".join(str(n) for n in dict.fromkeys(at["n"] for at in column)) for column in columns)]
    return [*rows, counts]


def _pair_rows(measures: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [
            " / ".join(f"{alpha:g}" for alpha in cells[0]["alphas"]),
            *(f"{_shown(cell['higher'])} ({with_interval(cell['tied']['mean'], None, None)})" for cell in cells),
        ]
        for cells in zip(*(measure["pairs"] for measure in measures.values()), strict=True)
    ]
    return [*rows, ["all fall", *(_shown(measure["ordered"]) for measure in measures.values())]]


def _shown(interval: Row) -> str:
    return with_interval(interval["mean"], interval["low"], interval["high"])
