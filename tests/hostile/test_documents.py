"""The short form: all kinds of files that are read fast, and the folder of links."""

from __future__ import annotations

import documents


def test_every_word_is_read_or_its_document_named() -> None:
    findings = documents.run_light(seed=1, soups=30, broken=20)
    assert findings.faults == []
    assert findings.counts["kinds"] > 200 and findings.counts["links"] == 27
    for outcome in ("read whole", "read in part, and said so", "left out, and said so"):
        assert findings.counts[outcome] > 20


def test_the_oracle_sees_a_word_that_is_lost() -> None:
    file = documents.HostileFile("text", ".txt", b"one", ["one", "two"], whole=True)
    campaign = documents._Campaign()
    campaign.read([file])
    assert campaign.faults == ["documents, text (0.txt): words lost: 1 of 2: ['two']"]
