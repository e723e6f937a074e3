"""YAML of others: plain values or one line; the key of the first value that does not fit, and what it must be."""

import os
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rag_zeval.errors import InputError
from rag_zeval.yaml_file import LARGEST, checked, read_yaml

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


def test_references_to_variables_are_text(tmp_path: Path) -> None:
    path = tmp_path / "in.yaml"
    path.write_text("{a: '${oc.env:HOME}', b: [1, 2.5, null, true], <<: {b: 0, c: {1: x, '1': y}}}")
    assert read_yaml(path) == {"a": "${oc.env:HOME}", "b": [1, 2.5, None, True], "c": {1: "x", "1": "y"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, "aliases"),
        ("a: &a {<<: *a}", "aliases"),
        ("a: " + "9" * 100_000, "a number has more than 300 characters"),
        ("a: " + "1:" * 200_000 + "1", "a number has more than 300 characters"),
        ("a: [.nan]", ".nan is not a number"),
        ("a: 1.0e+999", "1.0e+999 is not a number"),
        ("[" * 100_000, "nested more than 100 deep"),
        ("".join(" " * n + "a:\n" for n in range(3_000)), "cannot be read as YAML"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: 1\nb: 2\na: 3", "duplicate key 'a': remove one"),
        ("a: [{b: 1, b: 1}]", "duplicate key 'b'"),
        ("a: {1: x, 0x1: y}", "duplicate key '1'"),
        ("a: {1: x, 1.0: y}", "duplicate key '1'"),
        ("a: {yes: x, true: y}", "duplicate key 'True'"),
        ("a: b: c", "not allowed here at line 1, column 5: a: b: c ^; put a text with ': ' in it into quotation"),
        ("a: " + "x" * LARGEST, "more than 1,048,576 bytes"),
        ("a: 2001-99-99", "month must be in 1..12"),
        ("- a", "expected keys with values, found a list"),
        ("a", "expected keys with values, found a single value"),
        ("", "expected keys with values, found nothing"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "in.yaml"
    path.write_text(text)
    started = time.monotonic()
    with pytest.raises(InputError) as error:
        read_yaml(path)
    assert str(error.value).startswith(f"{path}: ") and said in str(error.value) and "\n" not in str(error.value)
    assert time.monotonic() - started < 5


def test_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text("a: café", encoding="latin-1")
    with pytest.raises(InputError, match=r"in.yaml: not UTF-8 text: .* at byte 6; save it as UTF-8$"):
        read_yaml(tmp_path / "in.yaml")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.yaml")
    with pytest.raises(InputError, match="is not a regular file"):
        read_yaml(tmp_path / "in.yaml")


class Item(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    size: Annotated[int, Field(description="a whole number")]


class Shelf(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: Annotated[str, Field(description="a text")]
    items: Annotated[list[Item], Field(min_length=1, description="a list of items")]
    words: Annotated[list[str], Field(description="a list of texts")] = []


GOOD: dict[str, Any] = {"name": "a", "items": [{"size": 1}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": 3}, "name: must be a text, found 3"),
        ({"items": []}, "items: must be a list of items"),
        ({"items": [{"size": 1}, {"size": "2"}]}, "items.2.size: must be a whole number, found 2"),
        ({"items": [{"size": 1}, {}]}, "items.2.size: is missing; it must be a whole number"),
        ({"items": [{"sise": 1, "size": 1}]}, "unknown key 'items.1.sise' (did you mean 'size'?); the keys are size"),
        ({"items": [3]}, "items.1: must be a list of items, found 3"),
        ({"words": ["a", 3]}, "words: must be a list of texts; item 2 does not fit"),
        ({"words": "a"}, "words: must be a list of texts"),
        ({1: "a"}, "a key must be a text, found 1"),
        ({"items": [{"size": 1}, {"size": 1, True: 1}]}, "items.2: a key must be a text, found True"),
        ({"nam": "a"}, "unknown key 'nam' (did you mean 'name'?); the keys are name, items, words"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named_with_what_it_must_be(changes: dict[Any, Any], said: str) -> None:
    assert checked(Shelf, GOOD).items == [Item(size=1)]
    with pytest.raises(InputError) as error:
        checked(Shelf, {**GOOD, **changes})
    assert str(error.value) == said
