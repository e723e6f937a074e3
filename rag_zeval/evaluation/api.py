"""The Python interface of `rag-zeval evaluate`: it takes cases and returns their answers with scores."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.cases.reading import read_cases
from rag_zeval.errors import needed
from rag_zeval.evaluation.metrics import Judges, check_scorers, chosen_scorers, need_texts
from rag_zeval.evaluation.run import judged_by, plan_run, reply_cache, score, stopped, unjudged
from rag_zeval.models.as_finished import awaitable
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.open import open_backend
from rag_zeval.results import Judged, over_trials
from rag_zeval.scorers.score import Scorer
from rag_zeval.scoring.opening import Asking
from rag_zeval.scoring.prices import open_account, price_of, prices_of_rows, read_prices
from rag_zeval.scoring.spending import Spending
from rag_zeval.scoring.summary import Summary, column_cells, summarize
from rag_zeval.text import counted, one_line

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]


NUMBERS = ("score", "latency_s", "cost_usd")  # fields of `Judged`


class Results(list[Judged]):
    """Every answer scored by every metric, the summary of the run, and what it has cost (`spending`).

    The list goes metric by metric, each in the order of the cases. A notebook shows the means, not the list.
    """

    def __init__(self, judged: Iterable[Judged], summary: Summary, spending: Spending):
        super().__init__(judged)
        self.summary, self.spending = summary, spending

    def __repr__(self) -> str:
        lines = [f"{counted(len(self), 'result')}, one for each answer and metric:"]
        for column in self.summary.columns:
            mean, interval, scored = column_cells(column)
            lines.append(f"{column.metric}, {column.system}: mean {mean}, 95% interval {interval}, {scored} scored")
        if self.spending.unasked:
            lines.append(f"{unjudged(self.spending)}: max_cost was reached")
        return "\n".join(map(one_line, lines))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each answer and metric, with the fields of `Judged`. Raises InputError without pandas."""
        with needed("pandas", "to_pandas"):
            import pandas
        frame = pandas.DataFrame([asdict(one) for one in self], columns=[field.name for field in fields(Judged)])
        return frame.astype(dict.fromkeys(NUMBERS, float))  # also if all are missing


