"""What an honest judge means to say to every prompt of a scorer, drawn at random: no two prompts get the same verdicts.

Nothing of it depends on what stands in a text behind its first STABLE characters: a text may be given more to say, and
the judge means what it meant before.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from honest_replies import NAMES, THINGS, VERBS, sentence, trajectory

from rag_zeval.judge.prompt import EVIDENCE, INPUTS, VARIANTS, Prompt, Variant
from rag_zeval.literal_judge import LITERAL
from rag_zeval.models.language_model import Request

STABLE = 20
LABELS = "Entailment", "Neutral", "Contradiction"
SUPPORTS = "full_support", "partial_support", "no_support"
HELD = "support", "partial_support", "not_support"
# What a judge writes beside its verdicts.
COMMENTARY = frozenset(
    f"reason reasoning criteria supporting_evidence intent M T statement analysis {EVIDENCE} answer claim".split()
)
Inputs = dict[str, Any]


def _some(rng: random.Random, most: int = 4) -> list[str]:
    return list(dict.fromkeys(sentence(rng) for _ in range(rng.randint(2, most))))


def _why(rng: random.Random, inputs: Inputs) -> str:
    shown = " ".join(next(strings(inputs), "")[:STABLE].split())
    return rng.choice((sentence(rng), "It is so.", f'It says "{shown}" there.', "Clear: see [1] and {both}."))


def _of_each(
    rng: random.Random, inputs: Inputs, statements: Sequence[str], verdict: str | None = None
) -> list[dict[str, Any]]:
    verdicts = [{} if verdict is None else {verdict: rng.randint(0, 1)} for _ in statements]
    return [
        {"statement": one, "reason": _why(rng, inputs), **judged}
        for one, judged in zip(statements, verdicts, strict=True)
    ]


def _compared(rng: random.Random, inputs: Inputs) -> dict[str, list[str]]:
    """The statements of an answer as TP or FP, and those of the ground truth that are lacking as FN."""
    found: dict[str, list[str]] = {"TP": [], "FP": [], "FN": []}
    for statement in inputs["answer"]:
        found[rng.choice(("TP", "FP"))].append(statement)
    found["FN"] = [statement for statement in inputs["ground_truth"] if rng.random() < 0.5]
    return found


def _lines(rng: random.Random, inputs: Inputs, verdicts: Sequence[tuple[str, str]]) -> str:
    return "".join(f"- {statement} {_why(rng, inputs)} VERDICT: {label}\n" for statement, label in verdicts)


def _scoring(rng: random.Random, inputs: Inputs) -> dict[str, Any]:
    return {
        "criteria": _why(rng, inputs),
        "supporting_evidence": _why(rng, inputs),
        "score": rng.randint(0, 3),
    }


def _trajectory(variant: Variant, rng: random.Random, inputs: Inputs) -> list[dict[str, Any]]:
    return trajectory(
        rng,
        variant,
        {letter: answer[:STABLE] for letter, answer in inputs["candidates"].items()},
        quote=lambda: sentence(rng),
        analysis=lambda: _why(rng, inputs),
    )


def _label(rng: random.Random, inputs: Inputs) -> str:
    return rng.choice(("[[Yes]]", "[[Yes]]", "[[No]]"))


def _percent(rng: random.Random, inputs: Inputs) -> dict[str, Any]:
    return {"score": rng.randint(0, 100)}


def _as_shown(prompt: str) -> Callable[[random.Random, Inputs], Any]:
    """What a prompt without an entry here shows as a reply, or the same with zeros."""
    return lambda rng, inputs: {key: rng.choice((value, 0)) for key, value in LITERAL[prompt](inputs).items()}


MEANT: dict[str, Callable[[random.Random, Inputs], Any]] = {
    **{name: partial(_trajectory, variant) for name, variant in VARIANTS.items()},
    "ragchecker_claims": lambda rng, inputs: [
        [rng.choice(NAMES), rng.choice(VERBS), f"{rng.choice(THINGS)} {at}"] for at in range(rng.randint(2, 6))
    ],
    "ragchecker_check": lambda rng, inputs: [rng.choice((*LABELS, LABELS[0])) for _ in inputs["claims"]],
    "ragas_statements": lambda rng, inputs: {"statements": _some(rng)},
    "ragas_verdicts": lambda rng, inputs: _of_each(rng, inputs, inputs["statements"], "verdict"),
    "ragas_question": lambda rng, inputs: {
        "question": f"Who {rng.choice(VERBS)} {rng.choice(THINGS)}, {rng.choice(NAMES)} or {rng.choice(NAMES)}?",
        "noncommittal": int(rng.random() < 0.3),
    },
    "ragas_useful_chunk": lambda rng, inputs: {"reason": _why(rng, inputs), "verdict": rng.randint(0, 1)},
    "ragas_attributed": lambda rng, inputs: _of_each(rng, inputs, _some(rng), "attributed"),
    "ragas_correctness": lambda rng, inputs: {
        name: _of_each(rng, inputs, statements) for name, statements in _compared(rng, inputs).items()
    },
    "trulens_substantive": lambda rng, inputs: {
        "keep": [int(number) for number in inputs["sentences"] if rng.random() < 0.7]
    },
    **dict.fromkeys(("trulens_groundedness", "trulens_answer_relevance", "trulens_context_relevance"), _scoring),
    **dict.fromkeys(("ares_context_relevance", "ares_answer_faithfulness", "ares_answer_relevance"), _label),
    "openeval_statements": lambda rng, inputs: "".join(f"- {one}\n" for one in _some(rng)),
    "openeval_faithfulness": lambda rng, inputs: _lines(
        rng, inputs, [(one, rng.choice(("PASSED", "FAILED"))) for one in inputs["statements"]]
    ),
    "openeval_correctness": lambda rng, inputs: _lines(
        rng, inputs, [(one, label) for label, some in _compared(rng, inputs).items() for one in some]
    ),
    **dict.fromkeys(("ccrs_cc", "ccrs_qr", "ccrs_id", "ccrs_ac", "ccrs_ir"), _percent),
    "is_correct": lambda rng, inputs: {"is_correct": rng.random() < 0.5, "reasoning": _why(rng, inputs)},
    "umbrela": lambda rng, inputs: {
        "intent": _why(rng, inputs), "M": rng.randint(0, 3), "T": rng.randint(0, 3), "O": rng.randint(0, 3),
    },
    "nuggets_create": lambda rng, inputs: {"nuggets": _some(rng)},
    "nuggets_importance": lambda rng, inputs: {"labels": [rng.choice(("vital", "okay")) for _ in inputs["nuggets"]]},
    "nuggets_assignment": lambda rng, inputs: {"labels": [rng.choice(HELD) for _ in inputs["nuggets"]]},
    "citation_support": lambda rng, inputs: {"support": rng.choice(SUPPORTS)},
    "answered": lambda rng, inputs: {"answered": rng.choice(("yes", "no"))},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Ask:
    """A scorer's request: what an honest judge of this seed means to say to it, and what else it could have said."""

    prompt: Prompt
    message: str
    inputs: Inputs
    seed: str
    given: Any = None

    @cached_property
    def meant(self) -> Any:
        """JSON, or a text for a prompt that asks for text; drawn, if it is not given."""
        return self._drawn("") if self.given is None else self.given

    @cached_property
    def other(self) -> Any:
        """The same with other verdicts."""
        drawn = (self._drawn(str(at)) for at in range(60))
        return next((one for one in drawn if verdicts(one) != verdicts(self.meant)), self.meant)

    def _drawn(self, salt: str) -> Any:
        name = self.prompt.name
        seen = {key: value for key, value in self.inputs.items() if (name, key) != ("nuggets_create", "nuggets")}
        key = [text[:STABLE] for text in strings(seen)]
        meant = MEANT.get(name, _as_shown(name))
        return meant(random.Random(f"{salt} {self.seed} {name} {key}"), self.inputs)

    @property
    def trial(self) -> int:
        return int(self.seed.rpartition(" ")[2])

    @property
    def is_text(self) -> bool:
        return isinstance(self.meant, str)


def read_ask(request: Request, prompts: Sequence[Prompt], seed: str) -> Ask:
    """The request as one of these prompts."""
    message = request.messages[0]["content"]
    for prompt in prompts:
        before, after = prompt.template.split(INPUTS)
        if message.startswith(before) and message.endswith(after):
            inputs = json.loads(message[len(before) : len(message) - len(after)])
            return Ask(prompt, message, inputs, f"{seed} {request.trial}")
    raise ValueError(f"none of {[prompt.name for prompt in prompts]}: {message[:80]}")


def strings(value: Any) -> Iterator[str]:
    """The strings in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings(inner)


def verdicts(value: Any) -> Any:
    """A reply without its commentary."""
    if isinstance(value, str):
        return re.findall(r"VERDICT: (\w+)", value) or value
    if isinstance(value, list):
        return [verdicts(inner) for inner in value]
    if isinstance(value, dict):
        return {key: verdicts(inner) for key, inner in value.items() if key not in COMMENTARY}
    return value
