"""What to tell of columns that were not recognised: what they seem to hold, and which `--map` to type."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from rag_zeval.cases.cells import as_chunks, as_text, as_truth, is_nothing, is_numbers, is_object, unfolded
from rag_zeval.cases.name_words import field_said_by, is_about_truth, is_aside, words_of
from rag_zeval.cases.names import CHUNK_TEXT, FIELDS, NAMES, TEXT_PARTS, fields_of, plain_name, snake_name
from rag_zeval.cases.nested import EXPECTED, MESSAGES, SPEAKERS, fields_in_record, role_of, spoken_by, text_name
from rag_zeval.cases.paths import ABSENT, at_path, is_number, numbered, option, pattern_of, quoted_list, stem_of
from rag_zeval.cases.systems import answers_of_systems, told_as_answers
from rag_zeval.cases.texts import LETTER, is_label, is_prose, is_sentence
from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.text import QUESTION_MARKS, one_line

UNNAMED = ("(column ", "Unnamed: ")  # how we and pandas call a column without a name
ALIKE = 0.85  # difflib ratio from which two names are alike: one wrong letter in seven
WORDS_ALIKE = 0.65  # the same for each pair of their words
TOLD = ("question", "answer", "answers", "contexts", "truth", "reference", "id", "system")  # fields to warn about
OBJECTS = ("contexts", "answers")  # fields whose value may be an object
NEEDED = {  # required: at least one of the fields on the right
    "question": {"question"},
    "answer": {"answer", "answers"},
    "contexts": {"contexts", "passage", "truth", "reference"},
}
TEXTS = ("question", "answer", "answers", "contexts", "passage", "truth", "reference")  # fields that hold texts
FEW = 3  # texts
TEXT_NAMES = {text for _, text in MESSAGES}
SHOWN = 60  # characters of a value that a message shows
QUESTIONS_ALONE = (
    "If these are questions without answers, `rag-zeval collect` asks your system, and `rag-zeval check-set` checks "
    "the questions. If the answers are in another file, add --join FILE"
)
GOLD_ANSWERS = (
    "If 'answer' holds the right answers, and not those of your system, `rag-zeval check-set FILE --map truth=answer` "
    "checks the questions"
)
ANSWERS_ALONE = "If the questions are in another file, add --join FILE"
NOTHING_TO_CHECK = (
    "There is nothing to check the answers against: add the retrieved contexts, or the ground truth. If they are in "
    "another file, add --join FILE. --criteria relevance needs neither"
)
MOST_WORDS = 6  # in a column's name, or in a title
LEAST_WORDS = 4  # in a text that seems to be an answer, although its name does not say so
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
    values = [row[name] for row in sample if not is_nothing(row.get(name))]
    if name.startswith(UNNAMED):
        if any(map(_sentences, values)):
            return "it holds texts but has no name; columns of contexts are named context_1, context_2, ..."
        return None
    ends_so = plain_name(name).endswith(("_answer", "_response"))  # of a system, such as gpt4_answer
    begins_so = snake_name(name).startswith(("answer_", "response_"))  # such as answer_old, but not answer_relevancy
    ends_so |= begins_so and not _is_aside("truth", name) and any(map(_sentences, values))
    is_gold = snake_name(name).endswith("_answers") or is_about_truth(name)  # such as possible_answers, human_answer
    named = (
        fields_of(name)
        or fields_of(stem_of(pattern_of(name)))
        or (["truth" if is_gold else "answer"] if ends_so else _like(name))
        or [field for field in told if field not in taken and _speaks(field, name, values)]
    )
    if plain_name(_last(name)) == "answer" and "truth" not in taken:
        named = ["truth"]
    field = next((field for field in told if field in named), None)
    if field is None:
        return None
    return f"if it holds the {FIELDS[field]}, add {option(field, name)}"


def _like(name: str) -> list[str]:
    """Return in a list the field with a name that this one resembles; an empty list if there is none."""
    plain = plain_name(name)
    if plain in CHUNK_TEXT:  # `content` is not a misspelt `context`
        return []
    names = ((field, plain_name(one)) for field, names in NAMES.items() for one in names if len(one) > 4)
    known = {one: field for field, one in names if one.endswith("_id") == plain.endswith("_id")}
    found = difflib.get_close_matches(plain, known, 1, ALIKE)
    return [known[like] for like in found if _are_alike(words_of(plain), words_of(like))]


def _are_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether one name is a misspelt form of the other: `retrieved_topic` is not one of `retrieved_doc`."""
    if len(some) != len(others):  # or without the mark between two words; but `is_generated` is not `generated`
        return 1 in (len(some), len(others)) and {*some}.isdisjoint(others)
    pairs = zip(some, others, strict=True)
    return all(difflib.SequenceMatcher(None, one, other).ratio() >= WORDS_ALIKE for one, other in pairs)


