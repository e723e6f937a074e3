"""Replies to every scorer that asks a judge, with an oracle that knows what each was meant to give, and whether to any.

`case(seed, number)` makes one: a scorer, what it is asked about, and a judge that is honest but for the form of one of
its replies (or of all to one prompt). Each answer must get the value that the plain reply gives, or none; and none at
all where the reply makes no evaluation.

    python tests/hostile/scorer_replies.py 20000        # a table of kinds, one of scorers, and examples
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from findings import Findings
from honest_judge import STABLE, Ask, read_ask, strings
from honest_replies import sentence
from hostile_texts import texts
from reply_forms import KINDS, Kind, Planted, Said, spelt

from rag_zeval.evaluation.estimate import WordEmbedder
from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.prompt import VARIANTS, Prompt
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Scored, Scorer

PROMPTS: dict[str, tuple[Prompt, ...]] = {
    **{name: measure.prompts for name, measure in MEASURES.items() if measure.prompts},
    **{f"rag_zeval {name}": (variant,) for name, variant in VARIANTS.items()},
}
SCORERS = (*PROMPTS,)
SHARED = 16  # cases in a row about one example
LONGEST = 2_000  # characters of a hostile text
ATTEMPTS = 200
Values = tuple[float | None, ...]


class Bench:
    """One scorer that is asked about one example after the other, in one event loop; its judge replies by `replies`."""

    def __init__(self, name: str):
        self._example = Example("", "", "", ())
        self.replies: Callable[[Request], Reply] = lambda request: Reply(None, "failed: no judge")
        backend, sampling = ScriptedBackend(lambda request: self.replies(request)), Sampling()
        self._scorer: Scorer
        if name in MEASURES:
            self._scorer = AskingScorer(MEASURES[name], backend, sampling, WordEmbedder())
        else:
            self._scorer = RagZeval(backend, name.removeprefix("rag_zeval "), sampling)
        self._scored: Iterator[Scored] | None = None

    def score(self, example: Example, replies: Callable[[Request], Reply]) -> Scored:
        self._example, self.replies = example, replies
        self._scored = self._scored or iter(self._scorer.score(self._examples()))
        try:
            return next(self._scored)
        except BaseException:
            self._scored = None
            raise

    def _examples(self) -> Iterator[Example]:
        while True:  # `as_finished` takes an example when the one before is done
            yield self._example


@functools.cache
def bench(name: str) -> Bench:
    return Bench(name)


@dataclass(frozen=True)
class World:
    """An example, and what an honest judge makes of it: the asks in their order, and the value of each answer."""

    scorer: str
    seed: str
    example: Example
    asks: tuple[Ask, ...]
    honest: Values
    verdicts: tuple[Any, ...] = ()

    def dependent(self, ask: Ask) -> tuple[int, ...]:
        """The answers that have no value if the reply to one of the asks does not come."""

        def reply(request: Request) -> Reply:
            one = self.ask(request)
            return Reply(None, "failed: lost") if one is ask else plain(one)

        at = self.asks.index(ask)
        if at not in self._dependent:
            values = bench(self.scorer).score(self.example, reply).values
            self._dependent[at] = tuple(at for at, value in enumerate(values) if value is None)
        return self._dependent[at]

    @functools.cached_property
    def _dependent(self) -> dict[int, tuple[int, ...]]:
        return {}

    def ask(self, request: Request) -> Ask:
        """The request as an Ask; one that was asked before is the same."""
        known = self._known.get((request.messages[0]["content"], request.trial))
        return known or read_ask(request, PROMPTS[self.scorer], self.seed)

    @functools.cached_property
    def _known(self) -> dict[tuple[str, int], Ask]:
        return {(ask.message, ask.trial): ask for ask in self.asks}


def plain(ask: Ask) -> Reply:
    """The honest reply, bare."""
    return Reply(spelt(ask.meant), "ok")


def imagined(scorer: str, seed: str, example: Example, given: Ask | None = None) -> World:
    """What an honest judge makes of an example, where it is given what it means by one reply or by none."""
    asks: dict[tuple[str, int], Ask] = {} if given is None else {(given.message, given.trial): given}

    def reply(request: Request) -> Reply:
        key = request.messages[0]["content"], request.trial
        if key not in asks:
            asks[key] = read_ask(request, PROMPTS[scorer], seed)
        return plain(asks[key])

    scored = bench(scorer).score(example, reply)
    values, meant = scored.values, ()
    if scorer not in MEASURES:  # what was meant is known without any reader
        (ask,) = asks.values()
        meant = tuple(tuple(claim["is_supported"] for claim in one["atomic_claims"]) for one in ask.meant)
        values = tuple(sum(claims) / len(claims) for claims in meant)
    return World(scorer, seed, example, tuple(asks.values()), values, meant)


@functools.lru_cache(maxsize=8)
def world(scorer: str, seed: str, is_plain: bool) -> World:
    """An example of which every answer has an honest value."""
    for attempt in range(ATTEMPTS):
        rng = random.Random(f"{scorer} {seed} {attempt}")
        hostile = 0.0 if is_plain or attempt > 20 else 0.1
        made = imagined(scorer, f"{seed} {attempt}", _example(rng, scorer, hostile))
        if None not in made.honest:
            return made
    raise AssertionError(f"{scorer}, {seed}: no honest judge gives every answer a value")


def _example(rng: random.Random, scorer: str, hostile: float) -> Example:
    def text(most: int, cites: int = 0) -> str:
        if rng.random() < hostile and len(found := next(texts(rng, 1))) < LONGEST and found.strip():
            return found + " [1]." * bool(cites)
        parts = [sentence(rng) for _ in range(rng.randint(1, most))]
        for at in range(len(parts)):
            if cites and (at == 0 or rng.random() < 0.6):
                parts[at] = f"{parts[at][:-1]} [{rng.randint(1, cites)}]."
        return " ".join(parts)

    _, _, depth = scorer.partition("_at_")
    chunks = tuple(text(2) for _ in range(int(depth) if depth else rng.randint(1, 3)))
    cites = len(chunks) if scorer.startswith("citation") or rng.random() < 0.2 else 0
    return Example(
        id="1",
        question=sentence(rng).replace(".", "?"),
        reference=text(3),
        answers=tuple(text(4, cites) for _ in range(rng.randint(1, 2))),
        truth=text(2),
        chunks=chunks,
    )


# ---- cases


@dataclass(frozen=True)
class Case:
    """One case, played: what was said in place of the honest reply to `ask`, and what each answer then got.

    end: "read" (all got the honest value), "not read" (none, or some), "made up", "raised", or "unknown", where the
    reader gives the plain reply no value either.
    """

    scorer: str
    kind: Kind
    world: World
    ask: Ask
    said: Said
    depends: tuple[int, ...]
    values: Values
    end: str
    fault: str = ""


@functools.cache
def kinds_of(scorer: str) -> tuple[Kind, ...]:
    """The kinds of replies that there are to a scorer's prompts."""
    asks = [ask for at in range(4) for ask in world(scorer, f"probe {at}", True).asks]
    return tuple(kind for kind in KINDS.values() if any(kind.of(ask) for ask in asks))


