"""The short form: a few doctored files meet the real commands."""

from __future__ import annotations

import foreign_files

CHOSEN = (
    r"manifest\.json: a variable as config\.(data_dir|benchmarks\.0)$",
    r"manifest\.json: 10\*\*12 as config\.bootstrap\.draws",
    r"set\.yaml: aliases of aliases",
    r"prices\.json: 10\*\*400 as",
)


def test_files_of_others_read_no_variable_and_hang_nobody() -> None:
    findings = foreign_files.run("|".join(CHOSEN), ["bench", "set"])
    assert findings.faults == []
    assert findings.counts["attacks"] == len(CHOSEN) + 1 and findings.counts["tracebacks"] == 0
