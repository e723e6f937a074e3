"""Count the judge calls and tokens of each scorer: `python -m experiments.timing.call_costs`.

It prints the table of docs/scorer-costs.md, and writes it there. It also writes calls and tokens into
rag_zeval/scorers/costs.json, which `rag-zeval scorers` shows. Run it when you have added a scorer or changed a prompt.

The input is 60 questions of the nano world. Each has a ground truth, five retrieved chunks and two answers; an answer
has four sentences and cites two of the chunks. Each scorer runs alone, with an empty cache. The judge is the rule-based
mock judge (`literal_judge`): the quality of a judge changes neither the number of calls nor their length. If a scorer
sends the same prompt for both answers, the prompt is sent and counted once.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rag_zeval.files import write_json, write_text
from rag_zeval.judge.example import Example
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder
from rag_zeval.scorers.criteria_file import read_criteria
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import COSTS, CRITERIA_FILES, MEASURES, Named, name_of
from rag_zeval.scoring.estimate import MockJudge, WordEmbedder, asked
from rag_zeval.scoring.opening import Asking, Models, open_scorer
from rag_zeval.stages import world
from rag_zeval.streams import command_line

DOCS = Path(__file__).parents[2] / "docs" / "scorer-costs.md"
PAIRS, SEED, CHUNKS = 60, 20261121, 5
HEADS = """\
| scorer | judge calls | texts embedded | prompt tokens | reply tokens | tokens ÷ RAG-Zeval's |
|---|---:|---:|---:|---:|---:|"""


class Cost(NamedTuple):
    """The cost of a scorer for one pair of answers, as a mean over the pairs."""

    calls: float
    embedded: float
    prompt_tokens: float
    reply_tokens: float

    @property
    def tokens(self) -> float:
        return self.prompt_tokens + self.reply_tokens


def examples(pairs: int = PAIRS) -> list[Example]:
    """Return `pairs` questions, each with a better and a worse answer, a ground truth and CHUNKS chunks."""
    rows = []
    for ranked in world.ranked_examples("test", pairs, 2, SEED):
        question = ranked.question
        sentences = [*question.sentences.values()]
        chunks = tuple(" ".join(sentences[at::CHUNKS]) for at in range(CHUNKS))
        answers = tuple(f"{answer.removesuffix('.')} [1][2]." for answer in ranked.answers)
        truth = world.answer(question, question.facts)
        rows.append(Example(ranked.id, question.question, question.passage, answers, truth, chunks))
    return rows


def measure(scorer: Named) -> Cost:
    """Measure the cost of one scorer."""
    backend, embedder = MockJudge(), WordEmbedder()
    with tempfile.TemporaryDirectory() as folder, ReplyCache(Path(folder) / "replies.sqlite") as cache:
        models = Models(CachedBackend(backend, cache), CachedEmbedder(embedder, cache))
        tokens = asked(open_scorer(scorer, models, Asking()), examples(), n=1)
    return Cost(backend.calls / PAIRS, embedder.calls / PAIRS, tokens.prompt_tokens, tokens.completion_tokens)


def call_costs() -> None:
    scorers: list[Named] = [RagZeval.name, *MEASURES, *map(read_criteria, CRITERIA_FILES)]
    costs = {name_of(scorer): measure(scorer) for scorer in scorers}
    write_json(COSTS, {name: [round(cost.calls), round(cost.tokens)] for name, cost in costs.items()})
    table = [HEADS]
    for name, cost in sorted(costs.items(), key=lambda item: (item[1].tokens, item[0])):
        numbers = f"{cost.calls:.2f} | {cost.embedded:.2f} | {cost.prompt_tokens:,.0f} | {cost.reply_tokens:,.0f}"
        table.append(f"| `{name}` | {numbers} | {cost.tokens / costs[RagZeval.name].tokens:.2f} |")
    print("\n".join(table))
    text, _, _ = DOCS.read_text(encoding="utf-8").partition(HEADS)
    write_text(DOCS, "\n".join([text + table[0], *table[1:], ""]))


main = command_line(call_costs, "experiments.timing.call_costs", __doc__)

if __name__ == "__main__":
    sys.exit(main())
