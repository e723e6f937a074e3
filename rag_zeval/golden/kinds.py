"""Which metric of a result file says how faithful, relevant or correct answers are, if the user names none."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from rag_zeval.decisions.amounts import less_is_better

# Patterns for the names of metrics of a kind, best first.
FAITHFULNESS = (
    "rag_zeval(@contexts)?", ".*(faithful|grounded)[^@]*(@contexts)?", "(?!.*relevan).+@contexts",
)  # fmt: skip
RELEVANCE = ("(?![^@]*context)[^@]*relevan.*", "ccrs_qr")
CORRECTNESS = ("rag_zeval@truth", ".*correct.*", ".+@truth")


def metric_of(patterns: Sequence[str], names: Iterable[str]) -> str | None:
    """Return the most frequent name among those that match the first pattern with any match; None if none matches.

    Of equally frequent names it is the first. Metrics for which lower is better are not chosen, because a reader takes
    a high value for a good one.
    """
    there = [name for name in names if not less_is_better(name)]
    for pattern in patterns:
        counts = Counter(name for name in there if re.fullmatch(pattern, name))
        if counts:
            return counts.most_common(1)[0][0]
    return None
