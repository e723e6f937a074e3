"""Does the retriever find the gold chunks? The field's measures at each k, for all questions and by slice.

The values are those of ir-measures (MacAvaney et al. 2022, ECIR), which takes them from trec_eval. All are means over
questions of a value in [0, 1], of the first k ids:

- hit rate: 1 if a gold chunk is among them. The practitioner's text behind the row format
  (llmbestpractices.com/ai-agents/rag-eval) calls it recall@k; they are the same where a question has one gold chunk.
- recall: the share of the question's gold chunks among them.
- precision: gold chunks among them / k, also where fewer than k are listed.
- nDCG: the sum of 1 / log2(rank + 1) over the gold chunks among them / the same for the best order that there is.
- MRR: 1 / rank of the first gold chunk among them, else 0.
- MAP: precision at the rank of each gold chunk among them, summed / all gold chunks of the question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_zeval.errors import InputError, needed
from rag_zeval.files import NONE, Maybe, Row, check_fields
from rag_zeval.golden.golden_rows import by_slice, chunk_ids, is_unanswerable, read_lines
from rag_zeval.statistics.bootstrap import mean_interval, share_interval

HIT_RATE = "hit rate"
MEASURES = {HIT_RATE: "Success", "recall": "R", "precision": "P", "nDCG": "nDCG", "MRR": "RR", "MAP": "AP"}
Values = dict[tuple[str, int], list[float]]


@dataclass(frozen=True)
class Ranking:
    """The ids retrieved for a question, best first, and those of the chunks that hold its answer (at least one)."""

    retrieved: tuple[str, ...]
    gold: frozenset[str]
    slice_tag: str | None


@dataclass(frozen=True)
class RetrievalMean:
    """The mean of a measure at k over the n questions of a slice, and its 95% interval: Wilson's for the hit rate, else
    percentile bootstrap over questions, None for a single one.
    """

    slice_name: str
    measure: str
    k: int
    n: int
    value: float
    interval: tuple[float, float] | None


def read_rankings(path: str | Path) -> tuple[list[Ranking], dict[int, str], int]:
    """The rankings of a JSONL file; what is wrong with each row that cannot be used, by line number; and how many
    questions are unanswerable, so that there is nothing to find for them.

    A row: {"context_ids" or "retrieved": [ids, best first], "gold_chunk_ids": [ids], "slice_tag"?: text}.
    Raises InputError if the file cannot be read or no row can be used.
    """
    good, bad = read_lines(path, _ranking)
    rankings = [ranking for ranking in good.values() if ranking is not None]
    if not rankings:
        line, text = next(iter(bad.items()), (1, "every question is unanswerable: there is nothing to find"))
        raise InputError(f"{path}:{line}: {text}")
    return rankings, bad, len(good) - len(rankings)


def _ranking(row: Row) -> Ranking | None:
    if is_unanswerable(row):
        return None
    retrieved = chunk_ids(row, "retrieved" if "retrieved" in row and "context_ids" not in row else "context_ids")
    gold = frozenset(chunk_ids(row, "gold_chunk_ids"))
    if not gold:
        raise InputError("field 'gold_chunk_ids' is empty: there is nothing to find")
    check_fields(row, {"slice_tag": Maybe((str, NONE))})
    return Ranking(retrieved, gold, row.get("slice_tag"))


def values(rankings: Sequence[Ranking], ks: Sequence[int]) -> Values:
    """The value of each ranking, in their order, by measure and k (each from 1).

    Raises InputError if ir-measures is not installed.
    """
    with needed("ir-measures", "measuring retrieval"):
        import ir_measures
    asked = {getattr(ir_measures, name) @ k: (measure, k) for measure, name in MEASURES.items() for k in ks}
    found: Values = {key: [0.0] * len(rankings) for key in asked.values()}
    ranks = [list(_gold_ranks(ranking)) for ranking in rankings]
    # A chunk's id here is its rank: one that stands twice takes two places and counts once, and no id of the file's
    # reaches the C code. The gold chunks that were not retrieved have ranks below all others.
    gold = {
        str(at): {str(rank): 1 for rank in [*there, *range(-1, len(there) - len(ranking.gold) - 1, -1)]}
        for at, (ranking, there) in enumerate(zip(rankings, ranks, strict=True))
    }
    run = {str(at): {str(i): -float(i) for i in range(len(r.retrieved))} for at, r in enumerate(rankings)}
    for metric in ir_measures.iter_calc(list(asked), gold, run):
        found[asked[metric.measure]][int(metric.query_id)] = metric.value
    return found


def _gold_ranks(ranking: Ranking) -> Iterator[int]:
    """Where each gold chunk stands first among the retrieved, from 0."""
    first = {id_: rank for rank, id_ in reversed(list(enumerate(ranking.retrieved)))}
    return (first[id_] for id_ in sorted(ranking.gold & first.keys()))


def estimates(rankings: Sequence[Ranking], ks: Sequence[int]) -> Iterator[RetrievalMean]:
    """Every measure at every k: for all questions, then by slice. Errors as `values`."""
    of_each = values(rankings, ks)
    for name, members in by_slice(range(len(rankings)), lambda at: rankings[at].slice_tag):
        for (measure, k), of_question in of_each.items():
            chosen = [of_question[at] for at in members]
            interval: tuple[float, float] | None = None
            if measure == HIT_RATE:
                interval = share_interval(round(sum(chosen)), len(chosen))
            elif len(chosen) > 1:
                interval = mean_interval([[value] for value in chosen])
            yield RetrievalMean(name, measure, k, len(chosen), sum(chosen) / len(chosen), interval)


def short_lists(rankings: Sequence[Ranking], ks: Sequence[int]) -> list[tuple[int, int]]:
    """Each k beyond what some rankings list, and how many: there the file may be the limit, not the retriever."""
    counts = [(k, sum(len(ranking.retrieved) < k for ranking in rankings)) for k in ks]
    return [(k, n) for k, n in counts if n]
