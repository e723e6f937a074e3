"""Result rows as JSON in the page: nothing is lost, nothing can leave it, and quotes stand where JavaScript counts."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_zeval.files import LONE_SURROGATES, Row
from rag_zeval.judge.words import words
from rag_zeval.report.embedded import embedded_json, embedded_rows
from rag_zeval.report.scores import Scale, ScoreTable

texts = st.text(st.characters(blacklist_categories=[]), max_size=30)  # lone surrogates, too


@given(st.recursive(texts | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_any_value_is_read_back_and_holds_no_markup(value: Any) -> None:
    written = embedded_json(value).encode("utf-8", LONE_SURROGATES)
    assert json.loads(written) == json.loads(json.dumps(value))
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(written.decode())


def test_each_text_stands_once(make_row: Callable[..., Row]) -> None:
    rows = [
        make_row(case, metric=metric, reference="the same", trial=trial)
        for case in "abc"
        for metric in ("one", "two")
        for trial in (0, 1)
    ]
    written = "".join(embedded_rows(rows, ScoreTable(rows)))
    page = json.loads(written)
    assert written.count("the same") == 1 and written.count("Question b?") == 1
    known = [text for row in page["rows"] for text in row["new"]]
    for row, source in zip(page["rows"], rows, strict=True):
        assert known[row["question"]] == source["question"]
        assert [(name, known[text]) for name, text in row["sources"]] == [("retrieved contexts", source["reference"])]
        assert [known[answer] for answer in row["answers"]] == source["answers"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it holds no state
@given(before=st.text("a 🙂\U0010ffff", max_size=20), quote=st.lists(st.sampled_from(["x🙂", "y", "🙂"]), min_size=1))
def test_places_count_units_of_utf_16(make_row: Callable[..., Row], before: str, quote: list[str]) -> None:
    reference = f"{before} — {' '.join(quote)} z"
    claim = {"claim": "c", "is_supported": True, "grounding_evidence": ["  ".join(quote)], "analysis": ""}
    row = make_row("1", [[claim]], reference=reference)
    (shown,) = json.loads("".join(embedded_rows([row], ScoreTable([row]))))["rows"]
    start, end = shown["claims"][0][0]["quotes"][0]["at"]
    units = reference.encode("utf-16-le")
    assert words(units[2 * start : 2 * end].decode("utf-16-le")) == words(" ".join(quote))


@given(st.lists(st.floats(-5, 5), min_size=1), st.booleans())
def test_a_scale_holds_every_score_and_every_score_has_a_bin_and_a_colour(scores: list[float], low: bool) -> None:
    scale = Scale(min([0.0, *scores]), max([1.0, *scores]), low)
    assert sum(scale.histogram(scores)) == len(scores)
    levels = [scale.level(scale.share(score)) for score in sorted(scores)]
    assert set(levels) <= set(range(5)) and levels == sorted(levels, reverse=low)