def missing_columns(
    lacking: Sequence[str],
    taken: Mapping[str, str],
    there: Mapping[str, int],
    sample: Sequence[Row],
    others: Sequence[str] = ("contexts", "truth"),
) -> str:
    """Return the error message: the missing fields, the columns of the file, and what to do.

    others: fields that are also suggested if they were not required, but only by their names.
    """
    if not taken and (text := next(filter(is_text, there), None)):
        return f"the first line must name the columns, such as question,answer,contexts; '{text}' is no name"
    paths = {path: values for path, values in _paths(sample).items() if path not in taken.values()}
    systems = answers_of_systems(_unexpected(paths)) if "answer" in lacking else []
    paths = {path: values for path, values in paths.items() if path not in systems}
    found = _suggested([field for field in lacking if field != "answer" or not systems], taken, paths, sample, others)
    told = ", the ".join(FIELDS[field] for field in lacking)
    said = [f"no column found for the {told}; columns: {quoted_list(there) or 'none'}"]
    known = {*taken, *found, *(["answer"] if systems else [])}
    unknown = [field for field in lacking if not NEEDED.get(field, {field}) & known]
    rest = {path: values for path, values in paths.items() if path not in found.values()}
    possible = [field for field in unknown if field not in TEXTS or _is_possible(field, rest)]
    possible += ["truth"] if "contexts" in possible and "truth" in others else []
    if "answer" in unknown and "question" in known:
        said.append(QUESTIONS_ALONE)
    if unknown == ["contexts"] and not possible:
        said.append(NOTHING_TO_CHECK)
    is_gold = plain_name(taken.get("answer", "")) == "answer" and "truth" not in known  # as test sets may call it
    if is_gold and "contexts" in lacking and "question" in known:
        said.append(GOLD_ANSWERS)
    if unknown[:1] == ["question"] and "answer" in known and "question" not in possible:
        said.append(ANSWERS_ALONE)
    if systems:
        said.append(told_as_answers(systems))
    if found:
        options = " ".join(option(field, path) for field, path in found.items())
        shown = ", ".join(f"'{path}' says '{_shown(field, path, sample)}'" for field, path in found.items())
        said.append(f"Add {options}, if that is what they hold: {shown}")
    if possible:
        options = " ".join(option(field, "COLUMN") for field in possible)
        named = " or the ".join(FIELDS[field] for field in possible)
        said.append(f"If another column holds the {named}, add {options}")
    return ". ".join(said)


def _is_possible(field: str, paths: Mapping[str, list[Any]]) -> bool:
    """Whether any of these columns and paths holds texts of the kind that a field has."""
    free = [values for path, values in paths.items() if not (_is_aside(field, path) or _says_other(field, path))]
    return any(_are_passages(values) if field == "contexts" else any(map(_sentences, values)) for values in free)


def _shown(field: str, path: str, sample: Sequence[Row]) -> str:
    """Return the beginning of the first text at a path."""
    for value in (at_path(row, path) for row in sample):
        with suppress(InputError):
            texts = as_chunks(value)[0] if field == "contexts" or _holds_texts(value) else _texts([value])
            if value is not ABSENT and not is_nothing(value) and (said := one_line(" ".join(texts) or str(value))):
                return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"
    return ""


