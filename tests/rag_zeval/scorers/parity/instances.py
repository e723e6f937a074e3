"""What the "decisions" of a recorded instance say: both sides of a comparison get the same.

Nothing of the repository is imported: recorders run where only the original package is installed. Decisions were drawn
at random, not read off the texts: what is compared is what scorers make of them.

For claims (`ragas.json`, `ragchecker.json`) a row has one item for each DISTINCT claim (ours: the answer's, theirs: the
ground truth's). correct, recalled: ours by the ground truth and theirs by the answer; supported, retrieved: ours and
theirs by each chunk; inferred: ours by all chunks; missing: theirs that the answer lacks; attributed: the ground
truth's sentences by all chunks; useful_for_truth, useful_for_answer: each chunk; guesses: questions behind the answer;
vectors: of all texts that are compared by one; surplus: judgements too many (1) or missing (-1) in each list.

For grades (`open_rag_eval.json`, `nuggetizer.json`): grades of the chunks; nuggets: [text, importance, support by the
answer]; rounds: what each creation gives, as places in `nuggets` (the last again and again); labels_missing: how many
labels of support a reply lacks; parts: of the answer, each with the support by the chunks it cites; answered: whether
the answer tries to; runs: a scorer's values for the question in runs of a system.
"""

from typing import Any

MISCOUNTED = ("a judgement missing", "a judgement too many")  # kinds with a surplus


def as_given(instance: dict[str, Any], judgements: list[Any]) -> list[Any]:
    """The list as the judge of this instance gives it: a judgement too many is the first one again."""
    return (judgements * 2)[: len(judgements) + instance["decisions"].get("surplus", 0)]


def distinct(claims: list[list[str]]) -> list[list[str]]:
    return [list(claim) for claim in dict.fromkeys(map(tuple, claims))]


def statement(claim: list[str]) -> str:
    return f"{' '.join(claim)}."


def whose(instance: dict[str, Any], text: str) -> str:
    """Which of the two texts with claims this is: "answer" or "truth"."""
    return {instance["answer"]: "answer", instance["truth"]: "truth"}[text]


def decided(claims: list[list[str]], row: list[Any]) -> dict[str, Any]:
    """A row of decisions by the claim, as a sentence."""
    return dict(zip(map(statement, distinct(claims)), row, strict=True))


def labels(instance: dict[str, Any], reference: str) -> dict[str, str]:
    """The labels of the claims that are checked against a text: the ground truth, the answer or a chunk."""
    decisions = instance["decisions"]
    ours, theirs = decisions["answer_claims"], decisions["truth_claims"]
    if reference == instance["truth"]:
        return decided(ours, decisions["correct"])
    if reference == instance["answer"]:
        return decided(theirs, decisions["recalled"])
    at = instance["chunks"].index(reference)
    return decided(ours, decisions["supported"][at]) | decided(theirs, decisions["retrieved"][at])
