"""What to tell of columns that were not recognised: what they seem to hold, and which `--map` to type."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rag_zeval.cases.cells import as_chunks, as_text, as_truth, is_nothing, is_numbers, is_object, unfolded
from rag_zeval.cases.names import CHUNK_TEXT, FIELDS, NAMES, TEXT_PARTS, fields_of, plain_name, snake_name
from rag_zeval.cases.nested import EXPECTED, SPEAKERS, fields_in_record, role_of, spoken_by
from rag_zeval.cases.paths import ABSENT, at_path, is_number, numbered, option, pattern_of, quoted_list, stem_of
from rag_zeval.cases.systems import answers_of_systems, is_true, told_as_answers
from rag_zeval.errors import InputError
from rag_zeval.files import Row

UNNAMED = ("(column ", "Unnamed: ")  # how we and pandas call a column without a name
ALIKE = 0.85  # difflib ratio from which two names are alike: one wrong letter in seven
TOLD = ("question", "answer", "answers", "contexts", "truth", "reference", "id", "system")  # fields to warn about
OBJECTS = ("contexts", "answers")  # fields whose value may be an object
NEEDED = {  # required: at least one of the fields on the right
    "question": {"question"},
    "answer": {"answer", "answers"},
    "contexts": {"contexts", "passage", "truth", "reference"},
}
# Words with which the name of a column begins or ends whose texts are of no use as a question, an answer or a context.
ASIDE = {
    "comment", "description", "error", "expected", "explanation", "gold", "justification", "metadata", "rationale",
    "reason", "reasoning", "reference", "template",
}  # fmt: skip
MOST_WORDS = 6  # in a column's name
DEEPEST = 4  # names in a suggested path
LOOKED_INSIDE = 10  # rows of every file into whose objects we look, which may have many names


def seems(
    name: str,
    meant_otherwise: Mapping[str, str],
    taken: Mapping[str, str],
    told: Collection[str],
    sample: Sequence[Row],
) -> str | None:
    """Return in words which of the fields to tell an unused column seems to hold, or None if its name does not say.

    Of a column without a name, return that it holds texts.
    """
    if name in meant_otherwise:
        return f"it is {meant_otherwise[name]}"
    if name.startswith(UNNAMED):
        if any(_sentences(row.get(name)) for row in sample):
            return "it holds texts but has no name; columns of contexts are named context_1, context_2, ..."
        return None
    ends_so = plain_name(name).endswith(("_answer", "_response"))  # of a system, such as gpt4_answer
    begins_so = snake_name(name).startswith(("answer_", "response_"))  # such as answer_old, but not answer_relevancy
    ends_so |= begins_so and _may_be("answer", name, [row.get(name) for row in sample])
    is_gold = snake_name(name).endswith("_answers") or is_true(name)  # such as possible_answers, human_answer
    named = (
        fields_of(name)
        or fields_of(stem_of(pattern_of(name)))
        or (["truth" if is_gold else "answer"] if ends_so else _like(name))
    )
    fields = [field for field in told if field in named]
    if not fields:
        return None
    field = "truth" if plain_name(name) == "answer" and "truth" not in taken else fields[0]
    return f"if it holds the {FIELDS[field]}, add {option(field, name)}"


def _like(name: str) -> list[str]:
    """Return in a list the field with a name that this one resembles; an empty list if there is none."""
    plain = plain_name(name)
    if plain in CHUNK_TEXT:  # `content` is not a misspelt `context`
        return []
    names = ((field, plain_name(one)) for field, names in NAMES.items() for one in names if len(one) > 4)
    known = {one: field for field, one in names if one.endswith("_id") == plain.endswith("_id")}
    return [known[like] for like in difflib.get_close_matches(plain, known, 1, ALIKE)]


def missing_columns(
    lacking: Sequence[str], taken: Mapping[str, str], there: Mapping[str, int], sample: Sequence[Row]
) -> str:
    """Return the error message: the missing fields, the columns of the file, and the options that may fix it."""
    if not taken and (text := next(filter(_is_text, there), None)):
        return f"the first line must name the columns, such as question,answer,contexts; '{text}' is no name"
    told = ", the ".join(FIELDS[field] for field in lacking)
    told = f"no column found for the {told}; columns: {quoted_list(there) or 'none'}. "
    if systems := _several(taken, sample) if "answer" in lacking else []:
        lacking = [field for field in lacking if field != "answer"]
        taken = {**taken, **dict(zip(systems, systems, strict=True))}  # they hold no other field
    found = _suggested(lacking, taken, sample)
    options = [option(field, column) for field, column in found.items()]
    guess = "" if "COLUMN" in found.values() else ", if that is what they hold"
    return f"{told}{' '.join([told_as_answers(systems) if systems else 'Add', *options])}{guess}"


def _several(taken: Mapping[str, str], sample: Sequence[Row]) -> list[str]:
    free = {path: values for path, values in _paths(sample).items() if path not in taken.values()}
    return answers_of_systems({path: values for path, values in free.items() if not _is_beside_truth(path)})


def _suggested(lacking: Sequence[str], taken: Mapping[str, str], sample: Sequence[Row]) -> dict[str, str]:
    """Return for each missing field a column or path that may hold it; "COLUMN" if nothing is found.

    Contexts and ground truth are also suggested if they were not required, but only by their names.
    """
    paths = {path: values for path, values in _paths(sample).items() if path not in taken.values()}
    paths = {path: values for path, values in paths.items() if not _is_beside_truth(path)}
    truths = [at_path(row, taken["truth"]) for row in sample] if "truth" in taken else None
    found: dict[str, str] = {}
    for field in [*lacking, *(field for field in ("contexts", "truth") if field not in (*lacking, *taken))]:
        free = [path for path in paths if path not in found.values() and _can_be(field, paths[path])]
        if field == "answer":
            free = [path for path in free if paths[path] != truths and not is_true(path.rpartition(".")[2])]
        if field == "contexts":
            free = [path for path in free if not any(one.startswith(f"{path}.") for one in found.values())]
            free = list(dict.fromkeys(_with_siblings(path, paths) for path in free))
        ranked = [path for path in free if field in _fields_of_path(path)]
        ranked.sort(key=lambda path: plain_name(path.rpartition(".")[2]) == "prompt")
        chunks = {path for path in free if field == "contexts" and all(map(_are_chunks, paths.get(path, [""])))}
        if field in lacking:  # other fields are suggested only by an exact name
            other = ["reference"] if field == "contexts" else []  # which may be a list of what was retrieved
            free = [path for path in free if path in chunks or _fields_of_path(path) in ([], other)]
            said = {path: _said_by(path, sample) for path in free}
            unsaid = [path for path in free if said[path] is None]  # the content of a message is no misspelt context
            ranked += [path for path in unsaid if field in _like(stem_of(path.rpartition(".")[2]))]
            ends = tuple(f"_{name}" for name in NAMES[field])
            ranked += [path for path in unsaid if any(plain_name(one).endswith(ends) for one in (path, stem_of(path)))]
            in_turn = free if field == "contexts" else reversed(free)  # the last question and answer
            ranked += [path for path in in_turn if said[path] in SPEAKERS[field]]
            ranked += [path for path in free if path in chunks]
            ranked += [path for path in unsaid if _may_be(field, path, paths.get(path, ()))]
            ranked.append("COLUMN")
        else:
            ranked += [path for path in free if path in chunks and not _fields_of_path(path)]
        if ranked:
            found[field] = ranked[0]
    if found.get("contexts") == "COLUMN" and "truth" in found:  # one of them is enough
        del found["contexts"]
    return found


def _is_beside_truth(path: str) -> bool:
    """Whether a path is in a record of expectations, but not to the ground truth: the contexts there are expected."""
    outer, dot, _ = path.partition(".")
    return bool(dot) and plain_name(outer) in EXPECTED and not fields_in_record(path)


def _can_be(field: str, values: Sequence[Any]) -> bool:
    """Whether values can be read as a field. Contexts must all be readable; the parts of one text are none."""
    if field == "contexts":
        with suppress(InputError):
            found = [as_chunks(value)[0] for value in values]
            are_parts = any(_is_list(value) and _texts([value]) for value in values)
            return any(found) and not any(map(is_numbers, values)) and not are_parts
        return False
    texts = [value for value in values if field != "answer" or not _holds_texts(value)]  # which may be gold answers
    return any(_is_filled(value, as_truth if field == "truth" else as_text) for value in texts)


def _holds_texts(value: Any) -> bool:
    return _is_list(value) and any(isinstance(one, str) for one in unfolded(value))


def _is_filled(value: Any, read: Callable[[Any], str | None]) -> bool:
    with suppress(InputError):
        held = unfolded(value)
        is_flag = any(isinstance(one, bool) for one in (held if isinstance(held, list) else [held]))
        return not (is_flag or is_object(value)) and read(value) is not None
    return False


def _texts(values: Iterable[Any]) -> list[str]:
    """Return the values that are texts, or the parts of one."""
    texts: list[str] = []
    for value in map(unfolded, values):
        if isinstance(value, str) or (isinstance(value, list) and not any(isinstance(one, str) for one in value)):
            with suppress(InputError):
                texts += [text] if (text := as_text(value)) else []
    return texts


def _is_list(value: Any) -> bool:
    return isinstance(unfolded(value), list)


def _are_chunks(value: Any) -> bool:
    return is_object(value) and _is_list(value) and not any(map(role_of, unfolded(value)))


def fields_inside(there: Collection[str], sample: Sequence[Row]) -> dict[str, str]:
    """Return for each field the first place inside an object that has its name and holds a text."""
    inside: dict[str, str] = {}
    for path, values in _paths(sample[:LOOKED_INSIDE]).items():
        holds_chunks = path not in there and all(map(_are_chunks, values))
        for field in _fields_of_path(path) or ["contexts"] * holds_chunks if path not in there else ():
            # contexts are more than a word, such as the name of a file
            if any(_sentences(value) if field == "contexts" else not _is_no_text(value) for value in values):
                inside.setdefault(field, path)
    return inside


def _is_text(name: str) -> bool:
    """Whether a column's name looks like a value, or like a line of a file that is no table."""
    return len(name.split()) > MOST_WORDS or name.endswith((".", "?")) or name.startswith(("-", "# ")) or ": " in name


