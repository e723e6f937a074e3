"""Statistics of the answers, which show whether a judge can learn from them. The paper does not report these.

They are stored in the manifest and printed as tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from rag_zeval.files import Row
from rag_zeval.judge.scoring import same_words, strictly_ranked
from rag_zeval.stages.answer_quality import (
    REASONS,
    AnswerFilter,
    Flags,
    blocking_reason,
    count_flags,
    find_flags,
    repetition,
)
from rag_zeval.text import with_interval

Supports = Mapping[float, float | None]  # true support of a question's answers, by alpha; None on real text


def response_statistics(rows: Sequence[Row], limits: AnswerFilter) -> dict[str, dict[str, Any]]:
    """Return counts and shares in [0, 1] over the rows of `responses.jsonl`. A share of nothing is None.

    "statistics":

    - `identical`: share of questions with the same words at some two alphas. No honest judge can rank those answers.
    - `strictly_ordered`: share of questions whose true support falls with every step of alpha; None on real
      text, and if there is only one alpha.
    - `by_alpha`: a dict for each alpha, largest first, see `_of_alpha`.

    "winnable", how many questions can give a prompt on which an honest judge can earn the reward:

    - `limits`: thresholds from which an answer or a pair is flagged.
    - `flagged`: counts by alpha, and by pair of alphas.
    - `pairs`: shares for each two alphas, see `_of_pair`.
    - `sets`: a dict for each K. `left` has, for each reason, how many questions still have K answers that may be shown
      together once that reason and all before it filter. `truly_ordered` is the number of questions with K answers
      whose true support falls with alpha; None on real text.
    """
    answered = [row for row in rows if row["status"] == "ok"]
    responses = [response for row in answered for response in row["responses"]]
    alphas = sorted({response["alpha"] for response in responses}, reverse=True)
    texts = [[response["text"] for response in row["responses"]] for row in answered]
    supports = [{r["alpha"]: r["true_support"] for r in row["responses"]} for row in answered]
    known = [support for support in supports if len(support) > 1 and None not in support.values()]
    flags = [_flags(row, limits) for row in answered]
    return {
        "statistics": {
            "questions": len(rows),
            "answered": len(answered),
            "failed": len(rows) - len(answered),
            "identical": {"any": _mean([any(same_words(*two) for two in combinations(text, 2)) for text in texts])},
            "strictly_ordered": _mean([strictly_ranked([*support.values()], [*support]) for support in known]),
            "by_alpha": [_of_alpha(alpha, [r for r in responses if r["alpha"] == alpha]) for alpha in alphas],
        },
        "winnable": {
            "limits": asdict(limits),
            "flagged": count_flags(flags),
            "pairs": [_of_pair(pair, flags, supports) for pair in combinations(alphas, 2)],
            "sets": [_of_size(k, alphas, flags, supports) for k in range(2, len(alphas) + 1)],
        },
    }


def _of_alpha(alpha: float, responses: Sequence[Row]) -> dict[str, Any]:
    """Return statistics of the answers at one alpha.

    `n_tokens` is the mean length. `unfinished` is the share cut off at max_new_tokens, `empty` the share of empty
    texts, and `repetition` a mean. `true_support` is a mean with its 95% interval over `true_support_n` answers; None
    on real text.
    """
    from rag_zeval.statistics.bootstrap import mean_interval  # imports numpy, which bad rows need not wait for

    supports = [r["true_support"] for r in responses if r["true_support"] is not None]
    low, high = mean_interval([[support] for support in supports]) or (None, None)
    return {
        "alpha": alpha,
        "answers": len(responses),
        "n_tokens": _mean([r["n_tokens"] for r in responses]),
        "unfinished": _mean([not r["finished"] for r in responses]),
        "empty": _mean([not r["text"] for r in responses]),
        "repetition": _mean([share for r in responses if (share := repetition(r["text"])) is not None]),
        "true_support": _mean(supports),
        "true_support_low": low,
        "true_support_high": high,
        "true_support_n": len(supports),
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _flags(row: Row, limits: AnswerFilter) -> Flags:
    answers = {r["alpha"]: r["text"] for r in row["responses"]}
    unfinished = {r["alpha"] for r in row["responses"] if not r["finished"]}
    return find_flags(answers, row["passage"], unfinished, limits)


def _of_pair(pair: tuple[float, float], flags: Sequence[Flags], supports: Sequence[Supports]) -> dict[str, Any]:
    """Return shares of questions for the answers at two alphas.

    - `identical`, `near_identical`: the answers are flagged so. Identical answers are not near-identical too.
    - `tied`: their true support is equal, among the questions for which it is known.
    - `near_identical_tied`: the same, among those that are near-identical.
    """
    reasons = [question.get(pair) for question in flags]
    larger, smaller = pair
    ties = [
        (support[larger] == support[smaller], reason)
        for support, reason in zip(supports, reasons, strict=True)
        if support[larger] is not None and support[smaller] is not None
    ]
    return {
        "alphas": list(pair),
        "identical": _share([reason == "identical" for reason in reasons]),
        "near_identical": _share([reason == "near_identical" for reason in reasons]),
        "tied": _share([tied for tied, _ in ties]),
        "near_identical_tied": _share([tied for tied, reason in ties if reason == "near_identical"]),
    }


def _of_size(k: int, alphas: Sequence[float], flags: Sequence[Flags], supports: Sequence[Supports]) -> dict[str, Any]:
    blocked = [blocking_reason(question, alphas, k) for question in flags]
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
    """Return `{"share", "low", "high", "n"}`: the share of true outcomes, in [0, 1], with the interval of `mean_of`."""
    share = mean_of(outcomes)
    return {"share": share.pop("mean"), **share}


def mean_of(values: Sequence[float]) -> dict[str, Any]:
    """Return `{"mean", "low", "high", "n"}`: the mean of n values with its 95% interval. Without values it is None.

    If all values are 0 or 1, it is Wilson's interval (1927), otherwise a bootstrap interval.
    """
    from rag_zeval.statistics.bootstrap import mean_interval, share_interval  # numpy, needed only after answering

    low = high = None
    if values:
        is_share = set(values) <= {0.0, 1.0}
        found = share_interval(int(sum(values)), len(values)) if is_share else mean_interval([[v] for v in values])
        low, high = found or (None, None)
    return {"mean": _mean(values), "low": low, "high": high, "n": len(values)}


def print_report(statistics: Mapping[str, Any], winnable: Mapping[str, Any], title: str) -> None:
    """Print the result of `response_statistics` as tables: answers by alpha, pairs of alphas, questions for each K."""
    headings = ["alpha", "answers", "tokens", "cut off", "empty", "repeated", "true support [95%]"]
    print_table(title, headings, map(_answers_row, statistics["by_alpha"]))
    print("questions {questions}, answered {answered}, failed {failed}".format(**statistics))
    if (identical := statistics["identical"]["any"]) is not None:
        print(f"same text at two alphas: {identical:.3f} of questions")
    if (ordered := statistics["strictly_ordered"]) is not None:
        print(f"true support falls at every step of alpha: {ordered:.3f} of questions")
    limits = winnable["limits"]
    near = f"near-identical (from {limits['near_identical']:g})"
    headings = ["alphas", "identical", near, "true tie", "near-identical that tie"]
    print_table("two answers to one question: share [95%]", headings, map(_pair_row, winnable["pairs"]))
    reasons = [f"{why} ({limits[why]:g})" if isinstance(limits.get(why), float) else why for why in REASONS]
    headings = [heading.replace("_", " ") for heading in ("K", "questions", *reasons, "truly ordered")]
    about = "questions that can give K answers, as flagged ones are left out, from left to right"
    print_table(about, headings, map(_set_row, winnable["sets"]))


def _answers_row(at: Row) -> list[str]:
    shares = ("-" if at[key] is None else f"{at[key]:.3f}" for key in ("unfinished", "empty", "repetition"))
    support = with_interval(at["true_support"], at["true_support_low"], at["true_support_high"])
    return [f"{at['alpha']:g}", str(at["answers"]), f"{at['n_tokens']:.1f}", *shares, support]


def _pair_row(pair: Row) -> list[str]:
    shares = (pair[key] for key in ("identical", "near_identical", "tied", "near_identical_tied"))
    alphas = " / ".join(f"{alpha:g}" for alpha in pair["alphas"])
    return [alphas, *(with_interval(share["share"], share["low"], share["high"]) for share in shares)]


def _set_row(size: Row) -> list[str]:
    ordered = "-" if size["truly_ordered"] is None else str(size["truly_ordered"])
    return [str(size["k"]), str(size["questions"]), *map(str, size["left"].values()), ordered]


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of numbers, if it has any rows. It is 120 characters wide if the output is not a terminal."""
    if not (rows := list(rows)):
        return
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    first, *others = headings
    columns = (Column(heading, justify="right") for heading in others)
    table = Table(Column(first, justify="right", no_wrap=True), *columns, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)
