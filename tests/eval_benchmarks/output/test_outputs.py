import csv
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt  # of rich

from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.nano_eval import NanoEval
from eval_benchmarks.datasets.ragchecker_meta import RagcheckerMeta
from eval_benchmarks.datasets.wikieval import Wikieval
from eval_benchmarks.output.bench_report import make_report, write_report
from eval_benchmarks.output.cases import case_page, find_case
from eval_benchmarks.output.columns import bench_tables, comma_separated
from eval_benchmarks.output.densities import density_figure
from eval_benchmarks.output.page import TEMPLATES
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.output.table import Table, escape_latex, latex, markdown
from eval_benchmarks.trials import BenchResults, Trial, group_trials
from experiments.markdown import TEMPLATES as STUDIES
from rag_zeval.scorers.score import Score, Scored

HOSTILE = '<script>alert("1")</script> & {{ 7 * 7 }} \\input{x}'


def results(trials: list[Trial], draws: int = 20) -> BenchResults:
    return BenchResults(group_trials(trials), draws)


@pytest.fixture
def judged(make_trial: Any) -> Any:
    """A trial of RAG-Zeval whose scores of example i are scores(i), one claim an answer; None has no trajectory."""

    def make(benchmark: Benchmark, model: str, scores: Any, number: int = 0) -> Trial:
        scored = {}
        for at, example in enumerate(benchmark.examples):
            values = scores(at)
            said = {"grounding_evidence": [example.reference.split()[0]], "analysis": HOSTILE}
            trajectory = [
                {"id": id_, "atomic_claims": [{"claim": f"{model} on {text}", "is_supported": bool(value), **said}]}
                for id_, text, value in zip("ABCD", example.answers, values or (), strict=False)
            ]
            answers = tuple(map(Score, values or [None] * len(example.answers)))
            parts = {"trajectory": trajectory or None, "status": "ok"}
            scored[example.id] = Scored(example.id, answers, parts, calls=1)
        return make_trial(benchmark, scored, "rag_zeval", model, number)

    return make


@pytest.fixture
def written(write_ragchecker: Any, judged: Any, tmp_path: Path) -> Any:
    """Two judges, the second in two trials, written into a folder: the folder, trials and notes."""
    benchmark = RagcheckerMeta(write_ragchecker(20))
    trials = [judged(benchmark, "a|b_1", lambda i: (i % 3 / 2, 0.5))]
    for t in range(2):
        trials.append(judged(benchmark, "judge", lambda i, t=t: None if i == 4 else (0.5, (i + t) % 5 / 4), t))
    report = make_report(results(trials, 100), ["a note with | and _"])
    write_report(report, tmp_path / "out")
    return tmp_path / "out", trials, report.notes


def test_every_table_file_says_the_same(written: Any) -> None:
    out, _, notes = written
    rows = json.loads((out / "summary.json").read_text())
    markdown, page, tex = ((out / f"tables.{kind}").read_text() for kind in ("md", "html", "tex"))
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in markdown.splitlines()]
    for row in rows:
        value = "-" if row["value"] is None else f"{row['value']:.3f}"
        beginning = [row["scorer"], (row["model"] or "-").replace("|", "\\|"), row["metric"], value]
        assert beginning in [line[:4] for line in cells]
        shown = [html.escape(cell.replace("\\|", "|")) if cell != "-" else "–" for cell in beginning]
        assert re.search(r"<td[^>]*>" + r"</td><td[^>]*>".join(map(re.escape, shown)) + "</td>", page)
        assert " & ".join("--" if c == "-" else escape_latex(c.replace("\\|", "|")) for c in beginning) in tex
    assert notes == ["a note with | and _"]
    assert html.escape(notes[0]) in page and escape_latex(notes[0]) in tex
    assert "SD" in cells[2] and "trials" in cells[2]  # a judge has two


