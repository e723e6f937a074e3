"""Replies of a local model that must follow a JSON schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rag_zeval.judge.parser import parse_strict, response_schema
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.grammars import Grammars
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.open import open_backend

pytest.importorskip("torch")

NANO = Path(__file__).parents[3] / "checkpoints" / "nano-judge"
SCHEMAS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False},
    {"type": "string", "maxLength": 9},
]


def replies(spec: str, requests: list[Request]) -> list[Reply]:
    backend = open_backend(spec)
    found = dict(as_finished(backend.complete, requests, backend.at_once))
    return [found[at] for at in range(len(requests))]


def ask(seed: int, schema: dict[str, Any] | None, max_tokens: int = 60, **sampling: Any) -> Request:
    settings = Sampling(**{"temperature": 1.5, "top_p": 1.0, **sampling}, max_tokens=max_tokens, seed=seed)
    return Request(({"role": "user", "content": f"q{seed % 3}"},), settings, 0, schema)


def test_a_random_model_writes_what_the_schema_allows_and_its_neighbours_what_they_like(tiny_model: str) -> None:
    schemas = [SCHEMAS[seed % 4] if seed % 4 < 3 else None for seed in range(40)]
    found = replies(tiny_model, [ask(seed, schema) for seed, schema in enumerate(schemas)])
    for reply, schema in zip(found, schemas, strict=True):
        assert reply.text is not None
        if schema is not None:
            assert reply.status == "ok" and reply.completion_tokens
            jsonschema.validate(json.loads(reply.text), schema)
    free = [at for at, schema in enumerate(schemas) if schema is None]
    alone = replies(tiny_model, [ask(at, None) for at in free])
    assert [found[at].text for at in free] == [reply.text for reply in alone]


@pytest.mark.parametrize("candidates", [1, 2])
def test_the_strict_parser_reads_every_finished_reply_of_a_judge(candidates: int) -> None:
    """Also about a world that the judge does not know: without the schema none of these can be read."""
    schema = response_schema(candidates, "compact")
    asked = [ask(seed, schema, 400, temperature=1.0) for seed in range(16)]
    finished = [reply.text for reply in replies(str(NANO), asked) if reply.status == "ok"]
    assert finished and all(parse_strict(text, candidates, "compact") for text in finished if text)


def test_a_reply_that_left_its_schema_is_an_error(tiny_model: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    one, two = tokenizer.encode("[f"), tokenizer.encode("?")
    grammar = Grammars(tokenizer, len(tokenizer), [0]).of(SCHEMAS[0])
    grammar.extend(one)
    assert grammar.fitting(one) == grammar.fitting(two) == 0
    with pytest.raises(RuntimeError, match="a reply left its JSON schema"):
        grammar.extend(two)
