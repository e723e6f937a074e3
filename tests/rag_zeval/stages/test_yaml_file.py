"""YAML of others: read as it is written, and never slow."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rag_zeval.errors import InputError
from rag_zeval.stages.yaml_file import read_yaml

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


def test_references_to_variables_are_text(tmp_path: Path) -> None:
    path = tmp_path / "in.yaml"
    path.write_text("{a: '${oc.env:HOME}', b: [1, 2.5, null, true]}")
    assert read_yaml(path) == {"a": "${oc.env:HOME}", "b": [1, 2.5, None, True]}


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
        ("a: 2001-99-99", "month must be in 1..12"),
        ("- a", "expected keys with values, found list"),
        ("", "expected keys with values, found NoneType"),
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


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.yaml")
    with pytest.raises(InputError, match="is not a regular file"):
        read_yaml(tmp_path / "in.yaml")
