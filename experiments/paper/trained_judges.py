"""The judges that are trained here: the arms of an experiment, one seed of each, and where they lie."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval_benchmarks.output.curves import Curves, read_curves
from experiments.arm_commands import RL, ArmRun, Experiment, arm_runs, read_experiment
from experiments.arm_results import read_results
from experiments.paper.paper_settings import PaperSettings
from experiments.run_arms import StageError, StageProcesses
from rag_zeval.errors import InputError
from rag_zeval.files import read_card
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import read_run


class TrainedJudges:
    """By the name of its arm, how each is trained and where its model lies then.

    Raises InputError for an experiment or an arm that does not exist.
    """

    def __init__(self, settings: PaperSettings):
        words = [f"profile={settings.profile}", f"experiment={settings.experiment}"]
        self.experiment: Experiment = read_experiment(load_config("experiments", words))
        runs = {run.arm: run for run in arm_runs(self.experiment) if run.seed == settings.seed}
        if not runs:
            raise InputError(f"seed: must be one of the experiment's, {self.experiment.seeds}, found {settings.seed}")
        for name, folder in settings.arms.items():
            if name not in runs:
                raise InputError(f"arms.{name}: unknown arm; choose from: {', '.join(runs)}")
            if folder is not None:
                runs[name] = replace(runs[name], commands=(), model=folder)
        self.runs: Mapping[str, ArmRun] = runs
        self.on_gpus = load_config(RL, words[:1]).platform == "gpu"
        self.settings = settings

    def spec(self, name: str) -> str:
        """Its model as the bench takes it: through vLLM where the profile has GPUs."""
        return f"vllm:{self.runs[name].model}" if self.on_gpus else self.runs[name].model

    def folder(self, name: str) -> Path:
        """Of its training run."""
        return Path(self.runs[name].model).parent

    def curves(self, name: str) -> Sequence[Curves]:
        """By step of its training: of each seed that has a result file, else of its run; none if it is not trained."""
        results = [result.curves for result in read_results(self.experiment)[name].values() if result.curves]
        try:
            return results or [read_curves(read_run(self.folder(name)))]
        except InputError:  # not trained yet, or elsewhere
            return []

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
            return f"a model in arms.{name}={run.model}"
        if self.on_gpus and self.settings.lacks_gpus():
            return f"arms.{name}: the folder of a model, or GPUs, where this command trains {run.model}"
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
