"""The runs of the bench that give the paper's rows their values.

There is one run for each benchmark and model, and one for each benchmark without a model.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eval_benchmarks.bench_manifest import MANIFEST, data_hashes
from eval_benchmarks.bench_settings import BenchSettings, RunSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import BENCHMARKS
from eval_benchmarks.model_checks import check_models
from eval_benchmarks.originals.packages import ORIGINALS
from experiments.dynamics.entailment import nli_folder
from experiments.paper.methods import MEASURED, TABLES, PaperRow, paper_rows
from experiments.paper.paper_settings import MOCK_JUDGE, PaperSettings
from experiments.paper.trained_judges import TrainedJudges
from rag_zeval.errors import InputError
from rag_zeval.files import flat, locate, read_json, write_json
from rag_zeval.models.folder import model_sha256
from rag_zeval.models.open import check_spec, folder_of
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import MEASURES, TEXT_SCORERS
from rag_zeval.stages.config import check_settings, load_config, word

NO_MODEL = "no-model"
VLLM = "vllm:"  # prefix of a model folder: decode on this machine's GPUs
TRIALS = 5  # default number of trials of a judge, as in the paper
PAPER_BASE = "Qwen2.5-7B-Instruct"  # base of the judges that the paper trains
EMBEDDER = "ada-002"  # the paper's only embedding model
DONE = "done.json"  # in a run's folder, once it has finished: its words, and the hash of its judge's weights


def is_there(spec: str) -> bool:
    """Whether a spec names an endpoint, or a folder that holds a model."""
    folder = folder_of(spec)
    return folder is None or (Path(folder) / "config.json").is_file()


@dataclass(frozen=True)
class BenchRun:
    """One run of the bench.

    words: its arguments on the command line. judge: the paper's name of a model, the name of a judge trained here, or
    NO_MODEL. model: the spec of this model; None without one.
    """

    judge: str
    benchmark: str
    folder: Path
    words: list[str]
    model: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether a run with the same words, of a judge with the same weights, has finished in this folder."""
        done = self.folder / DONE
        return done.exists() and read_json(done, list) == self._made_by()

    def _made_by(self) -> list[str]:
        """Return the words and, if the model is in a folder, the hash of its weights: it may be trained again."""
        folder = folder_of(self.model) if self.model and is_there(self.model) else None
        return self.words if folder is None else [*self.words, f"weights {model_sha256(folder)}"]

    def check(self) -> None:
        """Raise InputError if the bench would refuse this run, or if it has finished on other data than there are now.

        A judge that must be trained first is not there yet. Then only the settings are checked.
        """
        with locate(f"bench, {self.folder.name}"):
            settings = check_settings(BenchSettings, load_config("bench", self.words))
            if not self.has_ended:
                if self.model is None or is_there(self.model):
                    check_models(settings)
                return
        path = self.folder / MANIFEST
        benchmark, _ = BENCHMARKS[self.benchmark](settings)
        if benchmark and data_hashes(path).get(self.benchmark) != benchmark.data_hash:
            raise InputError(
                f"{path}: field 'data': {self.benchmark} is not what was scored: choose another out_dir, "
                "or remove this one"
            )

    def do(self) -> bool:
        """Run the bench unless this run has finished. Returns whether it succeeded."""
        if self.has_ended:
            return True
        print(f"bench: {self.folder}", flush=True)
        if subprocess.run([sys.executable, "-m", "eval_benchmarks", *self.words], check=False).returncode:
            return False
        write_json(self.folder / DONE, self._made_by())
        return True


@dataclass(frozen=True)
class TablesPlan:
    """What to train and run for the chosen tables, in order.

    rows: the rows of each measured table. lacking: what is missing for a row that cannot be measured here. trained:
    the judges that the rows need; those without a model are trained. waiting: judges that could be trained, but the
    benchmark of their rows is missing. A dry run includes them in its plan; a real run does not train them. bench: the
    runs of the bench.
    """

    settings: PaperSettings
    judges: TrainedJudges
    rows: Mapping[int, list[PaperRow]]
    lacking: Mapping[PaperRow, str]
    trained: list[str]
    waiting: list[str]
    bench: list[BenchRun]

    def check_bench(self) -> None:
        """Raise InputError if a run of the bench would be refused, which is better known before hours of training."""
        for run in self.bench:
            run.check()

    def stand_in(self, row: PaperRow) -> str | None:
        """Return what stands in for the paper's model in a row; None if nothing does."""
        if row.arm is None:
            return "mock judge" if row.model in self.settings.mocked else None
        base = Path(next(iter(self.judges.runs.values())).base).name
        return None if base == PAPER_BASE else f"trained from {base}"


