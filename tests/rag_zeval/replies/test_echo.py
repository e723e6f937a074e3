"""What a shown text spells out is known again, however a judge repeats it."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_zeval.replies.echo import COMPARED, Echo, letters_of, plain_form

claims = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=40).filter(
    lambda text: letters_of(plain_form(text))  # which `\N` has not: it is a line end
)
forms = st.sampled_from([json.dumps, repr, lambda value: json.dumps(value, indent=2, ensure_ascii=False)])


@given(claims, forms, st.text(max_size=20))
def test_a_claim_that_a_text_spells_out_is_known(claim, form, around):
    text = around + form([{"claim": claim, "is_supported": True}]) + around
    assert Echo([text, "other"]).begins(claim)


@given(claims, claims)
def test_prose_spells_out_none(claim, other):
    assert not Echo([f"The claim: {claim}. He claims '{other}'.", claim]).begins(claim)


def test_others_are_not_known_and_long_ones_by_their_beginning():
    long = "word " * COMPARED
    echo = Echo([f'x "claim": "Paris is in France.", "claim" : "{long}'])
    assert echo.begins("Paris is in  FRANCE") and echo.begins(long + "more")
    assert not echo.begins("Paris is in Texas.") and not echo.begins("is in France.")


@pytest.mark.parametrize("text", ['", "is_supported": true}, {"claim": "', "', 'is_supported': True}, {'claim': '"])
def test_a_joint_of_claims_is_known_character_by_character(text):
    echo = Echo([f"before{text}after"])
    assert echo.joins_claims(f'[{{"claim": "x{text}y"')
    assert not echo.joins_claims('[{"claim": "x", "analysis": "Clear."}, {"claim": "y"')
    assert not Echo(["no claims"]).joins_claims(text)


SPELLINGS = {
    "curly": lambda text: text.replace('"', "“"),
    "guillemets": lambda text: text.replace('"', "»"),
    "entities": lambda text: text.replace('"', "&quot;"),
    "entities of entities": lambda text: text.replace('"', "&amp;#34;"),
    "percent": lambda text: text.replace('"', "%22").replace("{", "%7B"),
    "percent of percent": lambda text: text.replace('"', "%2522"),
    "escaped": lambda text: json.dumps(text)[1:-1],
    "escaped twice": lambda text: json.dumps(json.dumps(text))[1:-1],
    "full width": lambda text: text.translate({code: code + 0xFEE0 for code in range(33, 127)}),
    "zero width": "\u200b".join,
    "line breaks in keys": lambda text: text.replace("claim", "cl\naim"),
    "upper case": str.upper,
    "single quotes": lambda text: text.replace('"', "'"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@example("\\rx", False)  # reads as an escape
@example("\\u0041x", False)
@given(claims, st.booleans())
def test_a_judge_that_straightens_what_it_repeats_says_nothing_of_its_own(spelling, claim, verdict):
    value = {"claim": claim.replace('"', "").replace("'", "") + "x", "is_supported": verdict}
    echo = Echo([f"See: {SPELLINGS[spelling](json.dumps(value, ensure_ascii=False))}."])
    assert echo.begins(value["claim"]) and echo.spells(json.dumps(value, indent=1))
    assert not echo.spells(json.dumps({**value, "is_supported": not verdict}))


def test_letters_alone_spell_nothing_out():
    echo = Echo(["The claim is so, is supported true; see 1, 2 and entailment."])
    assert not echo.spells('{"claim": "is so", "is_supported": true}') and not echo.spells('["Entailment"]')


@given(
    st.lists(claims.map(lambda text: text.translate(str.maketrans("", "", "\\'\""))), min_size=2, max_size=4),
    st.text("ab", max_size=5),
)
def test_strings_parted_by_a_shown_text_are_known_and_escaped_quotes_part_nothing(items, around):
    unescaped = '", "'.join(items)
    echo = Echo([around + unescaped + around])
    assert echo.has_seam_of(f'{{"statements": ["It says {unescaped}"]}}') or any(len(item) < 4 for item in items)
    assert not echo.has_seam_of(json.dumps({"statements": [f"It says {unescaped}"]}))
    assert not Echo(items).has_seam_of(json.dumps(items))


@given(st.text(max_size=60))
def test_a_plain_form_is_its_own(text):
    assert plain_form(plain_form(text)) == plain_form(plain_form(plain_form(text)))
