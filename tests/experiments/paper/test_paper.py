"""`make paper` on a few data, with the judge by the letter for one model: tables, what is open, resuming."""

import csv
import json
import math
import re
import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.figure import BLUE, RED
from eval_benchmarks.trials import Trial, group_trials
from experiments.arm_commands import read_experiment
from experiments.paper import bench_runs
from experiments.paper.__main__ import main
from experiments.paper.bench_runs import plan_tables
from experiments.paper.cells import Line
from experiments.paper.costs import trainings_table, trainings_to_do
from experiments.paper.figures import panel_judge, score_densities
from experiments.paper.methods import TABLES, paper_rows
from experiments.paper.paper_settings import LITERAL, PaperSettings, mock_judge
from experiments.paper.tables import correlation_needed, ranker_rows_table, settings_table
from experiments.paper.trained_judges import TrainedJudges
from rag_zeval.errors import InputError
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.stages.config import check_settings, load_config

DOCS = "\n".join((Path(__file__).parents[3] / name).read_text() for name in ("docs/paper-tables.md", "README.md"))
TYPED = [" ".join(line.split()) for line in re.findall(r"(?:`|^ {4})(make paper\b[^`#\n]*)", DOCS, re.MULTILINE)]
NOBODY = {f"models.{name}": "null" for name in ("llama-70b", "qwen-72b", "gpt-4o", "qwen-7b", "ada-002")}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def words(out: Path, **changed: object) -> list[str]:
    run = {"out_dir": out, "literal_port": free_port(), "tables": [1, 2, 6, 7, 8]}
    asked = {**NOBODY, **run, "bench.judge.processes": 1, **changed}  # a second process takes seconds to start
    return [f"{key}={value}" for key, value in asked.items()]


