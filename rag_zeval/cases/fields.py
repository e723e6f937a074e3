"""The fields of a case that a file may hold, and what kinds of fields there are."""

from collections.abc import Mapping

# The fields, and their names in messages.
FIELDS: Mapping[str, str] = {
    "question": "question",
    "answer": "answer",
    "answers": "answers by system",
    "contexts": "retrieved contexts",
    "passage": "one retrieved passage a row",
    "truth": "ground truth",
    "reference": "reference to judge by",
    "id": "id",
    "system": "system",
    "slice_tag": "slice",
    "context_ids": "ids of the retrieved contexts",
    "gold_chunk_ids": "ids of the gold chunks",
    "latency_s": "latency in seconds",
    "cost_usd": "cost in dollars",
    "run": "run of a query",
}
NEEDED = {  # required: at least one of the fields on the right
    "question": {"question"},
    "answer": {"answer", "answers"},
    "contexts": {"contexts", "passage", "truth", "reference"},
}
CHECKED = ("contexts", "truth", "reference")  # fields that answers are checked against
TEXTS = ("question", "answer", "answers", "passage", *CHECKED)  # fields that hold texts
OBJECTS = ("contexts", "answers")  # fields whose value may be an object
DOUBLES = {"answer": ("answers",), "contexts": ("passage",)}  # fields that take the place of another
OPTIONAL = ("slice_tag", "context_ids", "gold_chunk_ids", "latency_s", "cost_usd")  # that most commands ignore