def _suggested(
    lacking: Sequence[str],
    taken: Mapping[str, str],
    paths: Mapping[str, list[Any]],
    sample: Sequence[Row],
    others: Sequence[str],
) -> dict[str, str]:
    """Return for each missing field a column or path that seems to hold it.

    others: fields that are also suggested if they were not required, but only by their names.
    """
    paths = _unexpected(paths)
    truths = [at_path(row, taken["truth"]) for row in sample] if "truth" in taken else None
    found: dict[str, str] = {}
    for field in [*lacking, *(field for field in others if field not in (*lacking, *taken))]:
        free = [path for path in paths if path not in found.values() and _can_be(field, paths[path])]
        if field == "answer":
            free = [path for path in free if paths[path] != truths and not is_about_truth(_last(path))]
            if "question" in taken:  # what was said before it was asked
                free = [path for path in free if "history" not in snake_name(path)]
        if field == "contexts":
            free = [path for path in free if not any(one.startswith(f"{path}.") for one in found.values())]
            free = list(dict.fromkeys(_with_siblings(path, paths) for path in free))
        values = {path: paths.get(path) or paths[numbered(path, paths)[0]] for path in free}
        ranked = [path for path in free if field in _fields_of_path(path)]
        if field == "truth":
            ranked = [path for path in ranked if not _is_aside(field, path)]
            ranked += [path for path in free if "answer" in taken and plain_name(_last(path)) == "answer"]
            ranked = [path for path in ranked if not _are_ids(values[path])]
            ranked.sort(key=lambda path: any(map(_is_list, values[path])))
        ranked.sort(key=lambda path: plain_name(_last(path)) == "prompt")
        chunks = {path for path in free if field == "contexts" and all(map(_are_chunks, values[path]))}
        longest_first = sorted(free, key=lambda path: -_length(values[path]))
        if field in lacking:
            other = ["reference"] if field == "contexts" else []  # which may be a list of what was retrieved
            free = [path for path in longest_first if path in chunks or _fields_of_path(path) in ([], other)]
            said = {path: _said_by(path, sample) for path in free}
            # the content of a message is no misspelt context
            unsaid = [path for path in free if said[path] is None and not _is_aside(field, path)]
            named = [path for path in unsaid if _can_say(field, values[path])]
            ranked += [path for path in named if field in _like(stem_of(_last(path)))]
            ends = tuple(f"_{name}" for name in NAMES[field])
            ranked += [path for path in named if any(plain_name(one).endswith(ends) for one in (path, stem_of(path)))]
            ranked += [path for path in unsaid if _speaks(field, path, values[path])]
            in_turn = paths if field == "contexts" else reversed(paths)  # the last question and answer
            spoken = [path for path in in_turn if said.get(path) in SPEAKERS.get(field, ())]
            # the same message of the system in all rows is its instructions
            ranked += [path for path in spoken if field != "contexts" or _vary([*map(str, values[path])])]
            ranked += [path for path in free if path in chunks]
            ranked += [path for path in unsaid if field in SPEAKERS and _may_be(field, path, values[path])]
        else:
            ranked += [path for path in free if path in chunks and not _fields_of_path(path)]
            ranked += [path for path in longest_first if "contexts" in lacking and _speaks(field, path, values[path])]
        if ranked:
            found[field] = ranked[0]
    return found


