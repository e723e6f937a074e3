"""Measures how well a retriever finds the gold chunks: standard measures at each k, for all questions and by slice.

The values come from ir-measures (MacAvaney et al. 2022, ECIR), which takes them from trec_eval. Each is a mean over
questions of a value in [0, 1], computed from the first k ids:

- hit rate: 1 if a gold chunk is among them, else 0. The text that the row format follows
  (llmbestpractices.com/ai-agents/rag-eval) calls it recall@k. The two are equal if a question has one gold chunk.
- recall: the share of the question's gold chunks among them.
- precision: gold chunks among them / k, even if fewer than k ids are listed.
- nDCG: the sum of 1 / log2(rank + 1) over the gold chunks among them / the same sum for the best possible order.
- MRR: 1 / rank of the first gold chunk among them, else 0.
- MAP: the sum of the precision at the rank of each gold chunk among them / all gold chunks of the question.

Gold chunks may have grades, from a qrels file. nDCG then sums grade / log2(rank + 1). For the other measures, a chunk
is gold if it has at least a given grade.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rag_zeval.cases.case import by_slice
from rag_zeval.cases.cells import as_id, as_text
from rag_zeval.cases.reading import converted, known, question_id
from rag_zeval.errors import InputError, needed
from rag_zeval.files import Row
from rag_zeval.golden.golden_rows import chunk_ids, is_unanswerable, read_golden
from rag_zeval.statistics.bootstrap import score_interval
from rag_zeval.text import trec_id

HIT_RATE, NDCG = "hit rate", "nDCG"
MEASURES = {HIT_RATE: "Success", "recall": "R", "precision": "P", NDCG: "nDCG", "MRR": "RR", "MAP": "AP"}
Values = dict[tuple[str, int], list[float]]


@dataclass(frozen=True)
class Ranking:
    """The chunk ids retrieved for a question, best first, and its gold chunks.

    gold: the grade, from 1, of each gold chunk. There is at least one.
    """

    retrieved: tuple[str, ...]
    gold: Mapping[str, int]
    slice_tag: str | None


@dataclass(frozen=True)
class RetrievalMean:
    """The mean of a measure at k over the n questions of a slice.

    interval: its 95% interval (`score_interval`).
    """

    slice_name: str
    measure: str
    k: int
    n: int
    value: float
    interval: tuple[float, float] | None


def read_rankings(
    path: Path, qrels: Mapping[tuple[str, str], int] | None = None, relevant: int = 1
) -> tuple[list[Ranking], list[str], int]:
    """Read a file of rankings. Returns them, a line on each invalid row and the number of unanswerable questions.

    A row: {"context_ids" or "retrieved": [ids, best first], "gold_chunk_ids": [ids], "slice_tag"?: text}. Unanswerable
    questions have no gold chunks to find. qrels: grades by topic and chunk, used in place of "gold_chunk_ids". The
    topic is the row's "id", or else derived from its "question". A row without a grade of at least `relevant` is
    invalid. Raises InputError if the file cannot be read or gives no ranking. Also raises it for a duplicate id: a mean
    over several systems, or runs, is that of none of them.
    """
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, chunk), grade in (qrels or {}).items():
        if grade:
            by_topic.setdefault(topic, {})[chunk] = grade
    read = _ranking if qrels is None else partial(_graded, by_topic=by_topic, relevant=relevant)

    def with_id(row: Row) -> tuple[str | None, Ranking | None]:
        row = known(row, ("id", "slice_tag", "gold_chunk_ids"))
        return converted(row, "id", as_id), read(row)

    rankings, bad, unanswerable = [], [], 0
    firsts: dict[str, str] = {}
    for place, found in read_golden(path, with_id).items():
        if isinstance(found, InputError):
            bad.append(f"{place}: {found}")
            continue
        id_, ranking = found
        if id_ is not None and (first := firsts.setdefault(id_, place)) != place:
            raise InputError(
                f"{place}: duplicate id {id_!r}, as in {first}; measure each system, or run, in its own file"
            )
        if ranking is None:
            unanswerable += 1
        else:
            rankings.append(ranking)
    if not rankings:
        raise InputError(bad[0] if bad else f"{path}: every question is unanswerable: there is nothing to find")
    return rankings, bad, unanswerable


def _ranking(row: Row) -> Ranking | None:
    if is_unanswerable(row):
        return None
    retrieved = _retrieved(row)
    gold = dict.fromkeys(chunk_ids(row, "gold_chunk_ids"), 1)
    if not gold:
        raise InputError("field 'gold_chunk_ids' is empty: there is nothing to find")
    return Ranking(retrieved, gold, converted(row, "slice_tag", as_id))


def _graded(row: Row, by_topic: Mapping[str, Mapping[str, int]], relevant: int) -> Ranking:
    id_ = converted(row, "id", as_id)
    topic = trec_id(id_ or question_id(converted(known(row, ["question"]), "question", as_text) or ""))
    gold = by_topic.get(topic, {})
    if max(gold.values(), default=0) < relevant:
        raise InputError(f"topic {topic} has no grade of at least {relevant}: there is nothing to find")
    return Ranking(tuple(map(trec_id, _retrieved(row))), gold, converted(row, "slice_tag", as_id))


def _retrieved(row: Row) -> tuple[str, ...]:
    if "retrieved" in row and "context_ids" not in row:
        return chunk_ids(row, "retrieved")
    return chunk_ids(known(row, ["context_ids"]), "context_ids")


def values(rankings: Sequence[Ranking], ks: Sequence[int], relevant: int = 1) -> Values:
    """Compute each measure at each k for every ranking, in the order of the rankings.

    ks: each at least 1. relevant: the lowest grade that makes a chunk gold. It does not apply to nDCG, where all chunks
    count by their grades. Raises InputError if ir-measures is not installed.
    """
    with needed("ir-measures", "measuring retrieval"):
        import ir_measures
    asked = {
        (getattr(ir_measures, name) if measure == NDCG else getattr(ir_measures, name)(rel=relevant)) @ k: (measure, k)
        for measure, name in MEASURES.items()
        for k in ks
    }
    found: Values = {key: [0.0] * len(rankings) for key in asked.values()}
    # We pass each chunk's rank as its id, so no id of the file reaches the C code. A chunk that was retrieved twice
    # takes two ranks and counts once. Gold chunks that were not retrieved get negative ids, which no retrieved one has.
    gold = {str(at): _by_rank(ranking) for at, ranking in enumerate(rankings)}
    run = {str(at): {str(i): -float(i) for i in range(len(r.retrieved))} for at, r in enumerate(rankings)}
    for metric in ir_measures.iter_calc(list(asked), gold, run):
        found[asked[metric.measure]][int(metric.query_id)] = metric.value
    return found


def _by_rank(ranking: Ranking) -> dict[str, int]:
    """Return the grades of the gold chunks by first rank, from 0. Chunks that were not retrieved get -1 and less."""
    first = {id_: rank for rank, id_ in reversed(list(enumerate(ranking.retrieved)))}
    return {str(first.get(id_, -at)): ranking.gold[id_] for at, id_ in enumerate(sorted(ranking.gold), 1)}


def estimates(rankings: Sequence[Ranking], ks: Sequence[int], relevant: int = 1) -> Iterator[RetrievalMean]:
    """Yield every measure at every k: for all questions, then by slice. relevant and errors are as in `values`."""
    of_each = values(rankings, ks, relevant)
    for name, members in by_slice(range(len(rankings)), lambda at: rankings[at].slice_tag):
        for (measure, k), of_question in of_each.items():
            chosen = [of_question[at] for at in members]
            interval = score_interval([[value] for value in chosen])
            yield RetrievalMean(name, measure, k, len(chosen), sum(chosen) / len(chosen), interval)


def short_lists(rankings: Sequence[Ranking], ks: Sequence[int]) -> list[tuple[int, int]]:
    """Return each k for which some rankings list fewer than k ids, with the number of such rankings.

    There the file may be the limit and not the retriever.
    """
    counts = [(k, sum(len(ranking.retrieved) < k for ranking in rankings)) for k in ks]
    return [(k, n) for k, n in counts if n]
