"""Tables 6 and 7: the settings of the training run and the rows of the ranker, here and in the paper."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from eval_benchmarks.output.published import SETTINGS, SFT_ROWS
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.files import read_json
from rag_zeval.stages.config import load_config

KEYS = {  # of configs/train.yaml
    "batch size": "verl.data.train_batch_size",
    "optimizer": "verl.actor_rollout_ref.actor.optim.optimizer",
    "learning rate": "verl.actor_rollout_ref.actor.optim.lr",
    "warm-up steps": "verl.actor_rollout_ref.actor.optim.lr_warmup_steps",
    "schedule": "verl.actor_rollout_ref.actor.optim.lr_scheduler_type",
    "KL coefficient": "verl.actor_rollout_ref.actor.kl_loss_coef",
    "rollout temperature": "verl.actor_rollout_ref.rollout.temperature",
    "rollouts": "verl.actor_rollout_ref.rollout.n",
    "rollout length": "verl.data.max_response_length",
}


def settings_table(profile: str) -> Table:
    """Table 6: each printed setting beside the profile's."""
    config = load_config("train", [f"profile={profile}"])
    here = {name: OmegaConf.select(config, key) for name, key in KEYS.items()}
    data, actor = config.verl.data, config.verl.actor_rollout_ref.actor
    here["gradient accumulation"] = data.train_batch_size // actor.ppo_mini_batch_size
    here["epochs"] = f"{len(config.stages)} stages, each once" if config.verl.trainer.total_epochs == 1 else NONE
    lines = [(name, f"{here[name]}", f"{value}") for name, value in SETTINGS.items()]
    return Table("Table 6: settings of the training run", ("setting", profile, "paper"), lines)


def ranker_rows_table(run: str | Path) -> Table:
    """Table 7: questions and sets of answers by number of candidates, of the ranker trained in a folder."""
    counts = Path(run) / "data" / "counts.json"
    sets = {stage["k"]: stage["sets"] for stage in read_json(counts)["stages"]} if counts.is_file() else {}
    lines = [
        (str(k), str(sets.get(k, NONE)), f"{instances:,} ({questions:,} questions)")
        for k, (questions, instances) in SFT_ROWS.items()
    ]
    return Table("Table 7: rows of the SFT ranker", ("candidates", "sets", "sets, paper"), lines)
