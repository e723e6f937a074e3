"""Assertions for tests of a RAG system."""

from rag_zeval.judge.evaluator import Evaluation
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import one_line


def assert_supported(evaluation: Evaluation, at_least: float = 0.8) -> None:
    """Raise AssertionError unless every answer has a score (supported claims / claims) of at least `at_least`.

    The message lists the unsupported claims, each with the judge's analysis. For an answer without a score it says why
    there is none. Raises ValueError if `at_least` is outside [0, 1].

        def test_the_answer_is_faithful() -> None:
            assert_supported(judge.evaluate(question, passage, [answer]), at_least=0.9)
    """
    __tracebackhide__ = True  # pytest then points at the test
    if not 0 <= at_least <= 1:
        raise ValueError(f"at_least is {at_least}, must be from 0 to 1")
    found = [line for at in range(len(evaluation.scores)) for line in _faults(evaluation, at, at_least)]
    if found:
        raise AssertionError("\n".join(found))


def _faults(evaluation: Evaluation, at: int, at_least: float) -> list[str]:
    """Return the lines of the message about the answer with index `at`. Empty if its score is high enough."""
    name, score = f"answer {LETTERS[at]}", evaluation.scores[at]
    if score is None:
        why = "it makes no claims" if evaluation.trajectory else one_line(evaluation.status)
        return [f"{name} has no score: {why}"]
    if score >= at_least:
        return []
    claims = evaluation.trajectory[at].atomic_claims if evaluation.trajectory else ()
    unsupported = [claim for claim in claims if not claim.is_supported]
    return [
        f"{name}: {len(claims) - len(unsupported)} of {len(claims)} claims supported, {score:g} < {at_least:g}",
        *(f"    not supported: {one_line(one.claim)} ({one_line(one.analysis)})" for one in unsupported),
    ]
