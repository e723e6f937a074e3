r"""OpenEval (Ispas et al. 2025, "Towards Lighter and Robust Evaluation for RAG", arXiv:2503.16161), after the paper.

A first call turns the sentences of a text into single statements, a list with hyphens; a second gives each a reason and
a verdict, at temperature 1. The verdicts are read by the paper's two regular expressions, `\bVERDICT: PASSED\b` and the
looser `\bVERDICT:.*PASSED\b`. All values are in [0, 1].

Known differences: the prompts and their examples are in our words; sentences are split without a trained model
(`sentences.py`); a line with several verdicts, or one that only the looser expression finds and that says "not" (NOT
PASSED), leaves the answer without a score, as do verdicts that are missing or too many, and a text without a statement;
so does recall without a true positive and a false negative (0 ÷ 0), a list that stands in parts, twice, within a
sentence, with items left out or in a shown text, and a verdict that a shown text spells out. The paper's other parser,
a third call held to a JSON schema, is not here. A list of statements that ends early is taken for a whole one, unless
the endpoint says that it was cut off.
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
SPELLED = "verdict:"  # in a statement or a context
TP, FP, FN = "TP", "FP", "FN"


def read_verdicts(text: str, labels: Sequence[str]) -> list[str]:
    """The verdicts of all items of a list with hyphens that have one; or of lines without hyphens that end in one.

    Raises Unreadable for one that has none of the labels, or several.
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
    """The statements of a text (1 call). Raises Failed if it is empty."""
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
    """The share of true positives among those and false negatives. Raises Failed if there is neither."""
    if tp + fn == 0:
        raise Failed("neither a true positive nor a false negative")
    return tp / (tp + fn)


def _correctness(value: Callable[[int, int, int], float]) -> Callable[[Judge, Example, str], Awaitable[Found]]:
    """What has the answer compared with the ground truth, and takes the value of the counts TP, FP and FN."""

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
