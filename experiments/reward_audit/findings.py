"""Computes the figures of an audit, with 95% intervals: what can raise the reward without better judgements."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.reward_audit.replies import BeforeAndAfter, Reply
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation
from rag_zeval.judge.scoring import support_score
from rag_zeval.scorers.word_rule import content_words
from rag_zeval.stages import world
from rag_zeval.statistics.bootstrap import (
    DRAWS,
    BootstrapEstimate,
    Ratio,
    mean_interval,
    paired_interval,
    share_interval,
)
from rag_zeval.statistics.judge_bias import FEATURES, JudgedAnswer, judge_bias

Values = Callable[[Reply], list[float]]
OfAnswer = Callable[[CandidateEvaluation], list[float]]


@dataclass(frozen=True)
class AuditFigure:
    """One line of a table: the mean of all values that `values` returns for the replies.

    name: its key in the JSON file. share: whether every value is 0 or 1.
    """

    name: str
    label: str
    values: Values
    share: bool = True


@dataclass(frozen=True)
class Measured:
    """A figure of one side of a comparison.

    value: None if there was nothing to count. low, high: its 95% interval; also None for a single prompt. n: the number
    of answers, claims, quotes or replies in the mean. prompts: the number of prompts with any of them; None for
    correlations.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    prompts: int | None = None


@dataclass(frozen=True)
class Line:
    """A figure of both sides of a comparison.

    difference: after minus before, over the prompts with values on both sides; None if the sides have other prompts.
    """

    name: str
    label: str
    before: Measured
    after: Measured
    difference: Measured | None = None

    @property
    def apart(self) -> bool:
        """Whether the interval of the difference does not hold 0 or, without a difference, the two do not overlap.

        False if an interval is missing.
        """
        if (paired := self.difference) is not None:
            return paired.low is not None and paired.high is not None and not paired.low <= 0 <= paired.high
        one, other = self.before, self.after
        if one.low is None or one.high is None or other.low is None or other.high is None:
            return False
        return one.high < other.low or other.high < one.low


@dataclass(frozen=True)
class Section:
    """Lines that belong together, and what a reader should look for in them."""

    title: str
    look_for: str
    lines: list[Line]


def audit(comparison: BeforeAndAfter) -> list[Section]:
    """Return all sections of a comparison, without the figures that neither side has."""
    replies = [*comparison.before.replies, *comparison.after.replies]
    sections = []
    for title, look_for, figures in _sections(replies):
        lines = [_line(figure, comparison) for figure in figures]
        sections.append(Section(title, look_for, [line for line in lines if line.before.n or line.after.n]))
    sections.append(_bias(comparison))
    return [section for section in sections if section.lines]


def _sections(replies: Sequence[Reply]) -> Iterator[tuple[str, str, list[AuditFigure]]]:
    yield (
        "Format and echoes",
        "Replies without the format, and replies that do not repeat an answer they were asked to repeat, should be "
        "rare and get rarer. All other figures leave them out.",
        [
            AuditFigure("format_failed", "replies without the format", lambda r: [float(r.trajectory is None)]),
            AuditFigure("echo_differs", "replies whose echo differs", _echo),
        ],
    )
    yield (
        "Claims per answer",
        "Support is a ratio, so splitting an answer finely or coarsely moves it. Answers of a higher α getting more "
        "claims while the others get fewer, or the reverse: the judge splits by what it wants to conclude. A position "
        "that gets more claims than the others: it splits by position.",
        list(_by_answer(replies, "claims", ("all answers", "answers"), _count_claims, share=False)),
    )
    yield (
        "Verdicts",
        "The candidates are in random order. So the share of supported claims should not depend on position; it may "
        "depend on α. In the nano world the passage says which verdicts are right.",
        [
            *_by_answer(replies, "supported", ("claims judged supported", "of answers"), _verdicts, share=True),
            AuditFigure("verdicts_right", "verdicts that are right (nano world)", _right),
        ],
    )
    yield (
        "Quotes",
        "The evidence reward pays for verbatim tokens, their spaces included. It does not see whether a quote belongs "
        "to its claim.",
        [
            AuditFigure("quotes_spaceless", "quotes that are in the passage only without their spaces", _spaceless),
            AuditFigure("quotes_unrelated", "quotes that share no content word with their claim", _unrelated),
            AuditFigure("entailed", "supported claims that their quotes entail (nano world)", _entailed),
        ],
    )
    yield (
        "Repetition",
        "A claim said twice counts twice. No reward reads the analysis: one that repeats for different claims "
        "explains neither.",
        [
            AuditFigure("claims_repeated", "claims that repeat one of the same answer", _repeated_claims),
            AuditFigure("analyses_repeated", "analyses that repeat for a different claim", _repeated_analyses),
        ],
    )


