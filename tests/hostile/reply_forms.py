"""The forms in which a reply may come: what they are made of, and what each must be read as.

A form makes a reply of what an honest judge means to say (`honest_judge.Ask`). The forms are in the modules *_forms.py.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from honest_judge import Ask
from honest_replies import sentence

End = Literal["whole", "honest or none", "none"]
MARK = "\ue000"  # stands where something is put into a reply that is spelt out
REFUSALS = (
    "I cannot judge this.",
    "I'm sorry, but I can't help with that.",
    "The reference is missing; no verdict.",
    "So I will not give a verdict.",
)
MUSINGS = ("Let me see.", "Perhaps", "First draft:", "The passage says that, so", "A first idea is", "Hmm,")


@dataclass(frozen=True)
class Said:
    """A reply; `detail` says more of its form than the kind does."""

    text: str
    status: str = "ok"
    detail: str = ""


@dataclass(frozen=True)
class Planted:
    """What a shown text holds, and how the judge spells it.

    meant: what the judge means to say where it repeats it in its own reply.
    """

    shown: str
    said: str
    detail: str = ""
    meant: Any = None


Maker = Callable[[random.Random, Ask], "Said | str"]
Planter = Callable[[random.Random, Ask], Planted]


@dataclass(frozen=True)
class Kind:
    """Replies of one form. `end`: what they must be read as. `of`: to what they can be a reply.

    plant: what a shown text is made to hold; `repeat` then makes the reply from how the judge spells it, which is the
    reply if there is no `repeat`.
    """

    name: str
    end: End
    of: Callable[[Ask], bool]
    make: Maker | None = None
    plant: Planter | None = None
    repeat: Callable[[random.Random, Ask, Planted], Said | str] | None = None
    plain: bool = False  # whether all shown texts are

    def said(self, rng: random.Random, ask: Ask, planted: Planted | None = None) -> Said:
        """A reply of the form: to an ask, or to one that shows what was planted."""
        if planted is None:
            assert self.make is not None
            made = self.make(rng, ask)
        else:
            made = self.repeat(rng, ask, planted) if self.repeat else planted.said
        said = Said(made) if isinstance(made, str) else made
        return said if planted is None else replace(said, detail=planted.detail)


# ---- what was asked


def any_prompt(ask: Ask) -> bool:
    return True


def json_prompt(ask: Ask) -> bool:
    return not ask.is_text


def text_prompt(ask: Ask) -> bool:
    return ask.is_text


def has_object(ask: Ask) -> bool:
    return json_prompt(ask) and any(True for _ in objects(ask.meant))


def has_list(ask: Ask) -> bool:
    """JSON with a list of two items or more."""
    return json_prompt(ask) and any(len(items) > 1 for items in lists(ask.meant))


def has_lines(ask: Ask) -> bool:
    return ask.is_text and ask.meant.count("\n") > 1


def has_json_verdict(ask: Ask) -> bool:
    return has_keyed_verdict(ask) or ask.prompt.name == "ragchecker_check"


def has_keyed_verdict(ask: Ask) -> bool:
    return json_prompt(ask) and bool(verdict_fields(ask.meant))


def has_text_verdict(ask: Ask) -> bool:
    return ask.is_text and ask.prompt.name != "openeval_statements"


def is_counted(ask: Ask) -> bool:
    """Whether the prompt says how many items the reply must have."""
    counted = "ragchecker_check ragas_verdicts ragas_correctness nuggets_importance nuggets_assignment"
    return ask.prompt.name in f"{counted} openeval_faithfulness".split()


def has_example(ask: Ask) -> bool:
    return "Example output:" in ask.prompt.template


def objects(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [one for some in inner for one in objects(some)]


def lists(value: Any) -> list[list[Any]]:
    """The lists whose items count."""
    if isinstance(value, list):
        inner = [one for item in value if isinstance(item, dict) for one in lists(item)]
        return [value, *inner]
    if isinstance(value, dict):
        return [one for key, some in value.items() if key != "grounding_evidence" for one in lists(some)]
    return []


VERDICTS = frozenset(
    "verdict attributed noncommittal is_correct is_supported answered support score O labels keep".split()
)


def verdict_fields(value: Any) -> list[tuple[dict[str, Any], str]]:
    """The objects with the keys that hold their verdicts."""
    return [(one, key) for one in objects(value) for key in one if key in VERDICTS]


@dataclass
class Place:
    """A free text in a reply: an item of a list, or a field of an object.

    owner: the object in which its list stands, if it does, under the name `field`.
    """

    container: Any
    key: Any
    owner: dict[str, Any] | None = None
    field: str = ""

    def put(self, text: str) -> None:
        self.container[self.key] = text

    @property
    def is_item(self) -> bool:
        return isinstance(self.container, list)


TEXTS = frozenset("reason reasoning criteria supporting_evidence intent statement question claim analysis".split())
LISTS_OF_TEXTS = frozenset("statements nuggets grounding_evidence".split())


def places(value: Any) -> list[Place]:
    found: list[Place] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in TEXTS and isinstance(inner, str):
                found.append(Place(value, key))
            elif key in LISTS_OF_TEXTS:
                found += [Place(inner, at, value, key) for at in range(len(inner))]
            else:
                found += places(inner)
    elif isinstance(value, list):
        for inner in value:
            found += [Place(inner, part) for part in range(3)] if isinstance(inner, list) else places(inner)
    return found


# ---- spelling


def spelt(value: Any, indent: int | None = None) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def copy_of(value: Any) -> Any:
    return json.loads(json.dumps(value))


def honest(rng: random.Random, ask: Ask) -> str:
    return spelt(ask.meant, rng.choice((None, None, None, 1, 2)))


def draft(rng: random.Random, ask: Ask) -> str:
    """Another evaluation, or at times the one that is meant."""
    return spelt(ask.other if rng.random() < 0.75 else ask.meant, rng.choice((None, None, 1)))


def musing(rng: random.Random, ask: Ask, what: str | None = None) -> str:
    """Thinking aloud, with a draft in it."""
    what = draft(rng, ask) if what is None else what
    apart = "\n" if ask.is_text or rng.random() < 0.4 else " "
    ending = rng.choice(("", "Hmm, but is it so?", sentence(rng), "No, wait."))
    return f"{rng.choice(MUSINGS)}{apart}{what}{apart}{ending}"


def fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"
