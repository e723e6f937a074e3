"""What a user is told where a package or a system lacks something."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.cases.reading import read_cases
from rag_zeval.collect.answers import AnswerPaths
from rag_zeval.documents.documents import read_documents
from rag_zeval.errors import EXTRAS, InputError
from rag_zeval.evaluation.api import Results
from rag_zeval.evaluation.metrics import chosen_scorers
from rag_zeval.golden.retrieval import values
from rag_zeval.models.open import check_structured, open_backend
from rag_zeval.models.transformers_local import load_folder
from rag_zeval.report.charts import write_charts
from rag_zeval.scorers.overlap import Bleu, RougeL
from rag_zeval.scorers.sentences import _tokenizer
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import Summary
from rag_zeval.statistics.bootstrap import low_share_p
from rag_zeval.streams import command_line

NEEDED: dict[str, tuple[Callable[[], Any], str]] = {
    "openai": (lambda: open_backend("openai:judge@http://host/v1"), "an endpoint"),
    "torch": (lambda: load_folder("m", "AutoModel"), "m: a local model"),
    "transformers": (lambda: load_folder("m", "AutoModel"), "m: a local model"),
    "llguidance": (lambda: check_structured("m", True), "m: replies in the JSON format (--no-structured does without)"),
    "vllm": (lambda: open_backend("vllm:m"), "model 'vllm:m'"),
    "ir-measures": (lambda: values([], [1]), "measuring retrieval"),
    "nltk": (_tokenizer.__wrapped__, "splitting into sentences"),
    "rouge-score": (RougeL, "rouge_l"),
    "sacrebleu": (Bleu, "bleu"),
    "scipy": (lambda: low_share_p(1, 2, 0.5), "the test of a share"),
    "matplotlib": (lambda: write_charts(Path("f"), []), "--figures"),
    "pandas": (lambda: Results((), Summary(0, (), (), 0, {}), Spending()).to_pandas(), "to_pandas"),
    "pyarrow": (lambda: read_cases("x.parquet"), "x.parquet: reading Parquet"),
    "charset-normalizer": (lambda: read_cases("x.csv"), "x.csv: is not UTF-8 text; naming its encoding"),
    "python-calamine": (lambda: read_cases("x.xlsx"), "x.xlsx: reading Excel files"),
    "pypdf": (lambda: read_documents([Path("x.pdf")]), "a PDF"),
    "pyyaml": (lambda: chosen_scorers(None, "relevance"), "--criteria"),
    "python-jsonpath": (lambda: AnswerPaths("$.a"), "finding a place by JSONPath"),
}


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_said_in_one_line(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    russian = "где?".encode("cp1251")
    for name, start in (("x.pdf", b"%PDF"), ("x.parquet", b"PAR1"), ("x.csv", russian), ("x.xlsx", b"PK\x03\x04")):
        (tmp_path / name).write_bytes(start)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text(json.dumps({}))
    (tmp_path / "m" / "model.safetensors").write_bytes(b"")
    brought = {name: [one.lower().replace("_", "-") for one in by] for name, by in packages_distributions().items()}
    for name in [name for name, packages in brought.items() if package in packages] or [package]:
        for module in {name, *(module for module in sys.modules if module.startswith(f"{name}."))}:
            monkeypatch.setitem(sys.modules, module, None)
    for ours in ("rag_zeval.scorers.criteria_file", "rag_zeval.yaml_file"):  # which import it at their top
        monkeypatch.delitem(sys.modules, ours, raising=False)
    use, by = NEEDED[package]
    with pytest.raises(InputError) as told:
        use()
    assert str(told.value) == f"{by} needs the {package} package: pip install 'rag-zeval[{EXTRAS[package]}]'"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("fcntl", ["evaluate", "a.csv", "--scorers", "bleu"]),
        ("resource", ["questions", ".", "--n", "1", "--model", "openai:judge@http://host/v1", "--out", "o"]),
    ],
)
def test_on_windows_one_line_says_where_it_runs(module: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer,truth\nq,A b.,A b.\n")
    program = "import sys; from rag_zeval import cli; "
    program += f"sys.modules[{module!r}] = None; sys.argv[1:] = {words!r}; cli.main()"
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    told = f"error: RAG-Zeval runs on Linux and macOS; {module} is missing here (on Windows use WSL)\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_help_fills_its_lines_whatever_the_width_of_the_docstring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    about = "What it does.\n\nA sentence that goes on\nin a second line.\n\n- one item that\n  goes on\n- two\n"
    assert command_line(lambda: None, "experiments.some", about)(["--help"]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert {"A sentence that goes on in a second line.", "- one item that goes on", "- two"} <= set(shown)
