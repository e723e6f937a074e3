"""The short form: every kind of a bad entry, a file that breaks in the middle of a run, and a full disk."""

from __future__ import annotations

import caches


def test_a_cache_that_is_harmed_costs_no_row_and_stops_no_run() -> None:
    findings = caches.run(turns=1, before=["another table"], middle=["no table"], locks=(), commands=("evaluate",))
    assert findings.faults == []
    assert findings.counts["entries changed"] >= len(caches.ENTRIES)
    assert findings.counts["refused at the start"] == 1 and findings.counts["warned of a cache"] == 2
