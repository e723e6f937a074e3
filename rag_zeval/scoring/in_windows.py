"""Judges answers that are longer than a judge was trained for: in windows of sentences, whose claims are then joined.

A small judge that has only seen answers of a few sentences fails on longer ones. Its card says how many sentences it
can judge (`answer_sentences`). A window is shown to it as if it were the whole answer.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, NamedTuple

from rag_zeval.judge.example import Example
from rag_zeval.judge.parser import says_something
from rag_zeval.judge.schema import LETTERS
from rag_zeval.models.folder import ANSWER_SENTENCES
from rag_zeval.models.language_model import Backend
from rag_zeval.scorers.rag_zeval import STRICT, RagZeval
from rag_zeval.scorers.score import Score, Scored, Scorer, costs_together
from rag_zeval.scorers.sentences import pieces, sentences_of
from rag_zeval.scoring.in_pieces import Fits, InPieces, fits_whole, shown_whole

PIECE = 150  # most words of a piece of the reference, if the reply about a sentence cannot be read


@dataclass(frozen=True)
class Parts:
    """How a judge is asked about examples, some of which are too long for it.

    fits: whether it can be shown an example whole. limit: how many sentences an answer may have; None for any number.
    in_pieces, in_windows: how many of the `examples` have a reference or an answer that is too long.
    """

    fits: Fits
    limit: int | None
    examples: int
    in_pieces: int
    in_windows: int

    def asked(self, scorer: Scorer) -> Scorer:
        """Return the scorer, wrapped so that it asks in pieces and in windows if these examples need it."""
        asked = InPieces(scorer, self.fits) if self.in_pieces else scorer
        if self.limit is None:
            return asked
        return InWindows(asked, self.limit)

    def lines(self, metric: str, of: int) -> Iterator[str]:
        """Yield what to tell the user about `of` examples, extrapolated from those that were looked at."""
        share = of / max(1, self.examples)
        if self.in_pieces:
            yield (
                f"judged in pieces: {round(share * self.in_pieces)} of {of} cases, because their reference exceeds the "
                f"judge's window ({metric})"
            )
        if self.in_windows:
            yield (
                f"judged in windows: {round(share * self.in_windows)} of {of} cases, because an answer is longer than "
                f"the judge can judge at once, {self.limit} sentences ({metric})"
            )


def plan_parts(scorer: Scorer, examples: Iterable[Example], judge: Backend | None) -> Parts:
    """Return how a scorer is to ask the judge about these examples. None: it asks no judge."""
    examples, fits, limit = list(examples), fits_whole(scorer, judge), _most_sentences(scorer, judge)
    in_pieces = in_windows = 0
    for example in filter(None, map(scorer.shown, examples)):
        long = None if limit is None else _LongExample(example, limit)
        in_pieces += not all(map(fits, [example] if long is None else long.shown()))
        in_windows += long is not None and long.is_long
    return Parts(fits, limit, len(examples), in_pieces, in_windows)


def _most_sentences(scorer: Scorer, judge: Backend | None) -> int | None:
    """Return the most sentences that an answer shown to this judge may have, by its card; None if there is no limit.

    Only `rag_zeval` has a limit: the judge was trained with its prompt, and with no other scorer's.
    """
    if judge is None or not isinstance(scorer, RagZeval):
        return None
    limit: int | None = judge.card.get(ANSWER_SENTENCES)
    return limit


def answer_sentences(answer: str) -> list[str]:
    """Split an answer into sentences, also at line ends. Those without a letter or a digit are left out.

    An answer without any other sentence is returned whole.
    """
    found = [one for line in answer.splitlines() for one in sentences_of(line) if says_something(one)]
    return found or [answer]


# Markdown marks: at the beginning of a line (but not the sign of a number), and ** around words (but not within them).
_MARKS = re.compile(r"^[ \t]*(?:[*+•-]|#{1,6})[ \t]+(?![ \t\d])|(?<!\w)\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\w)", re.MULTILINE)


def without_marks(answer: str) -> str:
    """Return the answer without Markdown marks for lists, headings and bold words."""
    return _MARKS.sub(lambda match: match[1] or "", answer)


def _shorter(reference: str) -> list[str]:
    """Cut a reference into pieces of at most PIECE words, or into halves if it is not longer than that.

    Returns no pieces for a reference that has PIECE / 2 words or fewer, or a single sentence.
    """
    words = len(reference.split())
    if words <= PIECE // 2:
        return []
    most = PIECE if words > PIECE else math.ceil(words / 2)
    cut = pieces(reference, lambda piece: len(piece.split()) <= most)
    return cut if len(cut) > 1 else []


class Window(NamedTuple):
    """Sentences `start` to `end` (exclusive) of the answer with this index; answer None stands for all answers, whole.

    piece: the number of the piece of the reference that is shown with them; 0 for the whole reference.
    """

    answer: int | None
    start: int = 0
    end: int = 0
    piece: int = 0


ALL = Window(None)


class InWindows(Scorer):
    """Shows a scorer of claims, such as `RagZeval`, answers of at most `limit` sentences.

    If an example has several answers and all are that short, they are judged together, unchanged. Otherwise each answer
    is judged alone, in windows of sentences. This holds for short answers too, so that all are judged in the same way.
    An answer that is judged alone is shown without Markdown marks, for which such judges were not trained.

    If a reply cannot be read, the judge is asked again about less. Answers that were shown together are asked about one
    by one. A window is halved, down to one sentence. For one sentence the reference is cut into pieces, and these are
    halved; the piece with the largest score counts, as in `InPieces`. If a reply still cannot be read, the answer has
    no score: nothing is left out.

    The score is supported claims / claims of all windows. `parts` of a row judged in windows holds "trajectory", with
    all claims of each answer. "status" and "strict" are those of `RagZeval`; strict if all replies are. "windows" holds
    a list for each answer. It says for each window the first and the last sentence (counted from 1) and the status. It
    also has the number of pieces of the reference, if more than one, and the reply if it could not be read.
    """

    def __init__(self, scorer: Scorer, limit: int):
        self.scorer, self._limit = scorer, limit
        self.name, self.needs, self.also, self.group = scorer.name, scorer.needs, scorer.also, scorer.group
        self.prompt_hash = scorer.prompt_hash
        self.identity = self._named(scorer.identity)

    def _named(self, identity: str) -> str:
        return f"{identity} in plain windows of {self._limit}, then pieces of {PIECE} words"

    @property
    def identities(self) -> set[str]:
        inner = self.scorer.identities
        return inner | set(map(self._named, inner))

    def identity_of(self, parts: Mapping[str, Any]) -> str:
        if "windows" not in parts:
            return self.scorer.identity_of(parts)
        in_pieces = any("pieces" in window for window in chain.from_iterable(parts["windows"]))
        return self._named(self.scorer.identity_of({"pieces": ()} if in_pieces else {}))

    def requests(self, example: Example) -> int:
        shown = self.shown(example)
        return len(_LongExample(shown, self._limit).windows) if shown else 0

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        asked: dict[str, tuple[_LongExample, Window]] = {}
        shown: list[Example] = []

        def ask(of: _LongExample, windows: Sequence[Window]) -> None:
            for window in windows:
                part = of.part(window)
                asked[part.id] = of, window
                shown.append(part)

        for example in examples:
            of = _LongExample(example, self._limit)
            ask(of, of.windows)
        while shown:
            now, shown[:] = shown[:], []
            for scored in self.scorer.score(now):
                of, window = asked.pop(scored.id)
                ask(of, of.take(window, scored))
                if of.is_done:
                    yield of.together()
                elif self.part_done:
                    self.part_done(of.example.id, of.share)


class _LongExample:
    """An example that is being judged, and what has been read about it so far.

    windows: what is asked first. Pass the reply about each of them to `take`, and about those that `take` returns.
    """

    def __init__(self, example: Example, limit: int):
        self.example, self._limit = example, limit
        self._answers = list(map(without_marks, example.answers))
        self._sentences = list(map(answer_sentences, self._answers))
        self._references = [example.reference]  # later also its pieces
        self.is_long = max(map(len, self._sentences)) > limit
        self.windows = self._each_answer() if self.is_long or len(example.answers) == 1 else [ALL]
        self._waiting = len(self.windows)
        self._read: dict[Window, Scored] = {}  # by window; without those that were asked again in parts
        self._spent: list[Scored] = []

    def _each_answer(self) -> list[Window]:
        return [
            window
            for place, sentences in enumerate(self._sentences)
            for window in _cut(Window(place, 0, len(sentences)), self._limit)
        ]

    def shown(self) -> list[Example]:
        """Return the examples that are asked about first."""
        return [self.part(window) for window in self.windows]

    def part(self, window: Window) -> Example:
        """Return the example that shows the judge this window."""
        if window.answer is None:
            return replace(self.example, id=f"{self.example.id}#whole")
        answer, sentences = self._answers[window.answer], self._sentences[window.answer]
        is_whole = window.end - window.start == len(sentences)
        shown = answer if is_whole else " ".join(sentences[window.start : window.end])
        id_ = f"{self.example.id}#{window.answer}:{window.start}-{window.end}#{window.piece}"
        part = replace(self.example, id=id_, answers=(shown,), unanswered=())
        if not window.piece:
            return part
        reference = self._references[window.piece]
        return replace(part, reference=reference, chunks=(reference,))

    def take(self, window: Window, scored: Scored) -> list[Window]:
        """Store the reply about a window. Return what to ask instead if it cannot be read, else nothing."""
        scored = shown_whole(scored)
        self._spent.append(scored)
        again = [] if not scored.final or scored.parts.get("trajectory") else self._instead(window)
        if not again:
            self._read[window] = scored if window.answer is None else _with_claims(scored)
        self._waiting += len(again) - 1
        return again

    def _instead(self, window: Window) -> list[Window]:
        """Return what to ask instead of a window whose reply could not be read."""
        size = window.end - window.start
        if window.answer is None:
            return self._each_answer()
        if size > 1:
            return _cut(window, (size + 1) // 2)
        shorter = _shorter(self._references[window.piece])
        first = len(self._references)
        self._references += shorter
        return [window._replace(piece=first + at) for at in range(len(shorter))]

    @property
    def is_done(self) -> bool:
        return not self._waiting

    @property
    def share(self) -> float:
        """The share of what is asked about the example, as far as it is known, that was replied to."""
        return len(self._spent) / (len(self._spent) + self._waiting)

    def together(self) -> Scored:
        if len(self._spent) == 1 and len(self.windows) == 1:
            return replace(self._spent[0], id=self.example.id)
        scores, trajectory, windows = zip(*map(self._answer, range(len(self._sentences))), strict=True)
        unread = next((score.status for score in scores if score.value is None), None)
        strict = [one.parts.get("strict") for one in self._spent]
        parts = {
            "trajectory": list(trajectory) if any(trajectory) else None,
            "status": unread or _worst([score.status for score in scores]),
            "strict": None if None in strict else all(strict),
            "windows": list(windows),
        }
        return Scored(self.example.id, scores, parts, **costs_together(self._spent))

    def _answer(self, place: int) -> tuple[Score, dict[str, Any] | None, list[dict[str, Any]]]:
        """Return an answer's score, its part of the trajectory (None if a window is unreadable), and its windows."""
        own = sorted(window for window in self._read if window.answer == place)
        by_piece = [
            (*sentences, [self._read[window] for window in windows])
            for sentences, windows in groupby(own, lambda window: (window.start, window.end))
        ]
        read = [_best(scored) for _, _, scored in by_piece]
        windows = [_told(start, end, scored) for start, end, scored in by_piece]
        unread = next((scored for scored in read if not scored.parts.get("trajectory")), None)
        if unread is not None:
            return Score(None, unread.scores[0].status), None, windows
        candidates = [candidate for scored in read for candidate in scored.parts["trajectory"]]
        echoes = [candidate["answer"] for candidate in candidates]
        claims = [claim for candidate in candidates for claim in candidate["atomic_claims"]]
        candidate = {
            "id": LETTERS[place],
            "atomic_claims": claims,
            "answer": None if None in echoes else " ".join(echoes),
        }
        if not claims:
            return Score(None, "failed: no claims"), candidate, windows
        status = _worst([scored.scores[0].status for scored in read if scored.scores[0].value is not None])
        return Score(sum(claim["is_supported"] for claim in claims) / len(claims), status), candidate, windows


