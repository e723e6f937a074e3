r"""OpenEval (Ispas et al. 2025, "Towards Lighter and Robust Evaluation for RAG", arXiv:2503.16161), after the paper.

A first call turns the sentences of a text into single statements, as a list with hyphens. A second call gives each
statement a reason and a verdict. Both have temperature 1. The paper's two regular expressions read the verdicts:
`\bVERDICT: PASSED\b` and the looser `\bVERDICT:.*PASSED\b`. All values are in [0, 1].

Known differences:

- The prompts and their examples are in our words.
- Sentences are split without a trained model (`sentences.py`).
- The answer has no score if a verdict is missing, if there are too many, or if a line has several. The same holds if
  only the looser expression finds a verdict, and its line says "not" (NOT PASSED).
- It has no score either if a text has no statement, or if recall has neither a true positive nor a false negative
  (0 ÷ 0).
- It has no score if a list of the reply is in parts, repeated, within a sentence, incomplete, or copied from a shown
  text. The same holds if a shown text spells out a verdict.
- The paper's other parser, a third call that is bound to a JSON schema, is not implemented.

If a list of statements ends early, it is taken for a complete one, unless the endpoint says that it was cut off.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from rag_zeval.judge.example import Example
from rag_zeval.replies.loose_json import Unreadable
from rag_zeval.replies.reading import list_items, quoted
from rag_zeval.scorers.asking import Found, Judge, Measure, ScorerPrompt, together
from rag_zeval.scorers.ragas import f1_of_counts
from rag_zeval.scorers.score import Failed
from rag_zeval.scorers.sentences import sentences_of

STATEMENTS = ScorerPrompt("openeval_statements")
FAITHFULNESS, CORRECTNESS = ScorerPrompt("openeval_faithfulness"), ScorerPrompt("openeval_correctness")
TEMPERATURE = 1.0
PASSED, FAILED = "PASSED", "FAILED"
SPELLED = "verdict:"  # the words of a verdict, if a shown text has them (see `reading.read_text`)
TP, FP, FN = "TP", "FP", "FN"


def read_verdicts(text: str, labels: Sequence[str]) -> list[str]:
    """Read the verdicts in a list with hyphens or, if there is none, of the lines that end in a label.

    Items without a verdict are skipped. Raises Unreadable if a verdict has none of the labels, or several, or is
    outside the list.
    """
    if re.search(r"^[ \t]*-", text, re.MULTILINE):
        lines = list_items(text)
    else:
        lines = [line for line in text.splitlines() if re.search(rf"\b(?:{'|'.join(labels)})\W*$", line)]
    verdicts = [_verdict(line, labels) for line in lines if re.search(r"\bVERDICT:", line)]
    if len(verdicts) < len(re.findall(r"\bVERDICT:", text)):
        raise Unreadable(f"verdicts beside the list, or several on a line: {quoted(text)}")
    return verdicts


def _verdict(line: str, labels: Sequence[str]) -> str:
    found = [label for label in labels if re.search(rf"\bVERDICT:.*\b{label}(?=\s*(?:$|[^\w\s]))", line)]
    if (
        len(found) == 1
        and len(re.findall(rf"\b(?:{'|'.join(labels)})\b", line.rpartition("VERDICT:")[2])) == 1
        and (re.search(rf"\bVERDICT: {found[0]}\b", line) or not re.search(r"\bVERDICT:.*\bnot\b", line, re.IGNORECASE))
    ):
        return found[0]
    raise Unreadable(f"{quoted(line)} is not one of {', '.join(labels)}")


async def statements_of(judge: Judge, question: str, text: str, whose: str) -> list[str]:
    """Return the statements of a text (1 call). Raises Failed if it has no sentence."""
    sentences = sentences_of(text)
    if not sentences:
        raise Failed(f"no sentences in the {whose}")
    return await judge.ask_text(STATEMENTS, list_items, temperature=TEMPERATURE, question=question, sentences=sentences)


async def _faithfulness(judge: Judge, example: Example, answer: str) -> Found:
    statements = await statements_of(judge, example.question, answer, "answer")

    def read(text: str) -> list[str]:
        verdicts = read_verdicts(text, (PASSED, FAILED))
        if len(verdicts) != len(statements):
            raise Unreadable(f"{len(verdicts)} verdicts on {len(statements)} statements")
        return verdicts

    context = "\n".join(example.chunks)
    verdicts = await judge.ask_text(
        FAITHFULNESS, read, spelled=SPELLED, temperature=TEMPERATURE, context=context, statements=statements
    )
    return Found(verdicts.count(PASSED) / len(verdicts), {"statements": statements, "verdicts": verdicts})


def recall(tp: int, fp: int, fn: int) -> float:
    """Return tp / (tp + fn), in [0, 1]. Raises Failed if both are 0."""
    if tp + fn == 0:
        raise Failed("neither a true positive nor a false negative")
    return tp / (tp + fn)


def _correctness(value: Callable[[int, int, int], float]) -> Callable[[Judge, Example, str], Awaitable[Found]]:
    """Make the steps that compare an answer with the ground truth. value: computed from the counts TP, FP and FN."""

    async def steps(judge: Judge, example: Example, answer: str) -> Found:
        question, truth = example.question, example.truth or ""
        ours, theirs = await together(
            statements_of(judge, question, answer, "answer"), statements_of(judge, question, truth, "ground truth")
        )

        def read(text: str) -> tuple[int, int, int]:
            counts = Counter(read_verdicts(text, (TP, FP, FN)))
            if counts[TP] + counts[FP] != len(ours) or counts[FN] > len(theirs):
                raise Unreadable(
                    f"{dict(counts)} of {len(ours)} statements in the answer and {len(theirs)} in the ground truth"
                )
            return counts[TP], counts[FP], counts[FN]

        tp, fp, fn = await judge.ask_text(
            CORRECTNESS,
            read,
            spelled=SPELLED,
            temperature=TEMPERATURE,
            question=question,
            answer=ours,
            ground_truth=theirs,
        )
        parts = {"statements": ours, "ground_truth": theirs, TP: tp, FP: fp, FN: fn}
        return Found(value(tp, fp, fn), parts)

    return steps


MEASURES = (
    Measure("openeval_faithfulness", _faithfulness, (STATEMENTS, FAITHFULNESS), ("answer", "chunks")),
    Measure("openeval_correctness", _correctness(recall), (STATEMENTS, CORRECTNESS), ("answer", "truth")),
    Measure("openeval_correctness_f1", _correctness(f1_of_counts), (STATEMENTS, CORRECTNESS), ("answer", "truth")),
)
