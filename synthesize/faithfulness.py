"""Measures, without labels, of how the answers' faithfulness falls with alpha. The ranking reward assumes that it does.

There are four measures of an answer: whether it contains a gold answer, the share of its words that are in the passage,
the share that are there in the same order, and the cosine similarity to the passage. None is faithfulness itself, but
all four should fall with alpha.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from rag_zeval.files import Row
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.progress import Progress
from rag_zeval.scorers.overlap import common_subsequence
from rag_zeval.stages.answer_quality import answer_words, contains_answer
from rag_zeval.text import with_interval
from synthesize.statistics import mean_of, print_table

MEASURES = {
    "gold_answer": "gold answer contained",
    "passage_words": "words in the passage",
    "rouge_l": "ROUGE-L precision",
    "cosine": "cosine to the passage",
}
Values = Mapping[float, float]  # a measure of a question's answers, by alpha; answers without a value are missing


def passage_words(text: str, passage: str) -> float | None:
    """Return the share of a text's distinct words that are in the passage, in [0, 1]; None without words."""
    words = set(answer_words(text))
    return len(words & set(answer_words(passage))) / len(words) if words else None


def rouge_l_precision(text: str, passage: str) -> float | None:
    """Return the ROUGE-L precision of a text (Lin 2004), in [0, 1]; None without words.

    It is the share of the text's words that are in the passage in the same order.
    """
    words = answer_words(text)
    return common_subsequence(words, answer_words(passage)) / len(words) if words else None


def measure_faithfulness(rows: Sequence[Row], embeddings: str | None = None) -> dict[str, Any]:
    """Return how each of MEASURES falls with alpha. A measure without any value is left out.

    rows: of `responses.jsonl`; rows without answers are ignored. embeddings: folder or endpoint of an embedding model,
    for the cosine. None: no cosine.

    The result of a measure has three keys. Their shares and means are in the form of `mean_of`:

    - `by_alpha`: the mean at each `alpha`, largest alpha first.
    - `pairs`: for each two `alphas`, the share of questions whose answer at the larger alpha has the `higher` value,
      and the share with equal values (`tied`).
    - `ordered`: the share of questions whose values fall with every step of alpha; of no question if there is only one.
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
    """Return the cosine of each (passage, answer).

    It is None if a vector is zero. Pairs with a text that has no vector are missing.
    """
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
    whole = [values for values in questions if len(values) == len(alphas) > 1]  # one alpha has no steps
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
    """Print the result of `measure_faithfulness` as two tables: means by alpha, and pairs of alphas."""
    if not measures:
        return
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