@pytest.fixture(autouse=True)
def no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether or not this machine has the environments of the original packages, or judges trained in runs/; the data
    are read anew.
    """
    there = TrainedJudges.is_there
    monkeypatch.setattr(
        TrainedJudges,
        "is_there",
        lambda self, name: "runs" not in Path(self.runs[name].model).parts and there(self, name),
    )
    bench_runs._benchmark.cache_clear()
    monkeypatch.setattr("eval_benchmarks.originals.packages.ROOT", tmp_path)


@pytest.fixture
def data(write_ragchecker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(write_ragchecker(24)))


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("data")
def test_cells_are_measured_or_say_what_they_need_and_nothing_is_run_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], read_tags: Any
) -> None:
    out = tmp_path / "paper"
    asked = words(out, **{"models.qwen-72b": LITERAL})
    assert main([*asked, "example=0"]) == 0  # a number is an id too
    first = capfd.readouterr().out
    cells = read(out / "tables.csv")
    assert [sum(cell["table"] == table for cell in cells) for table in "128"] == [180, 75, 18]
    measured = {(cell["table"], cell["method"], cell["model"]) for cell in cells if cell["scorer"]}
    judged = {("2", method, "qwen-72b") for method in ("ARES", "TruLens", "RAG-Checker", "RAG-Zeval w/o RL")}
    assert measured == {("2", "BLEU", ""), ("2", "ROUGE-L", "")} | judged | {
        ("8", row.printed.method, "qwen-72b") for row in paper_rows(8)
    }
    assert all(bool(cell["open"]) != bool(cell["value"]) for cell in cells)
    assert {cell["stand_in"] for cell in cells if cell["model"] == "qwen-72b"} == {"mock judge"}
    assert {cell["stand_in"] for cell in cells if cell["model"] in ("", "gpt-4o")} == {""}
    [rouge, *_] = [cell for cell in cells if (cell["table"], cell["method"]) == ("2", "ROUGE-L")]
    assert float(rouge["ci_low"]) < float(rouge["value"]) < float(rouge["ci_high"])
    assert (rouge["printed"], rouge["n"], rouge["trials"]) == ("0.395", "24", "1")
    needs = {cell["open"] for cell in cells if cell["open"]}
    assert any(need.startswith("needs wikieval") for need in needs)
    assert "needs an environment of its own: `make .venv-parity-ragas/.ready`" not in needs  # nor is there a model
    assert "needs an environment of its own: `make .venv-parity-trulens/.ready`" in needs
    assert "needs models.gpt-4o: a judge" in needs and "needs models.ada-002: a model of sentence vectors" in needs
    page = (out / "index.html").read_text()
    assert "qwen-72b: the rule-based mock judge stands in. It is not a model" in page
    assert "script" not in read_tags(page).seen and (out / "tables.tex").read_text().count("\\begin{longtable}") == 5
    assert "need an example with the id 0 that qwen-7b judged" in page
    tables = (out / "tables.md").read_bytes()
    for older in ("cases.html", "figure-2.png", "figure-4.png", "mine.html"):
        (out / older).write_text("of an earlier run")
    assert first.count("bench: ") == 2 and main([*asked, "example=0"]) == 0
    assert "bench: " not in capfd.readouterr().out and (out / "tables.md").read_bytes() == tables
    here = {"index.html", "tables.csv", "tables.md", "tables.tex", "bench", "mine.html"}
    assert {path.name for path in out.iterdir()} - {"figure-4.png", "figure-3.png"} == here
    assert not (out / "figure-4.png").exists() or (out / "figure-4.png").read_bytes()[:4] == b"\x89PNG"


def test_cells_of_other_data_are_refused(
    tmp_path: Path, write_ragchecker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    asked = words(tmp_path / "paper", tables="[2]")
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(write_ragchecker(24)))
    assert main(asked) == 0 == main(asked)
    write_ragchecker(20)
    capfd.readouterr()
    assert main(asked) == 2
    assert "manifest.json: field 'data': ragchecker_meta is not what was scored" in capfd.readouterr().err


def test_a_judge_that_was_trained_again_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def bench(command: Any, **_: Any) -> SimpleNamespace:
        ran.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(bench_runs.subprocess, "run", bench)
    model = tmp_path / "model"
    run = bench_runs.BenchRun("curriculum", "nano_meta", tmp_path, ["words"], f"vllm:{model}")
    for weights, runs in ((b"first", 1), (b"first", 1), (b"second", 2), (b"second", 2)):
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text("{}")
        (model / "model.safetensors").write_bytes(weights)
        assert run.do() and len(ran) == runs


def wikieval_rows(count: int, **texts: str) -> str:
    rows = ({"question": f"q{at}", "context_v1": ["c"], **texts} for at in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_table_1_has_both_negatives_and_the_papers_value_at_the_one_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"answer": "the cat sat on a mat", "ungrounded_answer": "the dog sat on a mat", "poor_answer": "no idea"}
    (tmp_path / "wikieval").mkdir()
    (tmp_path / "wikieval" / "w.jsonl").write_text(
        wikieval_rows(3, **texts).replace('["c"]', '["the dog sat on a mat"]')
    )
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(tmp_path))
    assert main(words(tmp_path / "paper", tables="[1]")) == 0
    cells = {cell["metric"]: cell for cell in read(tmp_path / "paper" / "tables.csv") if cell["method"] == "ROUGE-L"}
    poor, ungrounded = cells["poor_answer/pairwise_best"], cells["ungrounded_answer/pairwise_best"]
    assert (poor["value"], poor["printed"]) == ("1.0", "0.9")
    assert (ungrounded["value"], ungrounded["printed"]) == ("0.0", "")
    markdown = (tmp_path / "paper" / "tables.md").read_text()
    assert "best | best, paper | middle" in markdown and "| best, ungrounded | middle, ungrounded |" in markdown
    assert "Table 1: the paper's values are compared with those for the negative poor_answer" in markdown


@pytest.mark.usefixtures("data")
def test_a_dry_run_says_what_would_be_asked_and_writes_nothing(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "prices.json").write_text('{"gpt-4o": {"prompt": 2.5, "completion": 10}}')
    model = {"models.gpt-4o": "openai:gpt-4o@http://localhost:1/v1", "prices": tmp_path / "prices.json"}
    assert main(words(tmp_path / "paper", tables="[2,3,4,5,8]", dry_run="true", **model)) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sum("missing" in line for line in shown) == 6
    [line] = [line for line in shown if "ragchecker_precision" in line]
    cells = line.split()
    assert cells[0] == "gpt-4o" and "48" in cells and float(cells[-1]) > 0  # two answers to each of 24
    lines = {line.split()[0]: line.split() for line in shown if " nano_meta " in line}
    assert lines["sft-ranker"][2] == "sft_ranker" and int(lines["sft-ranker"][-3].replace(",", "")) == 9 * 500
    assert lines["no-evidence"][-3] < lines["curriculum"][-3]  # it is asked for no evidence, in a prompt of its own
    calls = [
        int(line.split()[-5].replace(",", "")) for line in shown if "http://localhost" in line or "nano_meta" in line
    ]
    [totals] = [line.split() for line in shown if line.split()[:1] == ["total"] and "to train" not in line]
    assert int(totals[-5].replace(",", "")) == sum(calls) and float(totals[-1]) > 0
    assert not (tmp_path / "paper").exists()


def settings(*asked: str, **changed: object) -> PaperSettings:
    config: Any = OmegaConf.to_container(load_config("paper", [*words(Path("out")), *asked]), resolve=True)
    return check_settings(PaperSettings, {**config, **changed})


def test_each_training_of_the_paper_profile_is_343_steps_and_20_hours_and_passes_verls_checks() -> None:
    judges = TrainedJudges(settings("profile=paper", dry_run=True))
    todo = trainings_to_do(list(judges.runs), judges)
    *lines, total = trainings_table(list(judges.runs), judges, todo).lines
    assert [line[3:] for line in lines] == [("pass", "343", "20", "160", "368.8 GiB", "141.9 GiB")] * 5 + [
        ("-", "726", "5.3", "42", "56.7 GiB", "28.4 GiB")  # 11,634 rows of Table 7, twice, in batches of 32
    ]
    # four finished trainings, and one at work; then the ranker needs less
    assert total[1:] == ("6 to train", "-", "-", "-", "105", "842", "936.2 GiB", "737.6 GiB")
    assert not any("nano" in cell for line in lines for cell in line)
    assert {row.arm for table in (3, 4, 5) for row in paper_rows(table)} == set(judges.runs)
    assert not any("nano" in word for run in judges.runs.values() for command in run.commands for word in command.words)


def test_without_data_the_trainings_are_planned_and_a_real_run_does_not_start_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(tmp_path))
    monkeypatch.setattr("train.plan.free_bytes", lambda folder: 2**30)
    asked = ["profile=paper", f"out_dir={tmp_path / 'paper'}", "tables=[4]"]
    assert main([*asked, "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    assert sum(" missing " in line and "/model " in line for line in shown.splitlines()) == 3
    assert "waits for data, see below: curriculum, static-3, static-4" in shown
    assert "no run of the bench can be planned: see what is missing below" in shown
    assert "human_labeled_data.json is missing; `make data` gets it: curriculum by qwen-7b (Table 4)" in shown
    assert "warning: disk: runs/experiments/paper/ablations needs up to" in shown
    monkeypatch.setattr(PaperSettings, "lacks_gpus", lambda self: False)
    assert plan_tables(settings(*asked)).trained == []


@pytest.mark.usefixtures("data")
def test_trainings_that_do_not_fit_onto_the_disk_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Any
) -> None:
    monkeypatch.setattr("train.plan.free_bytes", lambda folder: 2**20)
    monkeypatch.setattr(TrainedJudges, "train", lambda self, names: pytest.fail("a training was started"))
    said = refusal(main, words(tmp_path / "paper", tables="[3]", **{"arms.best-only": "checkpoints/nano-base"}))
    assert "disk: runs/experiments/ablations needs up to 0.2 GiB" in said and "only 1.0 MiB are free" in said


@pytest.mark.usefixtures("data")
def test_what_the_bench_would_refuse_is_refused_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Any, capsys: Any
) -> None:
    monkeypatch.setattr(TrainedJudges, "train", lambda self, names: pytest.fail("a training was started"))
    asked = words(tmp_path / "paper", tables="[2,3]", **{"models.qwen-7b": "checkpoints/nano-judge"})
    wrong = "bench.judge.api_key_env=NO_SUCH_KEY"
    why = ": judge.api_key_env: environment variable NO_SUCH_KEY is not set"
    assert why in refusal(main, [*asked, wrong])
    assert main([*asked, wrong, "dry_run=true"]) == 0
    assert re.search(rf"a run would be refused: bench, .*{why}", capsys.readouterr().out)
    assert ": judge.concurrency: must be a whole number" in refusal(main, [*asked, "bench.judge.concurrency=0"])
    assert not (tmp_path / "paper").exists()


@pytest.mark.usefixtures("data")
def test_rows_of_a_model_that_is_not_there_stay_open(tmp_path: Path, capsys: Any) -> None:
    nowhere = {"models.qwen-7b": tmp_path / "no" / "model", "bert_score": tmp_path / "no"}
    asked = words(tmp_path / "paper", tables="[2]", **nowhere)
    lacks = {(row.name, row.model): why for row, why in plan_tables(settings(*asked)).lacking.items()}
    assert lacks["RAG-Zeval w/o RL", "qwen-7b"] == f"models.qwen-7b: a model in {tmp_path}/no/model"
    assert lacks["BERTScore", None] == "bert_score: a folder of roberta-large"
    assert main([*asked, "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    assert f"models.qwen-7b: no model in {tmp_path}/no/model yet; a run leaves its rows open" in shown
    assert "qwen-7b      ragchecker_meta   rag_zeval" in shown  # planned as if it was there


def test_tables_3_to_5_are_filled_where_the_arms_are_there(
    tmp_path: Path,
) -> None:
    judge_and_base = "[checkpoints/nano-judge, checkpoints/nano-base]"  # as two seeds of one arm
    models = {"arms.curriculum": judge_and_base, "arms.best-only": "checkpoints/nano-base"}
    assert main(words(tmp_path / "paper", tables="[3]", **{"bench.nano_eval.n": 12, **models})) == 0
    cells = read(tmp_path / "paper" / "tables.csv")
    named = [(cell["method"], cell["metric"], cell["scorer"]) for cell in cells]
    assert named[::3] == [("ranking", "pearson", "rag_zeval"), ("best only", "pearson", "rag_zeval")]
    both, base = (float(cell["value"]) for cell in cells[::3])
    assert both > base > 0 and [cell["trials"] for cell in cells[::3]] == ["2", "1"]
    [difference] = [line for line in (tmp_path / "paper" / "tables.md").read_text().splitlines() if "+0.095" in line]
    assert f"| best only | pearson | {both - base:+.3f} [" in difference and difference.endswith("| 0.564 |")
    assert both and {cell["n"] for cell in cells} == {"12"}
    assert (tmp_path / "paper" / "figure-3.png").is_file() and (tmp_path / "paper" / "figure-4.png").is_file()


def test_a_difference_needs_scores_that_are_alike_the_more_the_smaller_it_is() -> None:
    needed = [correlation_needed(0.501, other, 280) for other in (0.359, 0.406, 0.457, 0.489)]
    assert needed == sorted(needed, key=lambda value: value or 0) and needed[-1] == pytest.approx(0.994)
    assert correlation_needed(0.501, 0.501, 280) is None
    for n in (2800, 28_000):  # for many instances, the variance of Pearson and Filon (1898) says the same
        one, other, both = 0.501, 0.489, correlation_needed(0.501, 0.489, n)
        assert both is not None
        unexplained = 1 - one**2 - other**2
        shared = both * unexplained - one * other / 2 * (unexplained - both**2)
        error = math.sqrt(((1 - one**2) ** 2 + (1 - other**2) ** 2 - 2 * shared) / n)
        assert (one - other) / error == pytest.approx(1.96, abs=0.05)


@pytest.mark.usefixtures("data")
def test_the_small_profile_trains_no_judge_and_says_which_it_needs(tmp_path: Path) -> None:
    assert main(["profile=small", f"out_dir={tmp_path}", "dry_run=true"]) == 0
    judges = TrainedJudges(settings("profile=small"))
    assert judges.lacking("sft-ranker") == f"a model in arms.sft-ranker={judges.runs['sft-ranker'].model}"
    assert judges.lacking("curriculum") == "a model in arms.curriculum=runs/train/small/model"
    assert judges.ranker_rows() is None  # the rows of the cold start are not the ranker's


def test_an_arm_without_a_model_says_so_and_gpus_that_are_not_there_train_nothing() -> None:
    chosen = settings("profile=paper", "arms.best-only=nowhere")
    judges = TrainedJudges(chosen)
    assert judges.lacking("best-only") == "a model in arms.best-only=nowhere"
    assert judges.lacking("static-3") == (
        "arms.static-3: the folder of a model, or GPUs, where this command trains "
        "runs/experiments/paper/ablations/static-3-seed1/train/model"
    )
    assert TrainedJudges(settings("profile=paper", dry_run=True)).lacking("static-3") is None


def test_a_training_that_was_killed_before_its_first_step_has_no_curves(tmp_path: Path) -> None:
    folder = tmp_path / "curriculum/train"
    settings = check_settings(PaperSettings, load_config("paper", [f"arms.curriculum={folder / 'model'}"]))
    judges = TrainedJudges(settings)
    (folder / "metrics").mkdir(parents=True)
    log = folder / "metrics/attempt-1.jsonl"
    log.write_text("")
    assert judges.logged("curriculum") == []
    log.write_text('{"step": 1, "data": {"reward_extra/score/mean": 0.5}}\n')
    assert judges.logged("curriculum") == ["curriculum"]


@pytest.mark.usefixtures("data")
def test_a_run_asks_a_model_only_what_rows_need(tmp_path: Path) -> None:
    models = {"gpt-4o": "openai:a@http://b/v1", "ada-002": "openai:c@http://b/v1", "qwen-72b": "openai:d@http://b/v1"}
    (tmp_path / "config.json").write_text("{}")
    chosen = settings(models=models, bert_score=str(tmp_path))
    runs = {run.folder.name: load_config("bench", run.words) for run in plan_tables(chosen).bench}
    alone, gpt, qwen = (runs[f"ragchecker_meta-{name}"] for name in ("no-model", "gpt-4o", "qwen-72b"))
    assert len(runs) == 3
    assert alone.scorers == ["bleu", "rouge_l", "bert_score", "ragas_answer_similarity"]
    assert alone.embeddings.model == models["ada-002"]
    assert "rag_zeval" not in gpt.scorers and gpt.judge.trials == 1
    assert len(set(qwen.scorers)) == 6  # Tables 2 and 8 share theirs


def test_table_6_holds_the_paper_profile_to_the_papers_settings() -> None:
    lines = {name: (here, printed) for name, here, printed in settings_table("paper").lines}
    assert all(here == printed for name, (here, printed) in lines.items() if name != "epochs")
    assert lines["epochs"] == ("2 stages, each once", "2") and len(lines) == 11


def test_table_7_counts_the_rankers_rows_without_training_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line[1:] for line in ranker_rows_table(None).lines][-1] == ("-", "-", "5,500", "11,634")
    place = {"runs_dir": str(tmp_path), "answers": str(tmp_path / "answers")}
    monkeypatch.setattr(
        "experiments.paper.trained_judges.read_experiment",
        lambda config: read_experiment(OmegaConf.merge(config, place)),  # type: ignore[arg-type]
    )
    assert main(words(tmp_path / "paper", tables="[7]")) == 0
    needed = tmp_path / "answers" / "responses.jsonl"
    assert f"Table 7: our own counts need {needed}" in (tmp_path / "paper" / "tables.md").read_text()
    judges = TrainedJudges(settings())
    assert judges.ranker_rows() is None
    alphas, rows = (0, -0.5, -1, -1.4), []
    for id_, texts in enumerate(("abcd", "abcc", "abbb")):  # with four, three and two different answers
        responses = [{"alpha": alpha, "text": text} for alpha, text in zip(alphas, texts, strict=True)]
        rows.append({"id": f"{id_}", "status": "ok", "question": "q", "passage": "p", "responses": responses})
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [line[:3] for line in ranker_rows_table(judges.ranker_rows()).lines] == [
        ("2", "1", "3"),  # three of the pairs of "abbb" differ
        ("3", "1", "2"),
        ("4", "1", "1"),
        ("total", "3", "6"),
    ]
    (judges.folder("sft-ranker") / "data").mkdir(parents=True)
    counts = {"stages": [{"k": 2, "sets": 5}, {"k": 4, "sets": 7}]}  # of a run from before questions were counted
    (judges.folder("sft-ranker") / "data" / "counts.json").write_text(json.dumps(counts))
    lines = ranker_rows_table(judges.ranker_rows()).lines
    assert [line[2] for line in lines] == ["5", "-", "7", "-"] and lines[0][1] == "-"


def test_densities_are_drawn_of_the_methods_measured_and_equal_scores_are_a_line(tmp_path: Path, place: Any) -> None:
    (tmp_path / "wikieval").mkdir()
    rows = wikieval_rows(6, answer="a", poor_answer="p", ungrounded_answer="u")
    (tmp_path / "wikieval" / "w.jsonl").write_text(rows)
    benchmark = Wikieval(tmp_path)
    scored = {
        example.id: Scored(example.id, tuple(Score(at / 6 if text == "a" else 0.0) for text in example.answers))
        for at, example in enumerate(benchmark.examples)
    }
    del scored["5-poor_answer"]
    pairs = benchmark.scores(scored, "poor_answer")
    assert len(pairs) == 5 and all(good == 2 * at / 6 and other == 0 for at, (good, other) in enumerate(pairs))
    [row, _] = [row for row in paper_rows(1) if (row.printed.method, row.model) == ("TruLens", "qwen-72b")]
    [scorer] = group_trials([Trial(benchmark, "trulens_groundedness", "m", "f", "i", None, scored)])
    image = score_densities([Line(row, scorer, ())])
    assert image is not None and place(image, RED) > place(image, BLUE)  # faithful answers are red and score higher
    assert score_densities([Line(row, None, ())]) is None
    assert panel_judge("TruLens", "qwen-72b", scorer, []) == "qwen-72b"
    assert panel_judge("TruLens", "qwen-72b", scorer, ["qwen-72b"]) == "mock judge in the place of qwen-72b"
    assert panel_judge("RAG-Zeval", "qwen-7b", scorer, ["qwen-7b"]) == "judge in m"


def test_a_table_that_does_not_exist_and_a_port_that_is_taken_are_one_line(tmp_path: Path, refusal: Any) -> None:
    assert "tables: unknown table 9; choose from: 1, 2, 3, 4, 5, 6, 7, 8" in refusal(
        main, words(tmp_path, tables="[9]")
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(InputError, match="literal_port"),
            mock_judge(settings(models={"qwen-72b": LITERAL}, literal_port=taken.getsockname()[1])),
        ):
            pass


def test_each_table_has_a_command() -> None:
    tables = {
        int(number)
        for command in TYPED
        for named in re.findall(r"tables=\[([\d,]+)\]", command)
        for number in named.split(",")
    }
    assert tables == set(TABLES)


@pytest.mark.parametrize("command", sorted(set(TYPED)))
def test_a_command_is_planned(
    command: str, tmp_path: Path, write_ragchecker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ZEVAL_DATA", str(write_ragchecker(2)))
    monkeypatch.setattr(
        "experiments.paper.costs.checked_by_verl", lambda verl: None
    )  # takes seconds, and is tested above
    (tmp_path / "prices.json").write_text("{}")
    given = dict(part.split("=", 1) for part in shlex.split(command)[2:])
    asked = given.get("ARGS", "").replace("prices.json", str(tmp_path / "prices.json")).split()
    places = [f"profile={given.get('PROFILE', 'nano')}", f"out_dir={tmp_path / 'paper'}"]
    assert main([*places, *asked, "dry_run=true"]) == 0
    assert not (tmp_path / "paper").exists()
