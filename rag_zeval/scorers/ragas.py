"""RAGAS (Es et al. 2023, arXiv:2309.15217), after the package ragas 0.4.3 (its metrics/_*.py).

Values are in [0, 1]. Those that contain a cosine may also be below 0.

Known differences:

- The prompts are in our words.
- The longest reply is that of the benchmark. The original's 1,024 tokens cut long answers off.
- Missing or extra verdicts are a failure. The original divides by the number of verdicts that it got.
- An answer or a ground truth without a statement has no score. The original's F1 is 1 if both have none, else 0.
- A reply that cannot be read is not sent back to be fixed.
"""

from collections.abc import Sequence
from typing import Any

from rag_zeval.judge.example import Example
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.values import a_list, a_text, yes_or_no
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, similarity_of, together
from rag_zeval.scorers.score import Failed

STATEMENTS, VERDICTS = ScorerPrompt("ragas_statements"), ScorerPrompt("ragas_verdicts")
QUESTION, USEFUL_CHUNK = ScorerPrompt("ragas_question"), ScorerPrompt("ragas_useful_chunk")
ATTRIBUTED, CORRECTNESS = ScorerPrompt("ragas_attributed"), ScorerPrompt("ragas_correctness")
QUESTIONS = 3  # generated from each answer
QUESTION_TEMPERATURE = 0.3  # for several samples of one prompt
FACTUALITY_WEIGHT = 0.75  # share of answer correctness; the rest is similarity


async def statements_of(judge: Judge, question: str, text: str, whose: str) -> list[str]:
    """Return the statements of a text (1 call). Raises Failed if there are none."""

    def read(value: Any) -> list[str]:
        return [a_text(one) for one in a_list(value["statements"])]

    statements = await judge.ask(STATEMENTS, read, question=question, answer=text)
    if not statements:
        raise Failed(f"no statements in the {whose}")
    return statements


async def _faithfulness(judge: Judge, example: Example, answer: str) -> Found:
    statements = await statements_of(judge, example.question, answer, "answer")

    def read(value: Any) -> list[bool]:
        return [yes_or_no(one["verdict"]) for one in a_list(value, len(statements))]

    verdicts = await judge.ask(VERDICTS, read, context=_context(example), statements=statements)
    return Found(sum(verdicts) / len(statements), {"statements": statements, "verdicts": verdicts})


def _context(example: Example) -> str:
    return "\n".join(example.chunks)


async def _answer_relevancy(judge: Judge, example: Example, answer: str) -> Found:
    def read(value: Any) -> tuple[str, bool]:
        return a_text(value["question"]), yes_or_no(value["noncommittal"])

    guesses = await together(
        *(judge.ask(QUESTION, read, temperature=QUESTION_TEMPERATURE, trial=t, answer=answer) for t in range(QUESTIONS))
    )
    asked, *guessed = await together(judge.embed(example.question), *(judge.embed(question) for question, _ in guesses))
    cosines = [similarity_of(asked, vector) for vector in guessed]
    committed = not all(noncommittal for _, noncommittal in guesses)
    parts = {"questions": [question for question, _ in guesses], "cosines": cosines, "committed": committed}
    return Found(sum(cosines) / QUESTIONS if committed else 0.0, parts)


def average_precision(useful: Sequence[bool]) -> float:
    """Return the mean over useful chunks, in rank order, of the useful share up to each; 0 if none is useful."""
    precisions = [sum(useful[: at + 1]) / (at + 1) for at, one in enumerate(useful) if one]
    return sum(precisions) / len(precisions) if precisions else 0.0


async def _useful_chunks(judge: Judge, example: Example, answer: str) -> Found:
    def read(value: Any) -> bool:
        return yes_or_no(value["verdict"])

    question, chunks = example.question, example.chunks
    useful = await together(
        *(judge.ask(USEFUL_CHUNK, read, question=question, context=chunk, answer=answer) for chunk in chunks)
    )
    return Found(average_precision(useful), {"useful": useful})


async def _context_precision(judge: Judge, example: Example, answer: str) -> Found:
    return await _useful_chunks(judge, example, example.truth or "")


async def _context_recall(judge: Judge, example: Example, answer: str) -> Found:
    def read(value: Any) -> list[bool]:
        return [yes_or_no(one["attributed"]) for one in a_list(value)]

    attributed = await judge.ask(
        ATTRIBUTED, read, question=example.question, context=_context(example), answer=example.truth
    )
    if not attributed:
        raise Failed("no sentences in the ground truth")
    return Found(sum(attributed) / len(attributed), {"attributed": attributed})


def f1_of_counts(tp: int, fp: int, fn: int) -> float:
    """Return F1, in [0, 1]; 0 without a true positive."""
    return 2 * tp / (2 * tp + fn + fp) if tp else 0.0


async def _answer_correctness(judge: Judge, example: Example, answer: str) -> Found:
    truth = example.truth or ""
    ours, theirs = await together(
        statements_of(judge, example.question, answer, "answer"),
        statements_of(judge, example.question, truth, "ground truth"),
    )

    def read(value: Any) -> dict[str, int]:
        counts = {key: len([_statement(one) for one in a_list(value[key])]) for key in ("TP", "FP", "FN")}
        if counts["TP"] + counts["FP"] != len(ours) or counts["FN"] > len(theirs):
            raise Unreadable(f"{counts} of {len(ours)} statements in the answer and {len(theirs)} in the ground truth")
        return counts

    counts = await judge.ask(CORRECTNESS, read, question=example.question, answer=ours, ground_truth=theirs)
    cosine = await judge.similarity(truth, answer)
    f1 = f1_of_counts(counts["TP"], counts["FP"], counts["FN"])
    value = FACTUALITY_WEIGHT * f1 + (1 - FACTUALITY_WEIGHT) * cosine
    return Found(value, {"statements": ours, "ground_truth": theirs, **counts, "f1": f1, "cosine": cosine})


def _statement(value: Any) -> str:
    """Read a statement, or the statement of an object that also has a reason."""
    return a_text(value["statement"] if isinstance(value, dict) else value)


async def _answer_similarity(judge: Judge, example: Example, answer: str) -> Found:
    return Found(await judge.similarity(example.truth or "", answer), {})


MEASURES = (
    Measure("ragas_faithfulness", _faithfulness, (STATEMENTS, VERDICTS), ("answer", "chunks")),
    Measure("ragas_answer_relevancy", _answer_relevancy, (QUESTION,), ("answer",), embeds=True),
    Measure(
        "ragas_answer_correctness", _answer_correctness, (STATEMENTS, CORRECTNESS), ("answer", "truth"), embeds=True
    ),
    Measure("ragas_answer_similarity", _answer_similarity, (), ("answer", "truth"), embeds=True),
    Measure("ragas_context_precision", _context_precision, (USEFUL_CHUNK,), ("truth", "chunks")),
    Measure("ragas_context_utilization", _useful_chunks, (USEFUL_CHUNK,), ("answer", "chunks")),
    Measure("ragas_context_recall", _context_recall, (ATTRIBUTED,), ("truth", "chunks")),
)
