"""Separates a model's thoughts from its answer.

What a model writes in its thoughts is a draft, never its answer. Servers remove thoughts if they know the model's tags.
Many do not; the tags are then in the text, or only the closing one, because the opening tag is in the chat template.
Upper and lower case do not matter, because models vary in it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Names of tags around thoughts, and models that write them: `<think>`, `[THINK]` or `◁think▷`; closed with a slash.
THOUGHT_TAGS = {
    "think": "DeepSeek R1 and V3.1, Qwen3, QwQ, GLM 4.5, MiniMax M1, ERNIE 4.5, Hunyuan, SmolLM3, Magistral, Kimi",
    "thinking": "Claude, and others that are asked to",
    "thought": "Gemini, EXAONE Deep",
    "thoughts": "models that are asked to",
    "reasoning": "models that are asked to",
    "reflection": "Reflection 70B",
    "seed:think": "Seed OSS",
    "longcat_think": "LongCat Flash Thinking",
}


class Marks(NamedTuple):
    """Regular expressions for the beginning and the end of thoughts, and models that use them."""

    opening: str
    closing: str
    models: str


_NAMES = "|".join(THOUGHT_TAGS)
THOUGHT_MARKS = (
    Marks(rf"<(?:{_NAMES})(?:\s[^<>]{{0,200}})?>", rf"</(?:{_NAMES})\s*>", "see THOUGHT_TAGS"),
    Marks(rf"\[(?:{_NAMES})\]", rf"\[/(?:{_NAMES})\]", "Magistral"),
    Marks(rf"◁(?:{_NAMES})▷", rf"◁/(?:{_NAMES})▷", "Kimi"),
    Marks(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", "OpenThinker, Sky-T1"),
    Marks(r"<\|start_think(?:ing)?\|>", r"<\|end_think(?:ing)?\|>", "Command R7B, Command A Reasoning"),
    Marks(
        r"<\|channel\|>\s*(?:analysis|commentary)[^<]{0,100}<\|message\|>",
        r"<\|channel\|>\s*final[^<]{0,100}<\|message\|>",
        "gpt-oss",
    ),
    Marks(r"\A\s*analysis(?=[A-Z])", r"assistantfinal", "gpt-oss, without its special tokens"),
    Marks(r"<\|channel>\s*thought", r"<channel\|>", "Gemma 4"),
    Marks(r"<\|think\|>", r"<\|end\|>\s*<\|begin\|>assistant\s*<\|content\|>", "Solar Open"),
    Marks(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>", "Apertus"),
    Marks(r"<unused94>", r"<unused95>", "MedGemma"),
    Marks(r"Here(?:'s| is) my thought process:", r"Here(?:'s| is) my response:", "Granite 3.2"),
    Marks(r"Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]", "Apriel"),
)
_OPENING = re.compile("|".join(marks.opening for marks in THOUGHT_MARKS), re.IGNORECASE)
_CLOSING = re.compile("|".join(marks.closing for marks in THOUGHT_MARKS), re.IGNORECASE)

# Any other tag: what is inside may be thoughts too, so it does not count as an answer.
_TAG = re.compile(
    r"<(?P<slash>/?)\s*(?P<name>[a-z][\w.:-]{0,40})(?:\s[^<>]{0,200})?(?P<empty>/?)>"
    r"|<[|｜]\s*(?P<slash_2>/?)(?P<name_2>[\w▁:-]{1,40})\s*[|｜]>"
    r"|◁(?P<slash_3>/?)(?P<name_3>\w{1,40})▷"
    r"|(?m:^)[ \t]*\[(?P<name_4>(?-i:[A-Z][A-Z_ ]{3,40}))\]|\[(?P<slash_4>/)(?P<name_5>(?-i:[A-Z][A-Z_ ]{3,40}))\]",
    re.IGNORECASE,
)
# The end of a turn. After it, a reply has ended its thoughts, or continues as the next speaker.
_END_OF_TURN = re.compile(
    r"<[|｜](?:end|im_end|return|eot_id|eom_id|endoftext|end[▁_]of[▁_]sentence|end_of_turn_token)[｜|]>"
    r"|</s>|<end_of_turn>|<eos>",
    re.IGNORECASE,
)
# Tags that may surround answers: names for an answer, layout, and chat templates.
_PLAIN_TAGS = frozenset(
    "answer final final_answer response output result results solution json evaluation verdict verdicts judgment "
    "judgement score a b blockquote body br code div em h1 h2 h3 h4 h5 h6 hr html i li mark ol p pre s small span "
    "strong sub sup table tbody td th thead tr tt u ul begin_of_solution end_of_solution start_response end_response "
    "start_text end_text begin_of_box end_of_box begin_of_text end_of_text im_start im_end endoftext eot_id eom_id end "
    "start return message channel assistant start_header_id end_header_id begin_of_sentence end_of_sentence "
    "begin▁of▁sentence end▁of▁sentence start_of_turn_token end_of_turn_token chatbot_token start_of_turn end_of_turn "
    "end_of_role start_of_role eos bos".split()
)


def final_texts(text: str) -> Iterator[str]:
    """Yield the texts that may be a reply's answer: the whole reply, then what follows the last end of thoughts.

    The whole comes first because a closing tag may be inside a JSON string. Check with `fault_outside` that no thoughts
    surround what was read.
    """
    yield text
    end = 0
    for closing in _CLOSING.finditer(text):
        end = closing.end()
    if end:
        yield text[end:]


def fault_outside(pieces: Sequence[str]) -> str | None:
    """Return why what was read from a text may be a draft; None if no tag suggests it.

    pieces: the text before, between and after what was read, in order; a single piece if nothing was read.
    """
    if any(map(_OPENING.search, pieces)) or any(map(_CLOSING.search, pieces)):
        return "the reply does not end its thoughts"
    if any(any(map(str.isalnum, without_tags(after))) for after in _after_turn(pieces)):
        return "the reply continues after its end"
    opened: list[str] = []
    for at, piece in enumerate(pieces):
        for name, closing in unknown_tags(piece):
            if not closing:
                opened.append(name)
            elif name in opened:
                opened.remove(name)
            elif at:  # its opening tag is in the prompt, so everything before it is inside
                return f"its answer is inside an unknown tag: '{name}'"
        if opened and at < len(pieces) - 1:
            return f"its answer is inside an unknown tag: '{opened[-1]}'"
    return None


def _after_turn(pieces: Sequence[str]) -> Iterator[str]:
    """Yield the text after the first token that ends a turn. A value that was read there counts as the word "more"."""
    for at, piece in enumerate(pieces):
        if end := _END_OF_TURN.search(piece):
            yield piece[end.end() :]
            yield "more" * (at < len(pieces) - 1)
            yield from pieces[at + 1 :]
            return


def unknown_tags(text: str) -> Iterator[tuple[str, bool]]:
    """Yield `(name, is_closing)` for each tag that is neither a tag of thoughts nor known to be harmless."""
    for tag in _TAG.finditer(text):
        name = next(filter(None, tag.group("name", "name_2", "name_3", "name_4", "name_5"))).casefold()
        closing = any(tag.group("slash", "slash_2", "slash_3", "slash_4"))
        if name not in _PLAIN_TAGS and not tag["empty"]:
            yield re.sub(r"^(?:begin|start|end)_(?:of_)?", "", name), closing or name.startswith("end_")


def without_tags(text: str) -> str:
    """Return the text without tags."""
    return _TAG.sub("", text)


def without_wrapping(text: str) -> str:
    """Return the text without the tags and white space at its beginning and end."""
    end = len(text.rstrip())
    for tag in reversed([*_TAG.finditer(text)]):
        if text[tag.end() : end].strip():
            break
        end = tag.start()
    text = text[:end].strip()
    while opening := _TAG.match(text):
        text = text[opening.end() :].lstrip()
    return text
