"""Reads the answers of a row: that of one system, or those of several."""

from collections.abc import Mapping
from typing import Any

from rag_zeval.cases.cells import as_text, is_nothing
from rag_zeval.cases.columns import Columns
from rag_zeval.cases.fields import FIELDS
from rag_zeval.cases.names import SPREADSHEET_ERRORS
from rag_zeval.cases.paths import at_path, option
from rag_zeval.cases.printed import unfolded
from rag_zeval.errors import InputError
from rag_zeval.files import Row, locate
from rag_zeval.judge.schema import LETTERS
from rag_zeval.text import one_line

SHORTEST_ERROR = 10  # characters of an error that no answer contains by chance


def answers_of(
    row: Row, columns: Columns, chosen: Mapping[str, str], system: str | None, default: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return each system's answer, and for each system without one the reason. A missing answer is an empty text.

    chosen: the columns that the user chose, by field. system: the one that the row names. If the row has several
    answers, each of their names begins with it. default: the system of an answer if the row names none.
    Raises InputError if the column `answers` cannot be read as answers by system.
    """
    if not columns.systems and "answers" not in columns.of:
        found = {system or default: (columns.of["answer"], columns.value(row, "answer"))}
    else:
        if columns.systems:
            several = {name: (name, at_path(row, name)) for name in columns.systems}
        else:
            is_list = "answers" in chosen or not is_nothing(columns.value(row, "reference"))
            by_system = _by_system(columns.value(row, "answers"), columns.of["answers"], is_list)
            several = {str(of): (columns.of["answers"], value) for of, value in by_system.items()}
        found = {f"{system}: {of}" if system else of: one for of, one in several.items()}
    answers, unanswered = {}, {}
    for of, (name, value) in found.items():
        with locate(f"column '{name}'"):
            text, why = _answer(_joined(value, name, row, "answer" in chosen), row)
        answers[of] = text or ""
        if text is None:
            unanswered[of] = why
    return answers, unanswered


def _by_system(value: Any, name: str, is_list: bool) -> Mapping[Any, Any]:
    """Return the answers of a column by system. is_list: whether a list holds those of the systems A, B, ..."""
    several = unfolded(value)
    if isinstance(several, list) and is_list:
        several = {LETTERS[at] if at < len(LETTERS) else str(at): answer for at, answer in enumerate(several)}
    if isinstance(several, Mapping) and any(isinstance(one, list) for one in several.values()):
        raise InputError(
            f"column '{name}' holds lists, not one answer for each system: for gold answers, add "
            f"{option('truth', name)}"
        )
    if isinstance(several, list):
        raise InputError(
            f"column '{name}' is a list that does not name the systems: for gold answers, add "
            f"{option('truth', name)}; for answers of systems, {option('answers', name)}, which calls them "
            "A, B, ..."
        )
    if is_nothing(several):
        raise InputError(f"column '{name}' is empty: fill it in, or remove the row")
    if not isinstance(several, Mapping):
        hint = f"; if it holds the {FIELDS['answer']} of one system, add {option('answer', name)}"
        raise InputError(f"column '{name}' must be an object of answers by system{hint}")
    if not 1 <= len(several) <= len(LETTERS):
        raise InputError(f"column '{name}' has {len(several)} answers, must have 1 to {len(LETTERS)}")
    return several


def _joined(value: Any, name: str, row: Row, is_given: bool) -> Any:
    """Return one text if a path leads to that of one object, or, if it is given, to those of several objects.

    Raises InputError for any other list of texts, which may be gold answers. Other values are returned unchanged.
    """
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        return value
    outer = unfolded(at_path(row, name.rpartition(".")[0])) if name not in row else None
    if not (isinstance(outer, list) and (is_given or len(value) == 1)):
        raise InputError(
            f"must be a text, found a list: for gold answers, add {option('truth', name)}; if its first item is the "
            f"answer, {option('answer', f'{name}.0')}"
        )
    return " ".join(map(str.strip, value))


def _answer(value: Any, row: Row) -> tuple[str | None, str]:
    """Return an answer's text and "". If there is none, return None and the reason, such as the system's error.

    A text that repeats the error of its row is no answer.
    """
    told = value.get("error") if isinstance(value, Mapping) else None
    if isinstance(value, str) and value.strip() in SPREADSHEET_ERRORS:
        told = value.strip()
    if told is None and (text := as_text(value)) is not None:
        error = str(row.get("error") or "").strip()
        if len(error) < SHORTEST_ERROR or error not in text:
            return text, ""
    for name in ("status", "error"):  # `rag-zeval collect` writes a status
        if told is None and not is_nothing(row.get(name)) and row[name] != "ok":
            told = row[name]
    if isinstance(told, Mapping):
        told = told.get("message") or told.get("type")
    told = str(told or "").removeprefix("failed: ")
    return None, f"no answer: {one_line(told)}" if told else "no answer"
