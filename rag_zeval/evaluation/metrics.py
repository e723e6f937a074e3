"""Metrics: a scorer with the kind of reference that it uses, opened by the names that users give."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_zeval.budget import Account
from rag_zeval.cases.case import REFERENCE, SOURCES, Case, CaseSet
from rag_zeval.errors import InputError, nearest, needed
from rag_zeval.files import Row
from rag_zeval.judge.needs import ANSWERS, missing_everywhere
from rag_zeval.judge.prompt import find_variant
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.embeddings import CachedEmbedder, Embedder
from rag_zeval.models.language_model import Backend
from rag_zeval.models.nli import open_checker
from rag_zeval.models.open import (
    SPECS,
    check_embedder,
    check_extra_body,
    check_model,
    check_structured,
    open_backend,
    open_embedder,
)
from rag_zeval.results import result_row, row_id
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.registry import CHECKER_SCORERS, CRITERIA_FILES, JUDGE, SCORERS, Named, name_of, needs_of
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.scoring.in_pieces import shown_whole
from rag_zeval.scoring.in_windows import Parts, plan_parts
from rag_zeval.scoring.opening import Asking, Models, asks_judge, embeds, open_scorer
from rag_zeval.scoring.row_loop import Work

EXAMPLE = "openai:qwen2.5-7b-instruct@http://localhost:8000/v1"
CASE_COLUMNS = ("id", "system", "slice_tag", "question", "answer")  # of the table of scores, before the metrics


@dataclass(frozen=True)
class Judges:
    """The models that scorers ask, and how they are asked.

    model, embeddings: specs of models. claim_checker, bert_score: folders. trials: how often each case is judged, each
    time with the next seed. calls: how endpoints are called, as `open_backend` takes it. account: the budget and price
    of the judge's calls, if there is a limit. embeddings_key_env: the NAME of the variable with the key for embeddings.
    """

    model: str | None = None
    _: KW_ONLY
    asking: Asking = field(default_factory=Asking)
    trials: int = 1
    embeddings: str | None = None
    claim_checker: str | None = None
    bert_score: str | None = None
    calls: Mapping[str, Any] = field(default_factory=dict)
    account: Account | None = None
    embeddings_key_env: str | None = None


@dataclass(frozen=True)
class Metric(Work):
    """A column of the results: a scorer and a kind of reference (`against`), for one trial.

    cases: by key (see `CaseSet.keys`). made_by: fields of its rows: its name, the trial, and what its values depend on
    besides the example. cached: the backend whose replies are cached, if there is a cache. parts: how cases that are
    too long for the judge are judged. Their rows have an identity of their own (see `Scorer.identity_of`); all other
    rows have that of `made_by`.
    """

    cases: Mapping[str, Case]
    against: str
    made_by: Row
    cached: CachedBackend | None = None
    parts: Parts | None = None

    def row_id(self, id_: str) -> str:
        return row_id(id_, self.made_by["metric"], self.made_by["trial"])

    def row(self, scored: Scored) -> Row:
        key = scored.id
        made_by = {**self.made_by, "identity": self.scorer.identity_of(scored.parts)}
        of = self.cases[key], self.examples[key]
        return result_row(self.row_id(key), *of, self.scorer, shown_whole(scored), made_by)


def chosen_scorers(
    given: str | Scorer | Sequence[str | Scorer] | None, criteria: str | Path | Sequence[str | Path] = ()
) -> list[Named]:
    """Return the scorers that are named in a list, or in a text with commas between them, and those of criteria files.

    A list may also hold a user's own scorers. Duplicates are dropped. given: None means `rag_zeval`, or no other scorer
    if there are criteria files. Raises InputError if there is no scorer, for a file that is no criteria file (see
    `read_criteria`), for two files of the same name, and for a name that is taken, also by one of CASE_COLUMNS.
    """
    if given is None:
        given = () if criteria else JUDGE
    if isinstance(given, str | Scorer):
        given = given.split(",") if isinstance(given, str) else [given]
    named = (one if isinstance(one, Scorer) else str(one).strip() for one in given)
    found: list[Named] = list(dict.fromkeys(one for one in named if one))
    files: dict[str, str | Path] = {}
    for file in dict.fromkeys([criteria] if isinstance(criteria, str | Path) else criteria):
        with needed("pyyaml", "--criteria"):
            from rag_zeval.scorers.criteria_file import read_criteria
        measure = read_criteria(file)
        if measure.name in files:
            raise InputError(f"--criteria {file}: {files[measure.name]} has the same name: rename one of the two")
        if measure.name in CASE_COLUMNS:
            raise InputError(f"--criteria {file}: '{measure.name}' is a column of the table of scores: rename the file")
        files[measure.name] = file
        found.append(measure)
    names = [*SCORERS, *CASE_COLUMNS, *(name_of(one) for one in found if not isinstance(one, str))]
    for own in (one for one in found if isinstance(one, Scorer)):
        if names.count(own.name) > 1 or not re.fullmatch(r"[\w-]+", own.name):
            raise InputError(
                f"scorer {type(own).__name__}: choose another name than '{own.name}', of letters, digits, '-' and '_', "
                "that no other scorer and no column of the table of scores has"
            )
    if not found:
        raise InputError("--scorers is empty; `rag-zeval scorers` lists the names")
    return found


def check_scorers(names: Sequence[Named], judges: Judges, asking: bool = True) -> None:
    """Raise InputError for a scorer that does not exist or whose model is not named. No model is loaded for this.

    Likewise for an unknown prompt variant, for a folder that does not exist, for a model that cannot follow a JSON
    schema if it must, for extra fields that a request cannot have, for `checked_claims` without `rag_zeval`, and for
    fewer than one trial. asking: whether a judge will be asked, and so must be named.
    """
    if judges.trials < 1:
        raise InputError(f"--trials is {judges.trials}, but must be 1 or more")
    for name in names:
        if isinstance(name, str) and name not in SCORERS:
            if name in CRITERIA_FILES or name.endswith(".yaml"):
                raise InputError(f"--scorers: '{name}' is a criteria file: name it in --criteria")
            raise InputError(
                f"--scorers: unknown scorer '{name}'{nearest(name, SCORERS)}; `rag-zeval scorers` lists them"
            )
        if asking and judges.model is None and asks_judge(name):
            raise InputError(f"no judge: add --model with one of {SPECS}, for example --model {EXAMPLE}")
        if judges.embeddings is None and embeds(name):
            raise InputError(f"{name} embeds texts: add --embeddings with a folder or an endpoint's model")
        if judges.claim_checker is None and name in CHECKER_SCORERS:
            raise InputError(f"{name} needs a claim checker: add --claim-checker with its folder")
        if judges.bert_score is None and name == BertScore.name:
            raise InputError(f"{name} needs an encoder: add --bert-score with its folder")
    if CheckedClaims.name in names and JUDGE not in names:
        raise InputError(f"{CheckedClaims.name} checks the claims of {JUDGE}: name both in --scorers")
    if judges.asking.variant is not None:
        find_variant(judges.asking.variant)
    if judges.model is not None:
        check_extra_body(judges.model, judges.calls.get("extra_body"))
        check_model(judges.model)
        if JUDGE in names:
            check_structured(judges.model, judges.asking.structured)
    if judges.embeddings is not None:
        check_embedder(judges.embeddings)


def check_needs(names: Sequence[Named], cases: CaseSet) -> None:
    """Raise InputError if no case has everything that a scorer needs."""
    examples = [cases.example(at, source) for source in SOURCES for at in range(len(cases.cases))]
    for name in names:
        if missing := missing_everywhere(examples, needs_of(name)):
            raise InputError(f"{name_of(name)} needs the {' and the '.join(missing)}, which no case has")


def need_texts(names: Sequence[Named]) -> bool:
    """Whether one of these scorers needs more than question and answer."""
    return any({*needs_of(name)}.difference(ANSWERS) for name in names)


def metric_name(scorer: Named, against: str) -> str:
    """Return the name of a metric, such as `rag_zeval@truth` or `rag_zeval@contexts`.

    It is the scorer's name alone if the reference is the cases' own, or if the scorer needs no reference.
    """
    name = name_of(scorer)
    return f"{name}@{against}" if against != REFERENCE and REFERENCE in needs_of(scorer) else name


def places(names: Sequence[Named], sources: Sequence[str]) -> list[tuple[Named, str]]:
    """Return the (scorer, source) of each metric.

    A scorer that needs the reference gets one metric for every source, any other scorer only one. The others see a
    reference only if the case has one of its own, so that retrieved contexts are not taken for the ground truth.
    """
    return [(name, source) for name in names for source in (sources if REFERENCE in needs_of(name) else (REFERENCE,))]


def open_models(names: Sequence[Named], judges: Judges, cache: ReplyCache | None) -> Models:
    """Load the models that these scorers ask (see `check_scorers`). Raises InputError for one that cannot be used."""
    judge: Backend | None = None
    embedder: Embedder | None = None
    needs_checker = any(name in CHECKER_SCORERS for name in names)
    checker = open_checker(str(judges.claim_checker), False) if needs_checker else None
    if judges.model is not None and any(map(asks_judge, names)):
        judge = open_backend(judges.model, **judges.calls, account=judges.account)
    if any(map(embeds, names)):
        # no server gets the key or the extra fields of another one, and `processes` are those of a local judge
        calls = {**judges.calls, "api_key_env": judges.embeddings_key_env, "extra_body": None}
        calls.pop("processes", None)
        embedder = open_embedder(str(judges.embeddings), **calls)
    if cache is not None:
        judge = CachedBackend(judge, cache) if judge else None
        embedder = CachedEmbedder(embedder, cache) if embedder else None
    return Models(judge, embedder, checker, judges.bert_score)


def open_metrics(
    names: Sequence[Named], cases: CaseSet, sources: Sequence[str], judges: Judges, models: Models
) -> list[Metric]:
    """Return the metrics of these scorers, which ask `models`, all but `checked_claims`: `run.score` makes it later."""
    by_key = dict(zip(cases.keys, cases.cases, strict=True))
    examples = {
        source: {key: cases.example(at, source) for at, key in enumerate(cases.keys)}
        for source in {*sources, REFERENCE}
    }
    metrics = []
    for named, source in places(names, sources):
        if named == CheckedClaims.name:
            continue
        asks = models.judge if asks_judge(named) else None
        parts: Parts | None = None
        for trial in range(judges.trials if asks else 1):
            sampling = replace(judges.asking.sampling, seed=judges.asking.sampling.seed + trial)
            scorer = open_scorer(named, models, replace(judges.asking, sampling=sampling))
            name = metric_name(named, source)
            made_by: Row = {"metric": name, "trial": trial, "model": None}
            if asks is not None:
                made_by |= {"model": asks.name, "sampling": asdict(sampling)}
                if isinstance(scorer, RagZeval):
                    made_by |= {"variant": scorer.variant, "structured": scorer.structured}
                made_by["prompt_hash"] = scorer.prompt_hash
            made_by["identity"] = scorer.identity
            label = f"{name}, trial {trial + 1}" if trial else name
            cached = asks if isinstance(asks, CachedBackend) else None
            if parts is None:  # the same in all trials
                parts = plan_parts(scorer, examples[source].values(), asks)
            asked = parts.asked(scorer)
            metrics.append(Metric(label, asked, examples[source], by_key, source, made_by, cached, parts))
    return metrics
