"""A question with what a RAG system made of it, and the example that a scorer sees of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import BETWEEN, NOUNS
from rag_zeval.text import content_hash, is_blank, text_id

REFERENCE, CONTEXTS, TRUTH = "reference", "contexts", "truth"
SOURCES = (CONTEXTS, TRUTH, REFERENCE)  # of what to judge by
ALL, NO_SLICE = "all", "(none)"  # what tables call all cases, and the slice of those without a tag


@dataclass(frozen=True)
class Case:
    """A question, what was retrieved for it, and the answers of one or more systems.

    answers: text by system; judged together, by one reference. contexts: retrieved chunks, best first, and
    `context_ids` theirs. truth: the true answer. reference: the text to judge by, where the file itself says which.
    gold_chunk_ids: the chunks that hold the answer. latency_s: seconds that the system took. unanswered: for systems
    without an answer, whose text is "", why: "no answer", or more, such as "no answer: HTTP 429: slow down".
    cost_usd: what the system's answer cost.
    """

    id: str
    question: str
    answers: Mapping[str, str]
    contexts: tuple[str, ...] = ()
    truth: str | None = None
    reference: str | None = None
    slice_tag: str | None = None
    context_ids: tuple[str, ...] = ()
    gold_chunk_ids: tuple[str, ...] = ()
    latency_s: float | None = None
    unanswered: Mapping[str, str] = field(default_factory=dict)
    cost_usd: float | None = None

    @property
    def golden(self) -> dict[str, str]:
        """The hash of each text of a golden set that the case has: it is the same in every version of the system."""
        return golden_hashes(self.question, self.truth, self.gold_chunk_ids)

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """An id for each of the contexts: the file's, or one made of its text where the file does not give all."""
        if len(self.context_ids) == len(self.contexts):
            return self.context_ids
        return tuple(text_id("c", context) for context in self.contexts)

    def source(self, against: str) -> str | None:
        """The text to judge by: the reference, the true answer, or all contexts; None where nothing is seen in it."""
        texts = {CONTEXTS: BETWEEN.join(self.contexts), TRUTH: self.truth, REFERENCE: self.reference}
        return None if is_blank(texts[against]) else texts[against]


def golden_hashes(question: str | None, truth: str | None, gold_chunk_ids: Sequence[str]) -> dict[str, str]:
    """A hash of each text that is there. White space and the order of ids do not count.

    >>> golden_hashes("Why?", None, ["b", "a"]) == golden_hashes(" Why?", None, ["a", "b"])
    True
    """
    texts = {
        "question": " ".join((question or "").split()),
        "truth": " ".join((truth or "").split()),
        "gold_chunk_ids": sorted(gold_chunk_ids),
    }
    return {name: content_hash(text) for name, text in texts.items() if text}


def set_version(rows: Iterable[Mapping[str, str]]) -> str:
    """What a set of questions is called: 12 hex digits that stand for its rows, in any order.

    rows: the hashes of each (`golden_hashes`). Sets with the same questions, true answers and gold chunks have the same
    version, whatever their ids and slices are.
    """
    return content_hash(sorted(content_hash(sorted(row.items())) for row in rows))[:12]


def edited(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The fields of a row that have another hash; one that either lacks is not compared.

    >>> edited({"question": "a", "truth": "b"}, {"question": "a", "truth": "c", "gold_chunk_ids": "d"})
    ['truth']
    """
    return [name for name in before if name in now and before[name] != now[name]]


class CaseSet:
    """The cases of one command, in the order of its files. `keys` names each of them in a result file.

    Raises InputError if two of one system have the same id.
    """

    def __init__(self, cases: Sequence[Case]):
        self.cases = cases
        several = len({case.id for case in cases}) < len(cases)  # several systems, each with contexts of its own
        self.keys = [f"{', '.join(case.answers)}:{case.id}" if several else case.id for case in cases]
        if len(set(self.keys)) < len(cases):
            twice = Counter(self.keys).most_common(1)[0][0]
            raise InputError(
                f"duplicate id '{twice}' in two files of one system: name the systems, as in old=a.csv new=b.csv"
            )

    def sources(self, against: str | None, judged: bool = True) -> list[str]:
        """What to judge by: "reference", "contexts", "truth", or "both" of the last two; None: what the cases have.

        judged: whether there must be something to judge by. Raises InputError if no case has it.
        """
        if against not in (None, "both", *SOURCES):
            raise InputError(f"--against {against}: must be one of {', '.join(SOURCES)}, both")
        there = [source for source in (REFERENCE, CONTEXTS, TRUTH) if any(case.source(source) for case in self.cases)]
        wanted = [CONTEXTS, TRUTH] if against == "both" else [against] if against else there[:1]
        if judged and not wanted:
            raise InputError("no case has a reference, retrieved contexts or ground truth to judge by")
        for source in wanted:
            if source not in there:
                raise InputError(f"--against {against}: no case has any {NOUNS[source]}")
        return wanted

    def example(self, at: int, against: str) -> Example:
        """What a scorer sees of a case; its reference is blank where the case has nothing of that kind."""
        case = self.cases[at]
        answers, reference = tuple(case.answers.values()), case.source(against) or ""
        unanswered = tuple(case.unanswered.get(system, "") for system in case.answers) if case.unanswered else ()
        return Example(self.keys[at], case.question, reference, answers, case.truth, case.contexts, against, unanswered)
