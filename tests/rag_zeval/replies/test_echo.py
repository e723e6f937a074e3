"""Claims that a shown text spells out are known again, however a judge repeats them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.replies.echo import COMPARED, Echo

claims = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=40).filter(
    lambda text: any(map(str.isalnum, text))
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
