"""`rag-zeval sample`: a sheet for people to label, to see whether the judge agrees with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_framed


def sample(
    results: Annotated[Path, typer.Argument(help="Result rows, as `rag-zeval evaluate` writes them.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Rows to label.")] = 50,
    metric: Annotated[str | None, typer.Option(help="Whose verdicts to check, where the results hold several.")] = None,
    unit: Annotated[str, typer.Option(help="What a row asks about: claim or answer.")] = "claim",
    out: Annotated[
        Path, typer.Option(help="The sheet; how it was drawn goes beside it, into its name + .json.")
    ] = Path("sheet.csv"),
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
) -> None:
    """Draw claims (or answers) for people to label, the judge's scores hidden: a CSV sheet.

    Of every score band and slice at least one row, the others in proportion. Give people the CSV alone. `rag-zeval
    audit` then compares their labels with the judge's.
    """
    from rich.console import Console

    from rag_zeval.audit.items import UNITS, draw, read_items
    from rag_zeval.audit.sheet import ASKED, plan_path, write_sheet

    if unit not in UNITS:
        raise InputError(f"--unit is '{unit}', must be one of {', '.join(UNITS)}")
    population = read_items(results, unit, metric)
    drawn = draw(population.items, n, seed)
    write_sheet(out, population.metric, unit, drawn, seed)
    sizes = Counter(item.stratum for item in population.items)
    rows = Counter(item.stratum for item, _ in drawn)
    print_framed(
        ("score, slice", f"{unit}s", "rows"), [(name, str(sizes[name]), str(rows[name])) for name in sorted(sizes)]
    )
    console = Console(markup=False, highlight=False)
    if population.without:
        console.print(
            f"{population.without} answers have no {'score' if unit == 'answer' else 'claim'} and are left out"
        )
    console.print(f"{out}: {len(drawn)} of {len(population.items)} {unit}s by {population.metric}", soft_wrap=True)
    console.print(f"column label: {ASKED[unit]}; empty if you cannot say", soft_wrap=True)
    console.print(f"{plan_path(out)}: how they were drawn; not for those who label", soft_wrap=True)
