"""The page in a real browser: what is shown, found and led to, by mouse and by keys, at every size."""

import itertools
import json
import math
import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import Row
from rag_zeval.judge.quotes import SEARCHED
from rag_zeval.report.html import write_report
from rag_zeval.scoring.summary import summarize

HOSTILE = (
    "</script><script>document.title='moved'</script><!--<script> \"' {{ 7 * 191 }} {% raw %} ]]> &lt;",
    "<img src=x onerror=\"document.title='moved'\"><svg onload=\"document.title='moved'\"><style>*{opacity:0}</style>",
    "\u202e\u2067turned\u2069 \u200f \u2028 \u2029 \ud83d \udc00 \x00\x07\x1b[31m \ufeff 🙂👩‍👩‍👧 e\u0301",
    "w" * 100_000,
    "__proto__",
)
HIGH = 4000  # pixels of a window that has room for some dozens of cases
MakeRow = Callable[..., Row]


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "handlers", "marks", "long", "proto"])
def test_any_text_is_shown_as_it_is_and_stays_text(
    text: str, browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    named = {"metric": text, "systems": [text], "question": text, "slice_tag": text, "model": text, "answers": [text]}
    claims = [[{**make_claim(text, False, text, "never said"), "analysis": text}]]
    rows = [
        make_row(text, claims, **named, reference=f"🙂 {text} 🙂"),
        make_row("2", [None], **named, statuses=[f"failed: {text}"], status=text, trajectory=None, reply=text),
        make_row("3", parts={"answers": [{text: text}]}),
    ]
    browser.open(write_page(rows), height=HIGH)
    browser.press("j", "Enter")
    shown = json.dumps(text)
    for selector in ("#list .open .asked", ".answer", ".reference mark, .reference", ".claim > .text", "button.quote"):
        texts = f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)"
        assert browser.run(f"{texts}.some((one) => one.includes({shown}))"), selector
    browser.press("j")
    assert browser.run(f"document.querySelector('.reply').textContent === {shown}")
    assert browser.run("document.title") == "RAG-Zeval report"
    assert browser.run("[document.scripts.length, document.images.length, document.styleSheets.length]") == [1, 0, 1]
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), "a text is wider than the window"
    assert browser.problems == []