def _best(by_piece: Sequence[Scored]) -> Scored:
    """Return the first piece of the reference whose reply could not be read, or else the one with the largest score."""
    unread = (scored for scored in by_piece if not scored.parts.get("trajectory"))
    return next(unread, None) or max(by_piece, key=lambda scored: (scored.values[0] is not None, scored.values[0]))


def _with_claims(scored: Scored) -> Scored:
    """Return what was judged in pieces with the best piece that has claims, if another piece has none.

    `InPieces` gives such a window no score. Its claims would then be missing in the score of the answer.
    """
    pieces = scored.parts.get("pieces", ())
    if scored.values[0] is not None or not scored.parts.get("trajectory"):
        return scored
    claims = [[claim["is_supported"] for claim in piece["trajectory"][0]["atomic_claims"]] for piece in pieces]
    if not any(claims):
        return scored
    shares = [sum(supported) / len(supported) if supported else -1.0 for supported in claims]
    best = pieces[shares.index(max(shares))]
    parts = {**scored.parts, "trajectory": best["trajectory"]}
    return replace(scored, scores=(Score(max(shares), best["status"]),), parts=parts)


def _told(start: int, end: int, by_piece: Sequence[Scored]) -> dict[str, Any]:
    """Return what a row says about a window."""
    counted = _best(by_piece)
    told: dict[str, Any] = {"sentences": [start + 1, end], "status": counted.scores[0].status}
    if (count := sum(len(scored.parts.get("pieces", (scored,))) for scored in by_piece)) > 1:
        told["pieces"] = count
    return told if counted.parts.get("reply") is None else {**told, "reply": counted.parts["reply"]}


def _worst(statuses: Sequence[str]) -> str:
    """Return the first status other than that of a reply in the right format; that one if there is no other."""
    return next((status for status in statuses if status != STRICT), STRICT)


def _cut(window: Window, size: int) -> list[Window]:
    """Split a window into parts of at most `size` sentences."""
    starts = range(window.start, window.end, size)
    return [Window(window.answer, start, min(start + size, window.end)) for start in starts]
