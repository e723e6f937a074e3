"""`make bench-peers`: compare RAG-Zeval with five other packages, on the same answers and the same scripted endpoint.

Each package runs in its own environment, with its own prompts and its own batch runner, as its documentation says. It
has eight requests or rows at a time. The endpoint waits 50 ms before each reply and answers by a word rule
(`word_judge`). The answers belong to questions of the nano world. Each has a ground truth and five contexts.

It prints three tables: without faults, with 5% of the replies broken, and with a kill after half of the calls
and a second start. Finished runs are kept in OUT_DIR. Run the same command again to resume; delete the folder to
measure again. A run of other answers, of another version of a package or of another endpoint is refused.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.peers.runs import BROKEN, PACKAGES, Package, Scores, run, seconds_to_import
from experiments.timing.call_costs import examples
from rag_zeval.errors import InputError
from rag_zeval.files import file_sha256, write_json
from rag_zeval.rows import RowWriter
from rag_zeval.streams import command_line
from rag_zeval.text import content_hash, one_line

ANSWERS = 200
SAME = 1e-6
SOUND, FAULTY, KILLED, TWICE = "sound", "faulty", "killed", "faulty, run twice"
Outcomes = Mapping[str, Mapping[str, Any]]  # by package and kind of run


def answers(n: int) -> list[dict[str, Any]]:
    """Return `n` answers as rows, two for each question; one fewer if n is odd."""
    return [
        {
            "id": f"{example.id}-{at}",
            "question": example.question,
            "answer": answer,
            "ground_truth": example.truth,
            "contexts": list(example.chunks),
        }
        for example in examples(n // 2)
        for at, answer in enumerate(example.answers)
    ]


def measure(packages: Sequence[Package], rows: Path, out: Path, done: RowWriter) -> None:
    """Run each package in each kind of run that has no row yet, and add the rows to `done`.

    Raises InputError for a row of other answers, of another version of the package, or of another endpoint.
    """
    here = Path(__file__).parent
    endpoint = [file_sha256(here / name) for name in ("endpoint.py", "word_judge.py", "runs.py")]
    for package in packages:
        made_of = content_hash(file_sha256(rows), endpoint, package.made_of)
        for kind in (SOUND, FAULTY, KILLED, *[TWICE] * package.keeps):
            id_ = f"{package.name} {kind}"
            if id_ in done.done:
                if done.done[id_].get("made_of") != made_of:
                    raise InputError(
                        f"{done.path}: row {id_!r} is of other answers, another version or another endpoint: delete "
                        f"{out}, or choose another --out-dir"
                    )
                continue
            print(f"{id_} ...", file=sys.stderr, flush=True)
            outcome = run(
                package,
                rows,
                out / package.name / kind,
                broken=BROKEN if kind in (FAULTY, TWICE) else 0.0,
                kill_after=done.done[f"{package.name} {SOUND}"]["calls"] // 2 if kind == KILLED else None,
                times=2 if kind == TWICE else 1,
            )
            imports = {"import_seconds": seconds_to_import(package)} if kind == SOUND else {}
            done.append({**outcome.row(id_), **imports, "made_of": made_of})


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = "|".join(["---", *["---:"] * (len(heads) - 1)])
    lines = (" | ".join(one_line(cell).replace("|", "/") for cell in row) for row in rows)
    return "\n".join(["| " + " | ".join(heads) + " |", f"|{align}|", *(f"| {line} |" for line in lines)])


def scored(scores: Scores) -> int:
    return sum(score is not None for score in scores.values())


def changed(now: Scores, before: Scores) -> int:
    """Count the answers whose score differs from `before`, the scores without faults.

    A score that is missing now does not count; one that was missing before does.
    """
    both = ((score, before.get(id_)) for id_, score in now.items())
    return sum(score is not None and (was is None or abs(score - was) > SAME) for score, was in both)


def tables(packages: Sequence[Package], outcomes: Outcomes, n: int) -> list[str]:
    """Return the three Markdown tables, each after a line that names it."""
    first, second, third = list[list[str]](), list[list[str]](), list[list[str]]()

    def add(table: list[list[str]], package: Package, kind: str, label: str = "") -> None:
        one, sound = (outcomes[f"{package.name} {of}"] for of in (kind, SOUND))
        kept, numbers = scored(one["scores"]), (one["calls"], one["tokens"], one["seconds"], one["paid_twice"])
        cells = [f"{package.name}{label}", *(f"{number:,.0f}" for number in numbers), f"{kept}"]
        if table is first:
            cells += [f"{one[key]:,.0f}" for key in ("most_open", "cpu", "memory")]
            table.append([*cells, f"{one['import_seconds']:.1f}", package.measure])
        else:
            table.append([*cells, f"{n - kept}", f"{changed(one['scores'], sound['scores'])}", one["ended"]])

    for package in packages:
        add(first, package, SOUND)
        add(second, package, FAULTY)
        if package.keeps:
            add(second, package, TWICE, ", run twice")
        add(third, package, KILLED)
    costs = ["package", "calls", "tokens", "seconds", "paid twice", "answers scored"]
    more = [*costs, "rows lost", "other score", "ended with"]
    return [
        f"{n} answers, without faults:",
        markdown([*costs, "most at once", "CPU seconds", "peak MiB", "import seconds", "measure"], first),
        f"{n} answers, {BROKEN:.0%} of the replies broken:",
        markdown(more, second),
        f"{n} answers, killed after half of the calls and started again (both runs together):",
        markdown(more, third),
    ]


def bench_peers(
    n: Annotated[int, typer.Argument(min=2, help="The number of answers, two for each question.")] = ANSWERS,
    out_dir: Annotated[Path, typer.Option(help="The folder for the runs.")] = Path("runs/peers"),
) -> None:
    packages = [package for package in PACKAGES if package.is_installed]
    for package in PACKAGES:
        if package not in packages:
            print(f"{package.name} is left out: run `make {package.environment}/.ready` first", file=sys.stderr)
    out = out_dir.resolve() / str(n)
    rows = out / "answers.json"
    write_json(rows, answers(n))
    with RowWriter(out / "runs.jsonl") as done:
        measure(packages, rows, out, done)
        outcomes = {id_: dict(row) for id_, row in done.done.items()}
    print("\n\n".join(tables(packages, outcomes, 2 * (n // 2))))


main = command_line(bench_peers, "experiments.peers", __doc__)

if __name__ == "__main__":
    sys.exit(main())
