"""Decides which column holds which field.

It goes by what the user says, by the layout of a known tool, or by the column's name. It never decides by the values of
a single row.
"""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_zeval.cases.cells import is_nothing, is_object, unfolded
from rag_zeval.cases.names import CHUNK_TEXT, FIELDS, LAYOUTS, NAMES, Layout, fields_of, plain_name, snake_name
from rag_zeval.errors import InputError, nearest
from rag_zeval.files import MOST_DIGITS, Row

ABSENT = object()  # stands for a field that a row lacks; null is a value
ALIKE = 0.85  # difflib ratio from which two names are alike: one wrong letter in seven
TOLD = ("question", "answer", "answers", "contexts", "truth", "reference", "id", "system")  # fields to warn about
OBJECTS = ("contexts", "answers")  # fields whose value may be an object
NEEDED = {  # required: at least one of the fields on the right
    "question": {"question"},
    "answer": {"answer", "answers"},
    "contexts": {"contexts", "passage", "truth", "reference"},
}
SPEAKERS = {"question": {"user", "human"}, "answer": {"assistant", "ai"}, "contexts": {"system", "tool"}}  # roles
MOST_WORDS = 6  # in a column's name
MARKS = " _-.[]/"  # stand around the number in a column's name, as in docs[0].text
LAST_NUMBER = re.compile(r"[0-9]+(?=[^0-9]*$)")
LOOKED_AT = 100  # rows from whose values a suggestion is derived


@dataclass(frozen=True)
class Columns:
    """The columns of a file, and the field that each holds.

    layout: in words, how the columns were recognised.
    of: for each of our fields, the column or path that holds it.
    unused: the columns that hold none of our fields.
    overlooked: for some unused columns, what they seem to hold by their name, in words.
    """

    layout: str
    of: Mapping[str, str]
    unused: tuple[str, ...]
    overlooked: Mapping[str, str]

    def value(self, row: Row, field: str) -> Any:
        """Return a row's value of a field, or None if it has none."""
        value = at_path(row, self.of[field]) if field in self.of else None
        return None if value is ABSENT else value


def at_path(value: Any, path: str) -> Any:
    """Return the value of a column, or the value at the end of a path. ABSENT if there is none.

    A path is written as `output.text`, `outputs.0.text` or, from the end of a list, `messages.-1.content`. On a list,
    `docs.body` takes the `body` of each item. `context_*` gives the list of `context_1`, `context_2` and so on, also
    inside an object: `fields.context_*`. A path also leads into texts that print a list or object. Names may have dots.
    """
    if not path:
        return value
    value = unfolded(value)
    if isinstance(value, Mapping):
        for name, rest in _beginnings(path):
            if name in value:
                found = at_path(value[name], rest)
            else:
                found = _all_or_absent([at_path(value[one], rest) for one in numbered(name, value)])
            if found is not ABSENT:
                return found
    if isinstance(value, list):
        first, _, rest = path.partition(".")
        if _is_number(first.removeprefix("-")):
            return at_path(value[int(first)], rest) if -len(value) <= int(first) < len(value) else ABSENT
        return _all_or_absent([at_path(item, path) for item in value if isinstance(item, Mapping)])
    return ABSENT


def _all_or_absent(found: list[Any]) -> Any:
    return found if found and ABSENT not in found else ABSENT


def _beginnings(path: str) -> Iterator[tuple[str, str]]:
    """Yield each way to split a path into a name and the rest of the path, the longest name first."""
    parts = path.split(".")
    for at in range(len(parts), 0, -1):
        yield ".".join(parts[:at]), ".".join(parts[at:])


def option(field: str, column: str) -> str:
    """Return the command-line option that says that a column holds a field."""
    return f"--map {shlex.quote(f'{field}={column}')}"