def case(seed: int, number: int) -> Case:
    """The case of that number: SHARED in a row are of one scorer, whose kinds come in turn."""
    block, at = divmod(number, SHARED)
    turn, which = divmod(block, len(SCORERS))
    scorer = SCORERS[which]
    kinds = kinds_of(scorer)
    return play(scorer, kinds[(turn * SHARED + at) % len(kinds)], f"{seed} {block}", at)


def play(scorer: str, kind: Kind, seed: str, at: int = 0) -> Case:
    rng = random.Random(f"{scorer} {kind.name} {seed} {at}")
    for attempt in range(ATTEMPTS):
        here = world(scorer, f"{seed} {attempt}", kind.plain)
        possible = [ask for ask in here.asks if kind.of(ask)]
        if not possible:
            continue
        ask, planted = rng.choice(possible), None
        if kind.plant is not None:
            planted = kind.plant(rng, ask)
            here, asked = _planted(rng, here, ask, planted)
            if asked is None:
                continue
            ask = asked
        return _played(rng, scorer, kind, here, ask, planted)
    raise AssertionError(f"{scorer}, {kind.name}, {seed}: nothing to reply to")


def _planted(rng: random.Random, here: World, ask: Ask, planted: Planted) -> tuple[World, Ask | None]:
    """The world in which a text that this prompt shows holds what is planted, and what is then asked."""
    shown = "\n".join(strings(ask.inputs))
    example = here.example
    places: list[tuple[str, int]] = [
        (name, at)
        for name in ("question", "reference", "truth", "answers", "chunks")
        for at, text in enumerate(_texts(example, name))
        if text in shown
    ]
    name, at = rng.choice(places or [("question", 0)])
    changed = [*_texts(example, name)]
    changed[at] = _with(changed[at], planted.shown)
    value: Any = tuple(changed) if name in ("answers", "chunks") else changed[0]
    there = imagined(here.scorer, here.seed, replace(example, **{name: value}))
    same = [one for one in there.asks if one.prompt.name == ask.prompt.name]
    telling = [one for one in same if any(planted.shown in text for text in strings(one.inputs))]
    asked = next(iter(telling or same), None)
    if asked is not None and planted.meant is not None:
        asked = replace(asked, given=planted.meant)
        there = imagined(there.scorer, there.seed, there.example, asked)
    return there, asked


