"""Judges references that exceed a model's window in pieces. An answer's score is the largest that a piece gives.

MiniCheck judges claims in this way (Tang et al. 2024, arXiv:2404.10774). An answer that draws on two pieces gets too
low a score, so a reference that fits is never cut.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Backend
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import OF_NONE, Score, Scored, Scorer, costs_together
from rag_zeval.scorers.sentences import pieces

SHARE = 2  # question, reference and answers may take 1/2 of a judge's window; the rest is for instructions and reply

Fits = Callable[[Example], bool]


def fits_judge(judge: Backend | None) -> Fits:
    """Return a function that says whether an example fits the judge, as far as its window is known. None: no judge."""

    def fits(example: Example) -> bool:
        if judge is None or judge.max_context is None:
            return True
        content = "\n".join((example.question, example.reference, *example.answers))
        tokens = judge.count_tokens([{"role": "user", "content": content}])
        return tokens is None or tokens * SHARE <= judge.max_context

    return fits


def fits_whole(scorer: Scorer, judge: Backend | None) -> Fits:
    """Return a function that says whether a scorer can show the judge an example whole.

    If the scorer needs no reference, it always can. `rag_zeval` knows its prompt, and so what its judge would refuse.
    For other scorers this is an estimate.
    """
    if "reference" not in scorer.needs:
        return lambda _: True
    return scorer.fits if isinstance(scorer, RagZeval) else fits_judge(judge)


class InPieces(Scorer):
    """Shows a scorer each reference in the fewest pieces that fit, cut at sentence ends.

    An answer has no score if a piece gives it none. If there are several pieces, `parts` of the row holds "pieces", the
    parts of each piece. It also holds "best_piece": for each answer, the index of the piece that its score is from.
    """

    def __init__(self, scorer: Scorer, fits: Fits):
        self._scorer, self._fits = scorer, fits
        self.name, self.needs, self.also, self.group = scorer.name, scorer.needs, scorer.also, scorer.group
        self.prompt_hash = scorer.prompt_hash
        self.identity = f"{scorer.identity} in pieces"

    @property
    def identities(self) -> set[str]:
        return {*self._scorer.identities, self.identity}

    def identity_of(self, parts: Mapping[str, Any]) -> str:
        return self.identity if "pieces" in parts else self._scorer.identity_of(parts)

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        of_piece: dict[str, tuple[str, int]] = {}  # by a piece's id: its example's id, and its index
        waiting: dict[str, list[Scored | None]] = {}
        asked: list[Example] = []
        for example in examples:
            cut = self._cut(example)
            waiting[example.id] = [None] * len(cut)
            of_piece |= {piece.id: (example.id, at) for at, piece in enumerate(cut)}
            asked += cut
        for scored in self._scorer.score(asked):
            id_, at = of_piece[scored.id]
            waiting[id_][at] = scored
            there = [one for one in waiting[id_] if one is not None]
            if len(there) == len(waiting[id_]):
                yield _together(id_, there)
                del waiting[id_]
            elif self.part_done:
                self.part_done(id_, len(there) / len(waiting[id_]))

    def _cut(self, example: Example) -> list[Example]:
        cut = pieces(example.reference, lambda piece: self._fits(replace(example, reference=piece)))
        of_contexts = len(cut) > 1 and example.reference_kind == "contexts"  # the chunks are the same text
        return [
            replace(
                example, id=f"{example.id}#{at}", reference=piece, chunks=(piece,) if of_contexts else example.chunks
            )
            for at, piece in enumerate(cut)
        ]


def _together(id_: str, found: Sequence[Scored]) -> Scored:
    if len(found) == 1:
        return replace(found[0], id=id_)
    best = [_best(scores) for scores in zip(*(one.scores for one in found), strict=True)]
    return Scored(
        id_,
        tuple(found[piece].scores[at] for at, piece in enumerate(best)),
        {"pieces": [one.parts for one in found], "best_piece": best},
        **costs_together(found),
    )


def _best(scores: Sequence[Score]) -> int:
    """Return the index of the largest of an answer's scores, or of the first missing one if there is one."""
    values = [score.value for score in scores]
    return values.index(None) if None in values else max(range(len(values)), key=lambda at: values[at] or 0.0)


def shown_whole(scored: Scored) -> Scored:
    """Return what was judged in pieces with the claims (or other parts) of the piece that each answer's score is from.

    A part that some piece lacks is left out. What was judged whole is returned unchanged.
    """
    if "pieces" not in scored.parts:
        return scored
    parts = dict(scored.parts)
    for name, of_none in OF_NONE.items():
        by_piece = [piece.get(name) for piece in parts["pieces"]]
        if all(by_piece):
            parts[name] = _of_best(by_piece, parts["best_piece"], of_none)
    return replace(scored, parts=parts)


def _of_best(by_piece: Sequence[Any], best: Sequence[int | None], of_none: Any) -> list[Any]:
    """Return for each answer what its best piece says about it. Pieces do not list answers that were not judged."""
    judged = [at for at, piece in enumerate(best) if piece is not None]
    return [of_none if piece is None else by_piece[piece][judged.index(at)] for at, piece in enumerate(best)]