def numbered(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern such as `context_*` or `docs[*].text` matches, ordered by their numbers."""
    before, star, after = pattern.partition("*")
    if not star:
        return []
    long = (name for name in names if name.startswith(before) and name.endswith(after))
    numbers = {name: name[len(before) : len(name) - len(after)] for name in long}
    return sorted((name for name, number in numbers.items() if _is_number(number)), key=lambda name: int(numbers[name]))


def _is_number(digits: str) -> bool:
    return digits.isdecimal() and len(digits) <= MOST_DIGITS


def check_names(names: Mapping[str, str]) -> None:
    """Raise InputError if the user names a field that does not exist."""
    for name in names:
        if name not in FIELDS:
            hint = nearest(name, FIELDS) or f"; choose from: {', '.join(FIELDS)}"
            raise InputError(f"--map {name}={names[name]}: unknown field '{name}'{hint}")


def choose(
    there: Mapping[str, int],
    wrappers: Collection[str],
    names: Mapping[str, str],
    sample: Sequence[Row],
    judged: bool = True,
) -> Columns:
    """Return the columns to read, with the field that each holds.

    there: the columns of all rows, and how many rows have a value in each.
    wrappers: the columns that hold only objects, and so no text.
    names: the user's choice of columns, from our field to a column or path that exists.
    sample: some rows, from which a column for a missing field is suggested.
    judged: whether the file must have a reference, retrieved contexts or ground truth.

    Raises InputError if two columns may hold the same field, and if required fields are missing. The message says
    which option to add.
    """
    taken = dict(names)
    roots = {root for path in names.values() for root in _roots(path, there)}
    layout = next((one for one in LAYOUTS if _fits(one, there, names)), None)
    written = {snake_name(name): name for name in there}
    for field, name in layout.columns.items() if layout else ():
        column = written.get(name)
        if field not in taken and column is not None and column not in roots:
            taken[field] = column
    other_meaning = layout.other_meaning.items() if layout else ()
    meant_otherwise = {written.get(column, column): meaning for column, meaning in other_meaning}
    for field in (*NAMES, "answers"):
        if field not in taken and not (field == "contexts" and "passage" in taken):
            used = {*taken.values(), *roots, *meant_otherwise, *(wrappers if field not in OBJECTS else ())}
            free = {name: count for name, count in there.items() if name not in used}
            if field == "contexts":
                free |= _patterns(free)
            found = [name for name in free if field in fields_of(_stem(name))]
            if one := _one_of(found, field, free):
                taken[field] = one
    _check_reference(taken, names, there)
    for one, other in (("answers", "answer"), ("answer", "answers")):
        if one in taken and other in taken and one not in names and not there.get(taken[one]):
            del taken[one]  # a column without any value
    _check_answers(taken, names)
    wanted = [field for field in NEEDED if judged or field != "contexts"]
    if lacking := [field for field in wanted if not NEEDED[field] & taken.keys()]:
        raise InputError(_missing(lacking, taken, there, sample))
    if "answers" in taken and "answer" in taken:  # the user chose one of them
        del taken["answers" if "answer" in names else "answer"]
    used = {*roots, *(root for path in taken.values() for root in _roots(path, there))}
    unused = [name for name in there if name not in used and name.partition(".")[0] not in roots]
    overlooked = {name: meaning for name in unused if (meaning := _seems(name, meant_otherwise, taken))}
    name = f"columns of {layout.name}" if layout else "columns known by their names"
    return Columns(name, taken, tuple(unused), overlooked)


def _roots(path: str, there: Collection[str]) -> list[str]:
    """Return the columns in which a column name, a path or a pattern begins."""
    for name, _ in _beginnings(path):
        if found := [name] if name in there else numbered(name, there):
            return found
    return [path.partition(".")[0]]


def _patterns(there: Mapping[str, int]) -> dict[str, int]:
    """Return the patterns of numbered columns, such as `context_*` for `context_1` and `context_2`.

    Each pattern comes with the number of values in its fullest column.
    """
    patterns: dict[str, int] = {}
    for name, count in there.items():
        if (pattern := _pattern(name)) != name:
            patterns[pattern] = max(count, patterns.get(pattern, 0))
    return patterns


def _pattern(name: str) -> str:
    """Return a name with `*` for its last number. A name without a number is returned as it is."""
    return LAST_NUMBER.sub("*", name)


def _stem(name: str) -> str:
    """Return what a column's name says without its number: `context` for `context_*`, `docs[*]` or `docs.*.text`."""
    stem, _, inner = name.partition("*")
    return stem.rstrip(MARKS) if inner.strip(MARKS) in ("", *CHUNK_TEXT) else name


def _fits(layout: Layout, there: Collection[str], names: Mapping[str, str]) -> bool:
    """Whether a file has the columns of a layout, and the user does not say that one of them holds another field."""
    chosen = {field: snake_name(path) for field, path in names.items()}
    otherwise = (path in layout.known_by and layout.columns.get(field) != path for field, path in chosen.items())
    return {snake_name(name) for name in there}.issuperset(layout.known_by) and not any(otherwise)


def _one_of(found: Sequence[str], field: str, there: Mapping[str, int]) -> str | None:
    """Return the column to use, or None if none was found.

    A column without any value is used only if all are empty. Our own name wins. An exception is `answer`, because it
    may hold gold answers. Raises InputError if several columns are left.
    """
    filled = [name for name in found if there[name]] or found[:1]
    if len(filled) < 2:
        return next(iter(filled), None)
    if field in filled and field != "answer":
        return field
    way_out = " or ".join(option(field, name) for name in filled)
    other = f"; if another holds the {FIELDS['truth']}, also --map truth=COLUMN" if field == "answer" else ""
    raise InputError(f"columns {_listed(filled)} could each hold the {FIELDS[field]}: add {way_out}{other}")


def _check_reference(taken: dict[str, str], names: Mapping[str, str], there: Mapping[str, int]) -> None:
    """Ignore the column `reference` if the file also has contexts and the user has not chosen it.

    It may then be the ground truth or the text to judge by. Raises InputError unless another column holds the ground
    truth.
    """
    beside = [taken[field] for field in ("contexts", "passage") if field in taken]
    if "reference" not in taken or "reference" in names or not any(there.get(name, 1) for name in beside):
        return
    column = taken.pop("reference")
    if "truth" not in taken:
        raise InputError(
            f"column '{column}' beside '{beside[0]}' could hold the ground truth, or "
            f"the text to judge by: add {option('truth', column)} or {option('reference', column)}"
        )


def _check_answers(taken: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Raise InputError if `answers` may be answers of systems or gold answers, and the user has not said which."""
    if "answers" in taken and "answer" in taken and not {"answer", "answers"} & names.keys():
        several, one = taken["answers"], taken["answer"]
        raise InputError(
            f"columns '{one}' and '{several}' could both hold answers to judge: if '{several}' are gold answers, add "
            f"{option('answer', one)} {option('truth', several)}; if they are those of systems, "
            f"{option('answers', several)}"
        )


def _seems(name: str, meant_otherwise: Mapping[str, str], taken: Mapping[str, str]) -> str | None:
    """Return in words what an unused column seems to hold, or None if its name does not tell."""
    if name in meant_otherwise:
        return f"it is {meant_otherwise[name]}"
    ends_so = plain_name(name).endswith(("_answer", "_response"))  # of a system, such as gpt4_answer
    named = fields_of(name) or (["answer"] if ends_so else _like(name))
    fields = [field for field in TOLD if field in named]
    if not fields:
        return None
    field = "truth" if plain_name(name) == "answer" and "truth" not in taken else fields[0]
    return f"if it holds the {FIELDS[field]}, add {option(field, name)}"


def _like(name: str) -> list[str]:
    """Return in a list the field with a name that this one resembles; an empty list if there is none."""
    plain = plain_name(name)
    names = ((field, plain_name(one)) for field, names in NAMES.items() for one in names if len(one) > 4)
    known = {one: field for field, one in names if one.endswith("_id") == plain.endswith("_id")}
    return [known[like] for like in difflib.get_close_matches(plain, known, 1, ALIKE)]


def _missing(lacking: Sequence[str], taken: Mapping[str, str], there: Mapping[str, int], sample: Sequence[Row]) -> str:
    """Return the error message: the missing fields, the columns of the file, and the options that may fix it."""
    if not taken and (text := next(filter(_is_text, there), None)):
        return f"the first line must name the columns, such as question,answer,contexts; '{text}' is no name"
    found = _suggested(lacking, taken, sample)
    told = ", the ".join(FIELDS[field] for field in lacking)
    options = " ".join(option(field, column) for field, column in found.items())
    guess = "" if "COLUMN" in found.values() else ", if that is what they hold"
    return f"no column found for the {told}; columns: {_listed(there) or 'none'}. Add {options}{guess}"


def _suggested(lacking: Sequence[str], taken: Mapping[str, str], sample: Sequence[Row]) -> dict[str, str]:
    """Return for each missing field a column or path that may hold it; "COLUMN" if nothing is found.

    Contexts and ground truth are also suggested if they were not required, but only by their names.
    """
    paths = {path: values for path, values in _paths(sample).items() if path not in taken.values()}
    found: dict[str, str] = {}
    for field in [*lacking, *(field for field in ("contexts", "truth") if field not in (*lacking, *taken))]:
        free = [path for path in paths if path not in found.values()]
        if field == "contexts":
            free = list(dict.fromkeys(_with_siblings(path, paths) for path in free))
        if field not in OBJECTS:
            free = [path for path in free if not all(map(is_object, paths[path]))]
        ranked = [path for path in free if field in _fields_of_path(path)]
        if field in lacking:  # other fields are suggested only by an exact name
            free = [path for path in free if not _fields_of_path(path)]
            ranked += [path for path in free if field in _like(_stem(path.rpartition(".")[2]))]
            ends = tuple(f"_{name}" for name in NAMES[field])
            ranked += [path for path in free if any(plain_name(one).endswith(ends) for one in (path, _stem(path)))]
            said = {path: _said_by(path, sample) for path in free}
            in_turn = free if field == "contexts" else reversed(free)  # the last question and answer
            ranked += [path for path in in_turn if said[path] in SPEAKERS[field]]
            ranked += [path for path in free if said[path] is None and _may_be(field, paths.get(path, ()))]
            ranked.append("COLUMN")
        if ranked:
            found[field] = ranked[0]
    return found


def _is_text(name: str) -> bool:
    """Whether a column's name looks like a value, or like a line of a file that is no table."""
    return len(name.split()) > MOST_WORDS or name.endswith((".", "?")) or name.startswith(("<", "-")) or ": " in name


def _with_siblings(path: str, paths: Collection[str]) -> str:
    """Return the pattern that stands for a path and for those that differ from it in their last name's number only.

    A path without such siblings is returned as it is.
    """
    outer, dot, last = path.rpartition(".")
    pattern = f"{outer}{dot}{_pattern(last)}"
    return pattern if len(numbered(pattern, paths)) > 1 else path


def _fields_of_path(path: str) -> list[str]:
    """Return the fields that a path may hold by its last name. All that is inside a ground truth is ground truth."""
    *outer, last = path.split(".")
    return ["truth"] if any("truth" in fields_of(name) for name in outer) else fields_of(_stem(last))


def _paths(sample: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the values of the rows for each path, up to three names deep, and for the content of chat messages."""
    paths: dict[str, list[Any]] = {}

    def walk(value: Any, path: str, depth: int) -> None:
        held = unfolded(value)
        if isinstance(held, Mapping) and depth < 3:
            for name, inner in held.items():
                walk(inner, f"{path}.{name}" if path else str(name), depth + 1)
        elif isinstance(held, list) and held and all(map(_role, held)):
            # counted from the end, too, because dialogues differ in length
            for at in (*range(len(held)), *range(-len(held), 0)):
                walk(held[at]["content"], f"{path}.{at}.content", depth)
        elif path and not is_nothing(value):
            paths.setdefault(path, []).append(value)

    for row in sample:
        walk(row, "", 0)
    return paths


def _said_by(path: str, sample: Sequence[Row]) -> str | None:
    """Return the role of the chat message whose content is at a path. None unless it is the same in all rows."""
    message, _, name = path.rpartition(".")
    roles = {_role(at_path(row, message)) for row in sample} if name == "content" else set()
    return roles.pop() if len(roles) == 1 else None


def _role(message: Any) -> str | None:
    """Return the role of a chat message, or None if the value is none. LangChain and ragas call it the type."""
    if not isinstance(message, Mapping) or "content" not in message:
        return None
    return next((message[name] for name in ("role", "type") if isinstance(message.get(name), str)), None)


def _may_be(field: str, values: Sequence[Any]) -> bool:
    held = [unfolded(value) for value in values]
    texts = [value for value in held if isinstance(value, str)]
    if field == "contexts":
        return any(isinstance(value, list) for value in held)
    questions = sum(text.rstrip().endswith("?") for text in texts)
    if field == "question":
        return 2 * questions > len(values)
    return bool(texts) and 2 * questions <= len(values) and any(" " in text for text in texts)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
