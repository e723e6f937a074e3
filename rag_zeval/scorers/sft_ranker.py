"""The SFT ranker as a scorer: one call ranks all answers of an example, and their ranks give the scores."""

from collections.abc import Iterable, Iterator

from rag_zeval.judge.example import Example
from rag_zeval.judge.parser import FormatError, parse_ranking
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.scoring import rank_scores
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Backend, Reply, Request, Sampling
from rag_zeval.scorers.score import Score, Scored, Scorer, costs


class SftRanker(Scorer):
    """Ranks answers with a model that was trained on the prompt `ranking-only`. Answers never tie.

    The score is (K - rank) / (K - 1), in [0, 1]. A single answer has no score. `parts` of a row: "ranking" (letters,
    best first; None if the reply is no ranking) and "strict" (whether the reply is a ranking; None without a reply).
    """

    name, asks = "sft_ranker", "a judge"
    needs = ("answer", "reference")

    def __init__(self, backend: Backend, sampling: Sampling):
        self._backend, self._sampling = backend, sampling
        self.prompt_hash = RANKING.prompt_hash
        self.identity = f"{backend.identity} prompt {RANKING.name} {self.prompt_hash} {sampling}"
        self.group = backend.at_once if backend.batched else None

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        for _, scored in as_finished(self._rank, examples, self._backend.at_once):
            yield scored

    async def _rank(self, example: Example) -> Scored:
        if len(example.answers) < 2:
            return Scored(example.id, (Score(None, "failed: one answer alone has no rank"),) * len(example.answers))
        messages = judge_messages(RANKING.name, example.question, example.reference, example.answers)
        return _scored(example, await self._backend.complete(Request(tuple(messages), self._sampling)))


def _scored(example: Example, reply: Reply) -> Scored:
    ranking, status = None, reply.status
    if reply.text is not None:
        try:
            ranking, status = parse_ranking(reply.text, len(example.answers)), "ok"
        except FormatError as error:
            status = f"failed: {reply.why_unread('format', error)}"
    values = [None] * len(example.answers) if ranking is None else rank_scores(ranking)
    return Scored(
        example.id,
        tuple(Score(value, status) for value in values),
        {"ranking": ranking and list(ranking), "strict": None if reply.text is None else ranking is not None},
        **costs([reply]),
    )
