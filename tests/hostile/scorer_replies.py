"""Replies to every scorer that asks a judge, with an oracle that knows what each was meant to give, and whether to any.

`case(seed, number)` makes one: a scorer, what it is asked about, and a judge that is honest but for the form of a reply
(or of all its replies to one prompt). Each answer must get the value that bare replies give it, or none; and none at
all where the reply makes no evaluation.

    python tests/hostile/scorer_replies.py 20000              # tables of what became of each, and some faults
    python tests/hostile/scorer_replies.py --honest 10        # how many whole replies are read
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from broken_forms import BROKEN
from findings import Findings
from honest_judge import Ask
from injected_forms import INJECTED
from judged_worlds import ATTEMPTS, SCORERS, Values, World, bench, honest_reply, planted, world
from repeated_forms import REPEATED
from reply_forms import Kind, Planted, Said
from thought_forms import THOUGHTS
from whole_forms import WHOLE

from rag_zeval.models.language_model import Reply, Request
from rag_zeval.scorers.score import Scored

KINDS = (*WHOLE, *THOUGHTS, *BROKEN, *REPEATED, *INJECTED)
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
            return _made(rng, kind, here, ask)
        plant = kind.plant(rng, ask)
        if there := planted(rng, here, ask, plant):
            return _repeated(rng, kind, *there, plant)
    raise AssertionError(f"{scorer}, {kind.name}, {seed}: nothing to reply to")


def _made(rng: random.Random, kind: Kind, here: World, ask: Ask) -> Case:
    make = kind.make
    assert make is not None
    said = _as_said(make(rng, ask))
    everywhere = rng.random() < EVERYWHERE

    def form(one: Ask) -> Said | None:
        if one is ask:
            return said
        if not everywhere or one.prompt.name != ask.prompt.name or not kind.of(one):
            return None
        return _as_said(make(random.Random(f"{one.seed} {one.message}"), one))

    return _played(kind, here, ask, said, form)


def _repeated(rng: random.Random, kind: Kind, here: World, ask: Ask, plant: Planted) -> Case:
    assert kind.repeat is not None
    said = replace(_as_said(kind.repeat(rng, ask, plant)), detail=plant.detail)
    return _played(kind, here, ask, said, lambda one: said if one is ask else None)


def _as_said(said: Said | str) -> Said:
    return Said(said) if isinstance(said, str) else said


def _played(kind: Kind, here: World, ask: Ask, said: Said, form: Callable[[Ask], Said | None]) -> Case:
    def judge(request: Request) -> Reply:
        one = here.ask(request)
        other = form(one)
        return honest_reply(one) if other is None else Reply(other.text, other.status)

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


def honest(count: int) -> tuple[Counter[Key], list[str]]:
    """What became of `count` replies to each scorer of each kind that is to be read; a line for each that is not."""
    counts: Counter[Key] = Counter()
    lines = []
    for scorer in SCORERS:
        for kind in kinds_of(scorer):
            for at in range(count * (kind.end == "whole")):
                one = play(scorer, kind, f"honest {at // 4}", at)
                counts[scorer, kind.name, one.end] += 1
                if one.end != "read":
                    lines.append(f"honest {at}; {_line(one)} {one.said.text[-300:]!r}")
    return counts, lines


def read_honest(each: int) -> Findings:
    """How many whole replies of each kind are read, `each` to every scorer; all must be."""
    findings = Findings("whole replies to scorers")
    counts, findings.faults = honest(each)
    for (_, kind, end), count in counts.items():
        findings.counts[kind] += count * (end == "read")
    return findings


def run(replies: int, seed: int = 0) -> Findings:
    """So many cases, in two processes."""
    findings = Findings("scorer replies", ["replies", "scorers", "kinds", *ENDS])
    counts, findings.faults = in_two_processes(replies, seed, lambda n: findings.tell(f"{n:,} of {replies:,}"))
    for (_, _, end), count in counts.items():
        findings.counts.update({"replies": count, end: count})
    findings.counts["scorers"] = len({scorer for scorer, _, _ in counts})
    findings.counts["kinds"] = len({kind for _, kind, _ in counts})
    findings.note("not tried", "all scorers", sorted(wanted() - tried(counts)))
    return findings


def in_two_processes(replies: int, seed: int, tell: Callable[[int], None]) -> tuple[Counter[Key], list[str]]:
    """`check` of the first cases of a seed; `tell` is told how many are done."""
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


def tried(counts: Counter[Key]) -> set[tuple[str, str]]:
    return {(scorer, kind) for scorer, kind, _ in counts}


def wanted() -> set[tuple[str, str]]:
    """Every scorer with every kind of replies to it."""
    return {(scorer, kind.name) for scorer in SCORERS for kind in kinds_of(scorer)}


def all_once() -> int:
    """How many cases it takes until every scorer has met every kind."""
    turns = -(-max(len(kinds_of(scorer)) for scorer in SCORERS) // SHARED)
    return turns * len(SCORERS) * SHARED


# ---- for people


def table(counts: Counter[Key], by: int) -> str:
    """A line for each scorer (by 0) or kind (by 1), the worst first; the last column counts the others at fault."""
    lines: dict[str, Counter[str]] = {}
    faulty: dict[str, set[str]] = {}
    for key, count in counts.items():
        lines.setdefault(key[by], Counter())[key[2]] += count
        if key[2] in ("made up", "raised"):
            faulty.setdefault(key[by], set()).add(key[1 - by])
    rows = [
        f"{name:<52}" + "".join(f"{line[end]:>10,}" for end in ENDS) + f"{len(faulty.get(name, ())):>10}"
        for name, line in sorted(lines.items(), key=lambda item: -item[1]["made up"] - item[1]["raised"])
    ]
    head = f"{('scorer', 'kind')[by]:<52}" + "".join(f"{end:>10}" for end in ENDS) + f"{('kinds', 'scorers')[by]:>10}"
    return "\n".join([head, *rows])


def shown(line: str) -> str:
    """A line of faults with what was asked and said."""
    seed, number = map(int, re.findall(r"\d+", line)[:2])
    one = case(seed, number)
    asked = f"{one.ask.prompt.name}, meant {one.ask.meant!r}"
    return f"{line}\n    asked {asked:.400}\n    said  {one.said.status} {one.said.text[-600:]!r}\n"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("replies", type=int, nargs="?", default=20_000, help="how many cases (default: 20,000)")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--examples", type=int, default=2, help="faults shown of each kind (default: 2)")
    arguments.add_argument("--kind", default="", help="show faults only of kinds whose names hold this")
    arguments.add_argument("--honest", type=int, help="instead: so many replies of each kind that is to be read")
    given = arguments.parse_args()
    started, faults = time.monotonic(), []
    if given.honest:
        counts, faults = honest(given.honest)
    else:
        counts, faults = in_two_processes(given.replies, given.seed, lambda done: None)
    seconds = time.monotonic() - started
    print(table(counts, 1), table(counts, 0), sep="\n\n")
    details = Counter(found[1] for line in faults if (found := re.search(r" \[(.*?)\]; ", line)))
    print(
        "\nfaults by detail:", *(f"{count:>8,}  {detail}" for detail, count in details.most_common(100)), "", sep="\n"
    )
    random.Random(0).shuffle(faults)
    seen: Counter[str] = Counter()
    for line in faults:
        kind = line.split("; ")[2].partition(" [")[0]
        seen[kind] += 1
        if seen[kind] <= given.examples and given.kind in kind:
            print(line if given.honest else shown(line))
    replies = sum(counts.values())
    print(f"{replies:,} replies, {len(faults):,} faults, {seconds:.0f} s, {replies / seconds:.0f} a second")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
