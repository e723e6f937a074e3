"""FaithBench, where its file is: the bench's numbers are those of a short script that shares nothing with it."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import pytest

from eval_benchmarks.__main__ import main
from rag_zeval.scorers.word_rule import judge_by_words

DATA = Path(os.environ.get("RAG_ZEVAL_DATA", "data"))
FILE = DATA / "faithbench" / "FaithBench.csv"
MODELS = Path(os.environ.get("RAG_ZEVAL_MODELS", "models"))
MODEL = MODELS / "all-MiniLM-L6-v2"
SOURCES = 5
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="RAG_ZEVAL_DATA names no folder with FaithBench")


def by_hand(values: Any, unsupported: Any) -> dict[str, float]:
    """balanced_accuracy, f1_unsupported and auroc of values (texts,)."""
    said, there = values < 0.5, unsupported.to_numpy()
    pairs = values[~there][:, None] - values[there][None]
    return {
        "balanced_accuracy": (said[there].mean() + (~said[~there]).mean()) / 2,
        "f1_unsupported": 2 * (said & there).sum() / (said.sum() + there.sum()),
        "auroc": ((pairs > 0) + (pairs == 0) / 2).mean(),
    }


def values_of(scorer: str, table: Any) -> Any:
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    bleu, rouge = sacrebleu.BLEU(tokenize="none", smooth_method="none"), RougeScorer(["rougeL"])
    nfc = partial(normalize, "NFC")  # some passages have letters and their marks apart
    pairs = list(zip(table.source.map(nfc), table.summary.map(nfc), strict=True))
    if scorer == "bleu":
        bleu_of = [bleu.sentence_score(" ".join(a.split()), [" ".join(s.split())]).score / 100 for s, a in pairs]
        return np.array(bleu_of)
    if scorer == "rouge_l":
        return np.array([rouge.score(target=s, prediction=a)["rougeL"].fmeasure for s, a in pairs])
    judged = [judge_by_words("Summarize the passage.", s, [a], 1)[0].atomic_claims for s, a in pairs]
    return np.array([np.mean([claim.is_supported for claim in claims]) for claims in judged])


@pytest.fixture(scope="module")
def table() -> Any:
    """The first passages that are not long, with all their summaries."""
    whole = pd.read_csv(FILE)
    short = whole[whole.source.str.len() < 1500]
    return short[short.source.isin(short.source.unique()[:SOURCES])]


@pytest.fixture(scope="module")
def data(table: Any, tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "faithbench").mkdir()
    table.to_csv(folder / "faithbench" / "FaithBench.csv", index=False)
    return folder


def run(data: Path, out: Path, *words: str) -> dict[tuple[str, str], Any]:
    asked = ["benchmarks=[faithbench]", f"data_dir={data}", f"out_dir={out}", "bootstrap.draws=200", *words]
    assert main(asked) == 0
    return {(row["scorer"], row["metric"]): row for row in json.loads((out / "summary.json").read_text())}


def check(found: dict[tuple[str, str], Any], table: Any, scorer: str) -> None:
    labels, values = table["worst-label"], values_of(scorer, table)
    told = labels != "Questionable"
    for prefix, counted, unsupported in (
        ("", told, labels == "Unwanted"),
        ("questionable_unsupported:", told | ~told, labels.isin(["Unwanted", "Questionable"])),
    ):
        for metric, value in by_hand(values[counted], unsupported[counted]).items():
            row = found[scorer, prefix + metric]
            assert row["value"] == pytest.approx(value, abs=1e-9) and row["n"] == counted.sum()
            assert row["ci_low"] <= row["value"] <= row["ci_high"] and row["coverage"] == 1


def test_scorers_without_a_judge_agree_with_the_script(table: Any, data: Path, tmp_path: Path) -> None:
    scorers = ("bleu", "rouge_l", "word_rule")
    found = run(data, tmp_path / "out", f"scorers={list(scorers)}")
    for scorer in scorers:
        check(found, table, scorer)


@pytest.mark.skipif(not MODEL.is_dir(), reason="RAG_ZEVAL_MODELS names no folder with all-MiniLM-L6-v2")
def test_the_cosine_agrees_with_the_script(table: Any, data: Path, tmp_path: Path) -> None:
    """On passages that fit the model whole; longer ones are judged in pieces (test_in_pieces)."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    found = run(data, tmp_path / "out", "scorers=[embedding_similarity]", f"embeddings.model={MODEL}")
    tokenizer, model = AutoTokenizer.from_pretrained(MODEL), AutoModel.from_pretrained(MODEL)

    def vector(text: str) -> Any:
        with torch.inference_mode():
            return model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)

    cosine = torch.nn.functional.cosine_similarity
    vectors = {text: vector(text) for text in [*table.source.unique(), *table.summary]}
    pairs = zip(table.source, table.summary, strict=True)
    values = np.array([float(cosine(vectors[s], vectors[a], dim=0)) for s, a in pairs])
    told = table["worst-label"] != "Questionable"
    expected = by_hand(values[told], table["worst-label"][told] == "Unwanted")
    assert found["embedding_similarity", "auroc"]["value"] == pytest.approx(expected["auroc"], abs=2e-3)


@pytest.mark.slow
def test_all_of_it_has_the_numbers_that_the_documentation_prints(tmp_path: Path) -> None:
    found = run(DATA, tmp_path / "out", "scorers=[word_rule]")
    check(found, pd.read_csv(FILE), "word_rule")
    assert found["word_rule", "auroc"]["n"] == 723
