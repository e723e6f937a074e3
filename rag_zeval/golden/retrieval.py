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
from pathlib import Path
from typing import Any

from rag_zeval.cases.case import by_slice
from rag_zeval.cases.cells import as_chunks, as_id, as_text
from rag_zeval.cases.question_files import QuestionFile, read_question_file
from rag_zeval.cases.reading import question_id
from rag_zeval.errors import InputError, needed
from rag_zeval.files import Row
from rag_zeval.golden.golden_rows import is_unanswerable, list_of_ids
from rag_zeval.statistics.bootstrap import score_interval
from rag_zeval.text import trec_id

HIT_RATE, NDCG = "hit rate", "nDCG"
MEASURES = {HIT_RATE: "Success", "recall": "R", "precision": "P", NDCG: "nDCG", "MRR": "RR", "MAP": "AP"}
RETRIEVED = ("context_ids", "contexts", "passage")  # contexts may be objects with an id
READ = ("id", *RETRIEVED, "gold_chunk_ids", "truth", "slice_tag")
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


def read_retrieved(path: Path, has_qrels: bool, names: Mapping[str, str | Sequence[str]] | None = None) -> QuestionFile:
    """Read a file of retrieved ids, with gold chunks or, with qrels, an id or question. See `read_question_file`."""
    needs = {"context_ids": RETRIEVED, "gold_chunk_ids": ("gold_chunk_ids",)}
    if has_qrels:
        needs = {"context_ids": RETRIEVED, "id": ("id", "question")}
    return read_question_file(path, (*READ, "question") if has_qrels else READ, needs, names)


def rankings_of(
    read: QuestionFile, qrels: Mapping[tuple[str, str], int] | None = None, relevant: int = 1
) -> tuple[list[Ranking], list[str], int]:
    """Return the rankings of a file, a line on each invalid row and the number of unanswerable questions.

    Unanswerable questions have no gold chunks to find. qrels: grades by topic and chunk, used in place of
    `gold_chunk_ids`. The topic is the row's id, or else derived from its question. A row without a grade of at least
    `relevant` is invalid. Raises InputError if the file gives no ranking. Also raises it for a duplicate id: a mean
    over several systems, or runs, is that of none of them.
    """
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, chunk), grade in (qrels or {}).items():
        if grade:
            by_topic.setdefault(topic, {})[chunk] = grade
    rankings, bad, unanswerable = [], [], 0
    firsts: dict[str, str] = {}
    for place, row in read.rows.items():
        try:
            if isinstance(row, InputError):
                raise row
            id_ = read.value(row, "id", as_id)
            if qrels is not None:
                ranking: Ranking | None = _graded(read, row, by_topic, relevant)
            else:
                ranking = _ranking(read, row)
        except InputError as error:
            bad.append(f"{place}: {error}")
            continue
        if id_ is not None and (first := firsts.setdefault(id_, place)) != place:
            raise InputError(
                f"{place}: duplicate id {id_!r}, as in {first}; measure each system, or run, in its own file"
            )
        if ranking is None:
            unanswerable += 1
        else:
            rankings.append(ranking)
    if not rankings:
        raise InputError(bad[0] if bad else f"{read.name}: every question is unanswerable: there is nothing to find")
    return rankings, bad, unanswerable


def _ranking(read: QuestionFile, row: Row) -> Ranking | None:
    if is_unanswerable(row):
        return None
    retrieved = _retrieved(read, row)
    gold = dict.fromkeys(read.value(row, "gold_chunk_ids", list_of_ids), 1)
    if not gold:
        raise InputError(f"column '{read.columns.of['gold_chunk_ids']}' is empty: there is nothing to find")
    return Ranking(retrieved, gold, read.value(row, "slice_tag", as_id))


def _graded(read: QuestionFile, row: Row, by_topic: Mapping[str, Mapping[str, int]], relevant: int) -> Ranking:
    id_, question = read.value(row, "id", as_id), read.value(row, "question", as_text)
    if id_ is None and question is None:
        raise InputError("has no id and no question, so it has no topic: give it one of them")
    topic = trec_id(id_ or question_id(question or ""))
    gold = by_topic.get(topic, {})
    if max(gold.values(), default=0) < relevant:
        raise InputError(f"topic {topic} has no grade of at least {relevant}: there is nothing to find")
    return Ranking(tuple(map(trec_id, _retrieved(read, row))), gold, read.value(row, "slice_tag", as_id))


def _retrieved(read: QuestionFile, row: Row) -> tuple[str, ...]:
    if "context_ids" in read.columns.of:
        return read.value(row, "context_ids", list_of_ids)
    return read.value(row, "passage" if "passage" in read.columns.of else "contexts", _ids_inside)


def _ids_inside(contexts: Any) -> tuple[str, ...]:
    texts, ids = as_chunks(contexts)
    if texts and not ids:
        raise InputError("its contexts have no ids: name the column that holds them, as in --map context_ids=COLUMN")
    return ids


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
