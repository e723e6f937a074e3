"""Replies that end early, leave something out, say two things, or give verdicts that are none."""

import random
import re
from typing import Any

from honest_judge import Ask
from reply_forms import (
    MARK,
    Kind,
    Maker,
    Said,
    any_prompt,
    copy_of,
    has_json_verdict,
    has_keyed_verdict,
    has_lines,
    has_list,
    has_text_verdict,
    honest,
    is_counted,
    json_prompt,
    lists,
    musing,
    objects,
    spelt,
    text_prompt,
    verdict_fields,
)  # fmt: skip

# ---- cut off


def _cut(rng: random.Random, ask: Ask) -> Said:
    text = rng.choice(("{}", "```json\n{}\n```", "Here is my evaluation:\n{}")).replace("{}", honest(rng, ask))
    return Said(text[: rng.randint(0, len(text))], rng.choice(("ok", "truncated")))


def _cut_text(rng: random.Random, ask: Ask) -> Said:
    text = ask.meant
    return Said(text[: rng.randint(0, len(text))], "truncated")


def _aloud_cut(rng: random.Random, ask: Ask) -> Said:
    return Said(f"Let me see. {musing(rng, ask)} {rng.choice(('Hmm, but', 'On the other', 'So I'))}", "truncated")


# ---- items left out

DOTS = "...", "…", "....", "[...]", "etc.", "and so on", "(3 more)", "<more>"
COMMENTS = (
    "// and so on\n", "# ...\n", "// 3 more\n", "/* ... */", "// ...\n", "# and so on\n", "// etc.\n",
    "/* and 2 more */", "// the rest is alike\n", "-- ...\n", "<!-- ... -->",
)  # fmt: skip
STRINGS = "...", "…", "etc.", "and so on", ". . .", "[...]", "(more)", "…and 3 more"
LINES = "...", "- ...", "…", "- …", "- etc.", "- and so on", "(3 more)", "- (3 more)", "[...]", "- [...]", "etc."


def _without_some(rng: random.Random, items: list[Any], mark: Any) -> tuple[list[Any], str]:
    """Items with a mark in place of one to three of them, never of all, and where: first, middle or last."""
    start = rng.randrange(len(items))
    end = rng.randint(start + 1, min(len(items), start + 3))
    start += end - start == len(items)
    where = "first" if start == 0 else "last" if end == len(items) else "middle"
    return [*items[:start], mark, *items[end:]], where


def _left_out(rng: random.Random, ask: Ask) -> tuple[Any, str]:
    """The reply with MARK in place of one or more items of a list, and where."""
    value = copy_of(ask.meant)
    items = rng.choice([one for one in lists(value) if len(one) > 1])
    items[:], where = _without_some(rng, items, MARK)
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
    return has_list(ask) and not is_counted(ask) and bool(_lists_of_parts(ask.meant))


def _lists_of_parts(value: Any) -> list[list[Any]]:
    return [items for items in lists(value) if len(items) > 1 and isinstance(items[0], (dict, list))]


def _elided_by_a_skeleton(rng: random.Random, ask: Ask) -> Said:
    """An item that says nothing stands in place of others."""
    value = copy_of(ask.meant)
    items = rng.choice(_lists_of_parts(value))
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
    kept, where = _without_some(rng, lines, word)
    return Said("\n".join(kept) + "\n", detail=f"{word!r} {where}")


# ---- evaluations too many, and verdicts that are none


def _two(rng: random.Random, ask: Ask) -> str:
    both = [spelt(ask.meant).rstrip(), spelt(ask.other).rstrip()]
    rng.shuffle(both)
    frames = ["{}\nWait:\n{}", "{}\n\nCorrected:\n{}\n", "```\n{}\n```\n```\n{}\n```"]
    frames += [] if ask.is_text else ["{}\n{}", "Either {} or {}.", "{} {}"]  # two lists on end are one
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
    value = copy_of(ask.meant)
    one, key = rng.choice(verdict_fields(value))
    others = [value_of[name] for value_of, name in verdict_fields(ask.other)]
    rng.shuffle(others)
    new = next((other for other in others if other != one[key]), _another(one[key]))
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


BAD_WORDS = (
    "partially", "true or false", "maybe", "", None, [], {}, [True], "not true", "yes and no", "yes/no", "unknown",
    "n/a", "true?", "1 or 0", "neither", 1.5, -1, "-1", "one", "three", "high", "3 of 3", "thirty", 10**9, "1e999",
    "0.5 or 1", [1], [0, 1], {"value": 1}, "support or not", "not Entailment", "vital or okay",
)  # fmt: skip
RAW_WORDS = (
    "true or false", "1 or 0", "<number>", "?", "true/false", "NaN", "-Infinity", "partially", "0-3", "1.2.3", "...",
)  # fmt: skip