def test_the_csv_holds_every_number_and_the_test_against_rag_zeval(written: Any) -> None:
    out, _, _ = written
    rows, tests = (json.loads((out / f"{name}.json").read_text()) for name in ("summary", "comparisons"))
    keys = "difference", "p_holm"
    tested = {(t["metric"], t["minus_scorer"], t["minus_model"]): {key: t[key] for key in keys} for t in tests}
    with open(out / "tables.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    for row, line in zip(rows, lines, strict=True):
        for key, value in row.items():
            told = " ".join(value) if key == "files" else "" if value is None else str(value)
            assert line[key] == told
        names = row["metric"], row["scorer"], row["model"]
        assert line["against"] == ("rag_zeval by judge" if names in tested else "")
        for key, number in tested.get(names, dict.fromkeys(keys)).items():
            assert line[key] == ("" if number is None else str(number))
    assert {line["model"] for line in lines if line["against"]} == {"a|b_1"}


@given(st.lists(st.tuples(*[st.text()] * 4), min_size=1, max_size=5), st.lists(st.text(), max_size=2))
def test_no_text_breaks_a_latex_table(lines: list[tuple[str, ...]], notes: list[str]) -> None:
    """As many bare ampersands in a line as columns ask for, all braces closed, no other mark that LaTeX reads."""
    tex = latex([Table("t", ["scorer", "model", "metric", "value"], lines)], notes)
    bare = re.sub(r"\\[\\&%$#_{}]", lambda found: "" if found.group() != "\\\\" else found.group(), tex)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"[$#_~^]", bare.replace("longtable}{lllr}", ""))
    body = bare.split("\\endfoot\n")[1].split("\\end{longtable}")[0]
    ends = [line for line in body.split("\n") if line]
    assert len(ends) == len(lines)
    assert all(line.count("&") == 3 and line.endswith(" \\\\") for line in ends)
    assert not any(line.lstrip().startswith(("[", "*")) for line in ends)


def test_a_negative_number_in_latex_has_a_minus_sign_and_a_name_keeps_its_hyphens() -> None:
    assert escape_latex("-0.217 to -0.164") == r"\(-\)0.217 to \(-\)0.164"
    assert escape_latex("0.1 [-0.2, 0.3]") == r"0.1 {[}\(-\)0.2, 0.3]"
    names = "gpt-4o judge--7b 2024-08-06 -"
    assert escape_latex(names) == names


@given(st.text(st.sampled_from("\\\\[]()<>|!a ")))
@hypothesis.example(r"\[a](a)")
@hypothesis.example(r"\<a>")
def test_no_text_begins_a_link_html_or_a_cell_in_markdown(text: str) -> None:
    shown = markdown([Table("t", ["scorer", "value"], [[text, "1"]])], [text])
    parsed = MarkdownIt().enable("table").parse(shown)
    kinds = {child.type for token in parsed for child in token.children or ()}
    assert kinds <= {"text", "text_special"} and not any(token.type.startswith("html") for token in parsed)
    assert sum(token.type == "td_open" for token in parsed) == 2


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_the_latex_compiles(written: Any, tmp_path: Path) -> None:
    out, _, _ = written
    document = tmp_path / "document.tex"
    document.write_text(
        "\\documentclass{article}\\usepackage{booktabs,longtable}\\begin{document}"
        f"\\input{{{out / 'tables.tex'}}}\\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", document.name]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


def test_a_column_without_anything_is_left_out(write_ragchecker: Any, score_by: Any, make_trial: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    trial = make_trial(benchmark, score_by(benchmark, lambda i: (0.0, float(i))), "unheard_of", None)
    rows = summary_rows(results([trial]))
    (table,) = bench_tables(rows, [])
    assert list(table.heads) == ["scorer", "metric", "value", "95% interval", "published", "n", "coverage"]
    assert {line[4] for line in table.lines} == {"-", "0.637", "0.592"}  # the annotators' alone is in print
    assert comma_separated(rows, []).count("\n") == len(rows) + 1


def test_the_densities_have_a_panel_for_each_scorer_and_a_curve_for_each_label(written: Any) -> None:
    out, trials, _ = written
    figure = density_figure(results(trials))
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title().split("\n")[0] for ax in panels] == ["rag_zeval by a|b_1", "rag_zeval by judge"]
    labels = trials[0].benchmark.labels
    for ax in panels:
        curves = [line for line in ax.get_lines() if len(line.get_xdata()) > 2]
        assert len(curves) == len(set(labels.ravel()))
        for curve in curves:  # what lies outside of the panel is missing
            x, y = curve.get_data()
            assert 0.6 < ((y[1:] + y[:-1]) / 2 * (x[1:] - x[:-1])).sum() <= 1.001
    assert (out / "densities.png").read_bytes().startswith(b"\x89PNG")


