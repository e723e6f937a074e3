"""Our BERTScore against bert-score, by the same tiny BERT.

`bert_score.json` holds what the original gave (`record_bert_score.py`); nothing of it is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.judge.evaluator import Example
from rag_zeval.scorers.bert_score import BertScore


def test_each_score_is_the_originals(write_bert: Any, tmp_path: Path) -> None:
    recorded = json.loads((Path(__file__).parent / "bert_score.json").read_text())
    examples = [Example(one["id"], "", one["truth"], (one["answer"],)) for one in recorded["instances"]]
    ours = {scored.id: scored.values[0] for scored in BertScore(str(write_bert(tmp_path))).score(examples)}
    theirs = recorded["scores"]["bert_score"]
    assert len(theirs) > 40 and len(set(theirs.values())) > 30
    assert ours == pytest.approx(theirs, abs=1e-6)
