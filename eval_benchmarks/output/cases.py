"""A case study like the paper's Figures 6 and 7: one example, with the judgements of two judges side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval_benchmarks.output.page import render
from eval_benchmarks.trials import ScorerTrials
from rag_zeval.judge.example import Example
from rag_zeval.judge.schema import LETTERS
from rag_zeval.report.judgement import judged
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored


@dataclass(frozen=True)
class Case:
    """An example that two judges scored, and what each said in its first trial.

    named: whether its id was given. If not, it is the one on which the two judges differ most.
    """

    example: Example
    first: ScorerTrials
    second: ScorerTrials
    named: bool = False

    @property
    def scored(self) -> tuple[Scored, Scored]:
        """The example as the first judge scored it, and as the second did."""
        first, second = (judge.trials[0].scored[self.example.id] for judge in (self.first, self.second))
        return first, second

    @property
    def gap(self) -> float:
        """How far the judges' scores differ, summed over the answers that both scored."""
        pairs = zip(*(scored.values for scored in self.scored), strict=True)
        return sum(abs(a - b) for a, b in pairs if a is not None and b is not None)

    @property
    def claims(self) -> int:
        """How many claims the two judges wrote in total."""
        candidates = [candidate for scored in self.scored for candidate in scored.parts["trajectory"] if candidate]
        return sum(len(candidate["atomic_claims"]) for candidate in candidates)


def find_case(scorers: Sequence[ScorerTrials], example: str | None = None) -> Case | None:
    """Return the example on which RAG-Zeval's first and last model differ most. None if there is none.

    The benchmark is the first one with an example that both judged. If examples have the same gap, the one with the
    most claims is taken. example: the id of the only example to consider; None for any.
    """
    judges = [scorer for scorer in scorers if scorer.scorer == RagZeval.name]
    for name in dict.fromkeys(judge.benchmark.name for judge in judges):
        first, *others = [judge for judge in judges if judge.benchmark.name == name]
        cases = [
            Case(shown, first, others[-1], named=example is not None)
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
    """Return the HTML of cases.html. All text of the example and the judges is escaped."""
    judges = []
    for judge, scored in zip((case.first, case.second), case.scored, strict=True):
        shown = judged(case.example, {"trajectory": scored.parts["trajectory"], "scores": scored.values})
        judges.append({"name": judge.name, "status": scored.parts.get("status"), **shown})
    return render("cases.html", case=case, judges=judges, letters=LETTERS)
