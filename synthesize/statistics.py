"""What the answers look like: what the paper leaves out, and what decides whether a judge can learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from rag_zeval.files import Row
from rag_zeval.judge.scoring import same_words, strictly_ranked
from rag_zeval.stages.answer_quality import repetition
from rag_zeval.statistics.mean_interval import mean_interval


def statistics(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts and shares over the rows of `responses.jsonl`; None where nothing can be counted.

    Shares are in [0, 1]. `identical`: questions whose answers at any two alphas are the same text (no honest judge can
    rank those; `winnable` has the pairs). `strictly_ordered`: questions whose true support falls with every step of
    alpha. `by_alpha`: a dict for each alpha, largest first, see `_of_alpha`.
    """
    answered = [row["responses"] for row in rows if row["status"] == "ok"]
    alphas = sorted({response["alpha"] for responses in answered for response in responses}, reverse=True)
    texts = [[response["text"] for response in responses] for responses in answered]
    supports = [[(r["true_support"], r["alpha"]) for r in responses] for responses in answered]
    known = [zip(*row, strict=True) for row in supports if all(support is not None for support, _ in row)]
    return {
        "questions": len(rows),
        "answered": len(answered),
        "failed": len(rows) - len(answered),
        "identical": {"any": _share([any(same_words(*two) for two in combinations(text, 2)) for text in texts])},
        "strictly_ordered": _share([strictly_ranked(support, alpha) for support, alpha in known]),
        "by_alpha": [
            _of_alpha(alpha, [r for responses in answered for r in responses if r["alpha"] == alpha])
            for alpha in alphas
        ],
    }


def _of_alpha(alpha: float, responses: Sequence[Row]) -> dict[str, Any]:
    """Mean length in tokens, share cut off at max_new_tokens, share of empty texts, mean repetition, and the mean true
    support with its 95% interval over `true_support_n` answers (None on real text)."""
    supports = [r["true_support"] for r in responses if r["true_support"] is not None]
    repeats = [share for r in responses if (share := repetition(r["text"])) is not None]
    low, high = mean_interval([[support] for support in supports]) if supports else (None, None)
    return {
        "alpha": alpha,
        "answers": len(responses),
        "n_tokens": fmean(r["n_tokens"] for r in responses),
        "unfinished": _share([not r["finished"] for r in responses]),
        "empty": _share([not r["text"] for r in responses]),
        "repetition": fmean(repeats) if repeats else None,
        "true_support": fmean(supports) if supports else None,
        "true_support_low": low,
        "true_support_high": high,
        "true_support_n": len(supports),
    }


def _share(outcomes: Sequence[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def print_statistics(found: dict[str, Any], title: str) -> None:
    """The statistics as a table in the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for heading in ("alpha", "answers", "tokens", "cut off", "empty", "repeated", "true support [95%]"):
        table.add_column(heading, justify="right", no_wrap=True)
    for at in found["by_alpha"]:
        table.add_row(
            f"{at['alpha']:g}",
            str(at["answers"]),
            f"{at['n_tokens']:.1f}",
            *(_shown(at[key]) for key in ("unfinished", "empty", "repetition")),
            _shown(at["true_support"])
            + (f" [{at['true_support_low']:.3f}, {at['true_support_high']:.3f}]" if at["true_support_n"] else ""),
        )
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(table)
    console.print(f"questions {found['questions']}, answered {found['answered']}, failed {found['failed']}")
    if found["identical"]["any"] is not None:
        console.print(f"same text at two alphas: {found['identical']['any']:.3f} of questions")
    if found["strictly_ordered"] is not None:
        console.print(f"true support falls at every step of alpha: {found['strictly_ordered']:.3f} of questions")


def _shown(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
