"""Honest replies with what models put around them, in JSON as models write it: each is to be read."""

import random
import re
from typing import Any

from honest_judge import COMMENTARY, Ask
from reply_forms import (
    MARK,
    TEXTS,
    Kind,
    any_prompt,
    copy_of,
    fenced,
    has_object,
    honest,
    json_prompt,
    objects,
    spelt,
    text_prompt,
)  # fmt: skip

PROSE = "Here is my evaluation:", "Sure! I checked [1] and {both} sources.", "**Evaluation**", "It's done:"
ENDS = "<|im_end|>", "</s>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<eos>", "<end_of_turn>", "\n<|im_end|>"
LABELS = "Output:", "Answer:", "JSON:", "Result:", "**Output:**", "My evaluation:"
MORE_KEYS = {"confidence": 0.9}, {"note": "none"}, {"number": 1, "source": ["a", "b"]}, {"n": None}
ASIDES = "// next", "// checked", "# next", "# checked"


def _bare(rng: random.Random, ask: Ask) -> str:
    return rng.choice(("", "\n", " ")) + honest(rng, ask) + rng.choice(("", "\n", " "))


def _fence(rng: random.Random, ask: Ask) -> str:
    return fenced(honest(rng, ask), rng.choice(("", "text") if ask.is_text else ("", "json", "JSON")))


def _prose(rng: random.Random, ask: Ask) -> str:
    reply = rng.choice((honest(rng, ask), _fence(rng, ask))).strip()
    return f"{rng.choice(PROSE)}\n\n{reply}\n\n{rng.choice(('', 'Let me know if that helps.', 'All was checked [1].'))}"


def _in_answer_tags(rng: random.Random, ask: Ask) -> str:
    gap = rng.choice(("", "\n"))
    return f"<answer>{gap}{honest(rng, ask)}{gap}</answer>"


def _has_apostrophe(ask: Ask) -> bool:
    return json_prompt(ask) and "'" in spelt(ask.meant)


def _has_no_apostrophe(ask: Ask) -> bool:
    return json_prompt(ask) and not _has_apostrophe(ask)


def _python_literals(rng: random.Random, ask: Ask) -> str:
    words = {"true": "True", "false": "False", "null": "None"}
    return re.sub(r"\b(true|false|null)\b(?=\s*[,}\]])", lambda found: words[found[0]], spelt(ask.meant))


def _trailing_commas(rng: random.Random, ask: Ask) -> str:
    value = copy_of(ask.meant)
    for one in objects(value):
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
    value = copy_of(ask.meant)
    for one in objects(value):
        items = [*one.items()]
        rng.shuffle(items)
        one.clear()
        one.update(items)
    return spelt(value)


def _more_keys(rng: random.Random, ask: Ask) -> str:
    value = copy_of(ask.meant)
    for one in objects(value):
        one.update(copy_of(rng.choice(MORE_KEYS)))
    return spelt(value)


_QUOTED_WORD = re.compile(r'(?<=\w )\\"(\w+)\\"(?= \w)')  # as JSON has it; words stand before and behind


def _has_quoted_word(ask: Ask) -> bool:
    return json_prompt(ask) and bool(_QUOTED_WORD.search(spelt(ask.meant)))


def _quotes_unescaped(rng: random.Random, ask: Ask) -> str:
    """Quotes in a text that can end nothing."""
    return _QUOTED_WORD.sub(r'"\1"', spelt(ask.meant))


def _quotes_unescaped_in_a_note(rng: random.Random, ask: Ask) -> str:
    value = copy_of(ask.meant)
    for one in objects(value):
        key = rng.choice([key for key in one if key in COMMENTARY and key in TEXTS and key != "claim"] or ["note"])
        one[key] = f"{rng.choice(('He', 'Zoë'))} wrote {MARK} in {rng.randint(1500, 1990)}."
    return spelt(value).replace(MARK, rng.choice(('"Hamlet"', '"The Tin Drum"', '"C" and "D"')))


def _labelled(rng: random.Random, ask: Ask) -> str:
    return f"{rng.choice(LABELS)} {spelt(ask.meant)}"


def _ended(rng: random.Random, ask: Ask) -> str:
    return spelt(ask.meant) + rng.choice((".", *ENDS))


WHOLE = [
    Kind("bare", "whole", any_prompt, _bare, plain=True),
    Kind("fenced", "whole", any_prompt, _fence, plain=True),
    Kind("prose around", "whole", json_prompt, _prose, plain=True),
    Kind("prose around lines", "honest or none", text_prompt, _prose),
    Kind("in answer tags", "whole", json_prompt, _in_answer_tags, plain=True),
    Kind("single quotes", "whole", _has_no_apostrophe, lambda rng, ask: repr(ask.meant), plain=True),
    Kind("quotes of both kinds", "honest or none", _has_apostrophe, lambda rng, ask: repr(ask.meant)),
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
