"""Finds fields inside objects: in records such as `inputs`, in replies of model APIs, and in chat messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_zeval.cases.cells import is_nothing, is_object, label_in
from rag_zeval.cases.chat import SPEAKERS, messages_at, role_of, spoken_by, text_name
from rag_zeval.cases.fields import DOUBLES, FIELDS
from rag_zeval.cases.names import RECORDS, REPLIES, field_in_record, field_of, plain_name
from rag_zeval.cases.paths import has_path, one_option, option, quoted_list
from rag_zeval.cases.printed import unfolded
from rag_zeval.cases.systems import several_answers
from rag_zeval.errors import InputError
from rag_zeval.files import Row

REPLY_ROWS = {reply["answer"] for reply in REPLIES}


def in_replies(taken: Mapping[str, str], wrappers: Collection[str], sample: Sequence[Row]) -> dict[str, str]:
    """Return where fields are if the rows, or a column for answers, hold the reply of a known model API."""
    columns = [name for name in wrappers if field_of(name) == "answer"]
    for outer in () if {"answer", "answers"} & taken.keys() else ("", *(f"{name}." for name in columns)):
        for reply in REPLIES:
            there = [field for field, path in reply.items() if any(has_path(row, f"{outer}{path}") for row in sample)]
            if all(field in there for field in ("answer", "contexts") if field in reply):
                return {field: f"{outer}{reply[field]}" for field in there}
    return {}


def in_records(taken: Mapping[str, str], sample: Sequence[Row]) -> dict[str, str]:
    """Return the paths of fields inside objects that hold a row's fields, such as `inputs.question`.

    Raises InputError if several could hold the same field.
    """
    values: dict[str, list[Any]] = {}
    for row in sample:
        for name, value in row.items():
            held = unfolded(value) if plain_name(name) in RECORDS else None
            inner = {f"{name}.{key}": one for key, one in held.items()} if isinstance(held, Mapping) else {name: value}
            for path, one in inner.items():
                values.setdefault(path, []).extend([] if is_nothing(one) else [one])
    found: dict[str, str] = {}
    for field in ("question", "answer", "contexts", "truth", "reference"):
        no_texts: Any = label_in if field == "contexts" else lambda of: of and all(map(is_object, of))
        if not {field, *DOUBLES.get(field, ())} & taken.keys():
            named = {path: len(of) for path, of in values.items() if field_in_record(path) == field}
            named = {path: count for path, count in named.items() if not no_texts(values[path])}
            if one := one_of([*named], field, named):
                found[field] = one
    return found


def in_messages(taken: Mapping[str, str], wrappers: Collection[str], sample: Sequence[Row]) -> dict[str, str]:
    """Return the paths of the question and the answer if each is the content of the only chat message of its column."""
    found: dict[str, str] = {}
    for field in ("question", "answer"):
        paths: list[str] = []
        for name in wrappers:
            if field_of(name) == field or plain_name(name) in (*RECORDS, "message"):
                rows = [row for row in sample if not is_nothing(row.get(name))]
                inner = (f"{name}{rest}" for rest in ("", ".message", ".messages"))
                paths += [path for path in inner if spoken_by(path, rows) in SPEAKERS[field]]
        if len(paths) == 1 and not {field, *DOUBLES.get(field, ())} & taken.keys():
            found[field] = f"{paths[0]}.{text_name(next(filter(role_of, messages_at(paths[0], sample))))}"
    return found


def one_of(found: Sequence[str], field: str, there: Mapping[str, int], systems: Sequence[str] = ()) -> str | None:
    """Return the column to use, or None if none was found.

    A column without any value is used only if all are empty. Our own name wins. An exception is `answer`, because it
    may hold gold answers. A prompt gives way to a query, because it may hold the contexts, too, and so does an
    instruction, which may be that of the system. Raises InputError if several columns are left.

    systems: the columns that seem to hold the answers of several systems.
    """
    filled = [name for name in found if there[name]] or found[:1]
    for vague in ("prompt", "instruction"):
        if not {vague, "input"}.issuperset(map(plain_name, filled)):
            filled = [name for name in filled if plain_name(name) != vague]
    if len(filled) < 2:
        return next(iter(filled), None)
    if field in filled and field != "answer":
        return field
    way_out = one_option(field, filled)
    other = ""
    if field == "answer":
        gold = min(filled, key=lambda name: plain_name(name) != "answer")  # in files of benchmarks
        one = next(name for name in reversed(filled) if name != gold) if len(filled) == 2 else "COLUMN"
        several = several_answers(systems) if len({*systems} & {*filled}) > 1 else None
        if several:
            other = f"; if {quoted_list(systems)} are answers of several systems, {several}"
        if not several or gold not in systems:
            judged = several or option("answer", one)
            other += f"; if '{gold}' holds the {FIELDS['truth']}, {judged} {option('truth', gold)}"
    raise InputError(f"columns {quoted_list(filled)} could each hold the {FIELDS[field]}: add {way_out}{other}")
