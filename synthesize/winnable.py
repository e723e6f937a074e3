"""How many questions can give a prompt that an honest judge wins: what is flagged at which alphas, and what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from rag_zeval.files import Row
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.stages.answer_quality import REASONS, AnswerFilter, Flags, blocking_reason, count_flags, find_flags


def winnable(rows: Sequence[Row], limits: AnswerFilter) -> dict[str, Any]:
    """Flags over the answered rows of `responses.jsonl`.

    limits: the values from which on an answer or a pair is flagged. flagged: counts by alpha and by pair of alphas.
    pairs: for each two alphas the shares of `_of_pair`. sets: for each K, how many questions have K answers that may
    be shown together when the reasons are left out one after another (`left`, each with those before it), and how many
    have K answers whose true support falls with alpha (`truly_ordered`; None on real text).
    """
    answered = [row for row in rows if row["status"] == "ok"]
    flags = [_flags(row, limits) for row in answered]
    supports = [{r["alpha"]: r["true_support"] for r in row["responses"]} for row in answered]
    alphas = sorted({alpha for support in supports for alpha in support}, reverse=True)
    return {
        "limits": asdict(limits),
        "flagged": count_flags(flags),
        "pairs": [_of_pair(pair, flags, supports) for pair in combinations(alphas, 2)],
        "sets": [_of_size(k, alphas, flags, supports) for k in range(2, len(alphas) + 1)],
    }


def _flags(row: Row, limits: AnswerFilter) -> Flags:
    answers = {r["alpha"]: r["text"] for r in row["responses"]}
    unfinished = {r["alpha"] for r in row["responses"] if not r["finished"]}
    return find_flags(answers, row["passage"], unfinished, limits)


Supports = Mapping[float, float | None]


def _of_pair(pair: tuple[float, float], flags: Sequence[Flags], supports: Sequence[Supports]) -> dict[str, Any]:
    """Shares of questions whose answers at two alphas are identical, or near-identical and not identical; of those
    whose true support is known, the share where it is equal, and the same of the near-identical alone."""
    reasons = [found.get(pair) for found in flags]
    known = [
        (support[pair[0]] == support[pair[1]], reason)
        for support, reason in zip(supports, reasons, strict=True)
        if support[pair[0]] is not None and support[pair[1]] is not None
    ]
    return {
        "alphas": list(pair),
        "identical": _share([reason == "identical" for reason in reasons]),
        "near_identical": _share([reason == "near_identical" for reason in reasons]),
        "tied": _share([tied for tied, _ in known]),
        "near_identical_tied": _share([tied for tied, reason in known if reason == "near_identical"]),
    }


def _of_size(k: int, alphas: Sequence[float], flags: Sequence[Flags], supports: Sequence[Supports]) -> dict[str, Any]:
    blocked = [blocking_reason(found, alphas, k) for found in flags]
    left = [sum(why is None or REASONS.index(why) > at for why in blocked) for at in range(len(REASONS))]
    ordered = [
        any(strictly_ranked([support[alpha] for alpha in chosen], chosen) for chosen in combinations(alphas, k))
        for support in supports
        if any(value is not None for value in support.values())
    ]
    return {
        "k": k,
        "questions": len(flags),
        "left": dict(zip(REASONS, left, strict=True)),
        "truly_ordered": sum(ordered) if ordered else None,
    }


def _share(outcomes: Sequence[bool]) -> dict[str, Any]:
    """`{"share", "low", "high", "n"}`: the share of n outcomes that are true, in [0, 1], with its 95% interval
    (Wilson 1927); None for no outcomes."""
    from scipy.stats import binomtest

    if not outcomes:
        return {"share": None, "low": None, "high": None, "n": 0}
    interval = binomtest(sum(outcomes), len(outcomes)).proportion_ci(method="wilson")
    share = sum(outcomes) / len(outcomes)
    return {"share": share, "low": float(interval.low), "high": float(interval.high), "n": len(outcomes)}


def print_winnable(found: Mapping[str, Any]) -> None:
    """Two tables in the terminal: shares by pair of alphas, and the questions that are left for each K."""
    from rich.console import Console
    from rich.table import Table

    limits = found["limits"]
    pairs = Table(title="two answers to one question: share [95%]")
    near = f"near-identical (from {limits['near_identical']:g})"
    for heading in ("alphas", "identical", near, "true tie", "near-identical that tie"):
        pairs.add_column(heading, justify="right", no_wrap=True)
    for pair in found["pairs"]:
        shares = (pair[key] for key in ("identical", "near_identical", "tied", "near_identical_tied"))
        pairs.add_row(" / ".join(f"{alpha:g}" for alpha in pair["alphas"]), *map(_shown, shares))
    sets = Table(title="questions that can give K answers, as flagged ones are left out, from left to right")
    headings = [f"{why} ({limits[why]:g})" if isinstance(limits.get(why), float) else why for why in REASONS]
    for heading in ("K", "questions", *headings, "truly ordered"):
        sets.add_column(heading.replace("_", " "), justify="right")
    for size in found["sets"]:
        ordered = "-" if size["truly_ordered"] is None else str(size["truly_ordered"])
        sets.add_row(str(size["k"]), str(size["questions"]), *map(str, size["left"].values()), ordered)
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(pairs, sets)


def _shown(share: Mapping[str, Any]) -> str:
    return f"{share['share']:.3f} [{share['low']:.3f}, {share['high']:.3f}]" if share["n"] else "-"
