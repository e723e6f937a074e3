"""What scorers are asked about, and what an honest judge makes of it: for every scorer that asks a judge."""

import functools
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from honest_judge import STABLE, Ask, read_ask, strings
from honest_replies import sentence
from hostile_texts import texts
from reply_forms import Planted, spelt
from scripted_backend import ScriptedBackend

from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import VARIANTS, Prompt
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scoring.estimate import WordEmbedder
from rag_zeval.text import is_blank

PROMPTS: dict[str, tuple[Prompt, ...]] = {
    **{name: measure.prompts for name, measure in MEASURES.items() if measure.prompts},
    **{f"{RagZeval.name} {name}": (variant,) for name, variant in VARIANTS.items()},
}
SCORERS = (*PROMPTS,)
LONGEST = 2_000  # characters of a hostile text
ATTEMPTS = 200
HOSTILE = 0.1  # how probable it is that a text is hostile, where texts may be
Values = tuple[float | None, ...]
Judge = Callable[[Request], Reply]


class Bench:
    """A scorer that is asked about one example after the other in one event loop; its judge is another each time."""

    def __init__(self, name: str):
        self._example = Example("", "", "", ())
        self._judge: Judge
        self._scored: Iterator[Scored] | None = None
        backend = ScriptedBackend(lambda request: self._judge(request))  # noqa: PLW0108 (it changes)
        self._scorer: Scorer = (
            AskingScorer(MEASURES[name], backend, Sampling(), WordEmbedder())
            if name in MEASURES
            else RagZeval(backend, PROMPTS[name][0].name, Sampling())
        )

    def score(self, example: Example, judge: Judge) -> Scored:
        self._example, self._judge = example, judge
        self._scored = self._scored or iter(self._scorer.score(self._examples()))
        try:
            return next(self._scored)
        except BaseException:
            self._scored = None  # it has ended
            raise

    def _examples(self) -> Iterator[Example]:
        for number in itertools.count():  # the next is taken when the one before is done
            yield replace(self._example, id=str(number))


@functools.cache
def bench(scorer: str) -> Bench:
    return Bench(scorer)


@dataclass(frozen=True, eq=False)
class World:
    """An example; what an honest judge is asked about it, in order; the value of each answer by its replies.

    verdicts: of each claim of each answer, if the scorer is RAG-Zeval.
    """

    scorer: str
    seed: str
    example: Example
    asks: tuple[Ask, ...]
    honest: Values
    verdicts: tuple[Any, ...] = ()

    def ask(self, request: Request) -> Ask:
        """The request as an Ask; one of `asks` if it is one."""
        known = self._known.get((request.messages[0]["content"], request.trial))
        return known or read_ask(request, PROMPTS[self.scorer], self.seed)

    @functools.cached_property
    def _known(self) -> dict[tuple[str, int], Ask]:
        return {(ask.message, ask.trial): ask for ask in self.asks}

    @functools.lru_cache(maxsize=64)  # noqa: B019 (few worlds are held)
    def dependent(self, ask: Ask) -> tuple[int, ...]:
        """The answers that have no value if the reply to one of the asks does not come."""

        def without(request: Request) -> Reply:
            one = self.ask(request)
            return Reply(None, "failed: lost") if one is ask else honest_reply(one)

        values = bench(self.scorer).score(self.example, without).values
        return tuple(at for at, value in enumerate(values) if value is None)


def honest_reply(ask: Ask) -> Reply:
    """What is meant, bare."""
    return Reply(spelt(ask.meant), "ok")


