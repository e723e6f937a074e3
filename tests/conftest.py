"""For all tests: hypothesis without deadlines (a busy machine is no bug) and alike in CI; judges and small data."""

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile_server import HostileServer
from hypothesis import settings
from long_replies import cpu_seconds

from rag_zeval import secrets
from rag_zeval.literal_judge import literal_reply
from rag_zeval.scripted_judge import ScriptedJudge

VOCABULARY = [f"word{i}" for i in range(60)]

# verl reads these when it is first imported
os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "train.verl_cpu")
settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def keys_of_one_test() -> Iterator[None]:
    """A key that one test has hidden is an honest word in the next."""
    yield
    for known in (secrets._hidden, secrets._exact, secrets._patterns, secrets._anchors):
        known.clear()


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers on this machine are reached whatever proxy the machine uses."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def scripted_judge(no_proxy: None) -> Iterator[ScriptedJudge]:
    """A server on this machine that keeps the protocol."""
    judge = ScriptedJudge()
    yield judge
    judge.close()


@pytest.fixture
def growth() -> Callable[[Callable[[int], Any], int], float]:
    """How many times as long a call takes with 4 n as with n: about 4 if time is linear, 16 if quadratic."""

    def growth(call: Callable[[int], Any], n: int) -> float:
        once, four_times = cpu_seconds(call, n)
        return four_times / once

    return growth


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    def wait(happened: Callable[[], object], seconds: float, of: subprocess.Popen[Any] | None = None) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline
            assert of is None or of.poll() is None, "the process that was waited for ended"
            time.sleep(0.02)

    return wait


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command with words that it must refuse with exit status 2; the one line that it says on stderr.

    first: whether it must do so before it prints anything.
    """

    def refused(main: Callable[[Sequence[str]], int], words: Sequence[str], first: bool = True) -> str:
        assert main(words) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
        assert shown.out == "" or not first
        return shown.err

    return refused


@pytest.fixture
def hostile(no_proxy: None) -> Iterator[HostileServer]:
    """A server on this machine that breaks it; its right reply has one claim, for one answer."""
    claim = {"claim": "It is so.", "is_supported": True, "grounding_evidence": ["It is so."], "analysis": "Clear."}
    server = HostileServer(lambda body: json.dumps([{"id": "A", "answer": "a", "atomic_claims": [claim]}]))
    yield server
    server.close()


def labelled_rows(instances: int, words: int) -> list[dict[str, Any]]:
    """Rows in the form of human_labeled_data.json: two annotators for each instance."""
    rng = random.Random(5)
    rows = []
    for number in range(instances):
        truth, first, second = (" ".join(rng.choices(VOCABULARY, k=words)) for _ in range(3))
        for _ in range(2):
            rows.append(
                {
                    "instance_id": number,
                    "query": f"question {number}",
                    "gt_answer": truth,
                    "model1": {"response": first},
                    "model2": {"response": second},
                    "correctness_label": rng.randint(-2, 2),
                }
            )
    return rows


def shipped_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the form of baseline_ragchecker.json for the same instances."""
    rng = random.Random(6)
    return [
        {
            "instance_id": row["instance_id"],
            **{m: {**row[m], "ragchecker": {"correctness_label": rng.random()}} for m in ("model1", "model2")},
        }
        for row in rows[::2]
    ]


@pytest.fixture
def write_ragchecker(tmp_path: Path) -> Any:
    """Writes the two RAGChecker files into a data folder, after `change(rows)`; the folder."""

    def write(instances: int = 12, words: int = 8, change: Any = None, shipped: bool = True) -> Path:
        folder = tmp_path / "data" / "ragchecker_meta"
        folder.mkdir(parents=True, exist_ok=True)
        rows = labelled_rows(instances, words)
        if shipped:
            (folder / "baseline_ragchecker.json").write_text(json.dumps(shipped_rows(rows)))
        if change:
            change(rows)
        (folder / "human_labeled_data.json").write_text(json.dumps(rows))
        return tmp_path / "data"

    return write


@pytest.fixture
def literal_judge(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    scripted_judge.replies = literal_reply
    return scripted_judge


BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
ROBERTA = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "eos_token": "</s>"}
WORDS = [*"the cat sat on a mat dog .".split(), *VOCABULARY]


@pytest.fixture
def write_nli() -> Any:
    """Writes a small sequence classifier with random weights, a BERT or a RoBERTa; the folder."""

    def write(folder: Path, labels: Sequence[str], roberta: bool = False, window: int = 16) -> Path:
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import (
            BertConfig,
            BertForSequenceClassification,
            PreTrainedTokenizerFast,
            RobertaConfig,
            RobertaForSequenceClassification,
        )

        torch.manual_seed(0)
        marks = ROBERTA if roberta else BERT
        vocabulary = {word: at for at, word in enumerate([*dict.fromkeys(marks.values()), *WORDS])}
        cls, sep = marks["cls_token"], marks["sep_token"]
        plain = Tokenizer(models.WordLevel(vocabulary, unk_token=marks["unk_token"]))
        plain.pre_tokenizer = pre_tokenizers.Whitespace()
        plain.post_processor = processors.TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {sep} {sep} $B {sep}" if roberta else f"{cls} $A {sep} $B:1 {sep}:1",
            special_tokens=[(mark, vocabulary[mark]) for mark in (cls, sep)],
        )
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, model_max_length=window, **marks)
        tokenizer.save_pretrained(folder)
        config = (RobertaConfig if roberta else BertConfig)(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=window + 2 * roberta,  # a RoBERTa counts from 2
            initializer_range=1.0,
            id2label=dict(enumerate(labels)),
            label2id={label: at for at, label in enumerate(labels)},
        )
        (RobertaForSequenceClassification if roberta else BertForSequenceClassification)(config).save_pretrained(folder)
        return folder

    return write
