"""The short form: every kind of a bad entry, and a file that breaks in the middle of a run."""

from __future__ import annotations

import caches


def test_a_cache_that_is_harmed_costs_no_row_and_stops_no_run() -> None:
    findings = caches.run(turns=1, before=(), middle=["no table"], locks=(), disk=False, commands=["evaluate"])
    assert findings.faults == []
    assert findings.counts["entries changed"] >= len(caches.ENTRIES) and findings.counts["warned of a cache"] == 1
