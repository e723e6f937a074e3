"""Regular expressions read of a reply what the strict parser reads, and of a broken one what is left."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.parser import parse_strict
from rag_zeval.judge.patterns import read_patterns

CLAIMS = st.lists(st.tuples(st.text(min_size=1, max_size=12), st.booleans()), min_size=1, max_size=3)
REPLIES = st.lists(CLAIMS, min_size=1, max_size=4)


def reply(candidates: list[list[tuple[str, bool]]]) -> str:
    return json.dumps(
        [
            {
                "id": letter,
                "answer": "x",
                "atomic_claims": [
                    {"claim": text, "grounding_evidence": ["e"], "analysis": "a", "is_supported": verdict}
                    for text, verdict in claims
                ],
            }
            for letter, claims in zip("ABCD", candidates, strict=False)
        ]
    )


def verdicts(trajectory: Any) -> list[list[tuple[str, bool]]]:
    return [[(claim.claim, claim.is_supported) for claim in candidate.atomic_claims] for candidate in trajectory]


@given(REPLIES)
def test_a_whole_reply_gives_the_claims_of_the_strict_parser(candidates: list[list[tuple[str, bool]]]) -> None:
    text = reply(candidates)
    assert verdicts(read_patterns(text, len(candidates))) == verdicts(parse_strict(text, len(candidates)))


@given(REPLIES, st.floats(0, 1))
def test_a_reply_that_is_cut_off_gives_the_claims_it_came_to(
    candidates: list[list[tuple[str, bool]]], share: float
) -> None:
    text = reply(candidates)
    cut = verdicts(read_patterns(text[: int(share * len(text))], len(candidates)))
    assert all(found == whole[: len(found)] for found, whole in zip(cut, candidates, strict=True))


def test_prose_fences_and_drafts() -> None:
    draft, last = reply([[("He sang.", False)]]), reply([[("He sang.", True)]])
    assert verdicts(read_patterns(f"Draft: {draft}\n```json\n{last}\n```", 2)) == [[("He sang.", True)], []]
    assert verdicts(read_patterns("I cannot say.", 1)) == [[]]
    assert verdicts(read_patterns(r'"id": "A" "claim": "a\q" "is_supported": true "is_supported": false', 1)) == [
        [(r"a\q", True)]
    ]