def _texts(example: Example, name: str) -> Sequence[str]:
    value = getattr(example, name)
    return value if isinstance(value, tuple) else [value]


def _with(text: str, planted: str) -> str:
    """The text with something planted in it, behind what an honest judge goes by."""
    at = text.find(" ", STABLE + 1)
    return f"{text} {planted}" if at < 0 else f"{text[:at]} {planted}{text[at:]}"


def _played(rng: random.Random, scorer: str, kind: Kind, here: World, ask: Ask, planted: Planted | None) -> Case:
    everywhere = planted is None and rng.random() < 0.2
    if planted is not None:
        assert kind.repeat is not None
        said = kind.repeat(rng, ask, planted)
    else:
        assert kind.make is not None
        said = kind.make(rng, ask)
    first = Said(said) if isinstance(said, str) else said
    if planted is not None and not first.detail:
        first = replace(first, detail=planted.detail)

    def reply(request: Request) -> Reply:
        one = here.ask(request)
        if one is ask:
            return Reply(first.text, first.status, completion_tokens=9)
        if not everywhere or kind.make is None or one.prompt.name != ask.prompt.name or not kind.of(one):
            return plain(one)
        again = kind.make(random.Random(f"{one.seed} {one.message}"), one)
        again = Said(again) if isinstance(again, str) else again
        return Reply(again.text, again.status, completion_tokens=9)

    depends = here.dependent(ask)
    played = functools.partial(Case, scorer, kind, here, ask, first, depends)
    try:
        scored = bench(scorer).score(here.example, reply)
    except Exception as error:
        return played((), "raised", repr(error))
    return played(scored.values, *_end(kind, here, depends, scored))


def _end(kind: Kind, here: World, depends: Sequence[int], scored: Scored) -> tuple[str, str]:
    """What became of the replies, and what is wrong with it."""
    values = scored.values
    if kind.end == "none":
        made_up = {at: values[at] for at in depends if values[at] is not None}
        return ("made up", f"{made_up} where there is none") if made_up else ("not read", "")
    wrong = {
        at: value
        for at, (value, meant) in enumerate(zip(values, here.honest, strict=True))
        if value is not None and meant is not None and value != meant
    }
    if wrong:
        return "made up", f"{wrong} instead of {here.honest}"
    if here.verdicts and scored.parts.get("trajectory"):
        read = tuple(tuple(claim["is_supported"] for claim in one["atomic_claims"]) for one in scored.parts["trajectory"])
        if read != here.verdicts:
            return "made up", f"verdicts {read} instead of {here.verdicts}"
    if None in here.honest:
        return "unknown", ""
    return ("not read" if None in values else "read"), ""


# ---- many cases

Key = tuple[str, str, str]  # scorer, kind, end


def check(seed: int, numbers: range) -> tuple[Counter[Key], list[str]]:
    """What became of each case, by scorer and kind; a line for each that was made up or raised."""
    counts: Counter[Key] = Counter()
    faults = []
    for number in numbers:
        one = case(seed, number)
        counts[one.scorer, one.kind.name, one.end] += 1
        if one.fault:
            detail = f" ({one.said.detail})" if one.said.detail else ""
            faults.append(f"case({seed}, {number}), {one.scorer}, {one.kind.name}{detail}: {one.end}: {one.fault}")
    return counts, faults


