"""What nuggetizer's own classes say when their judge, an OpenAI endpoint on this machine, decides as its file says.

Run in the environment of requirements/parity/nuggetizer.txt, with the repository on PYTHONPATH.
"""

import ast
import os
import re
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from graded_replies import Judge
from recording import instances_of, record

from rag_zeval.scripted_judge import ScriptedJudge

MOST, CREATIONS = 30, 5  # nuggets, and calls that make them, in open-rag-eval
RELATED = 1  # the lowest grade of a chunk that nuggets are made from: the package leaves the choice to its caller
KEPT = 20  # nuggets, as in the track that the package was written for; its own default is 30
SCORES = {"nuggets_all": "all_score", "nuggets_all_strict": "strict_all_score"} | {
    "nuggets_vital": "vital_score",
    "nuggets_vital_strict": "strict_vital_score",
}
SUBSTITUTED = (
    "tiktoken's vocabulary, which is a download: it counts tokens, and the counts are thrown away",
    "creation: the package asks once for every ten chunks, and is given the nuggets that repeated calls end with",
)


def last_round(decisions: dict[str, Any]) -> list[int]:
    """The nuggets that creation ends with: after CREATIONS calls, or as soon as there are MOST."""
    made: list[int] = []
    for made in decisions["rounds"][:CREATIONS]:
        if len(made) >= MOST:
            break
    return made


def reply(instance: dict[str, Any], body: dict[str, Any]) -> str:
    """The decision as the Python list that the prompt asks for."""
    role, prompt = (message["content"] for message in body["messages"])
    if role.startswith("You are NuggetizeLLM"):
        return repr([instance["decisions"]["nuggets"][at][0] for at in last_round(instance["decisions"])])
    asked = ast.literal_eval(re.findall(r"Nugget List: (\[.*\])\n", prompt)[-1])
    judge = Judge(instance)
    return repr(judge.importance(asked) if role.startswith("You are NuggetizeScoreLLM") else judge.assignment(asked))


def main() -> None:
    import tiktoken
    from nuggetizer.core.metrics import calculate_nugget_scores
    from nuggetizer.core.types import Document, Query, Request
    from nuggetizer.models.nuggetizer import Nuggetizer

    instances = instances_of("nuggetizer")
    server = ScriptedJudge()
    os.environ["OPENAI_BASE_URL"] = server.url
    tiktoken.get_encoding = lambda name: SimpleNamespace(encode=str.split)
    nuggetizer = Nuggetizer(model="judge", api_keys="none", scorer_max_nuggets=KEPT)
    scores: dict[str, dict[str, float | None]] = {measure: {} for measure in SCORES}
    for instance in instances:
        server.replies = lambda body, instance=instance: reply(instance, body)
        graded = zip(instance["chunks"], instance["decisions"]["grades"], strict=True)
        related = [Document(chunk[:9], chunk) for chunk, grade in graded if grade >= RELATED]
        made = nuggetizer.create(Request(Query(instance["id"], instance["question"]), related))
        assigned = nuggetizer.assign(instance["question"], instance["answer"], made)
        found = calculate_nugget_scores(instance["id"], [asdict(nugget) for nugget in assigned])
        for measure, name in SCORES.items():
            scores[measure][instance["id"]] = getattr(found, name)
    server.close()
    record("nuggetizer", ["nuggetizer", "openai"], SUBSTITUTED, scores)


if __name__ == "__main__":
    main()
