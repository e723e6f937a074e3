"""What is looked at before anything starts: configuration, data and models."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.registry import BENCHMARKS
from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.endpoint import KEY_ENV
from rag_zeval.models.keys import read_key
from rag_zeval.models.language_model import can_constrain, check_spec, read_card
from rag_zeval.models.nli import wants_code
from rag_zeval.scorers.checked_claims import CheckedClaims
from rag_zeval.scorers.registry import JUDGE, MEASURES, SCORERS
from rag_zeval.stages.config import nearest

RUNS = Path("runs")  # what the stages write: a model listed from there may simply not be trained yet
WHOLE_NUMBERS = {
    **dict.fromkeys(("bootstrap.draws", "nano_eval.n", "nano_eval.max_tokens", "judge.max_tokens"), 1),
    **dict.fromkeys(("bootstrap.seed", "judge.seed", "nano_eval.seed_ranked", "nano_eval.seed_pairs"), 0),
    **dict.fromkeys(("judge.concurrency", "judge.trials"), 1),
}  # and the smallest value of each
NUMBERS: dict[str, tuple[float, float]] = {  # and the least and the most of each
    "judge.temperature": (0, 10),
    "judge.top_p": (0, 1),
    "judge.timeout": (0.001, 1e6),
    "judge.connect_timeout": (0.001, 1e6),
    "judge.max_body_mib": (0.001, 1e6),
}


def check_config(config: DictConfig) -> None:
    """Raise InputError for a name that does not exist, a value out of range or a model folder that is not there."""
    for key, known in (("benchmarks", [*BENCHMARKS]), ("scorers", SCORERS)):
        if not OmegaConf.is_list(config[key]) or not config[key]:
            raise InputError(f"{key}: expected a list, such as {key}=[{known[0]}]")
        for name in config[key]:
            if name not in known:
                raise InputError(
                    f"{key}: there is no '{name}'{nearest(str(name), known)}; there is: {', '.join(known)}"
                )
    for key in ("data_dir", "out_dir"):
        check_text(config, key, "a folder")
    for key, low in WHOLE_NUMBERS.items():
        value = OmegaConf.select(config, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise InputError(f"{key}: must be a whole number of at least {low}, found {_shown(value)}")
    for key, (least, most) in NUMBERS.items():
        value = OmegaConf.select(config, key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            raise InputError(f"{key}: must be a number from {least:g} to {most:g}, found {_shown(value)}")
    for key in ("judge.api_key_env", "embeddings.api_key_env"):
        if OmegaConf.select(config, key) is not None:
            variable = check_text(config, key, "the name of an environment variable")
            if read_key(variable) is None:
                raise InputError(f"{key}: environment variable {variable} is not set")
    for key in ("judge.structured", "judge.swapped", "claim_checker.remote_code"):
        value = OmegaConf.select(config, key)
        if not isinstance(value, bool):
            raise InputError(f"{key}: must be true or false, found {_shown(value)}")
    if config.nano_eval.split not in ("dev", "test"):
        raise InputError(f"nano_eval.split: must be dev or test, found {_shown(config.nano_eval.split)}")
    for section in (config.judge, config.nano_eval):
        if section.variant is not None:
            find_variant(section.variant)
    if not OmegaConf.is_list(config.models):
        raise InputError("models: expected a list, such as models=[checkpoints/nano-base]")
    models = Counter(map(str, config.models))
    for spec in models:  # whether or not a judge is asked: config.yaml will show them
        check_spec(spec)
    _check_embeddings(config)
    if config.bert_score.model is not None:
        _check_has_model("bert_score.model", check_text(config, "bert_score.model", "a folder"))
    _check_claim_checker(config)
    if not asks_a_judge(config):
        return
    if not models:
        raise InputError("models: a judge needs at least one, such as models=[checkpoints/nano-base]")
    for spec, times in models.items():
        if times > 1:
            raise InputError(f"models: '{spec}' stands {times} times")
        if config.judge.structured and not can_constrain(spec):
            raise InputError(f"judge.structured: replies of {spec} cannot be held to a schema; leave it out of models")
        if check_spec(spec):
            read_key(config.judge.api_key_env or KEY_ENV)
        _check_model(spec)


def _check_embeddings(config: DictConfig) -> None:
    key = "embeddings.model"
    if config.embeddings.model is None:
        for name in config.scorers:
            if name in MEASURES and MEASURES[name].embeds:
                raise InputError(f"{key}: {name} needs one: a folder, or openai:MODEL@http://host:port/v1")
        return
    spec = check_text(config, key, "the name of a model")
    if check_spec(spec) is None:
        _check_has_model(key, spec)
    else:
        read_key(config.embeddings.api_key_env or KEY_ENV)


def _check_claim_checker(config: DictConfig) -> None:
    if CheckedClaims.name in config.scorers and JUDGE not in config.scorers:
        raise InputError(f"scorers: {CheckedClaims.name} checks the claims that {JUDGE} writes; add {JUDGE}")
    key = "claim_checker.model"
    if config.claim_checker.model is None:
        return
    folder = check_text(config, key, "a folder")
    _check_has_model(key, folder)
    if wants_code(folder) and not config.claim_checker.remote_code:
        raise InputError(
            f"{key}: {folder}: its config.json asks for code of its own; claim_checker.remote_code=true runs it"
        )


def _check_has_model(key: str, folder: str) -> None:
    if not (Path(folder) / "config.json").is_file():
        raise InputError(f"{key}: {folder}: no model there ({Path(folder) / 'config.json'} is missing)")


def asks_a_judge(config: DictConfig) -> list[str]:
    """The scorers chosen that are run once per model, each once."""
    return [
        name for name in dict.fromkeys(config.scorers) if name == JUDGE or (name in MEASURES and MEASURES[name].prompts)
    ]


def check_text(config: DictConfig, key: str, what: str) -> str:
    """The value of a key that must be a text. Raises InputError saying `what` it should be."""
    value = OmegaConf.select(config, key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{key}: must be {what}, found {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return "null" if value is None else str(value) or "nothing"


def _check_model(spec: str) -> None:
    folder = _folder(spec)
    if folder is None or not_trained_yet(spec):
        return
    if not (folder / "config.json").is_file():
        raise InputError(f"models: {spec}: no model there ({folder / 'config.json'} is missing)")
    read_card(folder)


def _folder(spec: str) -> Path | None:
    """Where a model lies; None for an endpoint, of which one sees that it answers when it is asked."""
    return None if check_spec(spec) else Path(re.sub("^(transformers|vllm):", "", spec))


def not_trained_yet(spec: str) -> bool:
    """Whether the spec names a folder under `runs/` that holds no model yet: left out with a line, not refused."""
    folder = _folder(spec)
    return folder is not None and RUNS in folder.parents and not (folder / "config.json").is_file()


def load_benchmarks(config: DictConfig) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks whose data are there, and a line for everything that has to be left out."""
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    for name in dict.fromkeys(config.benchmarks):
        benchmark, missing = BENCHMARKS[name](config)
        left_out += [f"{line}; `make data` gets it" for line in missing]
        if benchmark is not None:
            benchmarks.append(benchmark)
    if not benchmarks:
        raise InputError("no benchmark can run: " + "; ".join(left_out))
    return benchmarks, left_out
