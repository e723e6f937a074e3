"""The forms in which a reply may come, and what each must be read as. A form makes a reply of what a judge means to say.

Of some forms a shown text holds a part: what the judge repeats of it is not its own.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from honest_judge import COMMENTARY, Ask
from honest_replies import sentence
from thought_tags import KNOWN, UNKNOWN, Tag

from rag_zeval.judge.prompt import INPUTS, inputs_json

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

    plant: what a shown text is made to hold; `repeat` then makes the reply from how the judge spells it.
    """

    name: str
    end: End
    of: Callable[[Ask], bool]
    make: Maker | None = None
    plant: Planter | None = None
    repeat: Callable[[random.Random, Ask, Planted], Said | str] | None = None
    plain: bool = field(default=False)  # whether all shown texts are plain


# ---- what was asked


def any_prompt(ask: Ask) -> bool:
    return True


def json_prompt(ask: Ask) -> bool:
    return not ask.is_text


def text_prompt(ask: Ask) -> bool:
    return ask.is_text


def has_object(ask: Ask) -> bool:
    return json_prompt(ask) and any(True for _ in _objects(ask.meant))


def has_list(ask: Ask) -> bool:
    """JSON with a list of two items or more."""
    return json_prompt(ask) and any(len(items) > 1 for items in _lists(ask.meant))


def has_lines(ask: Ask) -> bool:
    return ask.is_text and ask.meant.count("\n") > 1


def has_json_verdict(ask: Ask) -> bool:
    return has_keyed_verdict(ask) or ask.prompt.name == "ragchecker_check"


def has_keyed_verdict(ask: Ask) -> bool:
    return json_prompt(ask) and bool(_verdict_fields(ask.meant))


def has_text_verdict(ask: Ask) -> bool:
    return ask.is_text and ask.prompt.name != "openeval_statements"


def is_counted(ask: Ask) -> bool:
    """Whether the prompt says how many items the reply must have."""
    counted = "ragchecker_check ragas_verdicts ragas_correctness nuggets_importance nuggets_assignment"
    return ask.prompt.name in f"{counted} openeval_faithfulness".split()


def has_example(ask: Ask) -> bool:
    return "Example output:" in ask.prompt.template


