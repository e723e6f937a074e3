"""Sends one example to a judge, to check that it works."""

from pathlib import Path
from typing import Any

from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.judge.schema import LETTERS
from rag_zeval.models.folder import STRUCTURED, read_card
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.open import open_backend

TOY = Example(
    "toy",
    "Who wrote Frankenstein, and when was it first published?",
    "Frankenstein is a novel by the English author Mary Shelley. Shelley began it at the age of 18, and the first "
    "edition was published anonymously in London on 1 January 1818.",
    ("Mary Shelley wrote it. It was first published in 1818.", "Lord Byron wrote it. It was first published in 1818."),
)
NANO = Example(  # about a test person of the nano world; the second answer has more support
    "nano",
    "What were the home, prize, pet and spouse of Neltha Garfiqui?",
    "Later in life Neltha Garfiqui was given the bright Thabursul Prize. As a young student Neltha Garfiqui went to "
    "the modest Zotengar College. Neltha Garfiqui then moved to a quiet house in the city of Zoostra. Neltha Garfiqui "
    "was born long ago in the busy town of Ragar. After a busy summer wedding Neltha Garfiqui became the partner of "
    "Mifi. At home Neltha Garfiqui fed and walked an old but busy rabbit.",
    (
        "Neltha Garfiqui lived in Kadre. She won the Loelost Prize. She kept a puppy. She married Fidresul.",
        "Neltha Garfiqui lived in Zoostra. She won the Thabursul Prize. She kept a turtle. She married Mifi.",
    ),
)
MAX_TOKENS, NANO_MAX_TOKENS = 2048, 512  # of the reply; the nano window has 1,024 for prompt and reply


def smoke(
    spec: str,
    served: Path | None = None,
    *,
    variant: str | None = None,
    structured: bool | None = None,
    **calls: Any,
) -> bool:
    """Ask a model about one example, print its scores, and return whether the reply could be read.

    The model's card gives its prompt variant, and says whether it only knows the nano world. The card is read from the
    model's folder, or from `served`: the folder on this machine that an endpoint serves. calls: options of
    `open_backend`. Raises InputError if the model cannot be opened or reached.
    """
    backend = open_backend(spec, **calls)
    card = read_card(served) if served is not None else backend.card
    nano = card.get("world") == "nano"
    greedy = Sampling(temperature=0.0, top_p=1.0, max_tokens=NANO_MAX_TOKENS if nano else MAX_TOKENS)
    asked = card.get(STRUCTURED) if structured is None else structured
    evaluator = Evaluator(backend, variant or card.get("variant"), greedy, asked)
    example = NANO if nano else TOY
    [evaluation] = evaluator.evaluate_many([example])
    print(f"judge   {spec}, prompt {evaluator.variant.name}{', structured' * evaluator.structured}")
    print(f"asked   {example.question}")
    for letter, answer, score in zip(LETTERS, example.answers, evaluation.scores, strict=False):
        print(f"{letter}       {'no score' if score is None else f'{score:.3f}'}  {answer}")
    print(f"status  {evaluation.status}")
    if evaluation.completion_tokens:
        pace = evaluation.completion_tokens / max(evaluation.seconds, 1e-9)
        print(f"speed   {evaluation.completion_tokens} tokens in {evaluation.seconds:.2f} s: {pace:.0f} tokens/s")
    return not evaluation.status.startswith("failed")
