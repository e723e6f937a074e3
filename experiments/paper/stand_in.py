"""The judge by the letter in the place of models that are not there, so that every table can be seen filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rag_zeval.files import locate

LITERAL = "literal"  # in the place of a model's name


def is_stand_in(spec: str) -> bool:
    """Whether a spec is one that `with_stand_ins` gives."""
    return spec.startswith(f"openai:{LITERAL}-")


def with_stand_ins(models: Mapping[str, str | None], port: int) -> dict[str, str | None]:
    """The models with an endpoint's spec for each LITERAL, on a port of this machine.

    The port is a fixed one, since a spec is part of what a run is known by.
    """
    url = f"http://127.0.0.1:{port}/v1"
    return {name: f"openai:{LITERAL}-{name}@{url}" if spec == LITERAL else spec for name, spec in models.items()}


@contextmanager
def serving(port: int) -> Iterator[None]:
    """The judge by the letter answers on the port inside. Raises InputError if it is taken."""
    from rag_zeval.literal_judge import count_tokens, literal_reply
    from rag_zeval.scripted_judge import ScriptedJudge

    with locate("literal_port"):
        judge = ScriptedJudge(literal_reply, port=port, keep=False)
    judge.count = count_tokens
    try:
        yield
    finally:
        judge.close()
