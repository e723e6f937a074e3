"""RAG-Zeval as a scorer of Inspect: `Task(dataset=..., solver=..., scorer=rag_zeval_scorer(judge))`."""

from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr

from rag_zeval.judge.evaluator import Evaluator


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def rag_zeval_scorer(judge: Evaluator, contexts: str = "contexts") -> Scorer:
    """Score a sample by supported claims / claims.

    contexts: the key of the sample's metadata whose text, or list of texts, is the reference. If it is missing or None,
    the reference is the target. An empty list says that nothing was retrieved: then there is no score, because it would
    be one of another kind. A sample that gets no score is marked as unscored. The explanation lists the unsupported
    claims.
    """

    async def score(state: Any, target: Target) -> Score:
        texts = state.metadata.get(contexts)
        texts = target.text if texts is None else texts
        reference = "\n\n".join([texts] if isinstance(texts, str) else texts)
        evaluation = await judge.aevaluate(state.input_text, reference, [state.output.completion])
        (value,) = evaluation.scores
        claims = evaluation.trajectory[0].atomic_claims if evaluation.trajectory else ()
        if value is None:
            return Score.unscored(reason="no claims" if evaluation.trajectory else evaluation.status)
        return Score(value=value, explanation="\n".join(one.claim for one in claims if not one.is_supported))

    return score
