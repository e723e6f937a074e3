"""Replies to every scorer that asks a judge, with an oracle that knows what each was meant to give, and whether to any.

`case(seed, number)` makes one: a scorer, what it is asked about, and a judge that is honest but for the form of a reply
(or of all its replies to one prompt). Each answer must get the value that bare replies give it, or none; and none at
all where the reply makes no evaluation.
"""

import functools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from broken_forms import BROKEN
from findings import Findings
from honest_judge import Ask
from judged_worlds import ATTEMPTS, SCORERS, Values, World, bench, honest_reply, planted, world
from repeated_forms import REPEATED
from reply_forms import Kind, Said
from thought_forms import THOUGHTS
from whole_forms import WHOLE

from rag_zeval.models.language_model import Reply, Request
from rag_zeval.scorers.score import Scored

KINDS = (*WHOLE, *THOUGHTS, *BROKEN, *REPEATED)
SHARED = 16  # cases in a row that are of one scorer
EVERYWHERE = 0.2  # how often all replies to a prompt are of the form
Key = tuple[str, str, str]  # scorer, kind, end
ENDS = ("read", "not read", "unknown", "made up", "raised")


@dataclass(frozen=True)
class Case:
    """A case, played: what was said in place of the honest reply to `ask`, and what the answers then got.

    end: "read", where all got the honest value; "not read", where one got none; "made up"; "raised"; or "unknown",
    where bare replies give one of them no value either. fault: what is wrong, if that is.
    """

    scorer: str
    kind: Kind
    world: World
    ask: Ask
    said: Said
    end: str
    fault: str = ""


@functools.cache
def kinds_of(scorer: str) -> tuple[Kind, ...]:
    """The kinds of replies that there are to a scorer's prompts."""
    asks = [ask for at in range(4) for ask in world(scorer, f"kinds {at}", True).asks]
    return tuple(kind for kind in KINDS if any(map(kind.of, asks)))


def case(seed: int, number: int) -> Case:
    """The case of that number. SHARED in a row are of one scorer; the kinds come in turn."""
    block, at = divmod(number, SHARED)
    turn, which = divmod(block, len(SCORERS))
    kinds = kinds_of(SCORERS[which])
    return play(SCORERS[which], kinds[(turn * SHARED + at) % len(kinds)], f"{seed} {block}", at)


def play(scorer: str, kind: Kind, seed: str, at: int = 0) -> Case:
    """A case of that kind. Those of one seed are about one example, unless they need another."""
    rng = random.Random(f"{scorer} {kind.name} {seed} {at}")
    for attempt in range(ATTEMPTS):
        here = world(scorer, f"{seed} {attempt}", kind.plain)
        possible = [ask for ask in here.asks if kind.of(ask)]
        if not possible:
            continue
        ask = rng.choice(possible)
        if kind.plant is None:
            said = kind.said(rng, ask)
            everywhere = rng.random() < EVERYWHERE
            return _played(kind, here, ask, said, everywhere)
        plant = kind.plant(rng, ask)
        if there := planted(rng, here, ask, plant):
            here, ask = there
            return _played(kind, here, ask, kind.said(rng, ask, plant))
    raise AssertionError(f"{scorer}, {kind.name}, {seed}: nothing to reply to")


def _played(kind: Kind, here: World, ask: Ask, said: Said, everywhere: bool = False) -> Case:
    """everywhere: whether all replies to the prompt are of this kind."""

    def judge(request: Request) -> Reply:
        one = here.ask(request)
        if one is ask:
            return Reply(said.text, said.status)
        if everywhere and one.prompt.name == ask.prompt.name and kind.of(one):
            other = kind.said(random.Random(f"{one.seed} {one.message}"), one)
            return Reply(other.text, other.status)
        return honest_reply(one)

    depends = here.dependent(ask) if kind.end == "none" else ()
    played = functools.partial(Case, here.scorer, kind, here, ask, said)
    try:
        scored = bench(here.scorer).score(here.example, judge)
    except Exception as error:
        return played("raised", repr(error))
    if made_up := _made_up(kind, here, depends, scored):
        return played("made up", made_up)
    if kind.end == "none":
        return played("not read")
    return played("unknown" if None in here.honest else "not read" if None in scored.values else "read")


def _made_up(kind: Kind, here: World, depends: Sequence[int], scored: Scored) -> str:
    """What is made up, or ""."""
    values: Values = scored.values
    if kind.end == "none":
        given = {at: values[at] for at in depends if values[at] is not None}
        return f"{given} where there is none" if given else ""
    pairs = enumerate(zip(values, here.honest, strict=True))
    wrong = {at: value for at, (value, honest) in pairs if None not in (value, honest) and value != honest}
    if wrong:
        return f"{wrong} instead of {here.honest}"
    trajectory = scored.parts.get("trajectory") or ()
    read = tuple(tuple(claim["is_supported"] for claim in one["atomic_claims"]) for one in trajectory)
    return f"verdicts {read} instead of {here.verdicts}" if read and read != here.verdicts else ""


# ---- many cases


def check(seed: int, numbers: range) -> tuple[Counter[Key], list[str]]:
    """What became of each case, by scorer and kind; a line for each that was made up or raised."""
    counts: Counter[Key] = Counter()
    faults = []
    for number in numbers:
        one = case(seed, number)
        counts[one.scorer, one.kind.name, one.end] += 1
        if one.fault:
            faults.append(f"case({seed}, {number}); {_line(one)}")
    return counts, faults


def _line(one: Case) -> str:
    detail = f" [{one.said.detail}]" if one.said.detail else ""
    return f"{one.scorer}; {one.kind.name}{detail}; {one.end}: {one.fault}"


def read_honest(each: int) -> Findings:
    """How many replies of each kind that is to be read are read, `each` to every scorer; all must be."""
    findings = Findings("whole replies to scorers")
    for scorer in SCORERS:
        for kind in (kind for kind in kinds_of(scorer) if kind.end == "whole"):
            played = [play(scorer, kind, f"honest {at // 4}", at) for at in range(each)]
            unread = [one for one in played if one.end != "read"]
            findings.counts[kind.name] += each - len(unread)
            findings.faults += [f"{_line(one)} {one.said.text[-300:]!r}" for one in unread]
    return findings


def run(replies: int, seed: int = 0) -> Findings:
    """So many cases, in two processes."""
    findings = Findings("scorer replies", ["replies", "scorers", "kinds", *ENDS])
    counts = findings.check(functools.partial(check, seed), replies, SHARED * 64)
    findings.counts["scorers"] = len({scorer for scorer, _, _ in counts})
    findings.counts["kinds"] = len({kind for _, kind, _ in counts})
    findings.note("not tried", "all scorers", sorted(wanted() - tried(counts)))
    return findings


def tried(counts: Counter[Key]) -> set[tuple[str, str]]:
    return {(scorer, kind) for scorer, kind, _ in counts}


def wanted() -> set[tuple[str, str]]:
    """Every scorer with every kind of replies to it."""
    return {(scorer, kind.name) for scorer in SCORERS for kind in kinds_of(scorer)}


def all_once() -> int:
    """How many cases it takes until every scorer has met every kind."""
    turns = -(-max(len(kinds_of(scorer)) for scorer in SCORERS) // SHARED)
    return turns * len(SCORERS) * SHARED