def plan_tables(settings: PaperSettings) -> TablesPlan:
    """Plan the trainings and runs of the bench.

    Raises InputError for an unknown table, arm or benchmark, and for a missing folder of the entailment model.
    """
    if unknown := [number for number in settings.tables if number not in TABLES]:
        raise InputError(f"tables: unknown table {unknown[0]}; choose from: {', '.join(map(str, TABLES))}")
    folder = nli_folder(settings.entailment) if settings.entailment else None
    if folder and not settings.dry_run and not Path(folder).is_dir():
        raise InputError(f"entailment=nli:{folder}: there is no such folder")
    judges = TrainedJudges(settings)
    numbers = [number for number in dict.fromkeys(settings.tables) if number in MEASURED]
    rows = {number: list(paper_rows(number, settings.benchmark_of_arms)) for number in numbers}
    lacks, there = {}, dict[str, list[PaperRow]]()
    for row in (row for of_table in rows.values() for row in of_table):
        if reason := lacking(row, judges):
            lacks[row] = reason
        else:
            there.setdefault(sources(row, judges)[0], []).append(row)
    arms = dict.fromkeys(row.arm for of in there.values() for row in of if row.arm is not None)
    trained = [name for arm in arms for name in judges.of_arm[arm]]
    without = {
        row.arm: row.benchmark for of_table in rows.values() for row in of_table if row.arm and row.arm not in arms
    }
    waiting = [
        name
        for arm, benchmark in without.items()
        for name in judges.of_arm[arm]
        if _benchmark(settings.profile, benchmark)[0] is None  # missing data are public data, about the real world
        if judges.world(name) is None and judges.lacking(name) is None
    ]
    runs = [_bench_run(of, name, judges) for of in there.values() for name in _judges(of[0], judges)]
    return TablesPlan(settings, judges, rows, lacks, trained, waiting, runs)


def sources(row: PaperRow, judges: TrainedJudges) -> list[str]:
    """Return the names of the runs that a row is read from, which are also the names of their folders.

    It is one run, or one for each seed of an arm.
    """
    return [f"{row.benchmark}-{name}" for name in _judges(row, judges)]


def _judges(row: PaperRow, judges: TrainedJudges) -> list[str]:
    return judges.of_arm[row.arm] if row.arm else [(row.model if _asks_a_judge(row) else None) or NO_MODEL]


def lacking(row: PaperRow, judges: TrainedJudges) -> str | None:
    """Return what a row needs that is missing and cannot be trained here; None if nothing is missing."""
    settings = judges.settings
    there, missing = _benchmark(settings.profile, row.benchmark)
    if there is None:
        return missing[0]
    if row.arm is not None:
        names = judges.of_arm[row.arm]
        known = judges.world(names[0])
        if known != there.world:
            wanted, own = (f"the {world} world" if world else "real questions" for world in (there.world, known))
            return f"a judge trained on {wanted}: this profile's knows only {own}"
        return next(filter(None, map(judges.lacking, names)), None)
    if row.model is not None:
        spec = settings.spec(row.model)
        if spec is None:
            asks = row.model != EMBEDDER and _asks_a_judge(row)
            return f"models.{row.model}: {'a judge' if asks else 'a model of sentence vectors'}"
        if not settings.dry_run and not is_there(spec):
            return f"models.{row.model}: a model in {folder_of(spec)}"
        if spec.startswith(VLLM) and settings.lacks_gpus():
            return f"models.{row.model}: GPUs for {spec}, or an endpoint"
        if row.original:
            return _original_lacking(row, spec)
    if BertScore.name in row.scorers and (settings.bert_score is None or not is_there(settings.bert_score)):
        return "bert_score: a folder of roberta-large"
    return None


def _original_lacking(row: PaperRow, spec: str) -> str | None:
    for original in (ORIGINALS[name] for name in row.scorers):
        if not original.is_installed:
            return f"an environment of its own: `make {original.environment}/.ready`"
        if check_spec(spec) is None:
            return f"models.{row.model}: an endpoint, which is all that original packages ask"
        if spec.startswith(MOCK_JUDGE) and not original.embeds:
            return f"models.{row.model}: a model; the mock judge knows only our prompts"
    return None


@cache
def _benchmark(profile: str, name: str) -> tuple[Benchmark | None, list[str]]:
    check_names("benchmark_of_arms", [name], BENCHMARKS)
    words = [f"profile={profile}", f"benchmarks=[{name}]"]
    return BENCHMARKS[name](check_settings(RunSettings, load_config("bench", words)))


def _bench_run(rows: list[PaperRow], judge: str, judges: TrainedJudges) -> BenchRun:
    """Return the run of the bench in which one judge measures these rows.

    All rows must have the same source, and nothing they need may be missing.
    """
    settings, name = judges.settings, rows[0].benchmark
    benchmark, _ = _benchmark(settings.profile, name)
    greedy = benchmark is not None and benchmark.world is not None  # so a second trial would be the same
    scorers = list(dict.fromkeys(scorer for row in rows for scorer in row.scorers))
    measures = [of[scorer] for scorer in scorers for of in (MEASURES, ORIGINALS) if scorer in of]
    model = judges.spec(judge) if judge in judges.runs else settings.spec(judge)
    folder = Path(settings.out_dir) / "bench" / f"{name}-{judge}"
    values = {
        "benchmarks": [name],
        "scorers": scorers,
        "models": [model] if model else [],
        "judge.trials": 1 if judge == NO_MODEL or greedy else settings.trials.get(judge, TRIALS),
        "embeddings.model": settings.spec(EMBEDDER) if any(measure.embeds for measure in measures) else None,
        "bert_score.model": settings.bert_score if BertScore.name in scorers else None,
        **{key: value for key, value in flat(settings.bench).items() if value is not None},
    }
    places = [f"profile={settings.profile}", word("out_dir", str(folder))]
    words = [*places, *(f"{key}={json.dumps(value)}" for key, value in values.items())]
    return BenchRun(judge, name, folder, words, model)


def _asks_a_judge(row: PaperRow) -> bool:
    return not all(
        scorer in TEXT_SCORERS or scorer == BertScore.name or (scorer in MEASURES and not MEASURES[scorer].prompts)
        for scorer in row.scorers
    )