def test_texts_run_in_the_direction_of_their_own_letters(
    browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    text = "هل المتحف مفتوح؟ نعم."
    named = {"systems": [text], "question": text, "slice_tag": text, "answers": [text]}
    claims = [[{**make_claim(text, True, text), "analysis": text}]]
    browser.open(write_page([make_row("1", claims, **named, reference=f"Open.\n{text}"), make_row("2")]), height=HIGH)
    browser.choose("order", "as in the file")
    browser.press("j", "Enter")
    rightwards = """(selector) => {
      const [walker, texts] = [document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT), []];
      while (walker.nextNode()) texts.push(walker.currentNode);
      const text = texts.find((one) => one.data.includes("هل"));
      const [first, last] = [text.data.indexOf("ه"), text.length - 1].map((at) => {
        const range = document.createRange();
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect().left;
      });
      return last > first;
    }"""
    boxes = ("#head", "#list .question", "#list .slice", ".pick", "th .name", ".asked", ".systems h3", ".answer",
             ".claim > .text", ".claim > .note", ".quote", ".reference")  # fmt: skip
    assert [box for box in boxes if browser.run(f"({rightwards})({json.dumps(box)})")] == []
    assert browser.run("getComputedStyle(document.querySelector('.asked')).textAlign") == "start"


@pytest.mark.parametrize("width", [1300, 400])
def test_names_that_differ_only_at_their_ends_can_be_told_apart_at_every_width(
    width: int, browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    long = "a name of many words, the same in each " * 12
    rows = [
        make_row(
            f"{long}{at}", [[make_claim("So.", False)]] * 2, slice_tag=f"{long}{at}", systems=[f"{long}x", f"{long}y"]
        )
        for at in range(2)
    ]
    browser.open(write_page(rows), width=width, height=HIGH)
    browser.press("j", "Enter")
    # the end of each name is on the page, or in a box that scrolls to it
    names = json.dumps("th .name, figure .name, .pick, .systems .name, .which bdi")
    reached = (
        f"[...document.querySelectorAll({names})]"
        + """.every((name) => {
      if (getComputedStyle(name).overflowY !== "hidden") name.scrollTop = name.scrollHeight;
      const [box, end] = [name.getBoundingClientRect(), document.createRange()];
      end.selectNodeContents(name);
      const last = [...end.getClientRects()].at(-1);
      return last.bottom <= box.bottom + 1 && last.right <= box.right + 1;
    })"""
    )
    assert browser.run(reached)
    assert browser.texts(".which bdi") == [f"{long}0", f"{long}0"]
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    spoken = browser.run("document.querySelector('#list .score').ariaLabel")  # the head of its column is only seen
    assert spoken == f"{long}x"[:300] + ": 0.00"


def test_the_first_column_stays_while_a_table_of_many_systems_scrolls(
    browser: Any, write_page: Any, make_row: MakeRow
) -> None:
    systems = [f"system {at}" for at in range(10)]
    rows = [
        make_row(at, metric="rag_zeval@contexts", systems=[system], slice_tag=at) for system in systems for at in "ab"
    ]
    for width in (1300, 400):
        browser.open(write_page(rows), width=width)
        browser.run("document.querySelector('.wide').scrollLeft = 500")
        browser.wait()
        left = "[...document.querySelectorAll('.wide th:first-child')].map((one) => one.getBoundingClientRect().left)"
        assert all(at >= 0 for at in browser.run(left))
        lines = """[...document.querySelectorAll(".wide th:first-child .name")].map((one) => {
          const text = document.createRange();
          text.selectNodeContents(one);
          return text.getClientRects().length;
        })"""
        assert set(browser.run(lines)) == {1}, "a metric's name is broken within a word"


def test_what_gets_into_the_page_all_the_same_may_neither_run_nor_load(
    browser: Any, write_page: Any, make_row: MakeRow
) -> None:
    browser.open(write_page([make_row("1")]))
    browser.run(
        """new Promise((done) => {
          document.body.insertAdjacentHTML("beforeend", "<img src='data:,x' onerror='document.title = 1'>"
            + "<div style='position: fixed'></div><link rel=stylesheet href='http://127.0.0.1:9/x.css'>");
          const script = document.createElement("script");
          script.textContent = "document.title = 2";
          document.body.append(script);
          fetch("http://127.0.0.1:9/").catch(() => setTimeout(done, 100));
        })"""
    )
    assert browser.run("document.title") == "RAG-Zeval report"
    refused = " ".join(event["params"]["entry"]["text"] for event in browser.problems if "entry" in event["params"])
    for directive in ("img-src", "style-src", "script-src", "connect-src"):
        assert f"{directive}" in refused or "default-src" in refused
    assert browser.run("getComputedStyle(document.body.lastElementChild.previousElementSibling).position") != "fixed"


def test_a_quote_leads_to_its_place(browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any) -> None:
    reference = f"🙂🙂 Ann\n was born in 1950 🙂. {'She is not here. ' * 200}She paints. She paints."
    supported, long = ["She  paints.", "Ann was born in 1950 🙂."], "She paints. " * (SEARCHED // 12)
    claims = [[make_claim("One.", True, *supported), make_claim("Two.", False, "born in 1950", "She flies.", long)]]
    browser.open(write_page([make_row("1", claims, reference=reference)]))
    assert browser.texts("#count") == ["1 case"]
    browser.press("j", "Enter")
    assert browser.texts("mark") == ["Ann\n was born in 1950 🙂.", "She paints."]  # the first place; overlaps are one
    for at, mark in ((0, 1), (1, 0), (2, 0)):
        browser.run(f"document.querySelectorAll('button.quote')[{at}].click()")
        assert browser.texts("mark.found") == [browser.texts("mark")[mark]]
        seen = """(() => {
          const elements = [".found", ".reference"].map((one) => document.querySelector(one));
          const [mark, box] = elements.map((one) => one.getBoundingClientRect());
          return box.top <= mark.top && mark.bottom <= box.bottom && mark.bottom <= window.innerHeight;
        })()"""
        assert browser.run(seen)
    near, long = browser.texts(".quote.absent")
    assert near == "She flies.≠ not in the retrieved contexts word for word, only 33% of its words in a row"
    assert long.endswith("not checked: too long")
    assert browser.texts(".verdict") == ["✓ supported", "✗ not supported"]


def test_systems_and_trials_and_references_stand_beside_each_other(
    browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    good, bad = [make_claim("Good.")], [make_claim("Bad.", False)]
    rows = [
        make_row("1", [good, bad]),
        make_row("1", [bad, bad], trial=1),
        make_row("1", [good, None], metric="rag_zeval@truth", reference="The truth.", reference_kind="truth"),
        make_row("1", [good], metric="rag_zeval@truth", systems=["third"], reference="A truth of its own.",
                 reference_kind="truth"),
        make_row("1", [None], metric="is_correct", systems=["third"], scores=[1.0], statuses=["ok"], trajectory=None,
                 parts={"answers": [{"reasoning": "It says the same."}]}, reference="A truth of its own.",
                 reference_kind="truth", chunks=["It is so. It was so."]),
        make_row("1", [None], metric="answered", systems=["third"], reference="", reference_kind=None),
        make_row("1", [None], metric="old", systems=["third"], reference="Of before it was told.", reference_kind=None),
        make_row("1", [None], metric="bleu@truth", systems=["third"], reference="", reference_kind="truth"),
    ]  # fmt: skip
    browser.open(write_page(rows), height=HIGH)
    assert browser.texts("#list .score") == ["0.50", "0.00"]  # of rag_zeval, the first metric
    browser.press("j", "Enter")
    assert browser.texts(".systems h3") == ["answer", "other", "third"]
    places = browser.run(
        "[...document.querySelectorAll('.systems h3')].map((one) => one.getBoundingClientRect())"
        ".map(({ left, top }) => [left, top])"
    )
    assert len({top for _, top in places}) == 1 and len({left for left, _ in places}) == 3
    assert browser.texts(".references h3") == [
        "Retrieved contexts for rag_zeval, is_correct",
        "Ground truth for rag_zeval@truth of answer, other",
        "Ground truth for rag_zeval@truth of third, is_correct",
        "Reference for old",
        "Ground truth for bleu@truth",
    ]
    assert browser.texts(".references .note") == ["None."]
    titles = ["rag_zeval, trial 1", "rag_zeval, trial 2", "rag_zeval@truth, trial 1", "is_correct, trial 1",
              "answered, trial 1", "old, trial 1", "bleu@truth, trial 1"]  # fmt: skip
    assert browser.texts(".systems h4") == titles
    scores = browser.run(  # of rag_zeval@truth, two systems in one row and the third in another
        "[...document.querySelectorAll('.systems h4')[2].parentElement.children].slice(14, 17)"
        ".map((one) => [one.querySelector('.score').textContent, one.getBoundingClientRect().top])"
    )
    assert [score for score, _ in scores] == ["1.00", "failed", "1.00"] and len({top for _, top in scores}) == 1
    assert "It says the same." in browser.texts(".made-of")[0]
    browser.choose("system", "other")
    assert browser.texts(".systems h3") == ["other"]


def many(make_row: MakeRow, make_claim: Any) -> list[Row]:
    """Sixty cases with all that filters ask about."""
    rng = random.Random(3)
    rows = []
    for case, metric in itertools.product(range(60), ("rag_zeval", "hallucination")):
        claims: list[Any] = [
            [make_claim(f"Claim {rng.randrange(20)}.", rng.random() < 0.6) for _ in range(rng.randint(1, 4))]
            for _ in range(2)
        ]
        status = rng.choice(["ok", "ok", "repaired", "failed: HTTP 500"])
        changes: Row = {"slice_tag": rng.choice([None, "billing", "returns"]), "question": f"Does {case / 7} hold?"}
        if metric == "hallucination":
            changes |= {"metric": "ragchecker_hallucination"}
        if status.startswith("failed"):
            claims, changes["trajectory"] = [None, None], None
        rows.append(make_row(str(case), claims, **changes, statuses=[status] * 2))
    return rows


def said(row: Row) -> list[str]:
    claims = [claim for candidate in row["trajectory"] or () for claim in candidate["atomic_claims"]]
    quoted = [text for claim in claims for text in (claim["claim"], claim["analysis"], *claim["grounding_evidence"])]
    named = [row["case"], row["slice_tag"] or "(none)", row["question"], row["reference"]]
    return [*named, *row["answers"], *row["statuses"], *quoted]


def expected(rows: list[Row], chosen: Row) -> list[str]:
    """The ids that the filters `chosen` leave, in their order; a second way to find them."""
    slices = {(row["case"], row["slice_tag"] or "(none)") for row in rows}
    better = -1 if chosen["metric"] == "ragchecker_hallucination" else 1
    sign = -better if chosen["order"] == "best first" else better
    found = []
    for row in rows:
        places = [at for at, name in enumerate(row["systems"]) if chosen["system"] in ("any system", name)]
        candidates = [row["trajectory"][at]["atomic_claims"] for at in places] if row["trajectory"] else []
        false = [claim for claims in candidates for claim in claims if not claim["is_supported"]]
        texts = " ".join(text for other in rows if other["case"] == row["case"] for text in said(other)).lower()
        if (
            row["metric"] == chosen["metric"]
            and (chosen["slice"] == "any slice" or (row["case"], chosen["slice"]) in slices)
            and any(row["statuses"][at].startswith(chosen["status"]) for at in places)
            and (false or not chosen["unsupported"])
            and all(word in texts for word in chosen["words"].lower().split())
        ):
            scores = [sign * row["scores"][at] for at in places if row["scores"][at] is not None]
            found.append((min(scores, default=math.inf), -len(false), row["case"]))
    if chosen["order"] != "as in the file":
        found.sort(key=lambda one: one[:2])
    return [case for *_, case in found]


FILTERS: dict[str, list[Any]] = {
    "metric": ["rag_zeval", "ragchecker_hallucination"],
    "system": ["any system", "answer", "other"],
    "slice": ["any slice", "any slice", "(none)", "billing"],
    "status": ["", "", "ok", "failed"],
    "order": ["worst first", "best first", "as in the file"],
    "unsupported": [False, False, True],
    "words": ["", "claim 7", "HOLD?", "no such words"],
}


def test_filters_and_orders(browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any) -> None:
    rows, rng = many(make_row, make_claim), random.Random(5)
    browser.open(write_page(rows), height=HIGH)
    lengths = set()
    for _ in range(40):
        chosen = {name: rng.choice(values) for name, values in FILTERS.items()}
        browser.run(f"filters.search.value = {json.dumps(chosen['words'])}")  # counts with the next filter, at once
        for name in ("metric", "system", "slice", "order", "unsupported"):
            browser.choose(name, chosen[name])
        statuses = browser.run("[...document.getElementById('status').options].map((one) => one.text)")  # "ok (31)"
        wanted = f"{chosen['status']} (" if chosen["status"] else "any status"
        browser.choose("status", next(status for status in statuses if status.startswith(wanted)))
        browser.wait()
        found = expected(rows, chosen)
        assert browser.ids() == found, chosen
        assert browser.texts("#count") == ["60 cases" if len(found) == 60 else f"{len(found)} of 60 cases"]
        lengths.add(len(found))
    assert len(lengths) > 10 and 0 in lengths
    assert browser.problems == []


def test_only_unsupported_claims_are_left_and_a_slice_is_chosen_in_its_table(
    browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    mixed = [[make_claim("Yes."), make_claim("No.", False)]]
    rows = [make_row("1", mixed, slice_tag="a"), make_row("2", slice_tag="b"), make_row("3", slice_tag="b")]
    browser.open(write_page(rows), height=HIGH)
    browser.press("j", "Enter")
    assert browser.texts(".claim > .text:not(.note)") == ["Yes.", "No."]
    browser.choose("unsupported", True)
    assert browser.ids() == ["1"] and browser.texts(".claim > .text:not(.note)") == ["No."]
    assert "1 supported claim not shown" in browser.texts(".open .note")
    browser.choose("unsupported", False)
    assert browser.texts("button.pick") == ["a", "b"]  # the worst first
    browser.run("document.querySelectorAll('button.pick')[1].click()")
    assert browser.ids() == ["2", "3"]


def test_one_id_with_two_questions_is_two_cases_and_a_case_is_found_in_the_slice_of_each_row(
    browser: Any, write_page: Any, make_row: MakeRow
) -> None:
    old, new, other = ({"systems": [name], "slice_tag": name, "id": f"{name}:1"} for name in ("old", "new", "other"))
    rows = [make_row("1", **old), make_row("1", **new), make_row("1", **other, question="Else?")]
    browser.open(write_page(rows))
    assert browser.ids() == ["1", "1"] and browser.texts("header .note")[0].startswith("2 cases")
    for name in ("old", "new", "other"):
        browser.choose("slice", name)
        assert browser.ids() == ["1"]
    assert browser.problems == []


WORD = "Zürich's <Ort>"
IN_ROW: dict[str, Row] = {  # the changes that put it there
    "question": {"question": f"about {WORD}."},
    "decomposed": {"question": unicodedata.normalize("NFD", WORD)},
    "reference": {"reference": f"about {WORD}."},
    "answers": {"answers": [f"in {WORD}"]},
    "reply": {"trajectory": None, "scores": [None], "statuses": ["failed: x"], "reply": WORD},
    "reasons": {"parts": {"answers": [{"reasoning": WORD}]}},
}
IN_CLAIM: dict[str, Row] = {
    "claim": {"claim": WORD}, "quote": {"grounding_evidence": [WORD]}, "analysis": {"analysis": WORD}
}  # fmt: skip


@pytest.mark.parametrize("place", [*IN_ROW, *IN_CLAIM])
def test_search_finds_every_text(place: str, browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any) -> None:
    claims = [[{**make_claim("Said.", True, "It is so."), **IN_CLAIM.get(place, {})}]]
    browser.open(write_page([make_row("1"), make_row("2", claims, **IN_ROW.get(place, {})), make_row("3")]))
    browser.search("<ort> zürich")
    assert browser.ids() == ["2"]
    browser.search("<ort> zurich")
    assert browser.ids() == [] and browser.texts("#nothing") == ["No case matches these filters."]


def test_keys(browser: Any, write_page: Any, make_row: MakeRow) -> None:
    browser.open(write_page([make_row(str(at)) for at in range(200)]))

    def at() -> tuple[list[str], list[str]]:
        return browser.texts(".current .id"), browser.texts(".open .id")

    browser.press("k")
    assert at() == (["0"], [])
    browser.press("j", "j")
    assert at() == (["2"], [])
    browser.press("Enter")
    assert at() == (["2"], ["2"]) and len(browser.texts(".body")) == 1
    browser.press("j")
    assert at() == (["3"], ["3"]) and len(browser.texts(".body")) == 1  # the next one is opened in its place
    browser.press("Escape")
    assert at() == (["3"], [])
    browser.press(*"j" * 60)
    assert at() == (["63"], [])
    on_screen = "document.querySelector('.current').getBoundingClientRect().bottom <= window.innerHeight"
    assert browser.run(on_screen)
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    browser.press("j", "Escape")
    assert not browser.run("document.getElementById('help').open") and at() == (["63"], [])
    browser.press("/", *"question 17")
    browser.wait(300)
    assert browser.run("document.activeElement.id") == "search" and browser.ids()[:3] == ["17", "117", "170"]
    browser.press("Enter")
    assert at() == (["17"], []) and browser.run("document.activeElement.className") == "row"
    browser.press("/", "Escape", "j", "Enter")
    assert at() == (["117"], ["117"])
    browser.choose("order", "best first")
    assert at() == (["117"], ["117"]), "what is open stays open where it is still there"
    assert browser.problems == []


def long_rows(make_row: MakeRow, make_claim: Any, n: int) -> Iterator[Row]:
    """Cases with references of 3,000 characters; quotes in one of ten, since looking for them takes longest."""
    rng = random.Random(7)
    words = [f"word{at}" for at in range(3000)]
    for at in range(n):
        reference = " ".join(rng.choices(words, k=380))
        supported = rng.random() < 0.7
        claims = [[make_claim(reference[:80], supported, *([reference[-200:]] if at % 10 == 0 else []))] * 3] * 2
        yield make_row(f"case {at}", claims, reference=reference, slice_tag=f"slice {at % 7}")


@pytest.mark.parametrize("n", [10, 1_000, 10_000])
def test_the_page_opens_at_once_at_every_size(
    n: int, browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    page = write_page(list(long_rows(make_row, make_claim, n)))
    assert page.stat().st_size < 5_000 * n + 100_000  # each text once
    browser.open(page)
    opening = browser.cpu_seconds
    clock = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    print(f"{n} cases, {page.stat().st_size / 1e6:.1f} MB: {opening:.2f} s of work, {clock:.2f} s by the clock")
    assert opening < 3
    assert len(browser.texts("#list .case")) < 60 and browser.texts("#count") == [f"{n:,} cases"]
    browser.run("window.scrollTo(0, document.documentElement.scrollHeight)")
    browser.wait(100)
    assert f"{n}" in browser.run("[...document.querySelectorAll('.case')].map((one) => one.ariaPosInSet)")
    assert len(browser.texts("#list .case")) < 60
    for words in ("", "word17 word2999"):
        filtering = "(() => { const start = performance.now(); update(); return performance.now() - start; })()"
        browser.run(f"filters.search.value = {json.dumps(words)}")
        print(f"filtered by {words!r} in {browser.run(filtering):.0f} ms")
    assert browser.problems == []


def test_figures_are_those_of_the_summary(browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any) -> None:
    rows = many(make_row, make_claim)
    browser.open(write_page(rows))
    summary = summarize(rows)
    cells = " ".join(browser.run("document.querySelector('table').innerText").split())
    for column in summary.columns:
        assert column.mean is not None and column.ci is not None
        low, high = column.ci
        assert f"{column.mean:.3f} [{low:.3f}, {high:.3f}] {column.scored} of {column.answers}" in cells
    assert "lower is better" in cells
    for at, (metric, order) in enumerate({"rag_zeval": 1, "ragchecker_hallucination": -1}.items()):
        worst: dict[str, float] = {}
        for column in summary.slices:
            if column.metric == metric and column.mean is not None:
                worst[str(column.slice_tag)] = min(order * column.mean, worst.get(str(column.slice_tag), math.inf))
        assert browser.texts("button.pick")[3 * at : 3 * at + 3] == sorted(worst, key=worst.__getitem__)
    bars = browser.run("[...document.querySelectorAll('.histogram')].map((one) => one.getAttribute('aria-label'))")
    for label, column in zip(bars, summary.columns, strict=True):
        assert sum(map(int, re.findall(r"\d+", label))) == column.scored


def test_many_systems_stand_below_each_other_and_their_slices_side_by_side(
    browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    claims = {at: [[make_claim("c", share < at) for share in range(5)]] for at in range(6)}
    rows = [
        make_row(str(case), claims[(at + case) % 6], metric=metric, systems=[f"system {at}"], slice_tag=f"s{case % 2}")
        for metric in ("rag_zeval", "rag_zeval@truth") for at in range(7) for case in range(6)
    ]  # fmt: skip
    browser.open(write_page(rows))
    summary = summarize(rows)
    scores, *slices = browser.run("[...document.querySelectorAll('table')].map((one) => one.innerText)")
    assert re.findall(r"system \d", scores) == [f"system {at}" for at in range(7)]
    for shown, columns in ((scores, summary.columns), ("\n".join(slices), summary.slices)):
        expected = [f"{one.mean:.3f} [{one.ci[0]:.3f}, {one.ci[1]:.3f}]" for one in columns if one.ci is not None]
        found = re.sub(r"\s+", " ", re.sub(r"\d of \d", "", shown))
        assert len(expected) == len(columns) and sorted(re.findall(r"\d\.\d+ \[.*?\]", found)) == sorted(expected)
    right = "[...document.querySelectorAll('#slices ~ .wide td')].map((one) => one.getBoundingClientRect().right)"
    assert max(browser.run(right)) < 1400, "a system is out of sight"
    levels = browser.run("[...document.querySelectorAll('.small')].map((one) => one.classList[1])")
    assert sorted(levels) == sorted(f"level-{min(4, int(5 * (one.mean or 0)))}" for one in summary.slices)


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_coloured_can_be_read(
    scheme: str, browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    """Contrast of at least 4.5 : 1 (WCAG 2.2, AA), in both schemes; scores of five colours."""
    rows = [
        make_row(str(good), [[make_claim("c", at < good, "It is so.", "no") for at in range(4)]]) for good in range(5)
    ]
    browser.open(write_page(rows), scheme=scheme)
    browser.press("j", "j", "Enter")
    names = [".score", ".verdict.yes", ".verdict.no", "mark", ".note", ".quote", ".row .doubt", ".row .id"]
    ratios = browser.run(
        json.dumps(names)
        + """.flatMap((one) =>
          [...document.querySelectorAll(`#list ${one}`)].map((element) => {
            let behind = element;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [one, getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
          }))"""
    )
    assert len({background for name, _, background in ratios if name == ".score"}) == 5
    for name, ink, paper in ratios:
        dark, light = sorted((luminance(ink), luminance(paper)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name
    white = luminance(browser.run("getComputedStyle(document.body).backgroundColor")) > 0.5
    assert white == (scheme == "light")


def test_cases_are_printed_as_they_are_filtered(browser: Any, write_page: Any, make_row: MakeRow) -> None:
    rows = [make_row(str(at)) for at in range(149)]
    browser.open(write_page([*rows, make_row("x" * 600, slice_tag="slice")]), height=1200, scheme="dark")
    browser.search("12")
    browser.run("addEventListener('beforeprint', () => { window.printed = find('printed').children.length })")
    browser.call("Page.printToPDF")
    assert browser.run("printed") == len(browser.ids()) == 12
    browser.search("")
    browser.call("Page.printToPDF")
    assert browser.run("printed") == 101 and browser.run("find('printed').children.length") == 0
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.choose("slice", "slice")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.texts("#printed .which bdi") == ["x" * 600, "slice"] and "x" * 600 not in browser.texts("#list .id")
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")  # nothing is cut off
    assert browser.run("getComputedStyle(document.querySelector('.wide')).overflowX") == "visible"
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert luminance(browser.run("getComputedStyle(document.body).backgroundColor")) > 0.5
    browser.call("Emulation.setEmulatedMedia", media="")


def test_a_run_that_was_stopped_does_not_look_complete(make_row: MakeRow, tmp_path: Path) -> None:
    """Cases without a row lower no coverage, so the page names them."""
    rows = [make_row(str(at), metric=metric) for metric, cases in (("m", 3), ("n", 2)) for at in range(cases)]
    pages = []
    for found in (rows, rows[:3]):
        write_report(tmp_path / "page.html", found)
        pages.append(re.sub("<[^>]+>", "", (tmp_path / "page.html").read_text()))
    assert "Not every mean is over the same cases: n of answer has 2 of 3 cases. A run" in pages[0]
    assert "Not every mean" not in pages[1]


def test_a_long_run_is_written_a_row_at_a_time(make_row: MakeRow, tmp_path: Path) -> None:
    """The rows are read as the page is written; what is there already stays until the page is whole."""
    path = tmp_path / "new" / "report.html"
    seen: list[int] = []

    class Stored:
        def __iter__(self) -> Iterator[Row]:
            for at in range(60):
                seen.append(sum(part.stat().st_size for part in path.parent.glob("*.part")))
                yield make_row(str(at), reference=f"r{at} " * 20_000)  # about as much as a file buffers

    write_report(path, Stored())
    assert path.read_text().count('\n{"case":') == 60 and list(path.parent.iterdir()) == [path]
    assert seen == sorted(seen) and len(set(seen)) > 20  # the page grows with the rows
    old = path.read_text()
    with pytest.raises(KeyError):
        write_report(path, [{"case": "1"}])
    assert path.read_text() == old


LONG_REFERENCE = "".join(f"<Word{at}> number-{at}\n" for at in range(400_000))


@pytest.mark.parametrize(
    ("reference", "quotes"),
    [(LONG_REFERENCE, [LONG_REFERENCE[:2_000], LONG_REFERENCE[-30:] + "never said"]), ("r", ["r", "." * 10_000_000])],
    ids=["reference", "quote"],
)
def test_ten_megabytes_fit_in_memory(
    reference: str, quotes: list[str], write_rows: Any, make_row: MakeRow, make_claim: Any, run_measured: Any
) -> None:
    rows: Path = write_rows([make_row("1", [[make_claim("c", True, *quotes)]], reference=reference)])
    _, mib = run_measured("report", rows, "--html", "report.html")
    assert mib < 300 and rows.with_name("report.html").stat().st_size > 10_000_000


def test_an_answer_that_is_none_has_its_reason_and_no_claims(
    browser: Any, write_page: Any, make_row: MakeRow, make_claim: Any
) -> None:
    statuses, trajectory = ["ok", "failed: no answer: HTTP 429: slow down"], [{"atomic_claims": [make_claim("Good.")]}]
    row = make_row("1", [[make_claim("Good.")], None], answers=["Good.", ""], statuses=statuses)
    browser.open(write_page([{**row, "trajectory": [*trajectory, None]}]))
    browser.press("j", "Enter")
    assert browser.texts(".systems section > .note") == ["No answer."]
    assert browser.texts(".open .status") == ["1.00", "failed no answer: HTTP 429: slow down"]
    assert len(browser.texts(".claim")) == 1
    browser.open(write_page([make_row("1", [None])]))
    assert browser.texts("h2") == ["Scores", "Cases"]  # no distribution without a score
