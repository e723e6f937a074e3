"""The settings of a benchmark run. They are checked once, and a wrong value gives one line that names its key.

`configs/bench.yaml` explains the keys.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from eval_benchmarks.originals.packages import ORIGINALS
from rag_zeval.errors import InputError, nearest
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.registry import JUDGE, MEASURES
from rag_zeval.stages.config import Section, Text

CALLS = ("concurrency", "timeout", "connect_timeout", "max_body_mib", "api_key_env")  # how endpoints are called


def _number(least: float, most: float) -> Any:
    return Field(ge=least, le=most, description=f"a number from {least:g} to {most:g}")


def _names(example: str, least: int = 1) -> Any:
    return Field(min_length=least, description=f"a list of names, such as {example}")


def _check_variant(name: str | None) -> str | None:
    return None if name is None else find_variant(name).name


# A description completes the error "must be ...". Numbers keep their type, because 0 and 0.0 give different cache keys.
Count = Annotated[int, Field(ge=1, le=1_000_000, description="a whole number from 1 to 1,000,000")]
Seed = Annotated[int, Field(ge=0, lt=2**63, description="a whole number from 0 to 2**63 - 1")]
Limit = Annotated[int | float, _number(0.001, 1e6)]
Dollars = Annotated[int | float | None, _number(0.001, 1e6)]
Flag = Annotated[bool, Field(description="true or false")]
Folder = Annotated[Text, Field(description="a folder")]
FolderOrNull = Annotated[Text | None, Field(description="a folder")]
KeyName = Annotated[Text | None, Field(description="the name of an environment variable")]
VariantName = Annotated[Text | None, AfterValidator(_check_variant), Field(description="the name of a prompt variant")]
Server = Annotated[str, Field(pattern="^https?://", description="an address that begins with http:// or https://")]


class Judge(Section):
    variant: VariantName
    temperature: Annotated[int | float, _number(0, 10)]
    top_p: Annotated[int | float, _number(0, 1)]
    max_tokens: Count
    seed: Seed
    api_key_env: KeyName
    extra_body: Annotated[dict[str, Any] | None, Field(description="fields, such as {reasoning_effort: low}")]
    structured: Flag
    patterns: Flag
    swapped: Flag
    concurrency: Count
    timeout: Limit
    connect_timeout: Limit
    max_body_mib: Limit
    processes: Count
    trials: Count
    reply_tokens_per_second: Limit

    @property
    def calls(self) -> dict[str, Any]:
        """The keyword arguments of `open_backend` that are for endpoints."""
        return {"extra_body": self.extra_body, **{name: getattr(self, name) for name in CALLS}}

    def sampling(self, trial: int = 0) -> Sampling:
        """Return how a judge is sampled in a trial, counted from 0. Each trial has its own seed."""
        return Sampling(self.temperature, self.top_p, self.max_tokens, self.seed + trial)


class Embeddings(Section):
    model: Annotated[Text | None, Field(description="the name of a model")]
    api_key_env: KeyName


class BertScoreModel(Section):
    model: FolderOrNull


class ClaimChecker(Section):
    model: FolderOrNull
    remote_code: Flag


class NanoEval(Section):
    split: Annotated[Literal["dev", "test"], Field(description="dev or test")]
    n: Annotated[int, Field(ge=1, le=100_000, description="a whole number from 1 to 100,000")]
    seed_ranked: Seed
    seed_pairs: Seed
    variant: VariantName
    max_tokens: Count


class CadPairs(Section):
    responses: Annotated[Text | None, Field(description="a file")] = None


class Bootstrap(Section):
    draws: Count


class Servers(Section):
    github: Server
    hub: Server


class RunSettings(Section):
    """The settings that determine the data and the tables of a run: all that is needed to read a finished one."""

    benchmarks: Annotated[list[str], _names("benchmarks=[ragchecker_meta]")]
    data_dir: Folder
    nano_eval: NanoEval
    cad_pairs: CadPairs = CadPairs()  # older runs do not have this key
    cad_sentences: CadPairs = CadPairs()
    bootstrap: Bootstrap


class BenchSettings(RunSettings):
    """The settings of a run: what it scores, with which scorers and models, and where the results go."""

    scorers: Annotated[list[str], _names("scorers=[bleu]")]
    models: Annotated[list[str], _names("models=[checkpoints/nano-base]", least=0)]
    out_dir: Folder
    judge: Judge
    embeddings: Embeddings
    prices: Annotated[Text | None, Field(description="a file")]
    max_cost: Dollars
    bert_score: BertScoreModel
    claim_checker: ClaimChecker
    dry_run: Flag

    @property
    def judged_scorers(self) -> list[str]:
        """The chosen scorers that run once for each model, without duplicates."""
        names = dict.fromkeys(self.scorers)
        return [name for name in names if name in (JUDGE, *ORIGINALS) or (name in MEASURES and MEASURES[name].prompts)]


class DownloadSettings(Section):
    """The settings of `make data`: where public data come from, and where they go."""

    data_dir: Folder
    download: Servers


def check_names(key: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise InputError for an unknown name. The error suggests the nearest known name and lists all of them."""
    for name in names:
        if name not in known:
            raise InputError(f"{key}: unknown name '{name}'{nearest(name, [*known])}; choose from: {', '.join(known)}")