def _unexpected(paths: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {path: values for path, values in paths.items() if not _is_beside_truth(path)}


def _is_beside_truth(path: str) -> bool:
    """Whether a path is in a record of what is expected, but not to the ground truth: contexts there are expected."""
    outer, dot, _ = path.rpartition(".")
    if plain_name(outer.partition(".")[0]) in EXPECTED:
        return not fields_in_record(path)
    return bool(dot) and any(map(is_about_truth, outer.split("."))) and "truth" not in _fields_of_path(path)


def _can_be(field: str, values: Sequence[Any]) -> bool:
    """Whether values can be read as a field. Contexts must all be readable; the parts of one text are none."""
    if field == "contexts":
        if any(isinstance(value, (bool, int, float)) or role_of(unfolded(value)) for value in values):
            return False
        with suppress(InputError):
            found = [as_chunks(value)[0] for value in values]
            are_parts = any(_is_list(value) and _texts([value]) for value in values)
            return any(found) and not any(map(is_numbers, values)) and not are_parts
        return False
    texts = [value for value in values if field != "answer" or not _holds_texts(value)]  # which may be gold answers
    if field == "question":
        texts = [value for value in texts if LETTER.search(str(value))]
    return any(_is_filled(value, as_text if field in SPEAKERS else as_truth) for value in texts)


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


def is_text(name: str) -> bool:
    """Whether a column's name looks like a value, or like a line of a file that is no table."""
    return (
        len(name.split()) > MOST_WORDS
        or name.endswith((".", "。", *QUESTION_MARKS))
        or name.startswith(("-", "# "))
        or ": " in name
    )


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
                content = held[at][text_name(held[at])]
                walk(content, f"{path}.{at}.{text_name(held[at])}", DEEPEST if isinstance(content, list) else depth)
                for name, inner in held[at].items() if at < 0 else ():  # such as the sources of an answer
                    if name != text_name(held[at]) and (isinstance(inner, list) or fields_of(str(name))):
                        walk(inner, f"{path}.{at}.{name}", depth)
        elif is_objects and depth < DEEPEST and not _can_be("contexts", [held]):
            is_one = len(held) == 1
            if len({tuple(item) for item in held}) == 1:
                for name, first in held[0].items():
                    inner = first if is_one else at_path(held, str(name))
                    walk(None if inner is ABSENT else inner, f"{path}.{name}", depth + 1, of_items or not is_one)
            elif not of_items and not any(item.get("type") in TEXT_PARTS for item in held):
                for at in (0, -1):
                    walk(held[at], f"{path}.{at}", depth)
        elif path and not is_nothing(value):
            paths.setdefault(path, []).append(value)
            name = _last(path)
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
    role = spoken_by(message, sample) if name in TEXT_NAMES else None
    dialogue, _, number = message.rpartition(".")
    if role in SPEAKERS["question"] and is_number(number.removeprefix("-")):
        dialogues = [found for row in sample if isinstance(found := unfolded(at_path(row, dialogue)), list)]
        if any(role_of(one) in SPEAKERS["question"] for said in dialogues for one in said[int(number) :][1:]):
            return ""
    return role


def _speaks(field: str, path: str, values: Sequence[Any]) -> bool:
    """Whether the name of a column or path says that it holds a field, and its values are such texts."""
    says_so = field_said_by(_last(path)) == field and not _is_aside(field, path)
    return says_so and (_are_passages(values) if field == "contexts" else _can_say(field, values))


def _is_aside(field: str, path: str) -> bool:
    """Whether a name says that what it holds belongs to something else, or was expected instead of given."""
    return is_aside(_last(path)) or (field != "truth" and is_about_truth(_last(path)))


def _are_ids(values: Sequence[Any]) -> bool:
    texts = [*map(str, values)]
    return all(LETTER.search(text) and is_label(text) for text in texts)


def _can_say(field: str, values: Sequence[Any]) -> bool:
    """Whether values are neither numbers nor names of files, nor a few texts that repeat."""
    texts = [text for value in values for text in as_chunks(value)[0]] if field == "contexts" else _texts(values)
    texts = [text for text in texts if LETTER.search(text) and not is_label(text)]
    texts = [text for text in texts if text.lower() not in ("true", "false")]
    return bool(texts) and (field == "contexts" or (2 * len(texts) >= len(values) and _vary(texts)))


def _are_passages(values: Sequence[Any]) -> bool:
    """Whether most values hold texts that are longer than titles, and no questions."""
    texts = [[text for text in _sentences(value) if not text.endswith(QUESTION_MARKS)] for value in values]
    long = [any(is_sentence(text, MOST_WORDS) and is_prose(text) for text in some) for some in texts]
    return 2 * sum(long) >= len(values)


def _may_be(field: str, path: str, values: Sequence[Any]) -> bool:
    """Whether values look like those of a field, although their name does not say so."""
    if _says_other(field, path):
        return False
    if field == "contexts":
        return any(map(_is_several, values)) and _are_passages(values)
    if snake_name(_last(path)).split("_")[-1].removesuffix("s") in ("context", *CHUNK_TEXT):
        return False
    texts = _texts(values)
    questions = sum(text.rstrip().endswith(QUESTION_MARKS) for text in texts)
    if field == "question":
        return 2 * questions > len(values)
    return 2 * questions <= len(values) and any(is_sentence(text, LEAST_WORDS) for text in texts) and _vary(texts)


def _says_other(field: str, path: str) -> bool:
    """Whether a name in a path says that another field is there: `evidence.quote` is no answer."""
    return any(field_said_by(name) not in (None, field) for name in path.split("."))


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _vary(texts: Sequence[str]) -> bool:
    """Whether texts are more than a few that repeat, such as names of models."""
    return len(texts) < FEW or FEW * len(set(texts)) > len(texts)


def _length(values: Sequence[Any]) -> float:
    """Return the median length of the texts in values, in characters."""
    return median(sum(map(len, _sentences(value) or _texts([value]))) for value in values) if values else 0


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
    return [text for text in texts if isinstance(text, str) and is_sentence(text)]