def imagined(scorer: str, seed: str, example: Example, given: Ask | None = None) -> World:
    """What an honest judge makes of an example; of one ask it may be given what it means to say."""
    asks: dict[tuple[str, int], Ask] = {} if given is None else {(given.message, given.trial): given}

    def judge(request: Request) -> Reply:
        key = request.messages[0]["content"], request.trial
        if key not in asks:
            asks[key] = read_ask(request, PROMPTS[scorer], seed)
        return honest_reply(asks[key])

    values = bench(scorer).score(example, judge).values
    if scorer in MEASURES:
        return World(scorer, seed, example, tuple(asks.values()), values)
    (ask,) = asks.values()  # what was meant is known without any reader
    verdicts = tuple(tuple(claim["is_supported"] for claim in one["atomic_claims"]) for one in ask.meant)
    return World(scorer, seed, example, (ask,), tuple(sum(claims) / len(claims) for claims in verdicts), verdicts)


@functools.lru_cache(maxsize=8)
def world(scorer: str, seed: str, is_plain: bool) -> World:
    """An example of which every answer has an honest value. is_plain: no text of it is hostile."""
    for attempt in range(ATTEMPTS):
        rng = random.Random(f"{scorer} {seed} {attempt}")
        hostile = 0.0 if is_plain or attempt > ATTEMPTS // 10 else HOSTILE
        made = imagined(scorer, f"{seed} {attempt}", _example(rng, scorer, hostile))
        if None not in made.honest:
            return made
    raise AssertionError(f"{scorer}, {seed}: no honest judge gives every answer a value")


def _example(rng: random.Random, scorer: str, hostile: float) -> Example:
    depth = scorer.partition("_at_")[2]
    chunks = tuple(_text(rng, 2, hostile) for _ in range(int(depth) if depth else rng.randint(1, 3)))
    cited = len(chunks) if scorer.startswith("citation") or rng.random() < 0.2 else 0
    return Example(
        id="1",
        question=sentence(rng).replace(".", "?"),
        reference=_text(rng, 3, hostile),
        answers=tuple(_text(rng, 4, hostile, cited) for _ in range(rng.randint(1, 2))),
        truth=_text(rng, 2, hostile),
        chunks=chunks,
    )


def _text(rng: random.Random, most: int, hostile: float, cited: int = 0) -> str:
    """One to `most` sentences, or a hostile text; it cites chunks up to number `cited`."""
    if rng.random() < hostile and len(found := next(texts(rng, 1))) < LONGEST and not is_blank(found):
        return found + " [1]." * bool(cited)
    parts = [sentence(rng) for _ in range(rng.randint(1, most))]
    for at, part in enumerate(parts):
        if cited and (at == 0 or rng.random() < 0.6):
            parts[at] = f"{part[:-1]} [{rng.randint(1, cited)}]."
    return " ".join(parts)


def planted(rng: random.Random, here: World, ask: Ask, plant: Planted) -> tuple[World, Ask] | None:
    """The world in which a text that this ask shows holds what is planted, and what is asked there in its place.

    None if nothing of the kind is asked there.
    """
    shown = "\n".join(strings(ask.inputs))
    places = [
        (name, at)
        for name in ("question", "reference", "truth", "answers", "chunks")
        for at in range(len(_texts_of(here.example, name)))
    ]
    rng.shuffle(places)
    places.sort(key=lambda place: _texts_of(here.example, place[0])[place[1]] not in shown)
    for name, at in places:
        changed = [*_texts_of(here.example, name)]
        changed[at] = _with(changed[at], plant.shown)
        value: Any = tuple(changed) if name in ("answers", "chunks") else changed[0]
        there = imagined(here.scorer, here.seed, replace(here.example, **{name: value}))
        for asked in there.asks:
            if asked.prompt.name == ask.prompt.name and any(plant.shown in text for text in strings(asked.inputs)):
                if plant.meant is None:
                    return there, asked
                given = replace(asked, given=plant.meant)
                return imagined(here.scorer, here.seed, there.example, given), given
    return None


def _texts_of(example: Example, name: str) -> Sequence[str]:
    value = getattr(example, name)
    return value if isinstance(value, tuple) else [value]


def _with(text: str, planted: str) -> str:
    """The text with something planted in it, behind what an honest judge goes by."""
    at = text.find(" ", STABLE + 1)
    return f"{text} {planted}" if at < 0 else f"{text[:at]} {planted}{text[at:]}"
