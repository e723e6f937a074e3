"""A case study, as the paper's Figures 6 and 7: what two judges make of one example, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_benchmarks.output.page import render
from eval_benchmarks.trials import ScorerTrials
from rag_zeval.judge.example import Example
from rag_zeval.judge.schema import LETTERS
from rag_zeval.report.judgement import judged
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored


@dataclass(frozen=True)
class Case:
    """An example that two judges scored, and what each said in its first trial."""

    example: Example
    first: ScorerTrials
    second: ScorerTrials

    def scored(self, judge: ScorerTrials) -> Scored:
        return judge.trials[0].scored[self.example.id]

    @property
    def gap(self) -> float:
        """How far the judges' scores differ, summed over the answers that both scored."""
        pairs = zip(self.scored(self.first).values, self.scored(self.second).values, strict=True)
        return sum(abs(a - b) for a, b in pairs if a is not None and b is not None)

    @property
    def claims(self) -> int:
        """How many claims the judges wrote, both together."""
        trajectories = (self.scored(judge).parts["trajectory"] for judge in (self.first, self.second))
        return sum(
            len(candidate["atomic_claims"]) for candidates in trajectories for candidate in candidates if candidate
        )


def find_case(scorers: Sequence[ScorerTrials], example: str | None = None) -> Case | None:
    """Where two judges differ most, on the first benchmark that two judged; None if there is none.

    RAG-Zeval's last model stands against its first. Of examples with the same gap the one with most
    claims is taken. `example`: the id of the only one that is asked for.
    """
    judges = [scorer for scorer in scorers if scorer.scorer == RagZeval.name]
    for name in dict.fromkeys(judge.benchmark.name for judge in judges):
        first, *others = [judge for judge in judges if judge.benchmark.name == name]
        cases = [
            Case(shown, first, others[-1])
            for shown in (first.benchmark.examples if others else ())
            if example in (None, shown.id) and all(_has_claims(judge, shown) for judge in (first, others[-1]))
        ]
        if cases:
            return max(cases, key=lambda case: (case.gap, case.claims))
    return None


def _has_claims(judge: ScorerTrials, example: Example) -> bool:
    scored = judge.trials[0].scored.get(example.id)
    return scored is not None and bool(scored.parts.get("trajectory"))


def case_page(case: Case) -> str:
    """cases.html. All text of the example and the judges is escaped."""
    judges = [_judge(case, judge) for judge in (case.first, case.second)]
    return render("cases.html", case=case, judges=judges, letters=LETTERS)


def _judge(case: Case, judge: ScorerTrials) -> dict[str, Any]:
    scored = case.scored(judge)
    shown = judged(case.example, {"trajectory": scored.parts["trajectory"], "scores": scored.values})
    return {"name": judge.name, "status": scored.parts.get("status"), **shown}
