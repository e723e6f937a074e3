"""Do our scorers rank real answers as the original packages do? `python -m experiments.peers.agreement`.

Each measure of an original package scores RAGChecker's 280 pairs of answers (`make data`), and so does our scorer of
the same name. Both ask the same judge, which is a word rule without a model (`word_judge`). The ground truth is the
reference and the only retrieved context. The first table compares the differences in score of each pair (second answer
minus first): Kendall's tau-b with a 95% bootstrap interval over pairs. The second lists why one score is missing, or
both.

Rows are kept in OUT_DIR, in files whose names change with the data, the scorer, the package and the word rule. Run the
same command again to resume; delete the folder to measure again.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from eval_benchmarks.bench import score
from eval_benchmarks.benchmark import FETCH
from eval_benchmarks.datasets.ragchecker_meta import FOLDER, RagcheckerMeta, score_delta
from eval_benchmarks.jobs import ORIGINAL_REPLIES, ScoringJob
from eval_benchmarks.originals.packages import ORIGINALS, PREFIX
from eval_benchmarks.originals.scorer import OriginalScorer
from experiments.peers.__main__ import SAME, markdown
from experiments.peers.endpoint import CountingJudge
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256
from rag_zeval.models.embeddings import OpenAIEmbedder
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.progress import Progress
from rag_zeval.results import SPENT
from rag_zeval.scorers.score import Score, Scored, Scorer
from rag_zeval.scoring.opening import Asking, Models, open_scorer
from rag_zeval.statistics.bootstrap import DRAWS, Correlation, interval
from rag_zeval.streams import command_line
from rag_zeval.text import content_hash, with_interval

MEASURES = [name.removeprefix(PREFIX) for name in ORIGINALS if "citation" not in name]  # these answers cite nothing
RULE = Path(__file__).with_name("word_judge.py")
TIMEOUT = 120.0  # seconds that an original package may take for an answer
ByExample = Mapping[str, Scored]


def both(name: str, benchmark: RagcheckerMeta, judge: CountingJudge, out: Path) -> tuple[ByExample, ByExample]:
    """Score the examples with our scorer and with the original of the same name."""
    chat, vectors = OpenAIBackend("judge", judge.url), OpenAIEmbedder("vectors", judge.url)
    ours = open_scorer(name, Models(chat, vectors), Asking())
    theirs = OriginalScorer(f"{PREFIX}{name}", chat, vectors, out / ORIGINAL_REPLIES, TIMEOUT)

    def scored(scorer: Scorer) -> ByExample:
        job = ScoringJob(benchmark, scorer, "word judge")
        made_of = content_hash(scorer.identity.replace(judge.url, ""), benchmark.data_hash, file_sha256(RULE))
        file = f"{scorer.name.replace(':', '-')}-{made_of[:8]}.jsonl"  # job.file has the port
        with Progress(Console(stderr=True)) as progress:
            return score(job, out / file, progress)

    return scored(ours), scored(theirs)


def compare(name: str, ours: ByExample, theirs: ByExample) -> tuple[list[str], list[list[str]]]:
    """Return the scorer's line of the first table, and its lines of the second."""
    ids = [id_ for id_ in ours if id_ != SPENT]
    deltas = [np.array([score_delta(side[id_]) for id_ in ids]) for side in (ours, theirs)]
    there = ~np.isnan(deltas[0]) & ~np.isnan(deltas[1])
    tau = Correlation("kendall", deltas[0], deltas[1][:, None])
    ends = interval(tau, there, DRAWS, seed=0) or (None, None)
    pairs = [*chain.from_iterable(zip(ours[id_].scores, theirs[id_].scores, strict=True) for id_ in ids)]
    scored = [(our.value, their.value) for our, their in pairs if our.value is not None and their.value is not None]
    same = sum(abs(our - their) <= SAME for our, their in scored)
    value = tau.point(there)
    shown = with_interval(None if np.isnan(value) else value, *ends)
    line = [name, f"{there.sum()}", shown, f"{len(scored)}", f"{same}", f"{len(pairs) - len(scored)}"]
    return line, [*_reasons(name, pairs)]


def _reasons(name: str, pairs: Sequence[tuple[Score, Score]]) -> list[list[str]]:
    """Return why answers have one score or none: our status, the original's score or status, and how often."""
    found = Counter(
        (our.status, their.status if their.value is None else f"{their.value:.3f}")
        for our, their in pairs
        if our.value is None or their.value is None
    )
    return [[name, *kind, str(times)] for kind, times in found.most_common()]


def agreement(
    out_dir: Annotated[Path, typer.Option(help="The folder for the rows.")] = Path("runs/peers/agreement"),
) -> None:
    data_dir = Path(os.environ.get("RAG_ZEVAL_DATA", "data"))
    if not (data_dir / FOLDER).is_dir():
        raise InputError(f"{data_dir / FOLDER} is missing; {FETCH}")
    benchmark = RagcheckerMeta(data_dir)
    benchmark.examples = [replace(example, chunks=(example.reference,)) for example in benchmark.examples]
    judge, lines, reasons = CountingJudge(), [], []
    judge.delay = 0.0
    for name in MEASURES:
        original = ORIGINALS[f"{PREFIX}{name}"]
        if not original.is_installed:
            print(f"{name}: run `make {original.environment}/.ready`", file=sys.stderr)
            continue
        line, why = compare(name, *both(name, benchmark, judge, out_dir))
        lines.append(line)
        reasons += why
    judge.close()
    print(markdown(["scorer", "pairs", "tau-b [95%]", "answers with both scores", "equal", "one score or none"], lines))
    print()
    print(markdown(["scorer", "our status", "the original's score or status", "answers"], reasons))


main = command_line(agreement, "experiments.peers.agreement", __doc__)

if __name__ == "__main__":
    sys.exit(main())
