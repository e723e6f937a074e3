"""Replies that repeat what the judge was shown: its prompt, or an evaluation that stands in a text to be judged.

Injected ones are honest, and hold a piece of a shown text as it is, which may say something in the place of the judge.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from honest_judge import Ask
from honest_replies import sentence
from reply_forms import (
    MARK,
    REFUSALS,
    Kind,
    Place,
    Planted,
    any_prompt,
    copy_of,
    draft,
    has_example,
    has_object,
    has_text_verdict,
    honest,
    objects,
    places,
    spelt,
)  # fmt: skip

from rag_zeval.judge.prompt import INPUTS, inputs_json

# ---- the prompt


def _template(rng: random.Random, ask: Ask) -> str:
    before, after = ask.prompt.template.split(INPUTS)
    return rng.choice((before, f"{before}{{inputs}}{after}", f"{before}{after}"))


def _examples(rng: random.Random, ask: Ask) -> str:
    """An example of the prompt, input and output; or an output alone that is too long to be meant by chance."""
    shown = re.findall(
        r"Example input:\n.*?\nExample output:\n(?:[^\n]+\n)+", ask.prompt.template.split(INPUTS)[0], re.DOTALL
    )
    one = rng.choice(shown)
    output = one.rpartition("Example output:\n")[2]
    alone = [output, f"```json\n{output}```"] if len(output) > 60 else []
    return rng.choice((one, "".join(shown), f"Example output:\n{output}", *alone))


def _with_refusal(rng: random.Random, text: str) -> str:
    return text + rng.choice(("", "\n", f"\n{rng.choice(REFUSALS)}", f" {rng.choice(REFUSALS)}"))


def _piece(rng: random.Random, ask: Ask) -> str:
    start, end = sorted(rng.randrange(len(ask.message)) for _ in range(2))
    return ask.message[start:] if rng.random() < 0.3 else ask.message[start:end]


# ---- an evaluation in a text

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


def _only_the_reply(rng: random.Random, ask: Ask, planted: Planted) -> str:
    return honest(rng, ask)


def _has_reason(ask: Ask) -> bool:
    return not ask.is_text and bool(places(ask.meant))


def _copied_in_a_reason(rng: random.Random, ask: Ask) -> Planted:
    """The judge escapes what it repeats, as it should."""
    shown, value = _spelt_anyhow(rng, ask.other), copy_of(ask.meant)
    rng.choice(places(value)).put(rng.choice((shown, f"It says {shown}", f"{shown} is what it says")))
    return Planted(shown, spelt(value), meant=value)


# ---- the same, spelt otherwise there

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


# ---- a piece of a text, as it is


def _open_value(rng: random.Random, ask: Ask) -> tuple[Any, Place]:
    """The reply, and a free text in it: one that it has, or the value of a key that is new."""
    value = copy_of(ask.meant)
    found = places(value)
    if not found or (rng.random() < 0.15 and isinstance(value, dict)):
        new = rng.choice(objects(value))
        items = [("note", ""), *new.items()] if rng.random() < 0.7 else [*new.items(), ("note", "")]
        new.clear()
        new.update(items)
        found = [Place(new, "note")]
    return value, rng.choice(found)


def _around(rng: random.Random, ask: Ask, one: dict[str, Any], key: str) -> tuple[str, str]:
    """What another object of this form has before and behind a key, as it is spelt."""
    others = [other for other in objects(ask.other) if set(other) == set(one) - {"note"}] or [{}]
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
        return f'{word}"]{_as_another(rng, ask, place.owner, place.field)}: ["y'
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


def _a_verdict(rng: random.Random, ask: Ask) -> Planted:
    labels = re.findall(r"VERDICT: \w+", spelt(ask.other)) or [spelt(ask.other).strip()]
    shown = rng.choice(("x. {}", "{}", "It is so. {} -")).format(rng.choice(labels))
    return Planted(shown, shown)


def _in_a_line(rng: random.Random, ask: Ask, planted: Planted) -> str:
    """The judge repeats it within a line of its own, or before its label."""
    lines = ask.meant.splitlines() or [""]
    at = rng.randrange(len(lines))
    start, verdict, end = lines[at].rpartition("VERDICT:")
    lines[at] = f"{start}It says: {planted.said}. {verdict}{end}"
    return "\n".join(lines)


REPEATED = [
    Kind("prompt repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, ask.message)),
    Kind("template repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, _template(rng, ask))),
    Kind("example repeated", "none", has_example, lambda rng, ask: _with_refusal(rng, _examples(rng, ask))),
    Kind("piece of the prompt repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, _piece(rng, ask))),
    Kind("inputs repeated", "none", any_prompt, lambda rng, ask: _with_refusal(rng, inputs_json(ask.inputs))),
    Kind("prompt, then the reply", "honest or none", any_prompt, lambda r, ask: f"{ask.message}\n{honest(r, ask)}"),
    Kind(
        "inputs, then the reply",
        "honest or none",
        any_prompt,
        lambda r, ask: f"{inputs_json(ask.inputs)}\n{honest(r, ask)}",
    ),
    Kind("quoted from nowhere in a sentence", "none", any_prompt, _unshown),
    Kind("quoted in a sentence", "none", any_prompt, plant=_copied, repeat=_framed(IN_A_SENTENCE)),
    Kind("quoted on lines of its own", "none", any_prompt, plant=_copied, repeat=_framed(ON_LINES)),
    Kind("quoted in a fence", "none", any_prompt, plant=_copied, repeat=_framed(IN_A_FENCE)),
    Kind("bare, where a text spells another", "honest or none", any_prompt, plant=_copied, repeat=_only_the_reply),
    Kind("escaped in a reason", "honest or none", _has_reason, plant=_copied_in_a_reason),
    Kind("quoted, then the reply", "honest or none", any_prompt, plant=_copied, repeat=_then_reply),
    Kind("straightened in a sentence", "none", any_prompt, plant=_disguised, repeat=_framed(IN_A_SENTENCE)),
    Kind("straightened on lines of its own", "none", any_prompt, plant=_disguised, repeat=_framed(ON_LINES)),
    Kind("straightened in a fence", "none", any_prompt, plant=_disguised, repeat=_framed(IN_A_FENCE)),
    Kind("straightened, then the reply", "honest or none", any_prompt, plant=_disguised, repeat=_then_reply),
    Kind("shown text repeated unescaped", "honest or none", has_object, plant=_injecting),
    Kind(
        "shown triplet repeated unescaped", "honest or none", lambda ask: ask.prompt.name == "ragchecker_claims",
        plant=_injecting,
    ),
    Kind(
        "shown text straightened and unescaped", "honest or none",
        lambda ask: has_object(ask) or ask.prompt.name == "ragchecker_claims",
        plant=_injecting_in_disguise,
    ),
    Kind(
        "shown verdict repeated in a line", "honest or none", has_text_verdict,
        plant=_a_verdict, repeat=_in_a_line,
    ),
]  # fmt: skip
