"""The settings of a benchmark run, checked once: a wrong value is one line that names its key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.registry import JUDGE, MEASURES
from rag_zeval.stages.config import nearest

CALLS = ("concurrency", "timeout", "connect_timeout", "max_body_mib", "api_key_env")  # how endpoints are called


def _must_be(wanted: str, fits: Callable[[Any], bool]) -> BeforeValidator:
    """A check whose error says what the value must be, and what it is."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"must be {wanted}, found {'null' if value is None else str(value) or 'nothing'}")
        return value

    return BeforeValidator(check)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _text(wanted: str) -> BeforeValidator:
    return _must_be(wanted, _is_text)


def _text_or_null(wanted: str) -> BeforeValidator:
    return _must_be(wanted, lambda value: value is None or _is_text(value))


def _whole(least: int) -> BeforeValidator:
    wanted = f"a whole number of at least {least}"
    return _must_be(wanted, lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least)


def _number(least: float, most: float) -> BeforeValidator:
    def fits(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most

    return _must_be(f"a number from {least:g} to {most:g}", fits)


def _list(example: str, least: int = 1) -> BeforeValidator:
    def check(value: Any) -> list[str]:
        if not isinstance(value, list) or len(value) < least:
            raise ValueError(f"expected a list, such as {example}")
        return list(map(str, value))

    return BeforeValidator(check)


def _find_variant(name: Any) -> str | None:
    return None if name is None else find_variant(str(name)).name


def _is_url(server: str) -> str:
    if not server.startswith(("http://", "https://")):
        raise ValueError(f"must begin with http:// or https://, found {server}")
    return server


Count = Annotated[int, _whole(1)]
Seed = Annotated[int, _whole(0)]
Limit = Annotated[int | float, _number(0.001, 1e6)]
Flag = Annotated[bool, _must_be("true or false", lambda value: isinstance(value, bool))]
Folder = Annotated[Path, _text("a folder")]
OptionalFolder = Annotated[str | None, _text_or_null("a folder")]
KeyName = Annotated[str | None, _text_or_null("the name of an environment variable")]
VariantName = Annotated[str | None, BeforeValidator(_find_variant)]
Server = Annotated[str, _text("the address of a server"), AfterValidator(_is_url)]


class Section(BaseModel):
    """A part of `configs/bench.yaml`, where its keys are explained."""

    model_config = ConfigDict(frozen=True)


class Judge(Section):
    variant: VariantName
    temperature: Annotated[int | float, _number(0, 10)]
    top_p: Annotated[int | float, _number(0, 1)]
    max_tokens: Count
    seed: Seed
    api_key_env: KeyName
    structured: Flag
    swapped: Flag
    concurrency: Count
    timeout: Limit
    connect_timeout: Limit
    max_body_mib: Limit
    trials: Count

    @property
    def calls(self) -> dict[str, Any]:
        """How endpoints are called: keyword arguments of `open_backend`."""
        return {name: getattr(self, name) for name in CALLS}

    def sampling(self, trial: int = 0) -> Sampling:
        """How a judge is sampled in a trial, counted from 0."""
        return Sampling(self.temperature, self.top_p, self.max_tokens, self.seed + trial)


class Embeddings(Section):
    model: Annotated[str | None, _text_or_null("the name of a model")]
    api_key_env: KeyName


class BertScoreModel(Section):
    model: OptionalFolder


class ClaimChecker(Section):
    model: OptionalFolder
    remote_code: Flag


class NanoEval(Section):
    split: Annotated[str, _must_be("dev or test", lambda value: value in ("dev", "test"))]
    n: Count
    seed_ranked: Seed
    seed_pairs: Seed
    variant: VariantName
    max_tokens: Count


class Bootstrap(Section):
    draws: Count
    seed: Seed


class Servers(Section):
    github: Server
    hub: Server


class RunSettings(Section):
    """What the data and the tables of a run follow from: all that is needed to read a finished one."""

    benchmarks: Annotated[list[str], _list("benchmarks=[ragchecker_meta]")]
    data_dir: Folder
    nano_eval: NanoEval
    bootstrap: Bootstrap


class BenchSettings(RunSettings):
    """What a run scores, by which scorers and models, and where it goes."""

    scorers: Annotated[list[str], _list("scorers=[bleu]")]
    models: Annotated[list[str], _list("models=[checkpoints/nano-base]", least=0)]
    out_dir: Folder
    judge: Judge
    embeddings: Embeddings
    prices: Annotated[str | None, _text_or_null("a file")]
    bert_score: BertScoreModel
    claim_checker: ClaimChecker

    @property
    def judged_scorers(self) -> list[str]:
        """The scorers chosen that are run once per model, each once."""
        names = dict.fromkeys(self.scorers)
        return [name for name in names if name == JUDGE or (name in MEASURES and MEASURES[name].prompts)]


class DownloadSettings(Section):
    """Where public data come from, and where they go."""

    data_dir: Folder
    download: Servers


S = TypeVar("S", bound=Section)


def read_settings(config: DictConfig, kind: type[S]) -> S:
    """The settings of a kind; other keys are left alone. Raises InputError naming the key whose value does not fit.

    >>> read_settings(load_config("bench", ["bootstrap.draws=0"]), BenchSettings)
    InputError: bootstrap.draws: must be a whole number of at least 1, found 0
    """
    try:
        return kind.model_validate(OmegaConf.to_container(config, resolve=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key, reason = ".".join(map(str, first["loc"])), first.get("ctx", {}).get("error") or first["msg"]
        raise InputError(f"{key}: {reason}") from error


def check_names(key: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise InputError for a name that is not known, with the nearest one and all there are."""
    for name in names:
        if name not in known:
            raise InputError(f"{key}: there is no '{name}'{nearest(name, [*known])}; there is: {', '.join(known)}")
