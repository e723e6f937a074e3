"""Result rows as JSON inside the report page.

No text can end the JSON early. Each text is stored once, and a quote by its place in the reference.
"""

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from rag_zeval.files import Row
from rag_zeval.judge.quotes import Quoted, find_quotes
from rag_zeval.report.scores import ScoreTable
from rag_zeval.results import sources
from rag_zeval.scoring.summary import slice_of

ASTRAL = re.compile("[\U00010000-\U0010ffff]")  # characters that take two units of UTF-16
ESCAPED = "<>&\u2028\u2029"  # could end the HTML element around the JSON, or a line of a script


def embedded_json(value: Any) -> str:
    """Return the value as JSON that is safe in any HTML element. Raises ValueError for NaN and infinities."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in ESCAPED:
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def embedded_rows(rows: Iterable[Row], table: ScoreTable) -> Iterator[str]:
    """Yield the JSON object that report.js reads, piece by piece: its head, each row, and its end.

    "metrics" are objects with a name and a scale; "systems" and "slices" are names. Rows refer to these by index. They
    refer to texts by number too: a text is in "new" of the first row that has it, and texts are numbered in the order
    of their first appearance. "sources" are pairs of a name and a text, by which the row was judged. Quotes refer to
    the first source.
    """
    numbers = {
        "metric": {name: at for at, name in enumerate(table.metrics)},
        "system": {name: at for at, name in enumerate(table.systems)},
        "slice": {name: at for at, name in enumerate(table.slices)},
    }
    metrics = [{"name": name, **vars(table.scales[name])} for name in table.metrics]
    head = embedded_json({"metrics": metrics, "systems": table.systems, "slices": table.slices})
    yield f'{head[:-1]},"rows":['
    texts: dict[bytes, int] = {}
    for at, row in enumerate(rows):
        new: list[str] = []
        question, *answers = (_number(text, texts, new) for text in (row["question"], *row["answers"]))
        shown = {
            "case": row["case"],
            "slice": numbers["slice"][slice_of(row)],
            "metric": numbers["metric"][row["metric"]],
            "trial": row["trial"],
            "systems": [numbers["system"][name] for name in row["systems"]],
            "new": new,
            "question": question,
            "sources": [[name, _number(text, texts, new)] for name, text in sources(row)],
            "answers": answers,
            "scores": row["scores"],
            "statuses": row["statuses"],
            "claims": _claims(row),
            "made_of": row["parts"].get("answers"),
            "reply": row["reply"] if row["trajectory"] is None else None,
            "cost": _cost(row),
        }
        yield ("," if at else "") + "\n" + embedded_json(shown)
    yield "]}"


def _number(text: str, texts: dict[bytes, int], new: list[str]) -> int:
    """Return the text's number. A text without a number gets the next one and is added to `new`."""
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if key not in texts:
        texts[key] = len(texts)
        new.append(text)
    return texts[key]


def _claims(row: Row) -> list[list[Row] | None]:
    """Return the claims of each answer with their quotes; None for an answer without a trajectory.

    A quote that is in the reference has "at", its first place: start and end in units of UTF-16, as JavaScript counts.
    Any other quote has "share", how verbatim it is (see `Quoted`). It is None if the quote was not searched.
    """
    trajectory = row["trajectory"]
    if trajectory is None:
        return [None] * len(row["answers"])
    claims = [candidate["atomic_claims"] if candidate else None for candidate in trajectory]
    quoted = find_quotes(
        row["reference"],
        (quote for of_answer in claims for claim in of_answer or () for quote in claim["grounding_evidence"]),
    )
    astral = [match.start() for match in ASTRAL.finditer(row["reference"])]
    return [of_answer and [_claim(claim, quoted, astral) for claim in of_answer] for of_answer in claims]


def _claim(claim: Row, quoted: Quoted, astral: list[int]) -> Row:
    quotes: list[Row] = []
    for text in claim["grounding_evidence"]:
        if place := quoted.first.get(text):
            quotes.append({"text": text, "at": [at + bisect_left(astral, at) for at in place]})
        else:
            quotes.append({"text": text, "share": quoted.verbatim[text]})
    return {
        "text": claim["claim"],
        "supported": claim["is_supported"],
        "quotes": quotes,
        "analysis": claim["analysis"],
    }


def _cost(row: Row) -> str:
    """Say in words what the row cost. Empty if there was neither a call nor a cache hit."""
    tokens = [f"{row[name]} tokens {way}" for name, way in (("prompt_tokens", "in"), ("completion_tokens", "out"))
              if row[name]]  # fmt: skip
    pieces = len(row["parts"].get("pieces", ()))
    windows = sum(map(len, row["parts"].get("windows", ())))
    how = [f"reference judged in {pieces} pieces"] if pieces else []
    how += [f"answers judged in {windows} windows"] if windows else []
    said = [*how, f"calls: {row['calls']}", *([f"from the cache: {row['cached']}"] if row["cached"] else []), *tokens]
    return " · ".join([*said, f"{row['seconds']:.1f} s"]) if row["calls"] or row["cached"] else ""
