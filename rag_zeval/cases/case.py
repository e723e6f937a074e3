"""Cases: questions with the answers of RAG systems, and the examples that scorers get from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import BETWEEN, NOUNS
from rag_zeval.text import content_hash, is_blank, text_id

REFERENCE, CONTEXTS, TRUTH = "reference", "contexts", "truth"
SOURCES = (CONTEXTS, TRUTH, REFERENCE)  # kinds of reference
T = TypeVar("T")
ALL, NO_SLICE = "all", "(none)"  # in tables: all cases, and the slice of cases without a tag


def slice_name(tag: str | None) -> str:
    """Return the name of a slice in a table that also has a row of all cases. No slice is called ALL."""
    return f"{ALL} (slice)" if tag == ALL else tag or NO_SLICE


def by_slice(items: Iterable[T], tag: Callable[[T], str | None]) -> list[tuple[str, list[T]]]:
    """Return all items, then those of each slice, sorted by its name. There are no slices if no item has a tag."""
    everything = list(items)
    slices: dict[str, list[T]] = {}
    for item in everything:
        slices.setdefault(slice_name(tag(item)), []).append(item)
    return [(ALL, everything), *(sorted(slices.items()) if set(slices) != {NO_SLICE} else [])]


@dataclass(frozen=True)
class Case:
    """A question, its retrieved contexts, and the answers of one or more systems.

    answers: the text of each system's answer. They are judged together, by one reference.
    contexts: the retrieved contexts, best first. `context_ids` are their ids.
    truth: the ground truth.
    reference: the text to judge by, if the file gives one.
    gold_chunk_ids: the chunks that hold the answer.
    latency_s: seconds that the system took to answer.
    unanswered: for each system without an answer, the reason: "no answer", or more, such as
    "no answer: HTTP 429: slow down". In `answers` its text is "".
    cost_usd: what the system's answer cost.
    nothing_retrieved: whether the file says that nothing was retrieved. Its list of ids is empty, and is not missing.
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
    nothing_retrieved: bool = False

    @property
    def golden(self) -> dict[str, str]:
        """The hashes of the golden-set fields that the case has. They are the same in every version of the system."""
        return golden_hashes(self.question, self.truth, self.gold_chunk_ids)

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """An id for each retrieved context.

        The ids are those of the file. Unless the file has one for every context, all are derived from the texts.
        """
        if len(self.context_ids) == len(self.contexts):
            return self.context_ids
        return tuple(text_id("c", context) for context in self.contexts)

    def source(self, against: str) -> str | None:
        """Return the text to judge by: the reference, the ground truth, or all retrieved contexts. None if it is blank.

        against: one of SOURCES.
        """
        texts = {CONTEXTS: BETWEEN.join(self.contexts), TRUTH: self.truth, REFERENCE: self.reference}
        return None if is_blank(texts[against]) else texts[against]


def golden_hashes(question: str | None, truth: str | None, gold_chunk_ids: Sequence[str]) -> dict[str, str]:
    """Return a hash of each field that is not empty. White space and the order of ids make no difference.

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
    """Return the version of a set of questions: a hash of its rows, in any order, as 12 hex digits.

    rows: the hashes of each row, from `golden_hashes`. Sets with the same questions, ground truth and gold chunks have
    the same version. Ids of questions and slices make no difference.
    """
    return content_hash(sorted(content_hash(sorted(row.items())) for row in rows))[:12]


def never_match(lists: Iterable[tuple[Iterable[str], Iterable[str]]]) -> str | None:
    """Return a note if no retrieved id is a gold chunk of any question: there are none, or their names differ in kind.

    lists: for each question, the ids of the retrieved chunks and of the gold chunks.
    """
    retrieved: dict[str, None] = {}
    gold: dict[str, None] = {}
    for found, wanted in lists:
        retrieved |= dict.fromkeys(found)
        gold |= dict.fromkeys(wanted)
    if not gold or retrieved.keys() & gold.keys():
        return None
    if not retrieved:
        return "no question has a retrieved id. Check that the ids were taken from your system's responses"
    shown, named = next(iter(retrieved)), next(iter(gold))
    return (
        f"no retrieved id, such as {shown!r}, is a gold chunk of any question, such as {named!r}. "
        "Check that both name the same chunks"
    )


def edited(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the fields whose hashes differ. A field that is missing before or now is not compared.

    >>> edited({"question": "a", "truth": "b"}, {"question": "a", "truth": "c", "gold_chunk_ids": "d"})
    ['truth']
    """
    return [name for name in before if name in now and before[name] != now[name]]


def named_sources(against: str | None) -> list[str]:
    """Return the kinds of reference that `--against` names: none, one, or for "both" the contexts and the truth.

    Raises InputError for another word.
    """
    if against not in (None, "both", *SOURCES):
        raise InputError(f"--against {against}: must be one of {', '.join(SOURCES)}, both")
    return [CONTEXTS, TRUTH] if against == "both" else [against] if against else []


class CaseSet:
    """The cases of one command, in the order of its files. `keys` are their ids in a result file.

    Raises InputError if two cases of the same system have the same id.
    """

    def __init__(self, cases: Sequence[Case]):
        self.cases = cases
        several = len({case.id for case in cases}) < len(cases)  # a case per system, each with its own contexts
        self.keys = [f"{', '.join(case.answers)}:{case.id}" if several else case.id for case in cases]
        if len(set(self.keys)) < len(cases):
            twice = Counter(self.keys).most_common(1)[0][0]
            raise InputError(
                f"duplicate id '{twice}' in two files of one system: name the systems, as in old=a.csv new=b.csv"
            )

    def sources(self, against: str | None, judged: bool = True) -> list[str]:
        """Return the kinds of reference to judge by: one or two of SOURCES, or none if there is nothing to judge by.

        against: one of SOURCES, or "both": first the contexts, then the truth. None chooses the first of
        reference, contexts and truth that a case has.
        judged: whether it is an error if no case has a reference of any kind.

        Raises InputError for another `against`, and if no case has the kind that it names.
        """
        named = named_sources(against)
        there = [source for source in (REFERENCE, CONTEXTS, TRUTH) if any(case.source(source) for case in self.cases)]
        wanted = named or there[:1]
        if judged and not wanted:
            told = "no case has a reference, retrieved contexts or ground truth to judge by"
            raise InputError(f"{told}. To judge the answers without any, add --criteria relevance")
        for source in wanted:
            if source not in there:
                raise InputError(f"--against {against}: no case has any {NOUNS[source]}")
        return wanted

    def example(self, at: int, against: str) -> Example:
        """Return case number `at` as a scorer gets it. Its reference is "" if the case has none of that kind."""
        case = self.cases[at]
        answers, reference = tuple(case.answers.values()), case.source(against) or ""
        unanswered = tuple(case.unanswered.get(system, "") for system in case.answers) if case.unanswered else ()
        return Example(self.keys[at], case.question, reference, answers, case.truth, case.contexts, against, unanswered)
