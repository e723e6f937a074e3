"""A case study, as the paper's Figures 6 and 7: what two judges make of one example, side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_benchmarks.output.page import render
from eval_benchmarks.results import Measured
from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.schema import LETTERS
from rag_zeval.report import judged
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored


@dataclass(frozen=True)
class Case:
    """An example that two judges scored, and what each said in its first trial."""

    example: Example
    first: Measured
    second: Measured

    def said(self, one: Measured) -> Scored:
        return one.trials[0].scored[self.example.id]

    @property
    def gap(self) -> float:
        """How far the judges' scores differ, summed over the answers that both scored."""
        pairs = zip(self.said(self.first).values, self.said(self.second).values, strict=True)
        return sum(abs(a - b) for a, b in pairs if a is not None and b is not None)

    @property
    def claims(self) -> int:
        """How many claims the judges wrote, both together."""
        said = (self.said(one).parts["trajectory"] for one in (self.first, self.second))
        return sum(len(candidate["atomic_claims"]) for candidates in said for candidate in candidates)


def find_case(scorers: Sequence[Measured]) -> Case | None:
    """Where two judges differ most, on the first benchmark that two judged; None if there is none.

    RAG-Zeval's last model stands against its first. Of examples with the same gap the one with most
    claims is taken.
    """
    ours = [one for one in scorers if one.scorer == RagZeval.name]
    for _, group in itertools.groupby(ours, key=lambda one: one.benchmark.name):
        first, *others = group
        if not others:
            continue
        both = [
            case
            for example in first.benchmark.examples
            if all(_has_claims(one, example) for one in (first, others[-1]))
            for case in [Case(example, first, others[-1])]
        ]
        if both:
            return max(both, key=lambda case: (case.gap, case.claims))
    return None


def _has_claims(one: Measured, example: Example) -> bool:
    scored = one.trials[0].scored.get(example.id)
    return scored is not None and bool(scored.parts.get("trajectory"))


def case_page(case: Case) -> str:
    """cases.html. All text of the example and the judges is escaped."""
    judges = [_judge(case, one) for one in (case.first, case.second)]
    return render("cases.html", case=case, judges=judges, letters=LETTERS)


def _judge(case: Case, one: Measured) -> dict[str, Any]:
    said = case.said(one)
    shown = judged(case.example, {"trajectory": said.parts["trajectory"], "scores": said.values})
    return {"name": one.name, "status": said.parts.get("status"), **shown}
