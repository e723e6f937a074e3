"""Which columns seem to hold the answers of several systems, one column each, or to name the system of each row.

They are only suggested: a column is read in this way if the user says so.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rag_zeval.cases.cells import is_nothing
from rag_zeval.cases.name_words import is_about_truth, is_aside, words_of
from rag_zeval.cases.names import field_of, plain_name
from rag_zeval.cases.paths import is_number, option, pattern_of, quoted_list
from rag_zeval.cases.texts import is_sentence
from rag_zeval.files import Row
from rag_zeval.text import QUESTION_MARKS

# The last or first word in the name of a column with the answers of one system, such as `rag_answer`.
ANSWERS = {"answer", "completion", "output", "prediction", "reply", "response"}
# Words that name a form of an answer or a step towards it. `raw_answer` and `answer` are of one system.
FORMS = {"clean", "cleaned", "extracted", "final", "full", "initial", "parsed", "raw", "short"}
# Words in the name of a column that tells systems, or versions of one, apart.
SYSTEMS = {
    "agent", "approach", "architecture", "arm", "config", "configuration", "experiment", "llm", "method", "mode",
    "model", "pipeline", "provider", "rag", "retriever", "setting", "setup", "strategy", "system", "technique",
    "variant", "version",
}  # fmt: skip
# Words that say that a machine wrote an answer. Beside several such columns, another may hold what a person wrote.
MADE = {
    "ai", "bot", "generated", "gpt", "llm", "model", "predicted", "prediction", "rag", "sistem", "sistema", "system",
}  # fmt: skip
SIGNS = ("ends", "begins", "numbered", "differs")  # that columns are alike, the strongest first
MOST_NAMES = 2  # in a path to an answer, such as `rag.answer`; deeper, a name may be that of a question
SENTENCE = 3  # words
LONGEST_NAME = 60  # characters of a system's name
MOST_NAMED = 3  # columns that may name the system
# A number, a date, a time, or a flag: no name of a system.
NO_NAME = re.compile(r"[\W\d]*|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*|true|false|yes|no", re.IGNORECASE | re.DOTALL)


def answers_of_systems(columns: Mapping[str, Sequence[Any]], judged: Collection[str] | None = None) -> list[str]:
    """Return the columns that seem to hold the answers of several systems, at least two; otherwise an empty list.

    Their names end or begin with a word such as `answer`, or differ in one word or number, as in `summary_1`. All hold
    texts.

    columns: names or paths, with the values of some rows. judged: if the file has answers, those of the columns that
    are read as such. Then only columns that resemble one of them are returned, or that are called answers.
    """
    answers = judged or ()  # of the others, one that is called so may hold gold answers
    named = {name: plain_name(name.rpartition(".")[2]) for name in columns}
    free = {name: values for name, values in columns.items() if name in answers or named[name] != "answer"}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in free.items():
        for group in _groups(name, [value for value in values if not is_nothing(value)]):
            groups.setdefault(group, []).append(name)
    found = []
    for (sign, *_), names in groups.items():
        systems = list({_system_words(name): name for name in reversed(names)}.values())[::-1]
        made = [name for name in systems if not MADE.isdisjoint(words_of(name))]
        systems = made if judged is None and len(made) > 1 else systems
        if _are_of_a_record(systems, columns):
            continue
        if len(systems) > 1 and (sign == "ends" or judged is None or not {*judged}.isdisjoint(systems)):
            found.append((SIGNS.index(sign), -len(systems), systems))
    return min(found, default=(0, 0, []))[-1]


def _groups(name: str, values: Sequence[Any]) -> list[tuple[str, ...]]:
    """Return what the names of other columns must share with this one to be answers, too. Each begins with a sign."""
    path, words = name.split("."), words_of(name)
    is_inside = len(path) > MOST_NAMES or is_number(path[-1].removeprefix("-"))  # such as an item of a list
    if (
        is_inside
        or is_about_truth(name)
        or field_of(path[-1]) not in (None, "answer")
        or not any(map(_is_text, values))
    ):
        return []
    stems = [stem for stem in map(_stem, words) if stem]
    if stems and stems[-1] in ANSWERS:
        return [("ends", stems[-1])]
    if not {*map(field_of, words)} <= {None, "answer"} or is_aside(name) or not _are_sentences(values):
        return []
    if stems and stems[0] in ANSWERS:
        return [("begins", stems[0])]
    groups: list[tuple[str, ...]] = [("numbered", pattern_of(name))] if pattern_of(name) != name else []
    groups += [("differs", *words[:at], "*", *words[at + 1 :]) for at in range(len(words)) if len(words) > 1]
    return [*groups, ("differs", "*", *words), ("differs", *words, "*")]


def _are_of_a_record(names: Collection[str], columns: Iterable[str]) -> bool:
    """Whether names are those of one object, which holds something else beside them, such as a label."""
    outer, *others = {name.rpartition(".")[0] for name in names}
    return (
        bool(outer) and not others and any(name.rpartition(".")[0] == outer and name not in names for name in columns)
    )


def _stem(word: str) -> str:
    """Return a word without its number and its plural."""
    return word.rstrip("0123456789").removesuffix("s")


def _system_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that may name a system."""
    return tuple(word for word in words_of(name) if word not in FORMS)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not NO_NAME.fullmatch(value.strip())


def _are_sentences(values: Sequence[Any]) -> bool:
    """Whether at least half of the values are sentences, and not all are the same one."""
    is_varied = len(values) == 1 or len({*map(str, values)}) > 1
    texts = [value for value in values if isinstance(value, str) and not value.rstrip().endswith(QUESTION_MARKS)]
    return is_varied and 2 * sum(is_sentence(text, SENTENCE) for text in texts) >= len(values)


def several_answers(columns: Sequence[str]) -> str:
    """Return the options that make each of these columns the answers of a system."""
    return " ".join(option("answer", name) for name in columns)


def told_as_answers(columns: Sequence[str]) -> str:
    """Return in words that columns seem to hold the answers of several systems, with the options to type."""
    *others, last = columns
    return f"{quoted_list(others)} and '{last}' seem to be answers of several systems: add {several_answers(columns)}"


def naming_systems(rows: Iterable[tuple[str, Row]], columns: Iterable[str]) -> list[str]:
    """Return the columns that seem to name the system of each row, at most three.

    Rows of one key differ in such a column. Its values are few and short texts. If some columns are called so, as
    `model` is, only these are returned.

    rows: each with its key, such as the id of its question.
    """
    keys: Counter[str] = Counter()
    seen: dict[str, set[tuple[str, str]]] = {name: set() for name in columns}
    for key, row in rows:
        keys[key] += 1
        for name in [*seen]:
            value: Any = row.get(name)
            is_name = _is_text(value) and len(value) <= LONGEST_NAME and not is_nothing(value)
            if is_name and (key, value) not in seen[name]:
                seen[name].add((key, value))
            else:
                del seen[name]
    most = max([*keys.values(), keys.total() // 2], default=0)
    found = [name for name, of in seen.items() if len({value for _, value in of}) <= most]
    called = [name for name in found if not SYSTEMS.isdisjoint(words_of(name))]
    return (called or found)[:MOST_NAMED]
