"""Write the README.md of an exported model from its run, with the template `templates/model_card.md`."""

import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rag_zeval import __version__
from rag_zeval.files import flat, read_json, write_text
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.folder import read_card
from rag_zeval.stages.config import load_config
from rag_zeval.stages.training_log import Steps, validation_rewards
from rag_zeval.stages.versions import installed
from rag_zeval.templates import templates
from train.settings import TrainSettings, binding_settings

TEMPLATES = Path(__file__).parent / "templates"
PACKAGES = ("verl", "torch", "transformers", "vllm", "ray", "peft")
NO_DEPARTURE = ("profile", "seed", "platform", "verl.trainer.experiment_name", "verl.trainer.logger")


class Verbatim(str):
    """Markdown that this module wrote, so it is not escaped."""

    __slots__ = ()


def escape(value: object) -> str:
    """Return text as one line of Markdown, escaped so that it is shown as plain text. Verbatim stays as it is."""
    if isinstance(value, Verbatim):
        return value
    return re.sub(r"([\\`*_{}\[\]<>#|~&$!])", r"\\\1", " ".join(str(value).split()))


def indented(text: str) -> Verbatim:
    """Return text as an indented code block, which no line of the text can end."""
    return Verbatim("\n".join(f"    {line}" for line in text.splitlines()))


def write_model_card(model: Path, settings: TrainSettings, manifest: Mapping[str, Any], steps: Steps) -> None:
    """Write `model`/README.md from the run's configuration, its manifest and the metrics of its steps.

    The base is shown by its folder's name, or by its name on the hub. The card shows no path of this machine.
    """
    base, local, shown = settings.base_model, settings.base_is_local, card_settings(settings.config)
    verl = settings.verl
    card = templates(TEMPLATES, finalize=escape, trim_blocks=True, keep_trailing_newline=True)
    text = card.get_template("model_card.md").render(
        **{key: value for key, value in manifest.items() if key != "config"},
        config=settings,
        best=settings.export == "best",
        has_evidence=find_variant(settings.variant).has_evidence,
        base_name=Path(base).resolve().name if local else base,
        base_sha=manifest["base"],
        on_the_hub=None if local else Verbatim(json.dumps(base)),
        world=read_card(model).get("world"),
        dtype=read_json(model / "config.json").get("dtype"),
        prompts=verl.data.train_batch_size,
        rollouts=verl.actor_rollout_ref.rollout.n,
        stages=", then ".join(f"K={stage.k}" for stage in settings.stages),
        rewards=list(validation_rewards(steps).items()),
        departures=departures(shown),
        versions=versions(),
        yaml=indented(OmegaConf.to_yaml(OmegaConf.create(shown))),
    )
    write_text(model / "README.md", text)


def card_settings(config: DictConfig) -> dict[str, Any]:
    """Return the settings for the card: the binding ones without `ray_kwargs`, which has addresses of machines."""
    settings = binding_settings(config)
    del settings["verl"]["ray_kwargs"]
    return settings


def departures(settings: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (key, value here, value in PROFILE=paper) of each setting that differs. A missing value is "not set"."""
    here, paper = (flat(each) for each in (settings, card_settings(load_config("train", ["profile=paper"]))))
    keys = [key for key in dict.fromkeys([*here, *paper]) if key not in NO_DEPARTURE]
    unset = "not set"
    return [
        (key, here.get(key, unset), paper.get(key, unset))
        for key in keys
        if here.get(key, unset) != paper.get(key, unset)
    ]


def versions() -> str:
    """Return the installed versions: `rag-zeval 0.1.0, Python 3.11.7, verl 0.9.1, ...`."""
    versions = {"rag-zeval": __version__, "Python": platform.python_version(), **installed(PACKAGES)}
    return ", ".join(f"{name} {version}" for name, version in versions.items())
