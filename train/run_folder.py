"""The folder of a training run: its settings, metrics, checkpoints and exported model."""

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig, OmegaConf

from rag_zeval.errors import InputError
from rag_zeval.files import (
    FieldTypes,
    Row,
    check_fields,
    first_difference,
    flat,
    locate,
    read_json,
    write_json,
    write_text,
)
from rag_zeval.models.folder import read_card
from rag_zeval.stages.training_log import Steps, attempt_files, best_step, logged_through, merge, write_merged
from train.export.lora import has_adapter, save_adapter, trained_model
from train.export.plain_model import complete


class RunFolder:
    """The paths of a run, and operations on its state: attempts, metrics, checkpoints, export."""

    def __init__(self, path: str | Path):
        self.path = Path(path).resolve()
        self.data = self.path / "data"
        self.train_rows = self.data / "train.parquet"
        self.val_rows = self.data / "val.parquet"
        self.counts = self.data / "counts.json"
        self.identity = self.path / "run.json"
        self.verl_config = self.path / "verl.yaml"
        self.log = self.path / "verl.log"
        self.attempts = self.path / "metrics"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.newest = self.checkpoints / "latest_checkpointed_iteration.txt"  # verl's note
        self.rollouts = self.path / "rollouts"
        self.model = self.path / "model"
        self.adapter = self.path / "adapter"
        self.manifest = self.path / "manifest.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against a second process. Raises InputError if one has it locked.

        The kernel releases the lock when this process ends in any way.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "wb") as lock:
            hold(lock, f"{self.path}: another training run is using this folder")
            yield

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Store the run's identity, or check that it is the same as before.

        Raises InputError naming the first setting that differs: a run is resumed only with the settings that it was
        started with. If they differ but no step is logged and no model exported yet, the run starts over. A run of
        `train.one_gpu` logs its steps in `metrics.jsonl` alone.
        """
        if self.identity.exists():
            before = read_json(self.identity)
            if first_difference(before, identity) is None:
                return
            if logged_through(self.steps()) or logged_through(merge([self.metrics])) or self.model.exists():
                check_same_run(self.path, before, identity)
            for stale in (self.data, self.attempts, self.checkpoints, self.rollouts):
                shutil.rmtree(stale, ignore_errors=True)
        else:
            self.check_unused()
        write_json(self.identity, identity)

    def check_unused(self) -> None:
        """Raise InputError if the folder, which has no identity, holds something that a run would replace or remove.

        It is then another stage's folder, or none of ours. The repository itself has `data` and `checkpoints`.
        """
        written = (self.data, self.attempts, self.metrics, self.checkpoints, self.rollouts, self.model, self.adapter)
        for part in (*written, self.manifest):
            if part.exists():
                raise InputError(
                    f"{self.path}: holds {part.name}, but no {self.identity.name}, so this is not the folder of a "
                    "training run: choose another out_dir"
                )

    def read_counts(self, required: FieldTypes) -> Row:
        """Return what was counted of the rows. Raises InputError naming a field that is missing or wrong."""
        counts = read_json(self.counts)
        with locate(self.counts):
            return check_fields(counts, required)

    def steps(self) -> Steps:
        """Return the metrics of all attempts, each step once (`training_log.merge`)."""
        return merge(attempt_files(self.attempts))

    def next_attempt(self) -> Path:
        """Return the path at which the next attempt logs its metrics."""
        self.attempts.mkdir(parents=True, exist_ok=True)
        return self.attempts / f"attempt-{self.count_attempts() + 1}.jsonl"

    def start_attempt(self, verl: DictConfig, after: int) -> Path:
        """Write verl's config and an empty metrics file, and return that file's path.

        Removes all checkpoints but that of step `after`, and verl's note of the newest.
        """
        self.newest.unlink(missing_ok=True)
        self.prune(after)
        write_text(self.verl_config, OmegaConf.to_yaml(verl))
        attempt = self.next_attempt()
        attempt.touch()
        return attempt

    def count_attempts(self) -> int:
        """Return how many attempts were started."""
        return len(attempt_files(self.attempts))

    def merge_metrics(self) -> Steps:
        """Write the metrics of all attempts to one file, and return them."""
        steps = self.steps()
        write_merged(self.metrics, steps)
        return steps

    def checkpoint(self, step: int) -> Path:
        """Return verl's folder for a step's checkpoint."""
        return self.checkpoints / f"global_step_{step}"

    def last_checkpoint(self, logged_first: bool = False) -> int:
        """Return the step of the newest checkpoint from which the run can resume, 0 if there is none.

        That checkpoint must be complete, and the metrics must have all steps up to it. verl logs a step after it has
        written the checkpoint, so a logged step's checkpoint is complete. In supervised fine-tuning verl logs it before
        (`logged_first`). Then only the log of the next step shows that the checkpoint is complete.
        """
        through = logged_through(self.steps()) - logged_first
        return max((step for step in self._saved() if step <= through), default=0)

    def has_model_of(self, step: int) -> bool:
        """Whether the checkpoint of the last step has all that the model is exported from.

        verl notes a checkpoint's step once the ranks have written its weights. (The state of the data, which a resume
        from an earlier step needs, may still be missing.)
        """
        noted = self.newest.read_text(encoding="utf-8").strip() if self.newest.exists() else ""
        return noted == str(step) and self.checkpoint(step).is_dir()

    def prune(self, keep: int) -> None:
        """Remove all checkpoints but that of step `keep`, incomplete ones included."""
        for step in self._saved():
            if step != keep:
                shutil.rmtree(self.checkpoint(step))

    def _saved(self) -> list[int]:
        names = (re.fullmatch(r"global_step_(\d+)", path.name) for path in self.checkpoints.glob("global_step_*"))
        return [int(name[1]) for name in names if name]  # not a copy that somebody made, such as global_step_25.bak

    def keep_best(self) -> None:
        """Keep the files that the best step so far is exported from, because verl will remove its checkpoint.

        They are hard links, which need no space while the checkpoint exists, and stay when it is removed. A step is
        logged after its checkpoint is written, so the checkpoint is complete. After a kill, call this again to finish.
        """
        step = best_step(self.steps())
        kept, checkpoint = self._kept(step), self.checkpoint(step)
        if step and not kept.exists() and checkpoint.exists():
            part = self.checkpoints / "best.part"
            shutil.rmtree(part, ignore_errors=True)
            try:
                shutil.copytree(checkpoint, part, copy_function=_link, ignore=_not_exported)
                part.rename(kept)
            except OSError as error:  # not worth stopping a run: at its end, `finish` reports a missing checkpoint
                print(f"warning: the checkpoint of step {step}, the best so far, is not kept: {error}", file=sys.stderr)
        if kept.exists():
            self.forget_best(but=kept)

    def forget_best(self, but: Path | None = None) -> None:
        """Remove the folders that `keep_best` kept, except `but`."""
        for kept in self.checkpoints.glob("best_step_*"):
            if kept != but:
                shutil.rmtree(kept)

    def _kept(self, step: int) -> Path:
        return self.checkpoints / f"best_step_{step}"

    def weights_of(self, step: int) -> Path:
        """Return the folder that a step is exported from: the one that `keep_best` kept, else the checkpoint."""
        kept = self._kept(step)
        return kept if kept.exists() else self.checkpoint(step)

    def export(self, step: int, base: str, variant: str, part_of_checkpoint: str = "actor") -> None:
        """Make `model/` from the checkpoint's weights and config, and the base model's tokenizer files and card.

        For a LoRA run `model/` is a plain model too, the base with the adapter merged. The adapter alone is in
        `adapter/`. part_of_checkpoint: the checkpoint's folder with the policy ("" for the SFT trainer).
        """
        part, trained = self.path / "model.part", self.weights_of(step) / part_of_checkpoint
        card = {**read_card(base), "variant": variant}  # a base on the hub has no folder and so no card
        shutil.rmtree(part, ignore_errors=True)
        if has_adapter(trained):
            model = trained_model(trained, base)
            save_adapter(model, card, self.adapter)
            model.merge_and_unload().save_pretrained(part)
        else:
            shutil.copytree(trained / "huggingface", part)
        complete(part, [trained / "huggingface", Path(base)], card)
        shutil.rmtree(self.model, ignore_errors=True)
        part.rename(self.model)


def hold(lock: IO[bytes], message: str) -> None:
    """Lock an open file until it is closed. Raises InputError with the message if another process has it locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(message) from error


def check_same_run(folder: Path, before: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Raise InputError, naming the first difference, if the run in the folder has another identity."""
    if (key := first_difference(before, identity)) is not None:
        was, now = (flat(of).get(key) for of in (before, identity))
        raise InputError(
            f"{folder} holds a run with {key}={was!r}, not {now!r}: choose another out_dir, or remove this one"
        )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _not_exported(folder: str, names: list[str]) -> set[str]:
    """Return the files of verl's checkpoint that export does not need: states, and shards without an adapter."""
    unused = ["data.pt", "optim_*.pt", "extra_state_*.pt"]
    if not has_adapter(Path(folder)):
        unused.append("model_*.pt")
    return shutil.ignore_patterns(*unused)(folder, names)
