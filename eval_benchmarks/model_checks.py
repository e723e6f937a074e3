"""Checks before any model is loaded: every scorer has the models, folders and keys that it needs."""

from collections import Counter
from pathlib import Path

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.originals.packages import ORIGINALS
from rag_zeval.errors import InputError
from rag_zeval.files import locate
from rag_zeval.models.endpoint import KEY_ENV
from rag_zeval.models.folder import check_weights, model_config, read_card
from rag_zeval.models.keys import needed_key, read_key
from rag_zeval.models.nli import wants_code
from rag_zeval.models.open import check_extra_body, check_model, check_spec, check_structured, folder_of
from rag_zeval.models.precision import split_dtype
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import JUDGE, MEASURES, SCORERS

RUNS = Path("runs")  # written by the stages: a model that is missing there may not be trained yet


def check_models(settings: BenchSettings) -> None:
    """Raise InputError if a scorer is unknown, or lacks a model, an API key or a setting that it needs."""
    check_names("scorers", settings.scorers, [*SCORERS, *ORIGINALS])
    for key, variable in (
        ("judge.api_key_env", settings.judge.api_key_env),
        ("embeddings.api_key_env", settings.embeddings.api_key_env),
    ):
        if variable is not None:
            with locate(key):
                needed_key(variable, "the API key")
    for spec in settings.models:  # even if no judge is asked, because config.yaml will show them
        check_spec(spec)
    _check_embeddings(settings)
    if settings.bert_score.model is not None:
        with locate("bert_score.model"):
            model_config(settings.bert_score.model)
    _check_claim_checker(settings)
    if settings.judged_scorers:
        _check_judges(settings)


def _check_embeddings(settings: BenchSettings) -> None:
    spec = settings.embeddings.model
    if spec is None:
        for name in settings.scorers:
            measure = MEASURES.get(name) or ORIGINALS.get(name)
            if measure is not None and measure.embeds:
                raise InputError(f"embeddings.model: {name} needs one: a folder, or openai:MODEL@http://host:port/v1")
    elif (folder := folder_of(spec)) is not None:
        with locate("embeddings.model"):
            model_config(folder)
    else:
        read_key(settings.embeddings.api_key_env or KEY_ENV)


def _check_claim_checker(settings: BenchSettings) -> None:
    if CheckedClaims.name in settings.scorers and JUDGE not in settings.scorers:
        raise InputError(f"scorers: {CheckedClaims.name} checks the claims that {JUDGE} writes; add {JUDGE}")
    if settings.claim_checker.model is None:
        return
    folder, _ = split_dtype(settings.claim_checker.model)
    with locate("claim_checker.model"):
        if wants_code(folder) and not settings.claim_checker.remote_code:
            raise InputError(
                f"{folder}: its config.json asks for code of its own; claim_checker.remote_code=true runs it"
            )


def _check_judges(settings: BenchSettings) -> None:
    if not settings.models:
        raise InputError("models: a judge needs at least one, such as models=[checkpoints/nano-base]")
    for spec, times in Counter(settings.models).items():
        if times > 1:
            raise InputError(f"models: '{spec}' is listed {times} times")
        check_extra_body(spec, settings.judge.extra_body, "judge.extra_body")
        check_structured(spec, settings.judge.structured)
        folder = folder_of(spec)
        if folder is None:
            read_key(settings.judge.api_key_env or KEY_ENV)
        elif not not_trained_yet(spec):
            with locate("models"):
                check_model(spec)
                check_weights(folder)
                read_card(folder)


def not_trained_yet(spec: str) -> bool:
    """Whether the spec names a folder under `runs/` that holds no model yet.

    A run leaves such a model out and says so in a line. Other missing models are refused.
    """
    folder = folder_of(spec)
    return folder is not None and RUNS in Path(folder).parents and not (Path(folder) / "config.json").is_file()
