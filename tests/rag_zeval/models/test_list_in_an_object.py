"""The schema of a list, within an object, as vendors take it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rag_zeval.judge.parser import as_reply, parse_strict, response_schema
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation
from rag_zeval.models.refusals import in_an_object, unwrapped

texts = st.text(st.sampled_from('ab"\\[]{}, :\n'), max_size=8)
claims = st.builds(AtomicClaim, texts, st.booleans(), st.lists(texts, max_size=2).map(tuple), texts)
candidates = st.lists(st.tuples(texts, st.lists(claims, min_size=1, max_size=2)), min_size=1, max_size=3)
# the keywords that OpenAI documents for `strict` schemas, and Azure with it; lengths are newer and not everywhere
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum"}


def object_schema(n_candidates: int, variant: str) -> Any:
    asked = {"name": "reply", "schema": response_schema(n_candidates, variant), "strict": True}
    wrapped = in_an_object({"type": "json_schema", "json_schema": asked})
    assert wrapped is not None and in_an_object(wrapped) is None
    schema = wrapped["json_schema"].pop("schema")
    assert wrapped == {"type": "json_schema", "json_schema": {"name": "reply", "strict": True}}
    return schema


def schemas(schema: Any) -> Iterator[Any]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from schemas(inner)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_candidates", [1, 2, 26])
def test_it_keeps_to_what_vendors_know(variant: str, n_candidates: int) -> None:
    schema = object_schema(n_candidates, variant)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for each in schemas(schema):
        assert set(each) <= KNOWN
        if each["type"] == "object":
            assert each["required"] == list(each["properties"]) and each["additionalProperties"] is False
        if each["type"] == "array":
            assert isinstance(each["items"], dict)
    assert schema["properties"]["reply"]["items"]["properties"]["id"]["enum"] == list(LETTERS[:n_candidates])


@given(candidates, st.sampled_from(list(VARIANTS)), st.sampled_from([None, 1]))
def test_every_list_of_the_exact_schema_fits_and_comes_out_as_it_went_in(
    drawn: Any, variant: str, indent: int | None
) -> None:
    trajectory = tuple(
        CandidateEvaluation(letter, tuple(claims), answer)
        for letter, (answer, claims) in zip(LETTERS, drawn, strict=False)
    )
    items = json.loads(as_reply(trajectory, variant))
    assert Draft202012Validator(response_schema(len(items), variant)).is_valid(items)
    assert Draft202012Validator(object_schema(len(items), variant)).is_valid({"reply": items})
    bare = json.dumps(items, indent=indent)
    assert json.loads(unwrapped(json.dumps({"reply": items}, indent=indent))) == items
    assert unwrapped(f' {{"reply" :{bare}}}\n') == bare
    parse_strict(unwrapped(f'{{"reply": {bare}}}'), len(items), variant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[1]",
        '{"reply": "[1]"}',
        '{"reply": [1], "more": [2]}',
        '{"reply": [1], "reply": [2]}',
        '{"answer": [1]}',
        '{"reply": [1]} and more',
        '{"reply": [1',
        "[" * 100_000,
    ],
)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert unwrapped(text) == text
