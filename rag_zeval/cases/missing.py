"""Suggests columns and paths for the fields that a file lacks, in the error message about them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rag_zeval.cases.cells import as_chunks, is_list, is_nothing
from rag_zeval.cases.chat import MESSAGES, SPEAKERS, role_of, spoken_by
from rag_zeval.cases.fields import CHECKED, FIELDS, TEXTS
from rag_zeval.cases.name_words import field_said_by, is_about_truth, is_no_name, misspelt_field, words_of
from rag_zeval.cases.names import NAMES, field_of, plain_name, snake_name
from rag_zeval.cases.paths import at_path, is_number, numbered, option, pattern_of, quoted_list, stem_of
from rag_zeval.cases.places import Place, lists_texts, places_in, texts_in, vary
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.systems import answers_of_systems, told_as_answers
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import one_line

TEXT_NAMES = {text for _, text in MESSAGES}
SHOWN = 60  # characters of a value that a message shows
QUESTIONS_ALONE = (
    "If these are questions without answers, `rag-zeval collect` asks your system, and `rag-zeval check-set` checks "
    "the questions. If the answers are in another file, add --join FILE"
)
GOLD_ANSWERS = (
    "If '{answer}' holds the right answers, and not those of your system, `rag-zeval check-set FILE {option}` checks "
    "the questions"
)


def missing_columns(
    lacking: Mapping[str, Collection[str]],
    taken: Mapping[str, str],
    there: Mapping[str, int],
    sample: Sequence[Row],
    others: Sequence[str],
    is_joined: bool,
) -> str:
    """Return the error message: the missing fields, the columns of the file, and what to do.

    lacking: for each missing field, the fields of which one would be enough. others: fields that are also suggested if
    they were not required, but only by their names. is_joined: whether the rows have columns of other files.
    """
    if not taken and (text := next(filter(is_no_name, there), None)):
        return f"the first line must name the columns, such as question,answer,contexts; '{text}' is no name"
    everywhere = places_in(sample)
    places = {path: place for path, place in everywhere.items() if path not in taken.values() and not place.is_judged}
    likely = {path: place for path, place in places.items() if not place.is_beside_truth}
    systems = answers_of_systems({path: one.values for path, one in likely.items()} if "answer" in lacking else {})
    likely = {path: place for path, place in likely.items() if path not in systems}
    named = {field: f"the {FIELDS[field]}" for field in lacking}
    options = {field: option(field, "COLUMN") for field in lacking}
    if either := "truth" in lacking.get("contexts", ()):
        named["contexts"] += f" or the {FIELDS['truth']}"
        options["contexts"] += f" or {option('truth', 'COLUMN')}"
    lacked = [field for field in lacking if field != "answer" or not systems]
    found = _Search(lacked, taken, likely, everywhere, sample).found(others)
    said = [f"no column found for {', '.join(named.values())}; columns: {quoted_list(there) or 'none'}"]
    known = {*taken, *found, *(["answer"] if systems else [])}
    unknown = [field for field, any_of in lacking.items() if known.isdisjoint(any_of)]
    rest = [place for path, place in places.items() if path not in (*systems, *found.values())]
    possible = [field for field in unknown if field not in TEXTS or _is_possible(field, rest, len(sample))]
    if "answer" in unknown and "question" in known:
        said.append(QUESTIONS_ALONE)
    are_elsewhere = "question" not in possible or "id" in taken
    if unknown[:1] == ["question"] and "answer" in {*known, *possible} and are_elsewhere:
        said.append("If the questions are in another file, add --join FILE")
    if systems:
        said.append(told_as_answers(systems))
    if found:
        typed = " ".join(option(field, path) for field, path in found.items())
        shown = ", ".join(f"'{path}' says '{_shown(field, path, sample)}'" for field, path in found.items())
        said.append(f"Add {typed}, if that is right: {shown}")
    is_elsewhere = {*unknown} <= {*CHECKED}
    if possible:
        column = f"If another column holds {_listed(named, possible)}, add {_listed(options, possible)}"
        said.append(f"{column}; if another file does, --join FILE" if is_elsewhere else column)
    elif unknown and is_elsewhere:
        are = "are" if "contexts" in unknown else "is"
        said.append(f"If {_listed(named, unknown)} {are} in another file, add --join FILE")
    dialogues = next((path for path, place in places.items() if place.are_dialogues), None)
    if dialogues and {"question", "answer"} & {*unknown}:
        said.append(f"'{dialogues}' seems to hold whole dialogues: write question and answer into columns of their own")
    if either and (unknown == ["contexts"] or "contexts" in possible):
        said.append("To judge the answers without either, add --criteria relevance")
    answer = taken.get("answer") or found.get("answer", "")
    is_set = "question" in known and not is_joined  # which `check-set` can read
    if _may_be_gold(answer) and "truth" not in known and "contexts" in lacking and is_set:
        said.append(GOLD_ANSWERS.format(answer=answer, option=option("truth", answer)))
    return ". ".join(said)


def _listed(words: Mapping[str, str], fields: Sequence[str]) -> str:
    """Return the words of these fields as one text. Those of the last may be about two fields."""
    *others, last = (words[field] for field in fields)
    return (", and " if " or " in last else " and ").join(filter(None, (" and ".join(others), last)))


def _may_be_gold(answer: str) -> bool:
    """Whether a column of answers may hold the right ones: `answer`, or one word for it in another language."""
    is_word = len(words_of(answer)) == 1 and field_said_by(answer) == "answer" and not field_of(answer)
    return is_word or plain_name(answer) in ("answer", "short_answer", "long_answer")  # as Natural Questions has them


def _is_possible(field: str, places: Iterable[Place], rows: int) -> bool:
    """Whether any of these places holds texts of the kind that a field has. Most rows have a question."""
    free = [place for place in places if not (place.is_aside(field) or place.says_other(field) or place.are_dialogues)]
    if field == "question":
        free = [place for place in free if 2 * len(place.values) >= rows]
    return any(place.has_passages if field == "contexts" else place.has_sentences for place in free)


def _shown(field: str, path: str, sample: Sequence[Row]) -> str:
    """Return the beginning of the first text at a path."""
    for value in (at_path(row, path) for row in sample):
        with suppress(InputError):
            texts = as_chunks(value)[0] if field == "contexts" or lists_texts(value) else texts_in([value])
            if not is_nothing(value) and (said := one_line(" ".join(texts) or str(value))):
                return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"
    return ""


@dataclass(frozen=True)
class _Search:
    """Looks for missing fields among the places of a file that hold no other field.

    lacking: the fields that are required. taken: the columns of the fields that the file has. everywhere: all places.
    """

    lacking: Sequence[str]
    taken: Mapping[str, str]
    places: Mapping[str, Place]
    everywhere: Mapping[str, Place]
    sample: Sequence[Row]

    def found(self, others: Sequence[str]) -> dict[str, str]:
        """Return for each missing field the likeliest place. others: fields that are found only by their names."""
        found: dict[str, str] = {}
        for field in [*self.lacking, *(field for field in others if field not in (*self.lacking, *self.taken))]:
            tiers = self._tiers(field, self._free(field, found))
            if best := next(chain.from_iterable(tiers), None):
                found[field] = best.path
        return found

    def _free(self, field: str, found: Mapping[str, str]) -> list[Place]:
        """Return the places that can hold a field, of numbered ones that can hold contexts their pattern."""
        used, known = found.values(), {**self.taken, **found}
        free = [place for path, place in self.places.items() if path not in used and place.can_hold(field)]
        if field == "truth":  # an object may hold two forms of one answer
            answer = known.get("answer", "")
            outer = f"{answer.partition('.')[0]}."
            free = [place for place in free if not (place.path.startswith(outer) and self._repeats(place, answer))]
        if field == "answer":
            truth = known.get("truth", "")
            free = [place for place in free if not (self._repeats(place, truth) or is_about_truth(place.last))]
            if "question" in self.taken:  # what was said before it was asked
                free = [place for place in free if "history" not in snake_name(place.path)]
        if field != "contexts":
            return free
        free = [place for place in free if not any(path.startswith(f"{place.path}.") for path in used)]
        free = [place for place in free if not place.contradiction(field)]
        patterns = dict.fromkeys(_with_siblings(place.path, self.places) for place in free)
        first = {path: path if path in self.places else numbered(path, self.places)[0] for path in patterns}
        return [Place(path, self.places[one].values) for path, one in first.items()]

    def _repeats(self, place: Place, path: str) -> bool:
        """Whether a place has the same values as another one."""
        return path in self.everywhere and self.everywhere[path].values == place.values

    def _tiers(self, field: str, free: Sequence[Place]) -> Iterator[list[Place]]:
        """Yield the places that may hold a field, those first that are called so, and those last that look so."""
        named = [place for place in free if place.field == field]
        if field in ("question", "answer"):  # a number counts something, such as tokens
            named = [place for place in named if texts_in(place.values)]
        if field == "truth":
            named = [place for place in named if not place.is_aside(field)]
            beside = [place for place in free if "answer" in self.taken and plain_name(place.last) == "answer"]
            named += [place for place in beside if place.has_texts(field)]
            named = [place for place in named if not place.are_ids]
            named.sort(key=lambda place: (any(map(is_list, place.values)), not place.has_sentences))
        yield sorted(named, key=lambda place: plain_name(place.last) == "prompt")
        longest_first = sorted(free, key=lambda place: -place.length)
        if field not in self.lacking:
            yield [place for place in free if field == "contexts" and place.are_chunks and not place.field]
            yield [place for place in longest_first if "contexts" in self.lacking and place.says(field)]
            return
        chunks = [place for place in longest_first if field == "contexts" and place.are_chunks]
        other = "reference" if field == "contexts" else None  # which may be a list of what was retrieved
        free = [place for place in free if place in chunks or place.field in (None, other)]
        roles = {place: _role(place.path, self.sample) for place in free}
        unsaid = [place for place in longest_first if place in roles and roles[place] is None]
        unsaid = [place for place in unsaid if not place.is_aside(field)]
        # the content of a message is no misspelt context
        named = [place for place in unsaid if field == "contexts" or place.has_texts(field)]
        yield [place for place in named if misspelt_field(stem_of(place.last)) == field]
        ends = tuple(f"_{name}" for name in NAMES[field])
        yield [one for one in named if any(plain_name(name).endswith(ends) for name in (one.path, stem_of(one.path)))]
        yield [place for place in unsaid if place.says(field)]
        # without an answer, it may be that
        yield [place for place in unsaid if field == "contexts" and "answer" in self.taken and place.is_passage]
        said = [place for place in free if roles[place] in SPEAKERS.get(field, ())]
        # the last question and answer; the same message of the system in all rows is its instructions
        yield [one for one in said if vary([*map(str, one.values)])] if field == "contexts" else said[::-1]
        yield chunks
        yield [place for place in unsaid if field in SPEAKERS and place.may_hold(field)]


def _with_siblings(path: str, paths: Collection[str]) -> str:
    """Return the pattern that stands for a path and for those that differ from it in their last name's number only.

    A path without such siblings is returned as it is.
    """
    outer, dot, last = path.rpartition(".")
    pattern = f"{outer}{dot}{pattern_of(last)}"
    return pattern if len(numbered(pattern, paths)) > 1 else path


def _role(path: str, sample: Sequence[Row]) -> str | None:
    """Return the role of the chat message whose content is at a path, None if no message is there.

    The role is "" if it is not the same in all rows, and for a user who says more after this message.
    """
    message, _, name = path.rpartition(".")
    role = spoken_by(message, sample) if name in TEXT_NAMES else None
    dialogue, _, number = message.rpartition(".")
    if role in SPEAKERS["question"] and is_number(number.removeprefix("-")):
        said: list[Any] = [unfolded(at_path(row, dialogue)) for row in sample]
        later = [one for messages in said if isinstance(messages, list) for one in messages[int(number) :][1:]]
        return "" if any(role_of(one) in SPEAKERS["question"] for one in later) else role
    return role
