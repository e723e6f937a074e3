"""`rag-zeval sample`: a sheet for people to label, to see whether the judge agrees with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.errors import InputError
from rag_zeval.terminal_tables import print_framed


def sample(
    results: Annotated[Path, typer.Argument(help="The result file that `rag-zeval evaluate` wrote.")],
    n: Annotated[int, typer.Option("--n", min=1, help="How many rows to draw.")] = 50,
    metric: Annotated[
        str | None, typer.Option(help="The metric whose verdicts people check. Default: the only one of RESULTS.")
    ] = None,
    unit: Annotated[str, typer.Option(help="What people label in each row: claim or answer.")] = "claim",
    out: Annotated[
        Path, typer.Option(help="The file for the sheet, CSV. A .json file beside it records how rows were drawn.")
    ] = Path("sheet.csv"),
    seed: Annotated[int, typer.Option(help="The seed of the random draw.")] = 0,
) -> None:
    """Draw claims or answers for people to label, into a CSV sheet that hides the judge's scores.

    Every score band and slice gets at least one row; the other rows are drawn in proportion. Give people only the CSV.
    Then `rag-zeval audit` compares their labels with the judge's verdicts.
    """
    from rich.console import Console

    from rag_zeval.audit.sheet import ASKED, UNITS, draw, plan_path, read_items, write_sheet

    if unit not in UNITS:
        raise InputError(f"--unit is '{unit}', but must be one of {', '.join(UNITS)}")
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
    console.print(f"column label: write {ASKED[unit]}; leave it empty if you cannot tell", soft_wrap=True)
    console.print(
        f"{plan_path(out)}: records how the rows were drawn; do not show it to the people who label", soft_wrap=True
    )
