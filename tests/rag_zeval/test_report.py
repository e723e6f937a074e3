from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import Row
from rag_zeval.judge.evaluator import Evaluator, Example
from rag_zeval.judge.quotes import SEARCHED
from rag_zeval.judge.schema import LETTERS
from rag_zeval.models.scripted import ScriptedBackend
from rag_zeval.report import TEMPLATES, write_report
from rag_zeval.results import result_row, summarize
from rag_zeval.scripted_judge import ScriptedJudge

HOSTILE = "<script>alert('x')</script> \"'> <img src=x onerror=alert(1)> {{ 7 * 191 }} </details></html>"


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.marked = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags[-1:] == ["mark"]:
            self.marked += data


def page(tmp_path: Path, example: Example, reply: str) -> Page:
    evaluator = Evaluator(ScriptedBackend([reply], name=HOSTILE))
    rows = [result_row(evaluator, example, evaluator.evaluate_many([example]).__next__(), 0)]
    path = tmp_path / "report.html"
    write_report(path, [example], rows, summarize(rows))
    return Page(path.read_text(encoding="utf-8"))


def trajectory(claim: str, evidence: list[str], analysis: str = "", supported: bool = True) -> str:
    item = {"claim": claim, "is_supported": supported, "grounding_evidence": evidence, "analysis": analysis}
    return json.dumps([{"id": "A", "answer": "", "atomic_claims": [item]}])


def test_hostile_text_is_shown_and_stays_text(tmp_path: Path) -> None:
    shown = page(tmp_path, Example(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,)), trajectory(HOSTILE, [HOSTILE], HOSTILE))
    harmless = page(tmp_path, Example("i", "q", "r", ("a",)), trajectory("c", ["r"], "n"))
    assert not {"link", "script", "img"} & {*shown.tags}  # nothing is loaded
    assert not {"src", "href"} & {*shown.attributes}
    assert sorted(set(shown.tags)) == sorted(set(harmless.tags)) and set(shown.attributes) == set(harmless.attributes)
    assert shown.text.count("<script>alert('x')</script>") >= 8  # model, question twice, reference, answer, claim, …
    assert "{{ 7 * 191 }}" in shown.text and "1337" not in shown.text


def test_it_shows_what_the_judge_found_and_which_quotes_are_real(tmp_path: Path) -> None:
    example = Example("r1", "Who?", "Ann was born in 1950. She paints.", ("Ann paints.",))
    real = page(tmp_path, example, trajectory("Ann paints.", ["She paints."], "Plainly said."))
    for text in ("r1", "Who?", "Ann paints.", "She paints.", "Plainly said.", "1.00", "supported", "verbatim"):
        assert text in real.text
    assert "She paints." in real.marked and "Ann" not in real.marked
    invented = page(tmp_path, example, trajectory("Ann paints.", ["She paints houses today now."], supported=False))
    assert "not verbatim: longest run found is 33% of its words" in invented.text
    assert "✗ not supported" in invented.text


def test_quotes_longer_than_any_judge_writes_are_shown_and_not_looked_for(tmp_path: Path) -> None:
    example, long = Example("r1", "Who?", "Ann was born. She paints.", ("a",)), "She paints. " * (SEARCHED // 12)
    shown = page(tmp_path, example, trajectory("c", ["She paints.", long, "Ann was born."]))
    assert shown.text.count("verbatim") == 2 and shown.text.count("not looked for") == 1 and long in shown.text
    assert shown.tags.count("mark") == 3  # the two short quotes, and the legend's


def test_a_failed_row_shows_its_reason_and_the_raw_reply(tmp_path: Path) -> None:
    shown = page(tmp_path, Example("r1", "Who?", "r", ("a", "b")), "I <b>refuse</b>.")
    assert "failed: format:" in shown.text and "I <b>refuse</b>." in shown.text and shown.text.count("–") >= 4


def test_answers_have_the_letters_of_the_trajectory(tmp_path: Path) -> None:
    shown = page(tmp_path, Example("r1", "Who?", "r", tuple("a" * len(LETTERS))), "no")
    assert all(f"Answer {letter} " in shown.text for letter in LETTERS)
    assert LETTERS not in (TEMPLATES / "report.html").read_text()


def test_a_long_run_is_written_a_row_at_a_time(tmp_path: Path) -> None:
    """The rows are read as the page is written; what is there already stays until the page is whole."""
    path, example = tmp_path / "new" / "report.html", Example("i", "q", "r " * 2_000, ("a",))
    evaluator = Evaluator(ScriptedBackend([trajectory("c", ["r r"])]))
    row = result_row(evaluator, example, next(evaluator.evaluate_many([example])), 0)
    seen: list[int] = []

    class Stored:
        def __iter__(self) -> Iterator[Row]:
            for at in range(60):
                seen.append(sum(part.stat().st_size for part in path.parent.glob("*.part")) if at else 0)
                yield {**row, "id": f"i#{at}"}

    summary = summarize([row] * 60)
    write_report(path, [example], Stored(), summary)
    assert path.read_text().count("<details") == 60 and list(path.parent.iterdir()) == [path]
    assert seen == sorted(seen) and len(set(seen)) > 20  # the page grows with the rows
    old = path.read_text()
    with pytest.raises(KeyError):
        write_report(path, [], Stored(), summary)
    assert path.read_text() == old


LONG_REFERENCE = "".join(f"<Word{at}> number-{at}\n" for at in range(400_000))


@pytest.mark.parametrize(
    ("reference", "quotes"),
    [(LONG_REFERENCE, [LONG_REFERENCE[:2_000], LONG_REFERENCE[-30:] + "never said"]), ("r", ["r", "." * 10_000_000])],
    ids=["reference", "quote"],
)
def test_ten_megabytes_fit_in_memory(
    reference: str, quotes: list[str], scripted_judge: ScriptedJudge, run_measured: Any, tmp_path: Path
) -> None:
    scripted_judge.replies = trajectory("c", quotes)
    (tmp_path / "in.jsonl").write_text(json.dumps({"question": "q", "reference": reference, "answer": "a"}))
    _, mib = run_measured("evaluate", "in.jsonl", "--model", scripted_judge.spec(), "--html", "report.html")
    assert mib < 300 and (tmp_path / "report.html").stat().st_size > 10_000_000
