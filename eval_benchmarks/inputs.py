"""What is looked at before anything starts: configuration, data and models."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from eval_benchmarks import ragchecker_meta, wikieval
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.nano_eval import NanoEval
from eval_benchmarks.scorers import JUDGES, TEXT_SCORERS
from rag_zeval.config import nearest
from rag_zeval.errors import InputError
from rag_zeval.llm import read_card
from rag_zeval.prompt import find_variant

BENCHMARKS = ("ragchecker_meta", "wikieval", "nano_eval")
ENDPOINT = "openai:"
RUNS = Path("runs")  # what the stages write: a model listed from there may simply not be trained yet


def check_config(config: DictConfig) -> None:
    """Raise InputError for a name that does not exist, a value out of range or a model folder that is not there."""
    for key, known in (("benchmarks", BENCHMARKS), ("scorers", TEXT_SCORERS + JUDGES)):
        if not OmegaConf.is_list(config[key]) or not config[key]:
            raise InputError(f"{key}: expected a list, such as {key}=[{known[0]}]")
        for name in config[key]:
            if name not in known:
                raise InputError(
                    f"{key}: there is no '{name}'{nearest(str(name), known)}; there is: {', '.join(known)}"
                )
    for key in ("bootstrap.draws", "nano_eval.n", "nano_eval.max_tokens", "judge.max_tokens"):
        value = OmegaConf.select(config, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{key}: must be a whole number of at least 1, found {value}")
    for key, low, high in (("judge.temperature", 0, 10), ("judge.top_p", 0, 1)):
        value = OmegaConf.select(config, key)
        if not isinstance(value, (int, float)) or not low <= value <= high:
            raise InputError(f"{key}: must be a number from {low} to {high}, found {value}")
    for section in (config.judge, config.nano_eval):
        find_variant(section.variant)
    if not set(JUDGES) & set(config.scorers):
        return
    if not OmegaConf.is_list(config.models) or not config.models:
        raise InputError("models: a judge needs at least one, such as models=[checkpoints/nano-base]")
    for spec, times in Counter(config.models).items():
        if times > 1:
            raise InputError(f"models: '{spec}' stands {times} times")
        _check_model(str(spec))


def _check_model(spec: str) -> None:
    folder = _folder(spec)
    if folder is None or not_trained_yet(spec):
        return
    if not (folder / "config.json").is_file():
        raise InputError(f"models: {spec}: no model there ({folder / 'config.json'} is missing)")
    read_card(folder)


def _folder(spec: str) -> Path | None:
    """Where a model lies; None for an endpoint, of which one sees that it answers when it is asked."""
    return None if spec.startswith(ENDPOINT) else Path(re.sub("^(transformers|vllm):", "", spec))


def not_trained_yet(spec: str) -> bool:
    """Whether the spec names a folder under `runs/` that holds no model yet: left out with a line, not refused."""
    folder = _folder(spec)
    return folder is not None and RUNS in folder.parents and not (folder / "config.json").is_file()


def load_benchmarks(config: DictConfig) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks whose data are there, and a line for everything that has to be left out."""
    benchmarks: list[Benchmark] = []
    left_out: list[str] = []
    data_dir = Path(config.data_dir)
    for name in dict.fromkeys(config.benchmarks):
        if name == "nano_eval":
            nano = config.nano_eval
            benchmarks.append(NanoEval(nano.n, nano.seed_ranked, nano.seed_pairs))
            continue
        module = {"ragchecker_meta": ragchecker_meta, "wikieval": wikieval}[name]
        left_out += [f"{line}; `make data` gets it" for line in module.missing(data_dir)]
        if module.has_examples(data_dir):
            benchmarks.append(module.load(data_dir))
    if not benchmarks:
        raise InputError("no benchmark can run: " + "; ".join(left_out))
    return benchmarks, left_out
