"""Replies that think before they say anything, or instead: drafts are no evaluations."""

from __future__ import annotations

import random
from collections.abc import Callable

from honest_judge import Ask
from honest_replies import sentence
from reply_forms import REFUSALS, End, Kind, Maker, Said, any_prompt, draft, honest, musing
from thought_tags import KNOWN, UNKNOWN, Tag

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