def _objects(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [one for some in inner for one in _objects(some)]


def _lists(value: Any) -> list[list[Any]]:
    """The lists whose items count."""
    if isinstance(value, list):
        inner = [one for item in value if isinstance(item, dict) for one in _lists(item)]
        return [value, *inner]
    if isinstance(value, dict):
        return [one for key, some in value.items() if key != "grounding_evidence" for one in _lists(some)]
    return []


# ---- spelling


def spelt(value: Any, indent: int | None = None) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def _copy(value: Any) -> Any:
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


# ---- thoughts

TagForm = Callable[[random.Random, Ask, Tag], "Said | str"]


def thoughts(name: str, known: End, unknown: End, make: TagForm, of: Callable[[Tag], bool] | None = None) -> list[Kind]:
    """The kinds of a form: with tags that a reader should know, and with others."""

    def with_a_tag(tags: tuple[Tag, ...]) -> Maker:
        possible = [tag for tag in tags if of is None or of(tag)]

        def made(rng: random.Random, ask: Ask) -> Said:
            tag = rng.choice(possible)
            said = make(rng, ask, tag)
            text, status = (said, "ok") if isinstance(said, str) else (said.text, said.status)
            return Said(text, status, repr(tag.opens + tag.before))

        return made

    return [
        Kind(f"thought{name}", known, any_prompt, with_a_tag(KNOWN), plain=known == "whole"),
        Kind(f"thought of an unknown tag{name}", unknown, any_prompt, with_a_tag(UNKNOWN)),
    ]


def _opened(rng: random.Random, ask: Ask, tag: Tag) -> str:
    return f"{tag.opens}{_gap(rng, tag)}{musing(rng, ask)}"


def _gap(rng: random.Random, tag: Tag) -> str:
    return "" if tag.opens == "analysis" else rng.choice(("", "\n"))


def _closed(rng: random.Random, ask: Ask, tag: Tag) -> str:
    return f"{_opened(rng, ask, tag)}{_gap(rng, tag)}{tag.closes}"


def _reply(rng: random.Random, ask: Ask, tag: Tag) -> str:
    gap = "" if tag.before else rng.choice(("", "\n", "\n\n"))
    return f"{gap}{tag.before}{honest(rng, ask)}{tag.after}"


def _unopened(rng: random.Random, ask: Ask, tag: Tag) -> str:
    return f"{musing(rng, ask)}{_gap(rng, tag)}{tag.closes}"


def _cut_reply(rng: random.Random, ask: Ask, tag: Tag) -> Said:
    text = honest(rng, ask)
    status = "truncated" if ask.is_text else rng.choice(("ok", "truncated"))
    return Said(f"{_closed(rng, ask, tag)}\n{tag.before}{text[: rng.randrange(len(text))]}", status)


def _twice(rng: random.Random, ask: Ask, tag: Tag) -> str:
    return f"{_closed(rng, ask, tag)}{tag.between}{_closed(rng, ask, tag)}{_reply(rng, ask, tag)}"


def _naming_its_end(rng: random.Random, ask: Ask, tag: Tag) -> str:
    quote = rng.choice(('"', "`", "", "'"))
    return f"{tag.opens}\nI must end with {quote}{tag.closes}{quote} and then write {draft(rng, ask)}. Hmm."


def _of_another(rng: random.Random, tag: Tag) -> Tag:
    others = [other for other in KNOWN if other.closes.lower() != tag.closes.lower() and other.ends_alone]
    return rng.choice(others)


THOUGHTS = [
    *thoughts(" open", "none", "none", _opened),
    *thoughts(" open, cut off", "none", "none", lambda r, ask, tag: Said(_opened(r, ask, tag), "truncated")),
    *thoughts(" alone", "none", "none", _closed),
    *thoughts(", then a refusal", "none", "none", lambda r, ask, tag: f"{_closed(r, ask, tag)} {r.choice(REFUSALS)}"),
    *thoughts(
        ", then the reply", "whole", "honest or none", lambda r, ask, tag: _closed(r, ask, tag) + _reply(r, ask, tag)
    ),
    *thoughts(
        " without its beginning, then the reply", "whole", "honest or none",
        lambda r, ask, tag: _unopened(r, ask, tag) + _reply(r, ask, tag),
    ),
    *thoughts(" without its beginning", "none", "none", _unopened, lambda tag: tag.ends_alone),
    *thoughts(
        " without its beginning, then a refusal", "none", "none",
        lambda r, ask, tag: f"{_unopened(r, ask, tag)} {r.choice(REFUSALS)}",
    ),
    *thoughts(", then the reply cut off", "honest or none", "honest or none", _cut_reply),
    *thoughts("s, two, then the reply", "whole", "honest or none", _twice, lambda tag: tag.between is not None),
    *thoughts(" that names its end", "none", "none", _naming_its_end),
    *thoughts(
        " that names its end, then the reply", "honest or none", "honest or none",
        lambda r, ask, tag: f"{_naming_its_end(r, ask, tag)}{tag.closes}{_reply(r, ask, tag)}",
    ),
    *thoughts(
        " ended by another tag, then the reply", "honest or none", "honest or none",
        lambda r, ask, tag: f"{_opened(r, ask, tag)}{_of_another(r, tag).closes}{_reply(r, ask, tag)}",
    ),
    *thoughts(
        " ended by another tag", "none", "none",
        lambda r, ask, tag: f"{_opened(r, ask, tag)}{_of_another(r, tag).closes}",
    ),
]  # fmt: skip

# ---- replies that were cut off


def _cut(rng: random.Random, ask: Ask) -> Said:
    text = rng.choice(("{}", "```json\n{}\n```", "Here is my evaluation:\n{}")).replace("{}", honest(rng, ask))
    return Said(text[: rng.randint(0, len(text))], rng.choice(("ok", "truncated")))


def _cut_text(rng: random.Random, ask: Ask) -> Said:
    text = ask.meant
    return Said(text[: rng.randint(0, len(text))], "truncated")


def _aloud_cut(rng: random.Random, ask: Ask) -> Said:
    return Said(f"Let me see. {musing(rng, ask)} {rng.choice(('Hmm, but', 'On the other', 'So I'))}", "truncated")


CUT = [
    Kind("cut anywhere", "honest or none", json_prompt, _cut),
    Kind("text cut off", "none", text_prompt, _cut_text),
    Kind("thinking aloud, cut off", "none", any_prompt, _aloud_cut),
]

# ---- what was asked, repeated


def _template(rng: random.Random, ask: Ask) -> str:
    before, after = ask.prompt.template.split(INPUTS)
    return rng.choice((before, f"{before}{{inputs}}{after}", f"{before}{after}"))


def _examples(rng: random.Random, ask: Ask) -> str:
    """An example of the prompt, input and output; or an output alone that is too long to be meant by chance."""
    shown = re.findall(
        r"Example input:\n.*?\nExample output:\n(?:.+\n)+", ask.prompt.template.split(INPUTS)[0], re.DOTALL
    )
    one = rng.choice(shown)
    output = one.rpartition("Example output:\n")[2]
    alone = [output, f"```json\n{output}```"] if len(output) > 60 else []
    return rng.choice((one, "".join(shown), f"Example output:\n{output}", *alone))


def _with_refusal(rng: random.Random, text: str) -> str:
    return text + rng.choice(("", "\n", f"\n{rng.choice(REFUSALS)}", f" {rng.choice(REFUSALS)}"))


ECHOES = [
    Kind("prompt repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, ask.message)),
    Kind("template repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, _template(rng, ask))),
    Kind("example repeated", "none", has_example, lambda rng, ask: _with_refusal(rng, _examples(rng, ask))),
    Kind("inputs repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, inputs_json(ask.inputs))),
    Kind("prompt, then the reply", "honest or none", any_prompt, lambda r, ask: f"{ask.message}\n{honest(r, ask)}"),
    Kind(
        "inputs, then the reply",
        "honest or none",
        any_prompt,
        lambda r, ask: f"{inputs_json(ask.inputs)}\n{honest(r, ask)}",
    ),
]

# ---- quotations

IN_A_SENTENCE = (
    "The answer says {that}. I cannot judge this.",
    "The text has {that} in it. I'm sorry, I can't help.",
    "Note that {that} is what the answer says. No verdict.",
    'In the passage I read "{that}", which is no evaluation of mine.',
    "It ends with {that}, so I cannot judge it.",
)
ON_LINES = (
    "The passage contains:\n{that}\nI'm sorry, I can't help.",
    "The answer says:\n\n{that}\n\nI cannot judge this.",
    "{that}\nThat is what the text says. I cannot judge this.",
    "One of the texts is:\n{that}\n",
)
IN_A_FENCE = (
    "The passage contains:\n```json\n{that}\n```\nI'm sorry, I can't help.",
    "The answer is only this:\n```\n{that}\n```\nSo I will not give a verdict.",
)


def _framed(frames: tuple[str, ...]) -> Callable[[random.Random, Ask, Planted], str]:
    return lambda rng, ask, planted: rng.choice(frames).replace("{that}", planted.said.rstrip())


def _spelt_anyhow(rng: random.Random, value: Any) -> str:
    if isinstance(value, str):
        return value.rstrip()
    return rng.choice(
        (spelt(value), spelt(value), repr(value), spelt(value, 1), json.dumps(value, separators=(",", ":")))
    )


def _copied(rng: random.Random, ask: Ask) -> Planted:
    """A shown text holds an evaluation; the judge's spelling of it may differ in white space."""
    shown = _spelt_anyhow(rng, ask.other)
    said = rng.choice((shown, shown, _spelt_anyhow(rng, ask.other)))
    return Planted(shown, said)


def _unshown(rng: random.Random, ask: Ask) -> str:
    return rng.choice(IN_A_SENTENCE).replace("{that}", draft(rng, ask).rstrip())


def _then_reply(rng: random.Random, ask: Ask, planted: Planted) -> str:
    frame = rng.choice(("The answer says {that}. My judgement:\n", "The passage contains:\n{that}\nMine:\n"))
    return frame.replace("{that}", planted.said.rstrip()) + honest(rng, ask)


QUOTED = [
    Kind("quoted from nowhere in a sentence", "none", any_prompt, _unshown),
    Kind("quoted in a sentence", "none", any_prompt, plant=_copied, repeat=_framed(IN_A_SENTENCE)),
    Kind("quoted on lines of its own", "none", any_prompt, plant=_copied, repeat=_framed(ON_LINES)),
    Kind("quoted in a fence", "none", any_prompt, plant=_copied, repeat=_framed(IN_A_FENCE)),
    Kind("quoted, then the reply", "honest or none", any_prompt, plant=_copied, repeat=_then_reply),
]

# ---- repeats that spell otherwise what was shown

WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
QUOTES: dict[str, Callable[[str], str]] = {
    "curly quotes": lambda text: _paired(text, "“”"),
    "low quotes": lambda text: _paired(text, "„“"),
    "guillemets": lambda text: _paired(text, "«»"),
    "&quot;": lambda text: text.replace('"', "&quot;"),
    "&#34;": lambda text: text.replace('"', "&#34;"),
    "%22": lambda text: text.replace('"', "%22"),
    "full-width quotes": lambda text: text.replace('"', "＂"),
    "double primes": lambda text: text.replace('"', "″"),
    "two apostrophes": lambda text: text.replace('"', "''"),
    "back-ticks": lambda text: text.replace('"', "`"),
    "escaped quotes": lambda text: text.replace('"', '\\"'),
    "escapes doubled": lambda text: text.replace('"', '\\\\"'),
    "quotes as \\u0022": lambda text: text.replace('"', "\\u0022"),
    "quotes as \\x22": lambda text: text.replace('"', "\\x22"),
}
DISGUISES: dict[str, Callable[[str], str]] = {
    **QUOTES,
    "full-width letters": lambda text: text.translate(WIDE),
    "full-width colons": lambda text: text.replace(":", "：").replace(",", "，"),
    "full-width brackets": lambda text: text.translate({ord(mark): WIDE[ord(mark)] for mark in "[]{}"}),
    "zero-width spaces": lambda text: re.sub(r"(\w)(?=\w)", "\\1\u200b", text),
    "soft hyphens": lambda text: re.sub(r"(\w\w)(?=\w)", "\\1\u00ad", text),
    "a line break in a key": lambda text: re.sub(r'"(\w)(\w+)"(?=\s*:)', '"\\1\n\\2"', text),
    "a space in a key": lambda text: re.sub(r'"(\w)(\w+)"(?=\s*:)', r'"\1 \2"', text),
    "keys in capitals": lambda text: re.sub(r'"(\w+)"(?=\s*:)', lambda key: key[0].upper(), text),
    "everything in capitals": lambda text: text.upper(),
    "spaces everywhere": lambda text: re.sub(r'([\[\]{},:"])', r" \1 ", text),
}


def _paired(text: str, marks: str) -> str:
    """Straight quotes as pairs of others, in turn."""
    turn = iter(range(len(text)))
    return re.sub('"', lambda _: marks[next(turn) % 2], text)


def _disguised(rng: random.Random, ask: Ask) -> Planted:
    straight = spelt(ask.other).rstrip()
    changed = {name: shown for name, change in DISGUISES.items() if (shown := change(straight)) != straight}
    name = rng.choice([*changed])
    return Planted(changed[name], straight, name)


STRAIGHTENED = [
    Kind("straightened in a sentence", "none", any_prompt, plant=_disguised, repeat=_framed(IN_A_SENTENCE)),
    Kind("straightened on lines of its own", "none", any_prompt, plant=_disguised, repeat=_framed(ON_LINES)),
    Kind("straightened in a fence", "none", any_prompt, plant=_disguised, repeat=_framed(IN_A_FENCE)),
    Kind("straightened, then the reply", "honest or none", any_prompt, plant=_disguised, repeat=_then_reply),
]

# ---- items left out

DOTS = "...", "…", "....", "[...]", "etc.", "and so on", "(3 more)", "<more>"
COMMENTS = (
    "// and so on\n", "# ...\n", "// 3 more\n", "/* ... */", "// ...\n", "# and so on\n", "// etc.\n",
    "/* and 2 more */", "// the rest is alike\n", "-- ...\n", "<!-- ... -->",
)  # fmt: skip
STRINGS = "...", "…", "etc.", "and so on", ". . .", "[...]", "(more)", "…and 3 more"
LINES = "...", "- ...", "…", "- …", "- etc.", "- and so on", "(3 more)", "- (3 more)", "[...]", "- [...]", "etc."


def _left_out(rng: random.Random, ask: Ask) -> tuple[Any, str]:
    """The reply with MARK in place of one or more items of a list, and where: first, middle or last."""
    value = _copy(ask.meant)
    items = rng.choice([one for one in _lists(value) if len(one) > 1])
    start = rng.randrange(len(items))
    end = rng.randint(start + 1, min(len(items), start + 3))
    if end - start == len(items):
        start += 1
    where = "first" if start == 0 else "last" if end == len(items) else "middle"
    items[start:end] = [MARK]
    return value, where


def _elided(words: tuple[str, ...], commas: bool) -> Maker:
    def make(rng: random.Random, ask: Ask) -> Said:
        value, where = _left_out(rng, ask)
        text, word = spelt(value, rng.choice((None, None, 1))), rng.choice(words)
        mark = f'"{MARK}"'
        comment = word in COMMENTS
        forms = [rf"(?:,\s*)?{mark}(?:,(?=\s*\S))?" if comment else mark]
        if commas:  # the comma may be lost with the item
            forms += [rf"{mark},?", rf",?\s*{mark}"]
        kept = "," if comment and (where == "middle" or (where == "last" and rng.random() < 0.5)) else ""
        return Said(re.sub(rng.choice(forms), lambda _: f"{kept} {word} ", text), detail=f"{word.strip()!r} {where}")

    return make


def _elided_by_a_string(rng: random.Random, ask: Ask) -> Said:
    value, where = _left_out(rng, ask)
    word = rng.choice(STRINGS)
    return Said(spelt(value).replace(MARK, word), detail=f'"{word}" {where}')


def _is_free_list(ask: Ask) -> bool:
    """A list of objects or triplets whose length is the judge's to say."""
    return has_list(ask) and not is_counted(ask) and any(
        len(items) > 1 and isinstance(items[0], (dict, list)) for items in _lists(ask.meant)
    )


def _elided_by_a_skeleton(rng: random.Random, ask: Ask) -> Said:
    """An item that says nothing stands in place of others."""
    value = _copy(ask.meant)
    items = rng.choice([one for one in _lists(value) if len(one) > 1 and isinstance(one[0], (dict, list))])
    at, dots = rng.randrange(len(items)), rng.choice(("...", "…", ""))
    item = items[at]
    items[at] = _emptied(item, dots)
    return Said(spelt(value), detail=repr(dots))


def _emptied(value: Any, dots: str) -> Any:
    if isinstance(value, dict):
        return {key: inner if key == "id" else _emptied(inner, dots) for key, inner in value.items()}
    if isinstance(value, list):
        return [_emptied(inner, dots) for inner in value]
    return dots if isinstance(value, str) else value


def _elided_lines(rng: random.Random, ask: Ask) -> Said:
    lines, word = ask.meant.splitlines(), rng.choice(LINES)
    start = rng.randrange(len(lines))
    end = rng.randint(start + 1, min(len(lines), start + 3))
    if end - start == len(lines):
        start += 1
    where = "first" if start == 0 else "last" if end == len(lines) else "middle"
    return Said("\n".join([*lines[:start], word, *lines[end:]]) + "\n", detail=f"{word!r} {where}")


ELIDED = [
    Kind("items left out for dots", "none", has_list, _elided(DOTS, True)),
    Kind("items left out for a comment", "none", has_list, _elided(COMMENTS, False)),
    Kind("items left out for a string", "none", has_list, _elided_by_a_string),
    Kind("items left out for a skeleton", "none", _is_free_list, _elided_by_a_skeleton),
    Kind("lines left out", "none", has_lines, _elided_lines),
]

# ---- shown texts repeated without escaping their quotes


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


def _places(value: Any) -> list[Place]:
    found: list[Place] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in TEXTS and isinstance(inner, str):
                found.append(Place(value, key))
            elif key in LISTS_OF_TEXTS:
                found += [Place(inner, at, value, key) for at in range(len(inner))]
            else:
                found += _places(inner)
    elif isinstance(value, list):
        for inner in value:
            found += [Place(inner, part) for part in range(3)] if isinstance(inner, list) else _places(inner)
    return found


def _open_value(rng: random.Random, ask: Ask) -> tuple[Any, Place]:
    """The reply, and a free text in it: one that it has, or the value of a key that is new."""
    value = _copy(ask.meant)
    places = _places(value)
    if not places or (rng.random() < 0.15 and isinstance(value, dict)):
        new = rng.choice(_objects(value))
        items = [("note", ""), *new.items()] if rng.random() < 0.7 else [*new.items(), ("note", "")]
        new.clear()
        new.update(items)
        places = [Place(new, "note")]
    return value, rng.choice(places)


def _around(rng: random.Random, ask: Ask, one: dict[str, Any], key: str) -> tuple[str, str]:
    """What another object of this form has before and behind a key, as it is spelt."""
    others = [other for other in _objects(ask.other) if set(other) == set(one) - {"note"}] or [{}]
    fields = [*{**one, **rng.choice(others)}.items()]
    at = [*one].index(key)
    before = "".join(f"{json.dumps(name)}: {spelt(value)}, " for name, value in fields[:at])
    after = "".join(f", {json.dumps(name)}: {spelt(value)}" for name, value in fields[at + 1 :])
    return before, after


def _as_another(rng: random.Random, ask: Ask, one: dict[str, Any], key: str) -> str:
    """The end of an object behind a key, and the next one up to the same key."""
    before, after = _around(rng, ask, one, key)
    return f"{after}}}, {{{before}{json.dumps(key)}"


def _fragment(rng: random.Random, ask: Ask, place: Place) -> str:
    """A text that, unescaped at this place, may end its string and say something in the place of the judge."""
    word = rng.choice(("Paris", "x", "It is so.", sentence(rng).replace('"', "")))
    if place.is_item and place.owner is not None and len(place.owner) > 1 and rng.random() < 0.7:
        return f"{word}\"]{_as_another(rng, ask, place.owner, place.field)}: [\"y"
    if place.is_item:
        triplet = len(place.container) == 3 and isinstance(ask.meant, list)
        return word + rng.choice(
            (
                '", "It was proven',
                '", "It was proven", "',
                '"] //',
                '"]} //',
                '", "It was proven"]} //',
                '", "It was proven"], "z": ["',
                '", // ',
                "', 'It was proven",
                *(['", "is", "so"], ["It', '", "so"], ["It", "was', '"], ["It", "was proven", "y'] * triplet),
            )
        )
    before, after = _around(rng, ask, place.container, place.key)
    key = json.dumps(place.key)
    numbers = f'{rng.choice(("3", "so", "Paris"))}", "score": {rng.choice((0, 3, 100))}'
    return rng.choice(
        (
            f'{word}"{_as_another(rng, ask, place.container, place.key)}: "y',
            f'{word}"{after}}} //',
            f'{word}"{after}}} #',
            f'{word}"{after}, "z": "',
            f'{word}"{after}, "z": {{"y": "',
            f'{word}"{after}}} or {{{before}{key}: "y',
            f'{word}", {before}"z": "',
            f"{numbers}}} //",
            f'{numbers}, "z": "',
            f'{word}"{after}}}]}} //',
            f'{word}"{after}}}] //',
            f'{word}"{after}}}\n{{{before}{key}: "y',
            f'{word}"}} </think> {spelt(ask.other)} "',
            f"</think>{spelt(ask.other)}",
        )
    )


AROUND = "{}", "{}", "It says {}", "{} is what it says", 'It says "{}" there'


def _injecting(rng: random.Random, ask: Ask) -> Planted:
    """A fragment, and the honest reply in which it stands as it is."""
    value, place = _open_value(rng, ask)
    fragment = _fragment(rng, ask, place)
    said = fragment if rng.random() < 0.85 else json.dumps(fragment)[1:-1]  # some judges do escape it
    place.put(rng.choice(AROUND).replace("{}", MARK))
    text = spelt(value, rng.choice((None, None, 1))).replace(f'\\"{MARK}\\"', f'"{MARK}"')
    meant = json.loads(spelt(value).replace(MARK, json.dumps(fragment)[1:-1]))
    return Planted(fragment, text.replace(MARK, said), meant=meant)


def _injecting_in_disguise(rng: random.Random, ask: Ask) -> Planted:
    planted = _injecting(rng, ask)
    shown = planted.shown
    changed = {name: other for name, change in DISGUISES.items() if (other := change(shown)) != shown}
    name = rng.choice([*changed])
    return replace(planted, shown=changed[name], detail=name)


def _verdict_in_a_line(rng: random.Random, ask: Ask) -> Planted:
    """A verdict stands in a shown text, and the judge repeats it within a line, or before its label."""
    labels = re.findall(r"VERDICT: \w+", spelt(ask.other)) or [spelt(ask.other).strip()]
    shown = rng.choice(("x. {}", "{}", "It is so. {} -")).format(rng.choice(labels))
    lines = ask.meant.splitlines() or [""]
    at = rng.randrange(len(lines))
    start, verdict, end = lines[at].rpartition("VERDICT:")
    lines[at] = f"{start}It says: {shown}. {verdict}{end}"
    return Planted(shown, "\n".join(lines))


def _as_said(rng: random.Random, ask: Ask, planted: Planted) -> Said:
    return Said(planted.said, detail=planted.detail)


INJECTED = [
    Kind("shown text repeated unescaped", "honest or none", has_object, plant=_injecting, repeat=_as_said),
    Kind(
        "shown triplet repeated unescaped", "honest or none", lambda ask: ask.prompt.name == "ragchecker_claims",
        plant=_injecting, repeat=_as_said,
    ),
    Kind(
        "shown text straightened and unescaped", "honest or none",
        lambda ask: has_object(ask) or ask.prompt.name == "ragchecker_claims",
        plant=_injecting_in_disguise, repeat=_as_said,
    ),
    Kind(
        "shown verdict repeated in a line", "honest or none", has_text_verdict,
        plant=_verdict_in_a_line, repeat=_as_said,
    ),
]  # fmt: skip

# ---- evaluations too many, and verdicts that are none


def _two(rng: random.Random, ask: Ask) -> str:
    both = [spelt(ask.meant).rstrip(), spelt(ask.other).rstrip()]
    rng.shuffle(both)
    frames = ["{}\nWait:\n{}", "{}\n\nCorrected:\n{}\n", "{}\n{}", "```\n{}\n```\n```\n{}\n```"]
    frames += [] if ask.is_text else ["Either {} or {}.", "{} {}"]
    return rng.choice(frames).replace("{}", both[0], 1).replace("{}", both[1], 1)


def _second_cut_off(rng: random.Random, ask: Ask) -> Said:
    second = spelt(ask.other, rng.choice((None, 1)))
    between = rng.choice(("Wait:\n", "Corrected:\n", "", "```json\n"))
    end = rng.randint(second.index('"') + 2, len(second) - 1)  # a key or an item is begun
    return Said(f"{honest(rng, ask)}\n{between}{second[:end]}", rng.choice(("ok", "truncated")))


def _same_twice(rng: random.Random, ask: Ask) -> str:
    text = spelt(ask.meant).rstrip()
    return rng.choice(("{}\n{}", "{}\n\nIn short:\n{}", "```\n{}\n```\n{}")).replace("{}", text)


def _key_twice(rng: random.Random, ask: Ask) -> str:
    value = _copy(ask.meant)
    one, key = rng.choice(_verdict_fields(value))
    for _ in range(40):
        new = rng.choice([value_of[name] for value_of, name in _verdict_fields(ask.other)])
        if new != one[key]:
            break
    else:
        new = _another(one[key])
    first = {MARK: new, **one} if rng.random() < 0.5 else {**one, MARK: new}
    one.clear()
    one.update(first)
    return spelt(value).replace(MARK, key)


def _another(value: Any) -> Any:
    if isinstance(value, list):
        return value[1:]
    if isinstance(value, bool):
        return not value
    return {0: 1, "yes": "no", "no": "yes"}.get(value, 0)


def _verdict_fields(value: Any) -> list[tuple[dict[str, Any], str]]:
    """The objects with the keys that hold their verdicts."""
    return [
        (one, key)
        for one in _objects(value)
        for key, inner in one.items()
        if key in ("verdict", "attributed", "noncommittal", "is_correct", "is_supported", "answered", "support", "score")
        or key in ("O", "labels", "keep")
        if not isinstance(inner, dict)
    ]


BAD_WORDS = (
    "partially", "true or false", "maybe", "", None, [], {}, [True], "not true", "yes and no", "yes/no", "unknown",
    "n/a", "true?", "1 or 0", "neither", 1.5, -1, "-1", "one", "three", "high", "3 of 3", "thirty", 10**9, "1e999",
    "0.5 or 1", [1], [0, 1], {"value": 1}, "support or not", "not Entailment", "vital or okay",
)  # fmt: skip
RAW_WORDS = "true or false", "1 or 0", "<number>", "?", "true/false", "NaN", "-Infinity", "partially", "0-3", "1.2.3", "..."


def _spoilt(rng: random.Random, ask: Ask) -> Said:
    """A verdict that is none."""
    value = _copy(ask.meant)
    fields = _verdict_fields(value)
    word: Any = rng.choice(BAD_WORDS)
    percent = ask.prompt.name.startswith("ccrs")
    if word == 1.5 and percent:
        word = rng.choice((100.5, -0.5))
    raw = rng.random() < 0.25
    mark = MARK if raw else word
    if fields:
        one, key = rng.choice(fields)
        if isinstance(one[key], list) and one[key]:
            one[key][rng.randrange(len(one[key]))] = mark
        else:
            one[key] = MARK if raw or (isinstance(one[key], list) and word == []) else word
    else:
        value[rng.randrange(len(value))] = mark
    if raw or MARK in spelt(value):
        word = rng.choice(RAW_WORDS)
        return Said(spelt(value).replace(f'"{MARK}"', word), detail=f"raw {word}")
    return Said(spelt(value), detail=repr(word))


def _spoilt_text(rng: random.Random, ask: Ask) -> str:
    if ask.prompt.name.startswith("ares"):
        return rng.choice(
            ("[[Maybe]]", "[[Yes and No]]", "Yes", "No.", "[[]]", "[[Yes]] or [[No]]", "[[Yes/No]]", "[[Partially]]",
             "[[Yes", "Yes]]", "[[Yes]] and [[No]]", "neither [[Yes]] nor [[No]]", "It is not [[Yes]].", "Yes]", "(Yes)")
        )  # fmt: skip
    lines = ask.meant.splitlines()
    at = rng.randrange(len(lines))
    start, _, label = lines[at].rpartition("VERDICT: ")
    bad = rng.choice(
        ("PARTIALLY", "", "NOT " + label, f"{label} or not", "PASSED or FAILED", "TP or FP", "MAYBE", "?", "N/A", "UN" + label)
    )
    lines[at] = f"{start}VERDICT: {bad}"
    return "\n".join(lines)


def _other_length(rng: random.Random, ask: Ask) -> str:
    if ask.is_text:
        lines = ask.meant.splitlines()
        more = [*lines, rng.choice(lines)]
        return "\n".join(rng.choice((more, lines[1:] or more)))
    value = _copy(ask.meant)
    lists = _lists(value)
    if ask.prompt.name == "ragas_correctness":
        lists = [value["TP"], value["FP"]]
    items = rng.choice([one for one in lists if one])
    if rng.random() < 0.5:
        items.pop(rng.randrange(len(items)))
    else:
        items.insert(rng.randint(0, len(items)), _copy(rng.choice(items)))
    return spelt(value)


def _other_shape(rng: random.Random, ask: Ask) -> Said:
    value: Any = _copy(ask.meant)
    odd = rng.choice((None, 3, "", "  ", {}, {"a": 1}, ["x"], [], True, [[]], {"text": "x"}))
    lists = [one for one in _lists(value) if one and not all(isinstance(item, (int, bool)) for item in one)]
    keys = [key for one in _objects(value) for key in one if key not in ("M", "T", "intent", "answer", "analysis")]
    if lists and rng.random() < 0.6:
        items = rng.choice(lists)
        items[rng.randrange(len(items))] = odd
        return Said(spelt(value), detail=f"item {odd!r}")
    if not keys:
        return Said(spelt({"value": 1, "reply": None}), detail="object")
    gone = rng.choice(_needed(value))
    for one in _objects(value):
        if gone in one:
            del one[gone]
            break
    return Said(spelt(value), detail=f"no {gone}")


def _needed(value: Any) -> list[str]:
    """Keys without which a reply says nothing, or not all."""
    verdict_keys = [key for _, key in _verdict_fields(value)]
    more = [key for one in _objects(value) for key in one if key in ("statements", "nuggets", "TP", "FP", "atomic_claims")]
    return verdict_keys + more


SPOILT = [
    Kind("two evaluations", "none", any_prompt, _two),
    Kind("two evaluations, the second cut off", "none", json_prompt, _second_cut_off),
    Kind("the same twice", "honest or none", any_prompt, _same_twice),
    Kind("a key twice", "none", has_keyed_verdict, _key_twice),
    Kind("a verdict that is none", "none", has_json_verdict, _spoilt),
    Kind("a label that is none", "none", has_text_verdict, _spoilt_text),
    Kind("too many or too few", "none", is_counted, _other_length),
    Kind("another shape", "none", json_prompt, _other_shape),
]

# ---- whole replies: all of these are read

PROSE = "Here is my evaluation:", "Sure! I checked [1] and {both} sources.", "**Evaluation**", "It's done:"
ENDS = "<|im_end|>", "</s>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<eos>", "<end_of_turn>", "\n<|im_end|>"
ASIDES = "// next", "// checked", "# next", "# checked"


def _bare(rng: random.Random, ask: Ask) -> str:
    return rng.choice(("", "\n", " ")) + honest(rng, ask) + rng.choice(("", "\n", " "))


def _fence(rng: random.Random, ask: Ask) -> str:
    return fenced(honest(rng, ask), rng.choice(("", "text") if ask.is_text else ("", "json", "JSON")))


def _prose(rng: random.Random, ask: Ask) -> str:
    reply = rng.choice((honest(rng, ask), _fence(rng, ask))).strip()
    return f"{rng.choice(PROSE)}\n\n{reply}\n\n{rng.choice(('', 'Let me know if that helps.', 'All was checked [1].'))}"


def _plain_thoughts(rng: random.Random, ask: Ask) -> Said:
    """Thoughts without a draft."""
    tag = rng.choice(KNOWN)
    thought = f"Let me see. {sentence(rng)} {rng.choice(('', 'The text says so [1].', 'So it is.'))}"
    return Said(f"{tag.opens}{_gap(rng, tag)}{thought}{_gap(rng, tag)}{tag.closes}{_reply(rng, ask, tag)}", "ok", tag.opens)


def _in_answer_tags(rng: random.Random, ask: Ask) -> str:
    gap = rng.choice(("", "\n"))
    return f"<answer>{gap}{honest(rng, ask)}{gap}</answer>"


def _python_literals(rng: random.Random, ask: Ask) -> str:
    words = {"true": "True", "false": "False", "null": "None"}
    return re.sub(r"\b(true|false|null)\b(?=\s*[,}\]])", lambda found: words[found[0]], spelt(ask.meant))


def _trailing_commas(rng: random.Random, ask: Ask) -> str:
    value = _copy(ask.meant)
    for one in _objects(value):
        one[MARK] = None
    for some in _every_list(value):
        some.append(MARK)
    text = spelt(value, rng.choice((None, 1)))
    return re.sub(rf'(\s*)"{MARK}"(?:: null)?', r"\1", text)


def _every_list(value: Any) -> list[list[Any]]:
    found = [value] if isinstance(value, list) and value else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [one for some in [*inner] for one in _every_list(some)]


def _with_asides(rng: random.Random, ask: Ask) -> str:
    aside = rng.choice(ASIDES)
    return re.sub(r'(["\]}\w]),\n', rf"\1, {aside}\n", spelt(ask.meant, 1))


def _reordered(rng: random.Random, ask: Ask) -> str:
    value = _copy(ask.meant)
    for one in _objects(value):
        items = [*one.items()]
        rng.shuffle(items)
        one.clear()
        one.update(items)
    return spelt(value)


def _more_keys(rng: random.Random, ask: Ask) -> str:
    value = _copy(ask.meant)
    for one in _objects(value):
        one.update(rng.choice(({"confidence": 0.9}, {"note": "none"}, {"number": 1, "source": ["a", "b"]}, {"n": None})))
    return spelt(value)


_QUOTED_WORD = re.compile(r'(?<=\w )\\"(\w+)\\"(?= \w)')  # as JSON has it; words stand before and behind


def _has_quoted_word(ask: Ask) -> bool:
    return json_prompt(ask) and bool(_QUOTED_WORD.search(spelt(ask.meant)))


def _quotes_unescaped(rng: random.Random, ask: Ask) -> str:
    """Quotes in a text that can end nothing."""
    return _QUOTED_WORD.sub(r'"\1"', spelt(ask.meant))


def _quotes_unescaped_in_a_note(rng: random.Random, ask: Ask) -> str:
    value = _copy(ask.meant)
    for one in _objects(value):
        key = rng.choice([key for key in one if key in COMMENTARY and key in TEXTS and key != "claim"] or ["note"])
        one[key] = f"{rng.choice(('He', 'Zoë'))} wrote {MARK} in {rng.randint(1500, 1990)}."
    return spelt(value).replace(MARK, rng.choice(('"Hamlet"', '"The Tin Drum"', '"C" and "D"')))


def _labelled(rng: random.Random, ask: Ask) -> str:
    return rng.choice(("Output: ", "Answer: ", "JSON: ", "Result: ", "**Output:** ", "My evaluation: ")) + spelt(ask.meant)


def _ended(rng: random.Random, ask: Ask) -> str:
    return spelt(ask.meant) + rng.choice((".", *ENDS))


WHOLE = [
    Kind("bare", "whole", any_prompt, _bare, plain=True),
    Kind("fenced", "whole", any_prompt, _fence, plain=True),
    Kind("prose around", "whole", json_prompt, _prose, plain=True),
    Kind("prose around lines", "honest or none", text_prompt, _prose),
    Kind("thoughts without a draft", "whole", any_prompt, _plain_thoughts, plain=True),
    Kind("in answer tags", "whole", json_prompt, _in_answer_tags, plain=True),
    Kind("single quotes", "whole", json_prompt, lambda rng, ask: repr(ask.meant), plain=True),
    Kind("Python literals", "whole", json_prompt, _python_literals, plain=True),
    Kind("trailing commas", "whole", json_prompt, _trailing_commas, plain=True),
    Kind("comments behind items", "whole", json_prompt, _with_asides, plain=True),
    Kind("keys in another order", "whole", has_object, _reordered, plain=True),
    Kind("more keys", "whole", has_object, _more_keys, plain=True),
    Kind("quotes unescaped", "whole", _has_quoted_word, _quotes_unescaped, plain=True),
    Kind("quotes unescaped in a reason", "whole", has_object, _quotes_unescaped_in_a_note, plain=True),
    Kind("a label before", "whole", json_prompt, _labelled, plain=True),
    Kind("a full stop or end token behind", "whole", json_prompt, _ended, plain=True),
]

KINDS = {
    kind.name: kind
    for kind in (*WHOLE, *THOUGHTS, *CUT, *ECHOES, *QUOTED, *STRAIGHTENED, *ELIDED, *INJECTED, *SPOILT)
}
