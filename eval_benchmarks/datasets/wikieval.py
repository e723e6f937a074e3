"""WikiEval: does a scorer prefer the grounded answer to one that is not (Es et al. 2023, arXiv:2309.15217)?

The reference is `context_v1`. Both negatives are reported, because only against `poor_answer` do we get the published
values of lexical scorers.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import FETCH, Benchmark, Metric, Pair, better_first, examples_hash, pairwise_metrics
from rag_zeval.errors import InputError
from rag_zeval.files import FieldTypes, Row, iter_jsonl
from rag_zeval.judge.example import Example
from rag_zeval.scorers.score import Scored

FOLDER = "wikieval"
NEGATIVES = ("poor_answer", "ungrounded_answer")
TEXTS = ("question", "answer", *NEGATIVES)
FIELDS: FieldTypes = {**dict.fromkeys(TEXTS, str), "context_v1": (list, str)}
ALL_ROWS = 50  # rows of the whole benchmark; a folder may hold a sample
PREFIXES = ("Answer:", "Question:")


class Wikieval(Benchmark):
    """The benchmark in `data_dir/wikieval/*.jsonl`. Raises InputError if the data do not fit.

    A question that is in several files (such as a sample and the whole set) counts once. In every other row the
    grounded answer comes first, so that neither letter is favoured when a judge sees both answers.
    """

    name = "wikieval"
    no_human = "the data say which answer was written to be grounded, but hold no annotator's judgement"

    def __init__(self, data_dir: Path):
        rows: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {}
        for path in sorted((data_dir / FOLDER).glob("*.jsonl")):
            for line, row in iter_jsonl(path, FIELDS):
                texts = {name: clean(row[name]) for name in TEXTS}
                rows.setdefault(texts["question"], (_passages(f"{path}:{line}", row), texts))
        if not rows:
            raise InputError(f"{data_dir / FOLDER}: the files hold no rows")
        self.examples: list[Example] = []
        self._good_first: dict[str, bool] = {}
        for number, (passages, texts) in enumerate(rows.values()):
            reference = "\n".join(passages)
            for negative in NEGATIVES:
                pair = (texts["answer"], texts[negative])
                id_, good_first = f"{number}-{negative}", number % 2 == 0
                self._good_first[id_] = good_first
                answers = pair if good_first else pair[::-1]
                self.examples.append(Example(id_, texts["question"], reference, answers, chunks=passages))
        self.data_hash = examples_hash(self.examples, self._good_first)

    def scores(self, scored: Mapping[str, Scored], negative: str) -> list[Pair]:
        """Return (the grounded answer's score, the other's) for each row that has both."""
        return [pair for pair in self._pairs(scored, negative) if pair is not None and None not in pair]

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Return the share of rows in which the grounded answer scores higher.

        Metrics: `<negative>/pairwise_best|middle|worst`.
        """
        metrics = []
        for negative in NEGATIVES:
            metrics += pairwise_metrics(self._pairs(scored, negative), f"{negative}/")
        return metrics

    def _pairs(self, scored: Mapping[str, Scored], negative: str) -> list[Pair | None]:
        own = {id_: first for id_, first in self._good_first.items() if id_.endswith(f"-{negative}")}
        return [better_first(scored.get(id_), good_first) for id_, good_first in own.items()]


def load(settings: RunSettings) -> tuple[Wikieval | None, list[str]]:
    folder = Path(settings.data_dir) / FOLDER
    if not any(folder.glob("*.jsonl")):
        return None, [f"wikieval (Table 1, every scorer): data_dir/{FOLDER}/*.jsonl is missing; {FETCH}"]
    benchmark = Wikieval(Path(settings.data_dir))
    rows = len(benchmark.examples) // len(NEGATIVES)
    if rows < ALL_ROWS:
        return benchmark, [f"wikieval: {ALL_ROWS - rows} of its {ALL_ROWS} rows (published values are of all); {FETCH}"]
    return benchmark, []


def clean(text: str) -> str:
    """Remove "Answer:" or "Question:" before a text, and an unpaired quote at its end or beginning.

    Many texts on the hub have such a quote.
    """
    text = text.strip()
    for prefix in PREFIXES:
        text = text.removeprefix(prefix).strip()
    for quote in "'\"":
        marks = re.findall(rf"(?<!\w){quote}|{quote}(?!\w)", text)  # between letters it is an apostrophe
        if len(marks) % 2:  # a pair belongs to the text
            text = text.removesuffix(quote) if text.endswith(quote) else text.removeprefix(quote)
    return text.strip()


def _passages(place: str, row: Row) -> tuple[str, ...]:
    context = row["context_v1"]
    passages = [context] if isinstance(context, str) else context
    if not passages or not all(isinstance(passage, str) for passage in passages):
        raise InputError(f"{place}: field 'context_v1' must be a text or a list of texts")
    return tuple(passages)
