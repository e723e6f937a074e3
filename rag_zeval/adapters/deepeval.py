"""RAG-Zeval as a metric of DeepEval: the reference is the retrieval context, or if that is None the expected output."""

from typing import Any

from deepeval.metrics import BaseMetric

from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.models.as_finished import as_finished


class RagZevalMetric(BaseMetric):  # type: ignore[misc]
    __name__ = "RAG-Zeval"  # in DeepEval's reports

    def __init__(self, judge: Evaluator, threshold: float = 0.8):
        self.judge, self.threshold = judge, threshold

    def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
        ((_, score),) = as_finished(self.a_measure, [test_case], 1)  # works inside a running event loop too
        return score

    async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
        self.score = self.reason = self.success = None  # those of the test case before
        contexts = (getattr(one, "context", one) for one in test_case.retrieval_context or ())  # RetrievedContextData
        reference = test_case.expected_output if test_case.retrieval_context is None else "\n\n".join(contexts)
        found = await self.judge.aevaluate(test_case.input, reference or "", [test_case.actual_output])
        if found.trajectory is None or found.scores[0] is None:
            raise ValueError("no claims" if found.trajectory else found.status)
        failed = [claim.claim for claim in found.trajectory[0].atomic_claims if not claim.is_supported]
        self.score, self.reason = found.scores[0], "; ".join(f"not supported: {claim}" for claim in failed)
        self.success = self.score >= self.threshold
        return self.score

    def is_successful(self) -> bool:  # DeepEval before version 4 has no default
        return bool(self.success)