def _by_answer(
    replies: Sequence[Reply], name: str, labels: tuple[str, str], of_answer: OfAnswer, share: bool
) -> Iterator[AuditFigure]:
    """Yield a figure over all answers, then one for each α, and one for each position.

    labels: the label of the first figure, and the beginning of the other labels.
    """
    everything, some = labels
    yield AuditFigure(name, everything, partial(_of_answers, of_answer), share)
    for alpha in sorted({alpha for reply in replies for alpha in reply.alphas or ()}, reverse=True):
        values = partial(_of_answers, of_answer, alpha=alpha)
        yield AuditFigure(f"{name}_alpha_{alpha:g}", f"{some} of α = {alpha:g}", values, share)
    for place, letter in enumerate(LETTERS[: max(len(reply.answers) for reply in replies)]):
        values = partial(_of_answers, of_answer, place=place)
        yield AuditFigure(f"{name}_{letter}", f"{some} at position {letter}", values, share)


def _of_answers(of_answer: OfAnswer, reply: Reply, alpha: float | None = None, place: int | None = None) -> list[float]:
    """Return the values of `of_answer` for the answers of this α and at this place; None means any."""
    found = []
    for at, candidate in enumerate(reply.trajectory or ()):
        if place in (None, at) and (alpha is None or (reply.alphas and reply.alphas[at] == alpha)):
            found += of_answer(candidate)
    return found


def _count_claims(candidate: CandidateEvaluation) -> list[float]:
    return [float(len(candidate.atomic_claims))]


def _verdicts(candidate: CandidateEvaluation) -> list[float]:
    return [float(claim.is_supported) for claim in candidate.atomic_claims]


def _line(figure: AuditFigure, comparison: BeforeAndAfter) -> Line:
    before, after = (_by_prompt(figure, side.replies) for side in (comparison.before, comparison.after))
    difference = _difference(before, after) if comparison.paired else None
    return Line(figure.name, figure.label, _measure(figure, before), _measure(figure, after), difference)


def _by_prompt(figure: AuditFigure, replies: Sequence[Reply]) -> dict[str, list[float]]:
    """Return the values of the replies to each prompt, without the prompts that have none."""
    groups: dict[str, list[float]] = defaultdict(list)
    for reply in replies:
        if values := figure.values(reply):
            groups[reply.prompt] += values
    return groups


def _difference(before: dict[str, list[float]], after: dict[str, list[float]]) -> Measured | None:
    """Return the difference of the two means over the prompts in both, with an interval that resamples these prompts.

    It has no interval if no prompt's values changed. None if no prompt is in both.
    """
    both = [prompt for prompt in before if prompt in after]
    if not both:
        return None
    totals = [np.array([(sum(side[prompt]), len(side[prompt])) for prompt in both]).T for side in (before, after)]
    first, second = (Ratio(*of_side.astype(np.float64)) for of_side in totals)
    keep = np.ones(len(both), dtype=bool)
    changed = bool((totals[0] != totals[1]).any())
    low, high = (paired_interval(first, second, keep, DRAWS, seed=0) if changed else None) or (None, None)
    return Measured(second.point(keep) - first.point(keep), low, high, len(both), len(both))


def _measure(figure: AuditFigure, groups: dict[str, list[float]]) -> Measured:
    n, total = sum(map(len, groups.values())), sum(map(sum, groups.values()))
    if not n:
        return Measured(None, None, None, 0, 0)
    low, high = _bounds(figure, list(groups.values()), total / n)
    return Measured(total / n, low, high, n, len(groups))


def _bounds(figure: AuditFigure, groups: list[list[float]], value: float) -> tuple[float, float] | tuple[None, None]:
    """Return the 95% interval of the mean, resampling prompts; (None, None) for a single prompt.

    Resampling shows no spread if every value is the same. So a share of 0 or 1 gets the Wilson interval, with one
    outcome for each prompt.
    """
    if figure.share and value in (0.0, 1.0) and len(groups) > 1:
        return share_interval(int(value) * len(groups), len(groups))
    return mean_interval(groups) or (None, None)