def _spoilt(rng: random.Random, ask: Ask) -> Said:
    """A verdict that is none: another value, or raw text where JSON has one."""
    value = copy_of(ask.meant)
    fields = verdict_fields(value)
    word: Any = rng.choice(BAD_WORDS)
    if word == 1.5 and ask.prompt.name.startswith("ccrs"):  # its scores are percentages
        word = rng.choice((100.5, -0.5))
    is_raw = rng.random() < 0.25
    one, key = rng.choice(fields) if fields else (value, rng.randrange(len(value)))
    if isinstance(one[key], list):
        is_raw = is_raw or (word == [] and not one[key])
        one, key = (one[key], rng.randrange(len(one[key]))) if one[key] else (one, key)
    if is_raw:
        one[key] = MARK
        word = rng.choice(RAW_WORDS)
        return Said(spelt(value).replace(f'"{MARK}"', word), detail=f"raw {word}")
    one[key] = word
    return Said(spelt(value), detail=repr(word))


def _spoilt_text(rng: random.Random, ask: Ask) -> str:
    if ask.prompt.name.startswith("ares"):
        return rng.choice(
            ("[[Maybe]]", "[[Yes and No]]", "Yes", "No.", "[[]]", "[[Yes]] or [[No]]", "[[Yes/No]]", "[[Partially]]",
             "[[Yes", "Yes]]", "[[Yes]] and [[No]]", "neither [[Yes]] nor [[No]]", "It is not [[Yes]].", "(Yes)")
        )  # fmt: skip
    lines = ask.meant.splitlines()
    at = rng.randrange(len(lines))
    start, _, label = lines[at].rpartition("VERDICT: ")
    bad = rng.choice(
        ("PARTIALLY", "", f"NOT {label}", f"{label} or not", "PASSED or FAILED", "TP or FP", "MAYBE", "?", f"UN{label}")
    )
    lines[at] = f"{start}VERDICT: {bad}"
    return "\n".join(lines)


def _other_length(rng: random.Random, ask: Ask) -> str:
    if ask.is_text:
        lines = ask.meant.splitlines()
        more = [*lines, rng.choice(lines)]
        return "\n".join(rng.choice((more, lines[1:] or more)))
    value = copy_of(ask.meant)
    found = lists(value)
    if ask.prompt.name == "ragas_correctness":
        found = [value["TP"], value["FP"]]
    items = rng.choice([one for one in found if one])
    if rng.random() < 0.5:
        items.pop(rng.randrange(len(items)))
    else:
        items.insert(rng.randint(0, len(items)), copy_of(rng.choice(items)))
    return spelt(value)


def _other_shape(rng: random.Random, ask: Ask) -> Said:
    value: Any = copy_of(ask.meant)
    odd = rng.choice((None, 3, "", "  ", {}, {"a": 1}, ["x"], [], True, [[]], {"text": "x"}))
    whole = [one for one in lists(value) if one and not all(isinstance(item, (int, bool)) for item in one)]
    keys = [key for one in objects(value) for key in one if key not in ("M", "T", "intent", "answer", "analysis")]
    if whole and rng.random() < 0.6:
        items = rng.choice(whole)
        items[rng.randrange(len(items))] = odd
        return Said(spelt(value), detail=f"item {odd!r}")
    if not keys:
        return Said(spelt({"value": 1, "reply": None}), detail="object")
    gone = rng.choice(_needed(value))
    del next(one for one in objects(value) if gone in one)[gone]
    return Said(spelt(value), detail=f"no {gone}")


LISTS = frozenset("statements nuggets TP FP atomic_claims".split())


def _needed(value: Any) -> list[str]:
    """Keys without which a reply says nothing, or not all."""
    verdict_keys = [key for _, key in verdict_fields(value)]
    return verdict_keys + [key for one in objects(value) for key in one if key in LISTS]


BROKEN = [
    Kind("cut anywhere", "honest or none", json_prompt, _cut),
    Kind("text cut off", "none", text_prompt, _cut_text),
    Kind("thinking aloud, cut off", "none", any_prompt, _aloud_cut),
    Kind("items left out for dots", "none", has_list, _elided(DOTS, True)),
    Kind("items left out for a comment", "none", has_list, _elided(COMMENTS, False)),
    Kind("items left out for a string", "none", has_list, _elided_by_a_string),
    Kind("items left out for a skeleton", "none", _is_free_list, _elided_by_a_skeleton),
    Kind("lines left out", "none", has_lines, _elided_lines),
    Kind("two evaluations", "none", any_prompt, _two),
    Kind("two evaluations, the second cut off", "none", json_prompt, _second_cut_off),
    Kind("the same twice", "honest or none", any_prompt, _same_twice),
    Kind("a key twice", "none", has_keyed_verdict, _key_twice),
    Kind("a verdict that is none", "none", has_json_verdict, _spoilt),
    Kind("a label that is none", "none", has_text_verdict, _spoilt_text),
    Kind("too many or too few", "none", is_counted, _other_length),
    Kind("another shape", "none", json_prompt, _other_shape),
]