def _with_siblings(path: str, paths: Collection[str]) -> str:
    """Return the pattern that stands for a path and for those that differ from it in their last name's number only.

    A path without such siblings is returned as it is.
    """
    outer, dot, last = path.rpartition(".")
    pattern = f"{outer}{dot}{pattern_of(last)}"
    return pattern if len(numbered(pattern, paths)) > 1 else path


def _fields_of_path(path: str) -> list[str]:
    """Return the fields that a path may hold by its last name. All that is inside a ground truth is ground truth."""
    *outer, last = path.split(".")
    is_true = any({"truth", "reference"} & {*fields_of(name)} or plain_name(name) in EXPECTED for name in outer)
    is_text = snake_name(last) in CHUNK_TEXT and not fields_of(last)
    if outer and (is_number(last) or last == "*" or (is_text and not is_number(outer[-1].removeprefix("-")))):
        last = outer.pop()  # replies.0, query.text, but not messages.0.content
    return ["truth"] if is_true else fields_of(stem_of(last))


def _paths(sample: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the values of the rows for each path, up to four names deep, and for the content of chat messages.

    In a list of objects that are no chunks, a path is that of all objects, or of the first and the last if their names
    differ.
    """
    paths: dict[str, list[Any]] = {}

    def walk(value: Any, path: str, depth: int, of_items: bool = False) -> None:
        held = unfolded(value)
        is_objects = isinstance(held, list) and is_object(held)
        if isinstance(held, Mapping) and depth < DEEPEST:
            for name, inner in held.items():
                walk(inner, f"{path}.{name}" if path else str(name), depth + 1, of_items)
        elif is_objects and all(map(role_of, held)):
            # counted from the end, too, because dialogues differ in length
            for at in () if of_items else (*range(len(held)), *range(-len(held), 0)):
                content = held[at]["content"]
                walk(content, f"{path}.{at}.content", DEEPEST if isinstance(content, list) else depth)
                for name, inner in held[at].items() if at < 0 else ():  # such as the sources of an answer
                    if name != "content" and (isinstance(inner, list) or fields_of(str(name))):
                        walk(inner, f"{path}.{at}.{name}", depth)
        elif is_objects and depth < DEEPEST and not _can_be("contexts", [held]):
            is_one = len(held) == 1
            if len({tuple(item) for item in held}) == 1:
                for name, first in held[0].items():
                    inner = first if is_one and _is_several(first) else at_path(held, str(name))
                    walk(None if inner is ABSENT else inner, f"{path}.{name}", depth + 1, of_items or not is_one)
            elif not of_items and not any(item.get("type") in TEXT_PARTS for item in held):
                for at in (0, -1):
                    walk(held[at], f"{path}.{at}", depth)
        elif path and not is_nothing(value):
            paths.setdefault(path, []).append(value)
            name = path.rpartition(".")[2]
            if _is_cited(held) and "answer" in fields_of(name):
                paths.setdefault(f"{path}.text", []).append(" ".join(one["text"] for one in held))
            is_single = isinstance(held, list) and len(held) == 1 and isinstance(held[0], str)
            if is_single and "answer" in fields_of(name) and plain_name(name) != "answer":  # which may be gold
                paths.setdefault(f"{path}.0", []).append(held[0])

    for row in sample:
        walk(row, "", 0)
    return paths


def _is_cited(value: Any) -> bool:
    """Whether a value is a list of sentences with their citations, as TREC writes an answer."""
    items = value if isinstance(value, list) else []
    texts = [item["text"] for item in items if isinstance(item, Mapping) and {"text", "citations"} <= {*item}]
    return bool(items) and len(texts) == len(items) and all(isinstance(text, str) for text in texts)


def _said_by(path: str, sample: Sequence[Row]) -> str | None:
    """Return the role of the chat message whose content is at a path, None if no message is there.

    The role is "" if it is not the same in all rows, and for a user who says more after this message.
    """
    message, _, name = path.rpartition(".")
    role = spoken_by(message, sample) if name == "content" else None
    dialogue, _, number = message.rpartition(".")
    if role in SPEAKERS["question"] and is_number(number.removeprefix("-")):
        dialogues = [found for row in sample if isinstance(found := unfolded(at_path(row, dialogue)), list)]
        if any(role_of(one) in SPEAKERS["question"] for said in dialogues for one in said[int(number) :][1:]):
            return ""
    return role


def _may_be(field: str, path: str, values: Sequence[Any]) -> bool:
    words = snake_name(path.rpartition(".")[2]).split("_")
    if {words[0], words[-1].removesuffix("s")} & ASIDE:
        return False
    if field == "contexts":
        return any(_is_several(value) and _sentences(value) for value in values)
    if words[-1].removesuffix("s") in ("context", "document"):
        return False
    texts = _texts(values)
    questions = sum(text.rstrip().endswith("?") for text in texts)
    if field == "question":
        return 2 * questions > len(values)
    return 2 * questions <= len(values) and any(map(_sentences, texts))


def _is_no_text(value: Any) -> bool:
    return _is_several(value) or isinstance(value, bool)  # as of `ground_truth`, which may say what an annotation is


def _is_several(value: Any) -> bool:
    """Whether a value is a list or an object, or a text that prints one."""
    return isinstance(unfolded(value), (list, Mapping))


def _sentences(value: Any) -> list[str]:
    """Return the texts of a value, of a list, or of a list of chunks. A word alone, such as a tag, is none."""
    held = unfolded(value)
    items = [item for item in (held if isinstance(held, list) else [held]) if not is_nothing(item)]
    texts = [item[name] for item in items if isinstance(item, Mapping) for name in CHUNK_TEXT if name in item]
    texts += items
    return [text for text in texts if isinstance(text, str) and (" " in text or not text.isascii())]