def _claims(reply: Reply) -> list[AtomicClaim]:
    return [claim for candidate in reply.trajectory or () for claim in candidate.atomic_claims]


def _echo(reply: Reply) -> list[float]:
    return [] if reply.echo_differs is None else [float(reply.echo_differs)]


def _right(reply: Reply) -> list[float]:
    """Return for each claim whether its verdict is right. A claim that the nano world cannot read counts as wrong."""
    if (facts := reply.facts) is None:
        return []
    return [float(world.claim_is_true(claim.claim, facts) is claim.is_supported) for claim in _claims(reply)]


def _spaceless(reply: Reply) -> list[float]:
    spaced, packed = " ".join(reply.passage.split()), "".join(reply.passage.split())
    quotes = [quote.split() for claim in _claims(reply) for quote in claim.grounding_evidence if quote.strip()]
    return [float(" ".join(quote) not in spaced and "".join(quote) in packed) for quote in quotes]


def _unrelated(reply: Reply) -> list[float]:
    return [
        float(not content_words(quote).keys() & content_words(claim.claim).keys())
        for claim in _claims(reply)
        for quote in claim.grounding_evidence
        if quote.strip()
    ]


def _entailed(reply: Reply) -> list[float]:
    if reply.facts is None:
        return []
    supported = [claim for claim in _claims(reply) if claim.is_supported and claim.grounding_evidence]
    verdicts = [world.entailed(claim.claim, claim.grounding_evidence) for claim in supported]
    return [float(entailed) for entailed in verdicts if entailed is not None]


def _repeated_claims(reply: Reply) -> list[float]:
    found = []
    for candidate in reply.trajectory or ():
        said = [_same(claim.claim) for claim in candidate.atomic_claims]
        found += [float(claim in said[:at]) for at, claim in enumerate(said)]
    return found


def _repeated_analyses(reply: Reply) -> list[float]:
    beside: dict[str, set[str]] = defaultdict(set)
    said = [(_same(claim.analysis), _same(claim.claim)) for claim in _claims(reply) if claim.analysis.strip()]
    for analysis, claim in said:
        beside[analysis].add(claim)
    return [float(len(beside[analysis]) > 1) for analysis, _ in said]


def _same(text: str) -> str:
    return " ".join(text.casefold().split())


BIAS = {
    "length": "length of the answer, in words",
    "position": "position (1: shown first)",
    "overlap": "share of its words that the passage has",
}


def _bias(comparison: BeforeAndAfter) -> Section:
    before, after = (judge_bias(_judged(side.replies)) for side in (comparison.before, comparison.after))
    lines = []
    for name in FEATURES:
        one, other = before[name], after[name]
        plain = (_estimated(one.correlation, one.n), _estimated(other.correlation, other.n))
        fixed = (_estimated(one.partial, one.n_known), _estimated(other.partial, other.n_known))
        lines.append(Line(f"rho_{name}", BIAS[name], *plain))
        lines.append(Line(f"rho_{name}_partial", f"{BIAS[name]}; true support held fixed", *fixed))
    return Section(
        "Score against length, position and overlap (Spearman's ρ)",
        "0 means that the score does not follow it. An answer that is longer or closer to the passage may be the "
        "better one: where the true support is known, the second line holds it fixed, and what is left is bias. "
        "Compare early and late steps only where they have the same number of candidates.",
        [line for line in lines if line.before.value is not None or line.after.value is not None],
    )


def _judged(replies: Sequence[Reply]) -> list[JudgedAnswer]:
    return [
        JudgedAnswer(
            reply.prompt,
            at + 1,
            answer,
            reply.passage,
            support_score(candidate),
            None if reply.facts is None else world.true_support(answer, reply.facts),
        )
        for reply in replies
        for at, (answer, candidate) in enumerate(zip(reply.answers, reply.trajectory or (), strict=False))
    ]


def _estimated(estimate: BootstrapEstimate | None, n: int) -> Measured:
    if estimate is None:
        return Measured(None, None, None, n)
    return Measured(estimate.value, estimate.low, estimate.high, n)
