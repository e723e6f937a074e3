"""The judges that are trained here: the arms of an experiment by seed, and where they lie."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval_benchmarks.bench_settings import check_names
from eval_benchmarks.output.curves import Curves, read_curves
from experiments.arm_commands import RL, ArmRun, Experiment, arm_runs, read_experiment, run_name
from experiments.arm_results import read_results
from experiments.paper.methods import RANKER
from experiments.paper.paper_settings import PaperSettings
from experiments.run_arms import StageError, StageProcesses
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_card, read_json
from rag_zeval.judge.prompt import RANKING
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import attempt_files, read_run
from train.curriculum import flag_questions, read_questions
from train.settings import SFTSettings, read_settings
from train.sft.rows import draw_lessons


class TrainedJudges:
    """By the name of its arm, or of arm and seed after the first, how each is trained and where its model lies then.

    Raises InputError for an experiment or an arm that does not exist.
    """

    def __init__(self, settings: PaperSettings):
        words = [f"profile={settings.profile}", f"experiment={settings.experiment}"]
        self.experiment: Experiment = read_experiment(load_config("experiments", words))
        seeds = list(dict.fromkeys(settings.seeds))
        if unknown := [seed for seed in seeds if seed not in self.experiment.seeds]:
            raise InputError(f"seeds: must be the experiment's, {self.experiment.seeds}, found {unknown[0]}")
        runs = [replace(run, commands=()) if _is_cold_start(run) else run for run in arm_runs(self.experiment)]
        of_seed = {(run.arm, run.seed): run for run in runs if run.seed is not None}
        arms = {arm: [of_seed[arm, seed] for seed in seeds] for arm in self.experiment.arms}
        for name, given in settings.arms.items():
            check_names("arms", [name], arms)
            folders = [given] if isinstance(given, str) else given or []
            if folders:  # which seeds they are of, only their owner knows
                arms[name] = [
                    replace(arms[name][0], commands=(), model=folder, seed=at) for at, folder in enumerate(folders, 1)
                ]
        self.of_arm = {
            arm: [run_name(arm, run.seed if at else None) for at, run in enumerate(of)] for arm, of in arms.items()
        }
        self.runs: Mapping[str, ArmRun] = {
            name: run for arm, of in arms.items() for name, run in zip(self.of_arm[arm], of, strict=True)
        }
        self.on_gpus = load_config(RL, words[:1]).platform == "gpu"
        self.settings = settings

    def spec(self, name: str) -> str:
        """Its model as the bench takes it: through vLLM where the profile has GPUs."""
        return f"vllm:{self.runs[name].model}" if self.on_gpus else self.runs[name].model

    def folder(self, name: str) -> Path:
        """Of its training run."""
        return Path(self.runs[name].model).parent

    def curves(self, arm: str) -> Sequence[Curves]:
        """By step of an arm's training: of each seed that has a result file, else of the runs that are there."""
        results = [result.curves for result in read_results(self.experiment)[arm].values() if result.curves]
        return results or [read_curves(read_run(self.folder(name))) for name in self.logged(arm)]

    def logged(self, arm: str) -> list[str]:
        """The judges of an arm that have the log of their training here."""
        return [name for name in self.of_arm[arm] if attempt_files(self.folder(name) / "metrics")]

    @property
    def ranker_data(self) -> Path:
        """The file that the ranker's rows are counted from: the counts of its training, else the answers."""
        counts = self.folder(RANKER) / "data" / "counts.json"
        return self.experiment.responses if self.runs[RANKER].commands and not counts.is_file() else counts

    def ranker_rows(self) -> Sequence[Row] | None:
        """What the ranker learns from, by number of candidates: as it was trained, else as the answers there give it.

        None if neither is there. Raises InputError if they are too few.
        """
        source = self.ranker_data
        if not source.is_file():
            return None
        if source != self.experiment.responses:
            return list(read_json(source)["stages"])
        settings = read_settings(SFTSettings, load_config("sft", self.runs[RANKER].commands[-1].words))
        questions, _ = read_questions(settings.responses, settings.alphas, settings.half)
        return draw_lessons(settings, questions, flag_questions(questions, settings.rows, settings.answer_filter))[1]

    def is_there(self, name: str) -> bool:
        """Whether its model is."""
        return (Path(self.runs[name].model) / "config.json").is_file()

    def world(self, name: str) -> str | None:
        """The generated world that its model knows alone, trained or to be trained."""
        run = self.runs[name]
        return read_card(run.model if self.is_there(name) else run.base).get("world")

    def lacking(self, name: str) -> str | None:
        """What its model needs that this machine has not, None if it is there or can be trained."""
        run = self.runs[name]
        if self.is_there(name):
            return None
        if not run.commands:
            return f"a model in arms.{run.arm}={run.model}"
        if self.on_gpus and self.settings.lacks_gpus():
            return f"arms.{run.arm}: the folder of a model, or GPUs, where this command trains {run.model}"
        return None

    def train(self, names: Sequence[str]) -> list[str]:
        """Train those that are not there, one after the other; a line for each that failed."""
        failed, stages = [], StageProcesses()
        for name in names:
            if not self.is_there(name):
                try:
                    stages.make_answers(self.experiment)
                    stages.train(self.experiment, self.runs[name])
                except StageError as error:
                    failed.append(f"{name}: {error}")
        return failed


def _is_cold_start(run: ArmRun) -> bool:
    """Whether the fine-tuning of the profile, which should make the ranker, teaches trajectories instead."""
    return run.arm == RANKER and run.commands[-1].settings["variant"] != RANKING.name
