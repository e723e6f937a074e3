"""Tells what the columns that hold none of our fields seem to hold, with the option to type."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_zeval.cases.cells import is_nothing
from rag_zeval.cases.fields import DOUBLES, FIELDS, OBJECTS
from rag_zeval.cases.name_words import is_about_truth, misspelt_field
from rag_zeval.cases.names import UNNAMED, field_of, plain_name, snake_name
from rag_zeval.cases.paths import at_path, numbered, option, pattern_of, stem_of
from rag_zeval.cases.places import Place
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.survey import Survey
from rag_zeval.cases.systems import answers_of_systems, several_answers
from rag_zeval.cases.texts import is_flag
from rag_zeval.cases.wanted import Wanted
from rag_zeval.files import Row

TOLD = ("question", "answer", "answers", "contexts", "truth", "reference", "id", "system")  # fields to warn about
UNNAMED_TEXTS = "it holds texts but has no name; columns of contexts are named context_1, context_2, ..."


@dataclass(frozen=True)
class Unused:
    """The unused columns of a file.

    taken: for each field, the column or path that holds it. ambiguous: fields that several columns could hold.
    meant_otherwise: columns of a known layout that do not hold what their name says, and what they hold.
    """

    survey: Survey
    wanted: Wanted
    taken: Mapping[str, str]
    names: Sequence[str]
    ambiguous: Collection[str]
    meant_otherwise: Mapping[str, str]

    def told(self, free: Sequence[str], inside: Mapping[str, str], is_known: bool) -> dict[str, str]:
        """Return for some of the free columns, and for places inside objects, what they seem to hold.

        inside: for each field, a place with its name. is_known: whether a known tool wrote the file.
        """
        told = {}
        of_systems = self._answers_of_systems(free)
        if others := [name for name in of_systems if name in self.names]:
            told[others[0]] = f"if it holds another system's {FIELDS['answer']}, add {several_answers(of_systems)}"
        for name in free:
            count = self.survey.there[name]
            if count and name not in of_systems:
                told |= self._told_of(name)
            elif not (count or is_known) and field_of(name) == "answer" and "answer" in self.taken:
                told[name] = f"it is empty in every row, so '{self.taken['answer']}' is judged"
        for field in ("contexts", "truth"):
            is_open = self.taken.keys().isdisjoint((field, *DOUBLES.get(field, ())))
            if field in inside and field in self.wanted.wished and is_open:
                told.setdefault(inside[field], _advice(field, inside[field]))
        return told

    def _answers_of_systems(self, free: Sequence[str]) -> list[str]:
        """Return the columns that seem to hold the answers of several systems: free ones, and those of the answer."""
        judged = self.wanted.systems or [self.taken[field] for field in ("answer",) if field in self.taken]
        if "truth" not in self.taken:
            judged = [name for name in judged if plain_name(name) != "answer"]  # which may hold gold answers
        others = [] if self.wanted.is_of_questions else [name for name in free if name not in self.meant_otherwise]
        return answers_of_systems({name: self.survey.values(name) for name in (*judged, *others)}, judged)

    def _told_of(self, name: str) -> dict[str, str]:
        """Return what a column seems to hold, by its name or by that of its numbered group; {} if nothing."""
        if field_of(name) == "gold_chunk_ids" or self.survey.holds_ids("gold_chunk_ids", name):
            is_wanted = "gold_chunk_ids" in {*self.wanted.fields} - {*self.taken, *self.ambiguous}
            is_text = name not in self.survey.wrappers
            return {name: _advice("gold_chunk_ids", name)} if is_wanted and is_text else {}
        place = Place(name, self.survey.values(name))
        if place.values and all(is_flag(str(value)) for value in place.values):
            return {}
        field = ""
        if name in self.meant_otherwise:  # without a field for contexts, it may only seem to hold these
            told = f"it is {self.meant_otherwise[name]}" if "contexts" in self.wanted.fields else ""
        elif name.startswith(UNNAMED):
            told = UNNAMED_TEXTS if place.has_sentences else ""
        else:
            field = self._seeming(place)
            told = _advice(field, name) if field else ""
        if not told or (field == "contexts" and place.contradiction(field)) or self._is_copy(name):
            return {}
        group = pattern_of(name)  # such as context_*
        is_one = field != "contexts" or len(numbered(group, self.names)) < 2
        return {name: told} if is_one else {group: _advice(field, group)}

    def _seeming(self, place: Place) -> str:
        """Return which of the fields to warn about a column seems to hold, "" if its name does not say so."""
        name = place.path
        plain, snake = plain_name(name), snake_name(name)
        is_text = name not in self.survey.wrappers
        told = [one for one in TOLD if one in self.wanted.wished and (one in OBJECTS or is_text)]
        ends_so = plain.endswith(("_answer", "_response"))  # of a system, such as gpt4_answer
        begins_so = snake.startswith(("answer_", "response_"))  # such as answer_old, but not answer_relevancy
        if plain_name(place.last) == "answer" and "truth" not in self.taken:
            named = ["truth"]
        elif known := field_of(name) or field_of(stem_of(pattern_of(name))):
            named = [known]
        elif ends_so or (begins_so and not place.is_aside("truth") and place.has_sentences):
            is_gold = snake.endswith("_answers") or is_about_truth(name)  # such as possible_answers, human_answer
            named = ["truth" if is_gold else "answer"]
        elif like := misspelt_field(name):
            named = [like]
        else:
            free = [one for one in told if one not in self.taken]
            named = [one for one in free if place.says(one) or (one == "contexts" and place.is_passage)]
        return next((one for one in told if one in named), "")

    def _is_copy(self, name: str) -> bool:
        """Whether a column has the values of a used one in all rows, as the files of ragas may have."""

        def value(row: Row, path: str) -> Any:
            found = at_path(row, path)
            return None if is_nothing(found) else unfolded(found)

        sample = self.survey.sample
        own = [value(row, name) for row in sample]
        return any(
            all(value(row, column) == one for row, one in zip(sample, own, strict=True))
            for column in (self.taken.values() if any(one is not None for one in own) else ())
        )


def _advice(field: str, path: str) -> str:
    return f"if it holds the {FIELDS[field]}, add {option(field, path)}"
