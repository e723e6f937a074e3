"""The cases of one source, with the report on how they were read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rag_zeval.cases.case import Case, never_match
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.doubts import (
    doubts,
    labels,
    milliseconds,
    same_answers,
    several_contexts,
    several_truths,
    whole_prompts,
)
from rag_zeval.cases.joining import Joined
from rag_zeval.cases.paths import one_option
from rag_zeval.text import counted, one_line

MOST_SHOWN = 5  # skipped rows


@dataclass(frozen=True)
class CaseFile:
    """The cases of one source, and how they were read.

    unnamed: number of cases without an id in the file. Their id is derived from the question.
    left_out: for each skipped row, its place and the reason.
    system: the name that answers without a system got, if there are any.
    encoded: the columns in which every text was a JSON string, read without its quotation marks.
    several_truths: number of cases with several ground truths in the file, of which the first is used.
    naming: the unused columns that may name the system of each row, if one question has several answers.
    encoding: the encoding that the file seems to have instead of the one that was given.
    joined: the other files whose columns were added to the rows.
    """

    name: str
    cases: list[Case]
    columns: Columns
    unnamed: int = 0
    left_out: tuple[str, ...] = ()
    system: str | None = None
    encoded: tuple[str, ...] = ()
    several_truths: int = 0
    naming: tuple[str, ...] = ()
    encoding: str | None = None
    joined: tuple[Joined, ...] = ()

    @cached_property
    def several(self) -> int:
        """The number of questions that one system seems to answer in several ways."""
        if self.columns.of.keys() & {"answers", "run"}:
            return 0
        answers = {(case.question, *case.answers.items()) for case in self.cases}
        asked = Counter((question, *(system for system, _ in of)) for question, *of in answers)
        return len({question for (question, *_), number in asked.items() if number > 1})

    def lines(self) -> Iterator[str]:
        """Yield the report on the file: which column holds each field, in how many cases, and what is not used."""
        count = len(self.cases)
        yield f"{self.name}: {count} {'case' if count == 1 else 'cases'} ({self.columns.layout})"
        for joined in self.joined:
            yield f"  {joined}"
        yield from self.columns.lines(self._count, count)
        if self.unnamed:
            missing = f"missing in {self.unnamed} of {counted(count, 'case')}"
            yield f"  id: {missing}; these are paired with other files by their question"
        if self.system is not None:
            yield f"  system: '{self.system}', for answers that name none"
        if self.encoded:
            yield f"  JSON strings, read without their quotation marks: {', '.join(map(repr, self.encoded))}"
        yield from self.columns.unread_lines()
        if self.left_out:
            yield f"  skipped: {counted(len(self.left_out), 'bad row')}"
            yield from (f"  - {reason}" for reason in self.left_out[:MOST_SHOWN])
            if (more := len(self.left_out) - MOST_SHOWN) > 0:
                yield f"  - and {more} more"
        for warning in self._warnings():
            yield f"  warning: {warning}"

    def _warnings(self) -> Iterator[str]:
        """Yield what may not be as it seems. All texts are judged as they are."""
        if self.encoding:
            yield f"it looks like {self.encoding}; if the texts look wrong, give --encoding {self.encoding}"
        yield from labels(self.cases)
        ids = [(case.context_ids, case.gold_chunk_ids) for case in self.cases]
        if any(retrieved for retrieved, _ in ids) and (why := never_match(ids)):
            yield why
        yield from doubts(self.cases)
        yield from several_truths(self.several_truths, len(self.cases), self.columns.of.get("truth", ""))
        yield from same_answers(self.cases)
        yield from several_contexts(self.cases)
        yield from whole_prompts(self.cases)
        yield from milliseconds(self.cases)
        if self.several:
            said = f"several answers to {counted(self.several, 'question')}, each judged as a case of its own"
            if "system" in self.columns.of:
                yield f"{said}, although they are of the same system"
            else:
                way_out = (
                    f"add {one_option('system', self.naming)}" if self.naming else "name these in a column 'system'"
                )
                yield f"{said}; if they are of several systems, or versions of one, {way_out}"
        for field in ("contexts", "truth"):
            if field in self.columns.of and not self._count(field):
                yield f"column '{self.columns.of[field]}' is empty in every row"
        answered = [case for case in self.cases if any(case.answers.values())]
        texts = {(case.question, *case.answers.items(), case.contexts) for case in answered}
        if repeated := len(answered) - len(texts):
            said = f"{counted(repeated, 'case')} with the question, answer and contexts of another"
            yield f"{said}; all are judged"
        yield from self.columns.warnings()

    def _count(self, name: str) -> int:
        """Return the number of cases for which the file has a value of this field."""
        if name == "id":
            return len(self.cases) - self.unnamed
        if name == "system":
            return sum(self.system not in case.answers for case in self.cases)
        if name in ("answer", "answers"):
            return sum(len(case.answers) > len(case.unanswered) for case in self.cases)
        return sum(getattr(case, name) not in (None, ()) for case in self.cases)

    def __str__(self) -> str:
        return indented(self.lines())


def indented(lines: Iterator[str]) -> str:
    """Return a report as one text, in which each line that is not the first is indented further."""
    return "\n".join(("  " if line.startswith(" ") else "") + one_line(line) for line in lines)
