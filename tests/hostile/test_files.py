"""The short forms of the parts that attack files: caches, documents, files of others and files of people."""

import caches
import documents
import foreign_files
import people_files
import pytest
from commands import run_here

QUICK = (
    "results",
    "sheet",
    "gold",
    "metrics",
    "cases",
    "collected",
    "grades",
    "answers",
)  # scenes without slow imports


def test_a_cache_that_is_harmed_costs_no_row_and_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "run_command", run_here)
    findings = caches.run(turns=1, before=(), middle=["no table"], locks=(), disk=False, commands=["evaluate"])
    assert findings.faults == []
    assert findings.counts["entries changed"] >= len(caches.ENTRIES) and findings.counts["warned of a cache"] == 1


def test_every_word_is_read_or_its_document_named() -> None:
    findings = documents.run_light(seed=1, soups=30, broken=20)
    assert findings.faults == []
    assert findings.counts["kinds"] > 200 and findings.counts["links"] == 28
    for outcome in ("read whole", "read in part, and said so", "left out, and said so"):
        assert findings.counts[outcome] > 20


def test_the_oracle_sees_a_word_that_is_lost() -> None:
    file = documents.HostileFile("text", ".txt", b"one", ["one", "two"], whole=True)
    campaign = documents._Campaign()
    campaign.read([file])
    assert campaign.faults == ["documents, text (0.txt): words lost: 1 of 2: ['two']"]


def test_files_of_others_end_no_command_in_a_traceback() -> None:
    findings = foreign_files.run(scenes=QUICK, sample=80, parts=1)
    assert findings.faults == []
    assert findings.counts["attacks"] == 80 and findings.counts["commands run"] > 80


def test_an_honest_file_is_doctored_in_every_place() -> None:
    row = {"a": [{"b": 1}, "c"]}
    found = {kind: change() for kind, change in foreign_files._doctored(row)}
    assert found["NUL as a.1"] == {"a": [{"b": 1}, "a\0b"]} and found["a.0.b is missing"] == {"a": [{}, "c"]}
    assert found["null as the row"] is None and found["a variable in every text"]["a"][1].startswith("${oc.env")
    assert len(found) == 5 * len(foreign_files.VALUES) + 4 + 1 and row == {"a": [{"b": 1}, "c"]}


def test_files_of_people_are_read_as_their_owners_mean_them_or_refused() -> None:
    findings = people_files.run(300)
    assert findings.faults == []
    assert findings.counts["read"] > 270 and findings.counts["scored"] > 30