def evaluate(
    source: Any,
    *,
    scorers: str | Scorer | Sequence[str | Scorer] | None = None,
    criteria: str | Path | Sequence[str | Path] = (),
    model: str | Path | None = None,
    against: str | None = None,
    names: Mapping[str, str | int | Sequence[str | int]] | None = None,
    join: Any = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    limit: int | None = None,
    sample: int | None = None,
    prices: str | Path | None = None,
    max_cost: float | None = None,
    trials: int = 1,
    variant: str | None = None,
    sampling: Sampling | None = None,
    structured: bool | None = None,
    embeddings: str | Path | None = None,
    embeddings_key_env: str | None = None,
    claim_checker: str | Path | None = None,
    bert_score: str | Path | None = None,
    encoding: str | None = None,
    skip_bad_rows: bool = False,
    **calls: Any,
) -> Results:
    """Score every answer of a file, a DataFrame, a `datasets.Dataset` or a list of dicts.

    It does what `rag-zeval evaluate` does. You may call it from any thread. You may also call it while an event loop is
    running, as in a notebook, but it blocks the loop; `aevaluate` does not.

        results = evaluate(frame, model="openai:gpt-4o-mini", against="contexts")
        results.to_pandas().groupby("system").score.mean()

    Args:
        source: The questions and answers, or the path of the file that holds them. The answers of several systems are
            in one source, with a column `system` that names them.
        scorers: One name, names with commas between them, or a list of names. A list may also hold scorers of your own
            (see `AnswerScorer`). Default: "rag_zeval", unless there are criteria.
        criteria: A criteria file (YAML) that makes a scorer of your own, or a list of such files. "relevance",
            "completeness" and "conciseness" are included.
        model: The judge: "openai:MODEL", "openai:MODEL@URL", or a folder; see `open_backend`.
        against: "contexts", "truth", "both" or "reference". Default: contexts if the source has them, otherwise the
            column `reference`, or else truth. A column that `names` chooses for "reference" comes first.
        names: For a field of ours, the column that holds it, or a path into objects such as "output.text". For
            "answer" it may be a list, if each system has a column of answers.
        join: Another file or object, such as that of the questions, or a tuple of several. Its columns are added to the
            rows with the same id, or else with the same question.
        out: A JSONL file for the result rows. After an interruption, the same call then resumes.
        cache: An SQLite file for the judge's replies, so that you pay for none twice. Default: a file beside `out` if a
            scorer other than `rag_zeval` asks a judge; otherwise none.
        limit: Judge only the first cases, this many. Default: all.
        sample: Judge only this many cases: from each slice its share, and always the same ones. Default: all.
        prices: A JSON file with prices in dollars per million tokens:
            `{"gpt-4o-mini": {"prompt": 0.15, "completion": 0.6}}`.
        max_cost: Stop asking the judge after this many dollars; this needs `prices`. A line on stderr says how many
            rows are then not judged, and so does `spending.unasked` of the result. With `out`, the same call with a
            larger value resumes. Default: no limit.
        trials: How often each case is judged.
        variant: The prompt of the `rag_zeval` scorer. Default: the one that the model was trained with, or the paper's.
        sampling: Temperature, top-p, the longest reply and the seed.
        structured: Whether to force the replies to `rag_zeval` into the JSON format. Default: as the judge's card says.
        embeddings: The embedding model, for scorers that need one: a folder, or "openai:MODEL@URL".
        embeddings_key_env: The NAME of the environment variable with its key. Default: OPENAI_API_KEY.
        claim_checker: The folder of a model that checks claims, for hhem, checked_sentences and checked_claims.
        bert_score: The folder of an encoder model, for the scorer bert_score.
        encoding: The encoding of a text file. Default: UTF-8, or UTF-16 with a byte order mark.
        skip_bad_rows: Leave out rows that cannot be read, and count them.
        **calls: How an endpoint is called: concurrency, timeout, connect_timeout, max_body_mib, api_key_env and
            extra_body; for a local judge, processes. `open_backend` explains them.

    Returns:
        A list with one `Judged` for each answer and metric. It goes metric by metric, each in the order of the cases.
            Answers that `max_cost` left out have no score. Its `summary` has the means, its `spending` the tokens, and
            the dollars if there are `prices`.

    Raises:
        InputError: If a source, scorer, criteria file, model or result file cannot be used; before any call. Also if
            the judge cannot be reached or refuses the key, and if the first 20 requests to it failed; `out` then has
            the rows that are finished.
        OSError: If a file cannot be written: `out`, or without it one in the folder for temporary files.
        TypeError: For an unknown keyword, also if no judge is asked.
    """
    if "account" in calls:
        raise TypeError("evaluate() got an unexpected keyword argument 'account'")
    signature(open_backend).bind(model, **calls)
    chosen = chosen_scorers(scorers, criteria)
    asking = Asking(sampling or Sampling(), variant, structured)
    judge, embedder, checker, encoder = (
        None if spec is None else str(spec) for spec in (model, embeddings, claim_checker, bert_score)
    )
    listed = read_prices(prices) if prices is not None else {}
    account = open_account(judge, price_of(judge, listed), max_cost)
    judges = Judges(
        judge,
        asking=asking,
        trials=trials,
        embeddings=embedder,
        claim_checker=checker,
        bert_score=encoder,
        calls=calls,
        account=account,
        embeddings_key_env=embeddings_key_env,
    )
    check_scorers(chosen, judges)
    read = read_cases(
        source,
        names,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        judged=need_texts(chosen),
        against=against,
        join=join,
    )
    print(read, file=sys.stderr)
    run = plan_run([read], chosen, against, judges, limit, sample)
    spending = Spending(prices_of_rows(judge, listed))
    for line in judged_by(run):
        print(line, file=sys.stderr)
    with tempfile.TemporaryDirectory() if out is None else nullcontext("") as folder:
        path = Path(folder, "results.jsonl" if out is None else out)
        kept = reply_cache(path, chosen) if cache is None else Path(cache)
        with score(run, path, kept, spending) as rows:
            results = Results(over_trials(rows), summarize(rows), spending)
    if max_cost is not None and spending.unasked:
        print(stopped(max_cost, spending, kept=bool(out or cache)), file=sys.stderr)
    return results


aevaluate = awaitable(
    evaluate,
    """Do what `evaluate` does, with the same keywords and results, and leave the event loop free meanwhile.

    Cancelling it ends all requests; the rows that are finished are kept in `out`.

        results = await aevaluate(frame, model="openai:gpt-4o-mini", against="contexts")
    """,
)
