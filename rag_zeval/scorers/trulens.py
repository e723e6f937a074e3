"""TruLens' RAG triad, after the package trulens 2.16.0 (its feedback/llm_provider.py and feedback/templates/rag.py).

The judge gives its reasons and then a whole number from 0 to 3 (the original's `..._with_cot_reasons`). A value is the
mean of such numbers divided by 3, in [0, 1].

The source of groundedness is the example's reference: the retrieved contexts for faithfulness, the ground truth for
correctness. A sentence that admits not to know counts as grounded. An answer that admits it is irrelevant.

Known differences:

- The prompts are in our words. A chunk gets 1, 2 or 3 if it serves some, most or all of the question, as in the
  original's prompt without reasons. In its prompt with reasons, 1 is "slightly related", 2 is "related, but not enough
  for an answer", and 3 "contains the answer".
- Sentences are split without a trained model (`sentences.py`). A bare number that ends an answer is a sentence, not a
  list mark.
- The judge says by number which sentences are worth checking. The original evaluates the judge's reply as code, and
  keeps all sentences if that fails. Otherwise it scores what the reply says, even if the answer does not say it.
- An answer without a sentence, or with only trivial ones, has no score. The original's is 0.
- A score that cannot be read leaves the answer without one. The original leaves that sentence out of the mean, or gives
  -1. If a text has several numbers, it takes the smallest.
"""

from collections.abc import Sequence
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.values import a_list, a_whole_number
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, one_question, together
from rag_zeval.scorers.score import Failed
from rag_zeval.scorers.sentences import sentences_of

SUBSTANTIVE, GROUNDED = ScorerPrompt("trulens_substantive"), ScorerPrompt("trulens_groundedness")
CONTEXT_RELEVANCE = ScorerPrompt("trulens_context_relevance")
TOP = 3  # the highest score
Scoring = tuple[int, Any]  # a score, and the evidence that the judge names for it


def _read(value: Any) -> Scoring:
    return a_whole_number(value["score"], 0, TOP), value["supporting_evidence"]


def _found(scorings: Sequence[Scoring], **parts: Any) -> Found:
    scores = [score for score, _ in scorings]
    return Found(
        sum(scores) / (TOP * len(scores)), {**parts, "scores": scores, "evidence": [what for _, what in scorings]}
    )


async def _groundedness(judge: Judge, example: Example, answer: str) -> Found:
    sentences = sentences_of(answer)
    if not sentences:
        raise Failed("no sentences in the answer")

    def read(value: Any) -> list[str]:
        numbers = [a_whole_number(number, 1, len(sentences)) for number in a_list(value["keep"])]
        return [sentence for number, sentence in enumerate(sentences, 1) if number in numbers]

    numbered = {str(number): sentence for number, sentence in enumerate(sentences, 1)}
    kept = await judge.ask(SUBSTANTIVE, read, sentences=numbered)
    if not kept:
        raise Failed("every sentence of the answer is trivial")
    source = example.reference
    scorings = await together(*(judge.ask(GROUNDED, _read, source=source, statement=sentence) for sentence in kept))
    return _found(scorings, sentences=kept)


def _read_found(value: Any) -> Found:
    return _found([_read(value)])


async def _context_relevance(judge: Judge, example: Example, answer: str) -> Found:
    chunks = (judge.ask(CONTEXT_RELEVANCE, _read, question=example.question, context=chunk) for chunk in example.chunks)
    return _found(await together(*chunks))


MEASURES = (
    Measure("trulens_groundedness", _groundedness, (SUBSTANTIVE, GROUNDED), ("answer", "reference")),
    one_question("trulens_answer_relevance", _read_found, question="question", response="answer"),
    Measure("trulens_context_relevance", _context_relevance, (CONTEXT_RELEVANCE,), ("chunks",)),
)
