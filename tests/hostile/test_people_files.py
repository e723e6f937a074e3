"""The short form: files as people write them are read as our own, or refused."""

from __future__ import annotations

import people_files


def test_files_are_read_as_their_owners_mean_them_or_refused() -> None:
    findings = people_files.run(300)
    assert findings.faults == []
    assert findings.counts["read"] > 270 and findings.counts["scored"] > 30
