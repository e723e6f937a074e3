"""The judges that are trained here: the arms and seeds of an experiment, and the folders of their models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval_benchmarks.bench_settings import check_names
from experiments.arm_commands import RL, ArmRun, Experiment, arm_runs, read_experiment, run_name
from experiments.arm_results import read_results
from experiments.paper.methods import RANKER
from experiments.paper.paper_settings import PaperSettings
from experiments.run_arms import StageError, StageProcesses
from experiments.training_curves import Curves, read_curves
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_json
from rag_zeval.judge.prompt import RANKING
from rag_zeval.models.folder import read_card
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import attempt_files, read_run
from train.curriculum import flag_questions, read_questions
from train.settings import SFTSettings, read_settings
from train.sft.rows import draw_lessons


class TrainedJudges:
    """The trained judges by name: how each is trained, and the folder of its model.

    A judge has the name of its arm; from the second seed on, the name includes the seed. of_arm: the names of an arm's
    judges. runs: the training of each judge. Raises InputError for an unknown experiment, arm or seed.
    """

    def __init__(self, settings: PaperSettings):
        words = [f"profile={settings.profile}", "experiment=ablations"]  # its arms are the judges of Tables 3 to 5
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
            if folders:  # their seeds are unknown, so number them from 1
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
        """Return the spec of a judge's model for the bench. With a profile for GPUs, vLLM runs it."""
        return f"vllm:{self.runs[name].model}" if self.on_gpus else self.runs[name].model

    def folder(self, name: str) -> Path:
        """Return the folder of a judge's training run."""
        return Path(self.runs[name].model).parent

    def curves(self, arm: str) -> Sequence[Curves]:
        """Return an arm's training curves, one for each seed.

        They come from the result files. If there are none, they come from the logs of the runs that are here.
        """
        results = [result.curves for result in read_results(self.experiment)[arm].values() if result.curves]
        return results or [read_curves(read_run(self.folder(name))) for name in self.logged(arm)]

    def logged(self, arm: str) -> list[str]:
        """Return the judges of an arm whose training has logged a step here."""
        folders = {name: self.folder(name) for name in self.of_arm[arm]}
        return [name for name, folder in folders.items() if attempt_files(folder / "metrics") and read_run(folder)]

    @property
    def ranker_data(self) -> Path:
        """The file that the ranker's rows are counted from: the counts of its training, or else the answers."""
        counts = self.folder(RANKER) / "data" / "counts.json"
        return self.experiment.responses if self.runs[RANKER].commands and not counts.is_file() else counts

    def ranker_rows(self) -> Sequence[Row] | None:
        """Return the counts of the ranker's rows for each number of candidates.

        They are those of its training, or else those that the answers would give. None if there is neither. Raises
        InputError if the answers are too few.
        """
        source = self.ranker_data
        if not source.is_file():
            return None
        if source != self.experiment.responses:
            return list(read_json(source)["stages"])
        settings = read_settings(SFTSettings, load_config("sft", self.runs[RANKER].commands[-1].words))
        questions, _ = read_questions(settings.responses, settings.alphas, settings.half)
        flags = flag_questions(questions, {"rows": settings.rows}, settings.answer_filter)
        return draw_lessons(settings, questions, flags)[1]

    def is_there(self, name: str) -> bool:
        """Whether a judge's model exists."""
        return (Path(self.runs[name].model) / "config.json").is_file()

    def world(self, name: str) -> str | None:
        """Return the generated world that a judge is limited to, before and after its training; None if it is not."""
        run = self.runs[name]
        return read_card(run.model if self.is_there(name) else run.base).get("world")

    def lacking(self, name: str) -> str | None:
        """Return what is missing for a judge's model; None if the model exists or can be trained here."""
        run = self.runs[name]
        if self.is_there(name):
            return None
        if not run.commands:
            return f"a model in arms.{run.arm}={run.model}"
        if self.on_gpus and self.settings.lacks_gpus():
            return f"arms.{run.arm}: the folder of a model, or GPUs, where this command trains {run.model}"
        return None

    def train(self, names: Sequence[str]) -> list[str]:
        """Train the judges that have no model yet, one after the other. Returns a line for each that failed."""
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
    """Whether the profile's fine-tuning teaches trajectories, although this arm should be the ranker."""
    return run.arm == RANKER and run.commands[-1].settings["variant"] != RANKING.name
