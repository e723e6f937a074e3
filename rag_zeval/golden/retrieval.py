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

Gold chunks may have grades, from a qrels file. nDCG then sums grades in place of ones, and for the other measures the
gold chunks are those from a certain grade on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rag_zeval.cases.reading import question_id
from rag_zeval.errors import InputError, needed
from rag_zeval.files import NONE, Maybe, Row, check_fields
from rag_zeval.golden.golden_rows import by_slice, chunk_ids, is_unanswerable, read_lines
from rag_zeval.statistics.bootstrap import mean_interval, share_interval
from rag_zeval.text import trec_id

HIT_RATE, NDCG = "hit rate", "nDCG"
MEASURES = {HIT_RATE: "Success", "recall": "R", "precision": "P", NDCG: "nDCG", "MRR": "RR", "MAP": "AP"}
Values = dict[tuple[str, int], list[float]]


@dataclass(frozen=True)
class Ranking:
    """The ids retrieved for a question, best first, and those of the chunks that hold its answer (at least one).

    gold: the grade of each, from 1.
    """

    retrieved: tuple[str, ...]
    gold: Mapping[str, int]
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


def read_rankings(
    path: str | Path, qrels: Mapping[tuple[str, str], int] | None = None, relevant: int = 1
) -> tuple[list[Ranking], dict[int, str], int]:
    """The rankings of a JSONL file; what is wrong with each row that cannot be used, by line number; and how many
    questions are unanswerable, so that there is nothing to find for them.

    A row: {"context_ids" or "retrieved": [ids, best first], "gold_chunk_ids": [ids], "slice_tag"?: text}.
    qrels: by topic and chunk, grades in place of its gold chunks; the topic is the row's "id", or is made of its
    "question". A question without a grade of at least `relevant` cannot be used. Raises InputError if the file cannot
    be read or no row can be used.
    """
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, chunk), grade in (qrels or {}).items():
        if grade:
            by_topic.setdefault(topic, {})[chunk] = grade
    read = _ranking if qrels is None else partial(_graded, by_topic=by_topic, relevant=relevant)
    good, bad = read_lines(path, read)
    rankings = [ranking for ranking in good.values() if ranking is not None]
    if not rankings:
        line, text = next(iter(bad.items()), (1, "every question is unanswerable: there is nothing to find"))
        raise InputError(f"{path}:{line}: {text}")
    return rankings, bad, len(good) - len(rankings)


def _ranking(row: Row) -> Ranking | None:
    if is_unanswerable(row):
        return None
    retrieved = _retrieved(row)
    gold = dict.fromkeys(chunk_ids(row, "gold_chunk_ids"), 1)
    if not gold:
        raise InputError("field 'gold_chunk_ids' is empty: there is nothing to find")
    return Ranking(retrieved, gold, row.get("slice_tag"))


def _graded(row: Row, by_topic: Mapping[str, Mapping[str, int]], relevant: int) -> Ranking:
    check_fields(row, {"id": Maybe((str, int)), "question": Maybe(str)})
    topic = trec_id(str(row["id"]) if "id" in row else question_id(row.get("question", "")))
    gold = by_topic.get(topic, {})
    if max(gold.values(), default=0) < relevant:
        raise InputError(f"topic {topic} has no grade of at least {relevant}: there is nothing to find")
    return Ranking(tuple(map(trec_id, _retrieved(row))), gold, row.get("slice_tag"))


def _retrieved(row: Row) -> tuple[str, ...]:
    check_fields(row, {"slice_tag": Maybe((str, NONE))})
    return chunk_ids(row, "retrieved" if "retrieved" in row and "context_ids" not in row else "context_ids")


def values(rankings: Sequence[Ranking], ks: Sequence[int], relevant: int = 1) -> Values:
    """The value of each ranking, in their order, by measure and k (each from 1).

    relevant: the lowest grade of a gold chunk, except for nDCG, for which all count by their grades. Raises InputError
    if ir-measures is not installed.
    """
    with needed("ir-measures", "measuring retrieval"):
        import ir_measures
    asked = {
        (getattr(ir_measures, name) if measure == NDCG else getattr(ir_measures, name)(rel=relevant)) @ k: (measure, k)
        for measure, name in MEASURES.items()
        for k in ks
    }
    found: Values = {key: [0.0] * len(rankings) for key in asked.values()}
    # A chunk's id here is its rank: one that stands twice takes two places and counts once, and no id of the file's
    # reaches the C code. The gold chunks that were not retrieved have ranks below all others.
    gold = {str(at): _by_rank(ranking) for at, ranking in enumerate(rankings)}
    run = {str(at): {str(i): -float(i) for i in range(len(r.retrieved))} for at, r in enumerate(rankings)}
    for metric in ir_measures.iter_calc(list(asked), gold, run):
        found[asked[metric.measure]][int(metric.query_id)] = metric.value
    return found


def _by_rank(ranking: Ranking) -> dict[str, int]:
    """The grades of the gold chunks by the place where each stands first among the retrieved, from 0; else below 0."""
    first = {id_: rank for rank, id_ in reversed(list(enumerate(ranking.retrieved)))}
    return {str(first.get(id_, -at)): ranking.gold[id_] for at, id_ in enumerate(sorted(ranking.gold), 1)}


def estimates(rankings: Sequence[Ranking], ks: Sequence[int], relevant: int = 1) -> Iterator[RetrievalMean]:
    """Every measure at every k: for all questions, then by slice. relevant, errors: as of `values`."""
    of_each = values(rankings, ks, relevant)
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
