"""`rag-zeval scorers`: what `evaluate --scorers` can run."""

from __future__ import annotations

from itertools import groupby


def scorers() -> None:
    """List the scorers: what each one is, what it needs and how often it calls a model."""
    from rag_zeval.scorers.registry import overview

    print(f"{'':46}  calls  tokens  needs")
    for method, lines in groupby(overview(), key=lambda line: line.method):
        print(f"\n{method}")
        for line in lines:
            calls, tokens = ("-" if not count else f"{count:,}" for count in (line.calls, line.tokens))
            print(f"    {line.name:<42}  {calls:>5}  {tokens:>6}  {line.needs}")
    print(
        "\nCalls and tokens are rough estimates: measured with a rule-based mock judge, for a question with two answers"
    )
    print("and five chunks. `rag-zeval evaluate --dry-run` estimates them for your own file.")
