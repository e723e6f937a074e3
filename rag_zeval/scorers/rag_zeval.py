"""RAG-Zeval as a scorer."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rag_zeval.judge.evaluator import NEEDS, Evaluation, Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.judge.parser import claims_hold_text
from rag_zeval.judge.patterns import read_patterns
from rag_zeval.judge.schema import as_json
from rag_zeval.judge.scoring import support_scores
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Backend, Reply, Sampling
from rag_zeval.replies.reading import READER
from rag_zeval.replies.thoughts import fault_outside, final_texts
from rag_zeval.scorers.score import Score, Scored, Scorer, costs

STRICT = "ok"  # Evaluation.status when the strict parser read the reply


class RagZeval(Scorer):
    """RAG-Zeval as a scorer: one call judges all answers of an example. The score is supported claims / claims.

    The score is in [0, 1]. backend: the judge.
    variant: the prompt variant. The default is the one that the checkpoint was trained on, else "paper".
    structured: whether the JSON schema of the reply is sent with each request. Default: as the judge's card says.
    patterns: whether regular expressions read a reply that is unreadable otherwise, as in the paper (status
    "patterns").
    `parts` of a row: "trajectory" (None if there is none) and "status" of the evaluation. "strict" says whether the
    reply has the format that the reward requires (None without a reply). "reply" is an unreadable reply, unchanged.
    """

    name, asks = "rag_zeval", "a judge"
    needs = NEEDS

    def __init__(
        self,
        backend: Backend,
        variant: str | None,
        sampling: Sampling,
        structured: bool | None = None,
        patterns: bool = False,
    ):
        self.patterns = patterns
        self._evaluator = Evaluator(backend, variant, sampling, structured)
        self.variant, self.structured = self._evaluator.variant.name, self._evaluator.structured
        self.prompt_hash = self._evaluator.variant.prompt_hash
        self.identity = (
            f"{backend.identity} prompt {self.variant} {self.prompt_hash} {sampling}{' structured' * self.structured}"
            f"{' patterns' * patterns} reader {READER}"
        )
        self.group = backend.at_once if backend.batched else None

    def fits(self, example: Example) -> bool:
        """Whether the whole example fits the judge's window (see `Evaluator.fits`)."""
        return self._evaluator.fits(example)

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        judge, at_once = self._evaluator.judge_with_reply, self._evaluator.backend.at_once
        for _, (evaluation, reply) in as_finished(judge, examples, at_once):
            found = _by_patterns(evaluation, len(evaluation.scores)) if self.patterns else evaluation
            yield _scored(found, reply, self.variant)


def _by_patterns(evaluation: Evaluation, answers: int) -> Evaluation:
    if evaluation.trajectory is not None or evaluation.reply is None:
        return evaluation
    *_, final = final_texts(evaluation.reply)
    trajectory = read_patterns(final, answers)
    if fault_outside([final]) or not any(candidate.atomic_claims for candidate in trajectory):
        return evaluation
    return replace(evaluation, trajectory=trajectory, scores=support_scores(trajectory), status="patterns")


def _scored(evaluation: Evaluation, reply: Reply, variant: str) -> Scored:
    failed = evaluation.status.startswith("failed")
    reason = evaluation.status if failed else "failed: no claims"
    replied, trajectory = evaluation.reply is not None, evaluation.trajectory
    strict = evaluation.status == STRICT and trajectory is not None and claims_hold_text(trajectory, variant)
    return Scored(
        evaluation.id,
        tuple(Score(value, reason if value is None else evaluation.status) for value in evaluation.scores),
        {
            "trajectory": as_json(trajectory) if trajectory else None,
            "status": evaluation.status,
            "strict": strict if replied else None,
            "reply": evaluation.reply if trajectory is None else None,
        },
        **costs([reply]),
    )