def test_differences_that_are_all_the_same_have_no_density_but_are_drawn(write_ragchecker: Any, judged: Any) -> None:
    figure = density_figure(results([judged(RagcheckerMeta(write_ragchecker()), "m", lambda i: (0.5, 0.5))]))
    lines = figure.axes[0].get_lines()
    assert lines and not any(len(line.get_xdata()) > 2 for line in lines)
    silent = density_figure(results([judged(RagcheckerMeta(write_ragchecker()), "m", lambda i: None)]))
    assert silent.axes[0].get_title() == "rag_zeval by m\ncoverage 0.0%" and not silent.axes[0].get_lines()
    assert density_figure(results([judged(NanoEval(1, 1, 1), "m", lambda i: None)])) is None


def test_the_case_is_where_the_judges_differ_most(write_ragchecker: Any, judged: Any) -> None:
    benchmark = RagcheckerMeta(write_ragchecker())
    alone = judged(NanoEval(2, 1, 1), "first", lambda i: (0.0, 0.0, 0.0, 0.0)[: 4 if i < 2 else 2])
    first = judged(benchmark, "first", lambda i: (0.5, 0.5))
    between = judged(benchmark, "between", lambda i: (0.0, 1.0))
    last = judged(benchmark, "last", lambda i: None if i == 5 else (1.0, 0.0) if i == 7 else (0.5, 0.25))
    case = find_case(group_trials([alone, first, between, last]))
    assert case is not None
    assert (case.example.id, case.gap, case.first.model, case.second.model) == ("7", 1.0, "first", "last")
    named = find_case(group_trials([alone, first, between, last]), "3")
    assert named is not None and named.example.id == "3"
    assert "differ most" in case_page(case) and "differ most" not in case_page(named)
    assert find_case(group_trials([alone])) is None
    unread = judged(benchmark, "unread", lambda i: None)
    assert find_case(group_trials([first, unread])) is None


def test_the_case_page_shows_both_judges_and_runs_nothing(write_wikieval: Any, judged: Any) -> None:
    text = f"Paris {HOSTILE}"
    row = {"question": HOSTILE, "answer": text, "poor_answer": HOSTILE, "ungrounded_answer": "x", "context_v1": [text]}
    benchmark = Wikieval(write_wikieval(row))
    trials = [judged(benchmark, "one", lambda i: (1.0, 0.0)), judged(benchmark, "<b>two", lambda i: (0.0, 0.0))]
    case = find_case(group_trials(trials))
    assert case is not None
    page = case_page(case)
    assert "<script>" not in page and "<b>two" not in page and "{{ 7 * 7 }}" in page
    for shown in (HOSTILE, text, f"one on {text}", f"<b>two on {text}", "rag_zeval by <b>two"):
        assert html.escape(shown).replace("&quot;", "&#34;") in page
    assert page.count("✓ supported") == 1 and page.count("✗ not supported") == 3
    assert page.count("<mark>Paris</mark>") == 2
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_names_and_notes_in_markdown_show_what_was_written_and_make_no_link_of_it() -> None:
    table = Table("<t>", ("scorer", "value"), [("bleu", "0.500 [0.400, 0.600]"), ("[a](b)\nc|d", "1")])
    written = markdown([table], ["an answer: failed: '![x](http://a.b/c)' <img src=x>", "`make data` gets it"])
    assert "'!\\[x](http://a.b/c)' \\<img src=x>" in written and "- `make data` gets it" in written
    assert "| bleu | 0.500 [0.400, 0.600] |\n| \\[a](b) c\\|d | 1 |" in written and "## \\<t>" in written


def test_figures_of_an_earlier_run_do_not_stay(written: Any, judged: Any) -> None:
    out, _, _ = written
    assert (out / "densities.png").is_file() and (out / "cases.html").is_file()
    report = make_report(results([judged(NanoEval(1, 1, 1), "m", lambda i: None)]), [])
    write_report(report, out)
    assert not (out / "densities.png").exists() and not (out / "cases.html").exists()
    assert [note.split(" ")[0] for note in report.notes] == ["nano_eval:", "densities.png", "cases.html"]


@pytest.mark.parametrize("template", [*TEMPLATES.glob("*.html"), *STUDIES.glob("*.html")], ids=lambda path: path.name)
def test_every_page_follows_the_colour_scheme_and_only_its_tables_scroll_sideways(template: Path) -> None:
    source = template.read_text()
    assert source.startswith('{% extends "page.html" %}')  # its style has both schemes, and it loads nothing
    assert "#" not in re.sub(r"\{#.*?#\}", "", source.split("{% block style %}")[1].split("{% block body %}")[0])
    assert re.findall(r'(?<!<div class="wide">)<table', source) == []
