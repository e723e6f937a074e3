"""Small sets of answers in German, Chinese and Arabic, about invented people and places: planted shares come out.

A row of tests/rag_zeval/languages holds the best answer first, the worst last, and what share of each is true.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rag_zeval.files import read_jsonl
from rag_zeval.judge.example import Example
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.scorers.overlap import Bleu, RougeL
from rag_zeval.scorers.score import Scorer
from rag_zeval.scorers.word_rule import WordRule
from rag_zeval.scripted_judge import ScriptedJudge

FILES = sorted((Path(__file__).parent / "languages").glob("*.jsonl"))
LANGUAGES = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])


def scored(scorer: Scorer, rows: list[dict[str, Any]]) -> list[list[float]]:
    examples = [Example(row["id"], row["question"], row["reference"], tuple(row["answers"])) for row in rows]
    return [[value for value in each.values if value is not None] for each in scorer.score(examples)]


@LANGUAGES
def test_evaluate_gives_the_planted_shares(
    file: Path, run: Callable[..., Any], literal_judge: ScriptedJudge, tmp_path: Path
) -> None:
    done = run("evaluate", file, "--model", literal_judge.spec(), "--out", "o.jsonl")
    assert done.returncode == 0, done.stderr
    rows = read_jsonl(file)
    assert len(rows) == 8
    found = {each["id"].split("|")[0]: each for each in read_jsonl(tmp_path / "o.jsonl")}
    for row in rows:
        judged = found[row["id"]]
        assert judged["scores"] == pytest.approx(row["shares"], abs=1e-6)
        claims = [claim for candidate in judged["trajectory"] for claim in candidate["atomic_claims"]]
        quotes = [quote for claim in claims for quote in claim["grounding_evidence"]]
        assert len(quotes) == sum(claim["is_supported"] for claim in claims)
        assert set(find_quotes(row["reference"], quotes).verbatim.values()) == {1.0}


@LANGUAGES
def test_what_goes_by_words_tells_true_answers_from_false_ones(file: Path) -> None:
    rows = read_jsonl(file)
    for scorer in (Bleu(), RougeL()):
        values = scored(scorer, rows)
        assert all(0 < of[0] <= 1 and of[0] > of[-1] for of in values)
        best, worst = fmean(of[0] for of in values), fmean(of[-1] for of in values)
        assert best > worst + 0.3
    assert scored(WordRule(), rows) == [pytest.approx(row["shares"], abs=1e-6) for row in rows]
