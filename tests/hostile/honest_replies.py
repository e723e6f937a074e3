"""What judges write when they evaluate: bare JSON, and what models put around it or in its place."""

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hostile_texts import texts

from rag_zeval.judge.prompt import EVIDENCE, VARIANTS, Variant, judge_messages
from rag_zeval.judge.schema import LETTERS

Verdicts = tuple[tuple[bool, ...], ...]  # of each claim of each candidate
Items = list[dict[str, Any]]

NAMES = "Ada Ólafur Wei O'Brien Müller Priya 小林 Zoë d'Arc Kim".split()
VERBS = "wrote found left painted measured sold built lost".split()
THINGS = (
    *("a bridge", "the town hall", '"Hamlet"', '"Hamlet", "Lear" and a play', "3.5 kg of salt", "an island (small)"),
    *("the {north} wall", "its [first] map", "50% of it"),
)
REFUSALS = ("I cannot judge this.", "I'm sorry, but I can't help with that.", "The reference is missing; no verdict.")


@dataclass
class Asked:
    """A prompt, and the evaluation that an honest judge would write."""

    rng: random.Random = field(compare=False)
    variant: str
    shown: tuple[str, ...]
    items: Items

    @property
    def n(self) -> int:
        """How many candidates it is about."""
        return len(self.items)

    @property
    def truth(self) -> Verdicts:
        return tuple(tuple(claim["is_supported"] for claim in item["atomic_claims"]) for item in self.items)

    @property
    def prompt(self) -> str:
        question, reference, *answers = self.shown
        return judge_messages(self.variant, question, reference, answers)[0]["content"]


def sentence(rng: random.Random) -> str:
    return f"{rng.choice(NAMES)} {rng.choice(VERBS)} {rng.choice(THINGS)} in {rng.randint(1200, 2030)}."


def trajectory(
    rng: random.Random,
    variant: Variant,
    candidates: Mapping[str, str],
    quote: Callable[[], str],
    analysis: Callable[[], str],
    most: int = 3,
) -> Items:
    """One to `most` claims of each candidate, drawn with their verdicts, quotes and analyses."""
    items: Items = []
    for letter, answer in candidates.items():
        echo = {"answer": answer} if variant.echo_answer else {}
        items.append({"id": letter, **echo, "atomic_claims": []})
        for _ in range(rng.randint(1, most)):
            supported = rng.random() < 0.5
            claim = {"claim": sentence(rng), "is_supported": supported}
            claim[EVIDENCE] = [quote() for _ in range(rng.randint(int(supported), 2))]
            claim["analysis"] = analysis()
            items[-1]["atomic_claims"].append({name: claim[name] for name in variant.claim_fields})
    return items


def asked(rng: random.Random, hostile: float = 0.0) -> Asked:
    """`hostile`: how probable it is that the question, the reference or an answer is one of `hostile_texts`."""

    def text(most: int) -> str:
        if rng.random() < hostile:
            return next(texts(rng, 1))
        return " ".join(sentence(rng) for _ in range(rng.randint(1, most)))

    n, variant = rng.randint(1, 4), rng.choice(list(VARIANTS))
    reference, answers = text(3), [text(2) for _ in range(n)]
    items = trajectory(
        rng,
        VARIANTS[variant],
        dict(zip(LETTERS, answers, strict=False)),
        quote=lambda: rng.choice((reference, sentence(rng))),
        analysis=lambda: rng.choice((sentence(rng), "", "The reference says so.")),
        most=4,
    )
    return Asked(rng, variant, (sentence(rng), reference, *answers), items)


def dumped(ask: Asked) -> str:
    return json.dumps(ask.items, indent=ask.rng.choice((None, None, 1, 2)), ensure_ascii=ask.rng.random() < 0.3)


def _prose(ask: Asked) -> str:
    return ask.rng.choice(
        ("Here is my evaluation:", "Sure! I checked [1] and {both} sources.", "**Evaluation**", "It's done:")
    )


def _sloppy(ask: Asked) -> str:
    """Single quotes around everything, apostrophes as they are."""
    return re.sub(r'(?<!\\)"', "'", json.dumps(ask.items, ensure_ascii=False)).replace('\\"', '"')


def _mapped(ask: Asked, change: Callable[[dict[str, Any]], Any]) -> Items:
    """The evaluation with every claim changed."""
    return [{**item, "atomic_claims": [change(claim) for claim in item["atomic_claims"]]} for item in ask.items]


def _without(ask: Asked, field: str) -> str:
    return json.dumps(_mapped(ask, lambda claim: {name: claim[name] for name in claim if name != field}))


def _words(claim: dict[str, Any]) -> dict[str, Any]:
    return {**claim, "is_supported": "Yes" if claim["is_supported"] else "false"}


WHOLE: dict[str, Callable[[Asked], str]] = {
    "plain": dumped,
    "fenced": lambda ask: f"```json\n{dumped(ask)}\n```",
    "prose around": lambda ask: f"{_prose(ask)}\n\n{dumped(ask)}\n\nLet me know if it's of use.",
    "prose and fence": lambda ask: f"{_prose(ask)}\n```\n{dumped(ask)}\n```\nAll claims were checked.",
    "single quotes": lambda ask: repr(ask.items),
    "single quotes, unescaped": _sloppy,
    "Python literals": lambda ask: re.sub(r"\b(true|false)\b(?=[,}\s])", lambda m: m[0].capitalize(), dumped(ask)),
    "trailing commas": lambda ask: re.sub(r'(["\]}e])(\s*)([\]}])', r"\1,\2\3", json.dumps(ask.items)),
    "quotes unescaped": lambda ask: json.dumps(ask.items, ensure_ascii=False).replace('\\"', '"'),
    "line breaks in strings": lambda ask: json.dumps(ask.items).replace(". ", ".\n").replace(" in 1", "\n in 1"),
    "comments": lambda ask: json.dumps(ask.items, indent=1).replace("},\n", "}, // next\n"),
    "object around": lambda ask: json.dumps({"evaluations": ask.items}),
    "one object a line": lambda ask: "\n".join(map(json.dumps, ask.items)),
    "last bracket missing": lambda ask: json.dumps(ask.items)[:-1],
    "verdicts as words": lambda ask: json.dumps(_mapped(ask, _words)),
    "no analysis": lambda ask: _without(ask, "analysis"),
    "no quotes": lambda ask: _without(ask, "grounding_evidence"),
    "cut off behind its list": lambda ask: f"{dumped(ask)}\n\n{'Note that both sources'[: ask.rng.randint(1, 22)]}",
    "thoughts before": lambda ask: f"<think>\nLet me see. {sentence(ask.rng)}\n</think>\n\n{dumped(ask)}",
    "thoughts with a draft": lambda ask: f"<think>First: {flipped(ask)} Hmm, no.</think>\n{dumped(ask)}",
}


def flipped(ask: Asked) -> str:
    """The same evaluation with every verdict turned round."""
    return json.dumps(_mapped(ask, lambda claim: {**claim, "is_supported": not claim["is_supported"]}))


def whole(ask: Asked) -> str:
    return WHOLE[ask.rng.choice(list(WHOLE))](ask)
