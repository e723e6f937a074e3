"""Texts that may not mean what they say, of which we warn: texts cut off or misread, an error in place of an answer."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from rag_zeval.cases.case import Case
from rag_zeval.cases.cells import are_labels
from rag_zeval.cases.excel import Formatted
from rag_zeval.cases.fields import FIELDS
from rag_zeval.cases.names import PLACEHOLDERS, TOTALS
from rag_zeval.cases.printed import prints_object
from rag_zeval.cases.texts import is_label
from rag_zeval.replies.thoughts import final_texts

LOST_LETTER = "\ufffd"
LONGEST_CELL = 32_767  # characters that Excel keeps of a text
SHORTEST_CUT = 100  # characters of texts that were cut off, so that several have the same length
LONGEST_CUT = 300  # characters; of several contexts in a row, longer ones of one length may be chunks of a fixed size
FEW = 3  # texts
LONG_CONTEXT = 30  # characters of a context that no question contains by chance
SLOW = 300  # seconds that few people wait for an answer
LONGEST_ERROR = 500  # characters; a longer answer may well be about errors
# What systems return in place of an answer. Words such as "too many requests" may be in an answer, but not begin it.
ERROR = re.compile(
    r"\A\W*error(?: code)?:|\A\W*(?:\w+ ){0,2}error\W{1,3}[45]\d\d\b|error code: \d{3} -"
    r"|\A\W*(?:\w+ ){0,3}failed:|\A\{['\"]error['\"]:|traceback \(most recent call last\)"
    r"|(?-i:\A[A-Z]+_(?:[A-Z]+_)*(?:ERROR|FAILED|TIMEOUT|UNAVAILABLE)\b)"
    r"|\A\w+(?:Error|Exception)[:(\[]|\b(?:limit|quota) (?:was |has been )?(?:exceeded|reached)"
    r"|\A[a-z]* ?(?:\d{3})?\W*(?:too many requests|internal server error|service unavailable|gateway time-?out)",
    re.IGNORECASE,
)
# What people put between the contexts of one text: bars, dashes and the like, a tag, or numbers before them. A row of
# dashes may be in a table, ### is a heading and === an operator.
SEVERAL_CONTEXTS = re.compile(
    r"\|\|\||\[SEP\]|</?(?:sep|doc|document|passage|context|chunk)\b[^<>]*>|^[ \t]*[-=*#~+]{3,}[ \t]*$"
    r"|(?<=[^\s|])[ \t]+[-*~+]{3,}[ \t]+(?=[^\s|])|^>>> ?From:"
    r"|\A\W{0,3}((?:doc|document|passage|context|chunk|source)?[ \t#]{0,3})1\b(?s:.+)^\W{0,3}\1 ?2\b",
    re.IGNORECASE | re.MULTILINE,
)


def is_misread(text: str) -> bool:
    """Whether a text holds the mark of a lost letter, or is UTF-8 that was read in a Western encoding: `MÃ¼nchen`."""
    for encoding in () if text.isascii() else ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            text.encode(encoding).decode()
            return True
    return LOST_LETTER in text


@dataclass(frozen=True)
class Doubt:
    """What texts of some fields may be instead of what they seem to be.

    said: what such texts do, with {text} for the first of them and {texts} for all that differ.
    share: the doubt is told if at least this share of the texts is such. Unless it is 0, two must be.
    longer: texts with at most this many characters do not count.
    """

    fields: tuple[str, ...]
    is_such: Callable[[str], object]
    said: str
    share: float = 0.0
    longer: int = -1


QUESTION, ANSWER, OTHERS = ("question",), ("answer",), ("contexts", "truth")
ALL = (*QUESTION, *ANSWER, *OTHERS)
DOUBTS = (
    Doubt(
        (*ANSWER, *OTHERS),
        lambda text: text.strip().lower() in PLACEHOLDERS,
        "say {texts}, which is read as a text",
    ),
    Doubt(
        ALL,
        lambda text: len(text) == LONGEST_CELL,
        f"have {LONGEST_CELL:,} characters, the most that Excel keeps; the texts may be cut off",
    ),
    Doubt(
        ALL,
        lambda text: text.rstrip().endswith(("...", "…")),
        "end in '...'; the texts seem to be cut off",
        share=0.9,
        longer=30,
    ),
    Doubt(
        ALL,
        lambda text: isinstance(text, Formatted),
        "are dates, or numbers in a format such as $12, read as '{text}'; if that is wrong, make them texts",
    ),
    Doubt(
        (*QUESTION, *ANSWER),
        lambda text: prints_object(text, or_list=True),
        "print a list or object, which is read as a text: {text}",
    ),
    Doubt(
        OTHERS,
        lambda text: prints_object(text, or_list=False),  # a chunk may well be JSON
        "print a list or object, which is read as a text: {text}",
    ),
    Doubt(ALL, is_misread, "seem to have lost letters when the file was saved or read: {text}"),
    Doubt(
        ANSWER,
        lambda text: len([*final_texts(text)]) > 1,
        "hold the thoughts of a model, which are judged, too: {text}",
    ),
    Doubt(
        ANSWER,
        lambda text: len(text) <= LONGEST_ERROR and ERROR.search(text),
        "seem to be errors, which are judged as answers; if they are, empty these cells: {text}",
    ),
    Doubt(
        QUESTION,
        lambda text: text.strip(" :").lower() in TOTALS,
        "say {texts}; if that is a row of totals, remove it: it is judged, too",
    ),
)


def doubts(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words each doubt about the texts of the fields in `ALL`, and how many of them it is about."""
    texts: Mapping[str, Sequence[str]] = {
        "question": [case.question for case in cases],
        "answer": [text for case in cases for text in case.answers.values()],
        "contexts": [text for case in cases for text in case.contexts],
        "truth": [case.truth or "" for case in cases],
    }
    for doubt in DOUBTS:
        for field in doubt.fields:
            of = [text for text in texts[field] if len(text) > doubt.longer]
            found = [text for text in of if doubt.is_such(text)]
            if found and (not doubt.share or len(found) >= max(2, doubt.share * len(of))):
                said = doubt.said.format(text=found[0], texts=" or ".join(map(repr, dict.fromkeys(found))))
                yield f"{FIELDS[field]}: {len(found)} of {len(of)} {said}"
    are_chunks = any(len(case.contexts) > 1 for case in cases)
    for field in ALL:
        yield from _cut_off(field, texts[field], are_chunks and field == "contexts")