def honest(count: int, scorers: Sequence[str] = SCORERS) -> Counter[Key]:
    """What became of `count` replies of each kind that must be read, to each scorer."""
    counts: Counter[Key] = Counter()
    for scorer in scorers:
        for kind in kinds_of(scorer):
            if kind.end == "whole":
                for at in range(count):
                    counts[scorer, kind.name, play(scorer, kind, f"honest {at // 4}", at).end] += 1
    return counts


def in_two_processes(seed: int, replies: int, tell: Callable[[int], None] = lambda done: None) -> tuple[Counter[Key], list[str]]:
    """`check` of so many cases, in two processes."""
    counts: Counter[Key] = Counter()
    faults: list[str] = []
    step = SHARED * 64
    numbers = [range(start, min(start + step, replies)) for start in range(0, replies, step)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for some, lines in pool.imap_unordered(functools.partial(check, seed), numbers):
            counts.update(some)
            faults += lines
            tell(sum(counts.values()))
    return counts, faults


def run(replies: int, seed: int = 0) -> Findings:
    """So many cases, in two processes; a fault where a scorer has a kind of replies that was not tried."""
    findings = Findings("scorer replies", ["replies", "scorers", "kinds", "read", "not read", "unknown", "made up", "raised"])
    counts, findings.faults = in_two_processes(seed, replies, lambda n: findings.tell(f"{n:,} of {replies:,}"))
    for (_, _, end), count in counts.items():
        findings.counts.update({"replies": count, end: count})
    findings.counts["scorers"] = len({scorer for scorer, _, _ in counts})
    findings.counts["kinds"] = len({kind for _, kind, _ in counts})
    findings.note("not tried", "", sorted(wanted() - tried(counts)))
    return findings


def tried(counts: Counter[Key]) -> set[tuple[str, str]]:
    return {(scorer, kind) for scorer, kind, _ in counts}


def wanted() -> set[tuple[str, str]]:
    """Every scorer with every kind of replies to it."""
    return {(scorer, kind.name) for scorer in SCORERS for kind in kinds_of(scorer)}


# ---- tables

ENDS = ("read", "not read", "unknown", "made up", "raised")


def table(counts: Counter[Key], by: int) -> str:
    """A line for each scorer (by 0) or kind (by 1): how many replies came to which end, and in how many of the others."""
    lines: dict[str, Counter[str]] = {}
    faulty: dict[str, set[str]] = {}
    for key, count in counts.items():
        lines.setdefault(key[by], Counter())[key[2]] += count
        if key[2] in ("made up", "raised"):
            faulty.setdefault(key[by], set()).add(key[1 - by])
    head = f"{('scorer', 'kind')[by]:<52}" + "".join(f"{end:>10}" for end in ENDS) + f"{('kinds', 'scorers')[by]:>10}"
    rows = [
        f"{name:<52}" + "".join(f"{line[end]:>10,}" for end in ENDS) + f"{len(faulty.get(name, ())):>10}"
        for name, line in sorted(lines.items(), key=lambda item: -item[1]["made up"] - item[1]["raised"])
    ]
    return "\n".join([head, *rows])


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("replies", type=int, nargs="?", default=20_000, help="how many cases (default: 20,000)")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--examples", type=int, default=3, help="faults shown of each kind (default: 3)")
    arguments.add_argument("--honest", type=int, help="instead: so many replies of each kind that must be read")
    given = arguments.parse_args()
    started = time.monotonic()
    if given.honest:
        counts, faults = honest(given.honest), []
    else:
        counts, faults = in_two_processes(given.seed, given.replies)
    seconds = time.monotonic() - started
    print(table(counts, 1), "", table(counts, 0), "", sep="\n")
    shown: Counter[str] = Counter()
    random.Random(0).shuffle(faults)
    for line in faults:
        kind = line.split(", ", 3)[3].partition(":")[0].partition(" (")[0]
        shown[kind] += 1
        if shown[kind] <= given.examples:
            number = int(line.partition(", ")[2].partition(")")[0])
            one = case(given.seed, number)
            print(f"{line}\n    asked: {one.ask.prompt.name} {str(one.ask.inputs)[:300]}\n    reply: {one.said.text[:400]!r}\n")
    replies = sum(counts.values())
    print(f"{replies:,} replies, {len(faults):,} faults, {seconds:.0f} s, {replies / seconds:.0f} a second")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
