"""Replies that think before they say anything, or instead: drafts are no evaluations."""

import random
from collections.abc import Callable
from typing import NamedTuple

from honest_judge import Ask
from honest_replies import sentence
from reply_forms import REFUSALS, End, Kind, Maker, Said, any_prompt, draft, honest, musing


class Tag(NamedTuple):
    """How a model marks its thoughts, after its own card and chat template; apart from any table of ours.

    What stands before and behind thoughts, before and behind the answer that follows, and whose they are.

    between: what a model writes between two thoughts; None if it never has two.
    """

    opens: str
    closes: str
    models: str
    before: str = ""
    after: str = ""
    between: str | None = "\n"

    @property
    def ends_alone(self) -> bool:
        """Whether its closing mark, without an opening one, still says that thoughts end there."""
        return self.closes != HARMONY_END


HARMONY_END = "<|end|>"  # it ends any message of its models


def _xml(name: str, models: str, before: str = "", after: str = "") -> Tag:
    return Tag(f"<{name}>", f"</{name}>", models, before, after)


KNOWN = (
    _xml("think", "DeepSeek-R1, Qwen3, QwQ, GLM-4.5, MiniMax-M1, Phi-4-reasoning, Nemotron, SmolLM3"),
    _xml("Think", "the same, in another case"),
    _xml("THINK", "the same, in another case"),
    Tag('<think type="x">', "</think>", "the same, with an attribute"),
    _xml("think", "Hunyuan-A13B", "<answer>\n", "\n</answer>"),
    _xml("thinking", "Claude and others that are asked to think in tags"),
    _xml("Thinking", "the same, in another case"),
    _xml("thought", "EXAONE Deep, Gemini through OpenAI's interface"),
    _xml("reasoning", "models trained with GRPO recipes", "<answer>", "</answer>"),
    _xml("reasoning", "the same, without a mark of the answer"),
    _xml("reflection", "Reflection-Llama-3.1-70B"),
    Tag("[THINK]", "[/THINK]", "Magistral"),
    Tag("[think]", "[/think]", "the same, in another case"),
    _xml("seed:think", "Seed-OSS"),
    Tag(
        "<|begin_of_thought|>", "<|end_of_thought|>", "Sky-T1, OpenThinker",
        "<|begin_of_solution|>\n", "\n<|end_of_solution|>",
    ),
    Tag(
        "<|START_THINKING|>", "<|END_THINKING|>", "Command A Reasoning",
        "<|START_RESPONSE|>", "<|END_RESPONSE|>",
    ),
    Tag("◁think▷", "◁/think▷", "Kimi-VL-Thinking"),
    Tag(
        "<|channel|>analysis<|message|>", HARMONY_END, "gpt-oss (Harmony)",
        "<|start|>assistant<|channel|>final<|message|>", "<|return|>", "<|start|>assistant",
    ),
    Tag("analysis", "assistantfinal", "gpt-oss, its special tokens stripped", between=None),
    _xml("longcat_think", "LongCat-Flash-Thinking"),
    Tag("<unused94>thought\n", "<unused95>", "MedGemma"),
)  # fmt: skip

UNKNOWN = (  # these are in no table
    _xml("pondering", "none"),
    _xml("scratchpad", "none"),
    _xml("inner_monologue", "none"),
    Tag("[REASONING]", "[/REASONING]", "none"),
    Tag("<|deliberate|>", "<|/deliberate|>", "none"),
    Tag("◁plan▷", "◁/plan▷", "none"),
    _xml("draft", "none"),
    _xml("my:thoughts", "none"),
    Tag("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
    Tag("<|channel>thought\n", "<channel|>", "Gemma 4"),
    Tag("<|think|>", HARMONY_END, "Solar Open", "<|begin|>assistant<|content|>", between=None),
)


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
        Kind(f"unknown thought{name}", unknown, any_prompt, with_a_tag(UNKNOWN)),
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


def _without_draft(rng: random.Random, ask: Ask) -> Said:
    """Thoughts without a draft."""
    tag = rng.choice(KNOWN)
    thought = f"Let me see. {sentence(rng)} {rng.choice(('', 'The text says so [1].', 'So it is.'))}"
    return Said(
        f"{tag.opens}{_gap(rng, tag)}{thought}{_gap(rng, tag)}{tag.closes}{_reply(rng, ask, tag)}",
        detail=repr(tag.opens),
    )


THOUGHTS = [
    Kind("thought without a draft, then the reply", "whole", any_prompt, _without_draft, plain=True),
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
    *thoughts(" and another, then the reply", "whole", "honest or none", _twice, lambda tag: tag.between is not None),
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