def _cut_off(field: str, texts: Sequence[str], are_chunks: bool) -> Iterator[str]:
    """Yield in words that at least half of a field's texts have exactly the same, greatest length."""
    most = max(map(len, texts), default=0)
    longest = [text for text in texts if len(text) == most and not text.endswith(("...", "…"))]
    is_cut = 2 * len(longest) >= len(texts) and len({*longest}) >= FEW
    if is_cut and most >= SHORTEST_CUT and not (are_chunks and most > LONGEST_CUT):
        yield f"{FIELDS[field]}: {len(longest)} of {len(texts)} have exactly {most} characters; they seem to be cut off"


def labels(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words that the retrieved contexts or the references are no texts."""
    contexts = [text for case in cases for text in case.contexts]
    words = [word for case in cases for word in (case.reference or "").split() if not word.isdecimal()]
    for name, texts, are_such in (
        ("retrieved contexts", contexts, are_labels(contexts)),
        ("references", words, all(map(is_label, words))),
    ):
        if texts and are_such:
            yield f"the {name} look like ids, links, titles or names of files, not texts: '{texts[0]}'"


def several_contexts(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words that most retrieved contexts seem to be several in one text."""
    contexts = [case.contexts for case in cases if case.contexts]
    joined = [one[0] for one in contexts if len(one) == 1 and SEVERAL_CONTEXTS.search(one[0])]
    if 2 * len(joined) > len(contexts) and all(len(one) == 1 for one in contexts):
        said = f"{len(joined)} of {len(contexts)} seem to be several in one text, which is read as one"
        yield f"retrieved contexts: {said}; to separate them, write a JSON list: {joined[0]}"


def whole_prompts(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words how many questions contain a retrieved context that is too long to be there by chance."""
    long = [[one.strip() for one in case.contexts if len(one.strip()) >= LONG_CONTEXT] for case in cases]
    found = [case for case, contexts in zip(cases, long, strict=True) if any(one in case.question for one in contexts)]
    if found:
        said = f"{len(found)} of {len(cases)} contain a retrieved context"
        yield f"question: {said}; if it is the whole prompt, add --map question=COLUMN"


def same_answers(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words that a system gives the same answer to all of several questions."""
    answers: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        for system, text in case.answers.items():
            answers[system].append(text)
    asked = len({case.question for case in cases})
    for system, texts in answers.items():
        if asked >= FEW and texts[0] and len({*texts}) == 1:
            yield f"answer: all {len(texts)} of {system} are the same; if it is an error, empty these cells: {texts[0]}"


def milliseconds(cases: Sequence[Case]) -> Iterator[str]:
    """Yield in words that the latencies are too long for seconds."""
    latencies = [case.latency_s for case in cases if case.latency_s is not None]
    if latencies and (middle := median(latencies)) >= SLOW:
        said = f"half of them are {middle:,.0f} or more"
        yield f"{FIELDS['latency_s']}: {said}; if these are milliseconds, divide them by 1,000"


def several_truths(number: int, rows: int, column: str) -> Iterator[str]:
    """Yield in words that some rows hold several ground truths, unless the column's name says that all are right."""
    if number and not column.lower().endswith("answers"):
        said = f"{number} of {rows} rows hold several texts, of which the first is used"
        yield f"{FIELDS['truth']}: {said}; if they are parts of one, join them"
