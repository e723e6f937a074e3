from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.errors import InputError
from rag_zeval.inputs import read_examples
from rag_zeval.judge.evaluator import Example

ROW = {"id": "r0", "question": "q", "reference": "r", "answers": ["yes", "no"]}
UNNAMED = {"question": "q", "reference": "r"}


def test_one_answer_may_stand_alone_and_ids_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n" + json.dumps({**UNNAMED, "answer": "a"}).encode()
    )
    assert read_examples(path) == [Example("r0", "q", "r", ("yes", "no")), Example("2", "q", "r", ("a",))]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"id": "x"', ":2: not valid JSON"),
        (UNNAMED, ":2: field 'answers' is missing"),
        ({**UNNAMED, "answers": "a"}, ":2: field 'answers': must be a list of strings"),
        ({**UNNAMED, "answers": [None]}, ":2: field 'answers': must be a list of strings"),
        ({**UNNAMED, "answers": []}, ":2: field 'answers': has 0, must have 1 to 26"),
        ({**UNNAMED, "answers": ["a"] * 27}, ":2: field 'answers': has 27"),
        ({**UNNAMED, "answer": "a", "id": 1.5}, ":2: field 'id': must be a string"),
        ({**UNNAMED, "answer": "a", "id": "r0"}, ":2: field 'id': 'r0' stands twice"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, bad: Any, message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{bad if isinstance(bad, str) else json.dumps(bad)}\n")
    with pytest.raises(InputError) as error:
        read_examples(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)
