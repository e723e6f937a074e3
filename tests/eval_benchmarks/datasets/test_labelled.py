"""Labelled claims and answers: sets as they are published, metrics by hand, claims found again in their answer."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.datasets.labelled.benchmark import Labelled
from eval_benchmarks.datasets.labelled.description import Description, descriptions
from eval_benchmarks.datasets.labelled.spans import overlap, unsupported_spans
from eval_benchmarks.datasets.registry import find_benchmark, load_benchmarks
from eval_benchmarks.jobs import ScoringJob
from eval_benchmarks.output.columns import labelled_tables, of_labelled, split_metric
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.trials import BenchResults, group_trials
from rag_zeval.errors import InputError
from rag_zeval.scorers.overlap import Bleu
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.stages.config import check_settings, load_config

# document, claim, label, the score it will get (None: there is none)
CLAIMS: dict[str, list[tuple[str, str, int, float | None]]] = {
    "Wice": [("a", "a1", 1, 0.9), ("a", "a2", 0, 0.6), ("b", "b1", 1, 0.4), ("b", "b2", 0, 0.1), ("b", "b3", 0, None)],
    "Reveal": [("c", "c1", 1, 0.8), ("c", "c2", 0, 0.2)],
}
DEV = {"Wice": [("z", "z1", 1, 0.75), ("z", "z2", 0, 0.65)], "Reveal": [("y", "y1", 1, 0.1), ("y", "y2", 0, 0.0)]}
SCORES = {claim: score for part in (CLAIMS, DEV) for rows in part.values() for _, claim, _, score in rows}


def write_claims(path: Path, part: Any) -> None:
    rows = [
        {"dataset": name, "doc": doc, "claim": claim, "label": label, "contamination_identifier": "x"}
        for name, rows in part.items()
        for doc, claim, label, _ in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pandas.DataFrame(rows)
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)


def settings(data: Path, *benchmarks: str) -> RunSettings:
    words = [f"data_dir={data}", f"benchmarks={list(benchmarks)}"]
    return check_settings(RunSettings, load_config("bench", words))


def load(data: Path, name: str) -> tuple[Any, list[str]]:
    return find_benchmark(name)(settings(data, name))


def scored(benchmark: Labelled, value: Callable[[str], float | None], **parts: Any) -> dict[str, Scored]:
    return {e.id: Scored(e.id, tuple(Score(value(a)) for a in e.answers), parts) for e in benchmark.examples}


def values(benchmark: Labelled, rows: Any) -> dict[str, float]:
    return {metric.name: metric.value for metric in benchmark.metrics(rows)}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_claims_of_llm_aggrefacts_columns_give_metrics_by_hand(tmp_path: Path, kind: str) -> None:
    write_claims(tmp_path / f"aggrefact/test-0.{kind}", CLAIMS)
    write_claims(tmp_path / f"aggrefact/dev-0.{kind}", DEV)
    benchmark, lines = load(tmp_path, "aggrefact")
    assert lines == [] and (len(benchmark.dev.texts), len(benchmark.test.texts)) == (4, 7)
    # all claims about a document are one call
    assert sorted(example.answers for example in benchmark.examples) == [
        ("a1", "a2"), ("b1", "b2", "b3"), ("c1", "c2"), ("y1", "y2"), ("z1", "z2"),
    ]  # fmt: skip
    found = values(benchmark, scored(benchmark, SCORES.__getitem__))
    # Wice at .5: a1 right, b1 wrong; a2 wrong, b2 right; b3 has no score. Tuned at .7 (between .65 and .75): a1 right,
    # b1 wrong; a2, b2 right. Pairs of a supported and an unsupported one: a1 above both, b1 above b2 alone.
    assert found["Wice/balanced_accuracy"] == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert found["Wice/balanced_accuracy_tuned"] == pytest.approx((1 / 2 + 2 / 2) / 2)
    assert found["Wice/auroc"] == pytest.approx(3 / 4)
    # said to be unsupported: b1, b2 (and a2 if tuned); unsupported are a2 and b2
    assert found["Wice/f1_unsupported"] == pytest.approx(2 * 1 / (2 + 2))
    assert found["Wice/f1_unsupported_tuned"] == pytest.approx(2 * 2 / (3 + 2))
    # Reveal: all right at .5; its own threshold is .05, at which c2 is wrong
    assert found["Reveal/balanced_accuracy"] == 1 and found["Reveal/balanced_accuracy_tuned"] == 0.5
    for name in ("balanced_accuracy", "auroc", "f1_unsupported_tuned"):
        each = [found[f"{data_set}/{name}"] for data_set in CLAIMS]
        if not math.isnan(sum(each)):
            assert found[f"macro/{name}"] == pytest.approx(sum(each) / 2)
    coverage = {metric.name: (metric.n, metric.coverage) for metric in benchmark.metrics(scored(benchmark, SCORES.get))}
    assert coverage["Wice/auroc"] == (4, 4 / 5) and coverage["macro/auroc"] == (6, 6 / 7)


@pytest.mark.parametrize("label", [0, 1])
def test_a_data_set_of_one_class_is_in_no_macro_average(tmp_path: Path, label: int) -> None:
    alone = {"Lfqa": [("d", "a1", label, None), ("e", "a2", label, None)]}
    found = {}
    for name, claims in {"without": CLAIMS, "with": CLAIMS | alone, "alone": alone}.items():
        write_claims(tmp_path / name / "aggrefact/test.csv", claims)
        write_claims(tmp_path / name / "aggrefact/dev.csv", DEV)
        benchmark, _ = load(tmp_path / name, "aggrefact")
        metrics = benchmark.metrics(scored(benchmark, SCORES.__getitem__))
        found[name] = {m.name: (m.value, m.n, m.coverage) for m in metrics if m.name.startswith("macro/")}
        noted = [line for line in benchmark.about if "left out of macro" in line]
        assert [line.split(": ")[-1] for line in noted] == ["Lfqa"] * (name != "without")
    assert found["with"] == found["without"] and len(found["with"]) == 5 and found["alone"] == {}
    assert not any(math.isnan(value) for value, *_ in found["with"].values())


def test_without_a_dev_part_each_half_of_the_documents_has_the_others_threshold(tmp_path: Path) -> None:
    write_claims(tmp_path / "aggrefact/test.csv", {"Wice": CLAIMS["Wice"][:4]})
    benchmark, lines = load(tmp_path, "aggrefact")
    assert lines and "its dev part" in lines[0] and "accept its terms" in lines[0]
    found = values(benchmark, scored(benchmark, SCORES.__getitem__))
    # of b: .25, at which a1 is right and a2 wrong; of a: .75, at which b1 is wrong and b2 right
    assert found["macro/balanced_accuracy_tuned"] == 0.5
    assert "other half of its documents" in benchmark.about[-1]


SOURCES = [
    {"source_id": "1", "task_type": "QA", "source": "MARCO", "source_info": {"question": "who?", "passages": "p1"}},
    {"source_id": "2", "task_type": "Summary", "source": "CNN/DM", "source_info": "It rained."},
    {"source_id": "3", "task_type": "Data2txt", "source": "Yelp", "source_info": {"name": "Bar", "wifi": None}},
]


def span(start: int, end: int, **marks: bool) -> dict[str, Any]:
    usual = {"text": "", "label_type": "Evident Conflict", "meta": "", "implicit_true": False, "due_to_null": False}
    return {"start": start, "end": end, **usual, **marks}


def answer(number: int, source: str, text: str, *labels: Any, split: str = "test", quality: str = "good") -> Any:
    usual = {"id": str(number), "model": "m", "temperature": 0.7, "quality": quality, "split": split}
    return {**usual, "source_id": source, "response": text, "labels": list(labels)}


ANSWERS = [
    answer(0, "1", "Anna wrote it. Berta read it.", span(15, 25)),
    answer(1, "1", "Carla wrote it."),
    answer(2, "2", "It rained hard today.", span(10, 14, implicit_true=True)),
    answer(3, "3", "Bar has no wifi.", span(8, 15, due_to_null=True)),
    answer(4, "3", "Bar is cut", span(0, 3), quality="truncated"),
    answer(5, "2", "Sun shone.", span(0, 3), split="train"),
    answer(6, "2", "Rain fell.", split="train"),
]


@pytest.fixture
def ragtruth(tmp_path: Path) -> Path:
    folder = tmp_path / "ragtruth"
    folder.mkdir()
    for name, rows in (("response", ANSWERS), ("source_info", SOURCES)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def trajectory(*candidates: list[tuple[str, bool]]) -> list[Any]:
    return [
        {"id": letter, "atomic_claims": [{"claim": claim, "is_supported": held} for claim, held in claims]}
        for letter, claims in zip("ABCD", candidates, strict=False)
    ]


def test_ragtruths_files_give_metrics_by_hand(ragtruth: Path) -> None:
    benchmark, lines = load(ragtruth, "ragtruth")
    assert lines == ["ragtruth: 1 answers: quality is truncated"]
    assert (len(benchmark.dev.texts), len(benchmark.test.texts)) == (2, 4)
    asked = {example.answers: (example.question, example.reference) for example in benchmark.examples}
    assert asked["Anna wrote it. Berta read it.", "Carla wrote it."] == ("who?", "p1")
    assert asked["It rained hard today.",] == ("Summarize the passage.", "It rained.")
    assert json.loads(asked["Bar has no wifi.",][1]) == {"name": "Bar", "wifi": None}

    said = {
        "Anna wrote it. Berta read it.": (0.5, [("Anna wrote it.", True), ("Berta read it.", False)]),
        "Carla wrote it.": (0.0, [("Carla wrote it.", False)]),
        "It rained hard today.": (1.0, [("It rained hard today.", True)]),
        "Bar has no wifi.": (0.0, [("Bar has no wifi.", False)]),
        "Sun shone.": (0.4, [("Sun shone.", False)]),
        "Rain fell.": (0.8, [("Rain fell.", True)]),
    }
    rows = {
        example.id: Scored(
            example.id,
            tuple(Score(said[text][0]) for text in example.answers),
            {"trajectory": trajectory(*(said[text][1] for text in example.answers))},
        )
        for example in benchmark.examples
    }
    found = values(benchmark, rows)
    # Unsupported answers: Anna's, the rain, the bar. At .5 Carla's and the bar's are said to be unsupported.
    assert found["pooled/balanced_accuracy"] == pytest.approx((0 / 1 + 1 / 3) / 2)
    assert found["pooled/f1_unsupported"] == pytest.approx(2 * 1 / (2 + 3))
    # Summary has a dev part, of which .6 is the threshold; the other two tasks have none, so no verdict is tuned there.
    assert found["Summary/f1_unsupported_tuned"] == 0
    assert {m.name: m.n for m in benchmark.metrics(rows)}["pooled/f1_unsupported_tuned"] == 1
    # Spans: of Anna's "Berta read" is found and there. Carla's "Carla wrote" is found and not there, the rain's "hard"
    # is there and not found. Of the bar "Bar has no wifi" is found (between its words are only function words), and
    # "no wifi" is there.
    both, there = len("Berta read") + len("no wifi"), len("Berta read") + len("hard") + len("no wifi")
    found_characters = len("Berta read") + len("Carla wrote") + len("Bar has no wifi")
    assert found["pooled/span_precision"] == pytest.approx(both / found_characters)
    assert found["pooled/span_recall"] == pytest.approx(both / there)
    assert found["pooled/span_f1"] == pytest.approx(2 * both / (found_characters + there))
    # The second reading: spans that are true, or due to null, do not count; only Anna's answer is unsupported.
    assert found["flagged_supported:pooled/balanced_accuracy"] == pytest.approx((1 / 3 + 0 / 1) / 2)
    assert found["flagged_supported:pooled/span_recall"] == 1
    # Supported are Carla's 0, the rain's 1 and the bar's 0, and Anna's .5 is above two of them.
    assert found["flagged_supported:pooled/auroc"] == pytest.approx(1 / 3)


def test_a_scorer_without_claims_has_no_span_metrics(ragtruth: Path) -> None:
    benchmark, _ = load(ragtruth, "ragtruth")
    assert not [name for name in values(benchmark, scored(benchmark, len)) if "span" in name]


def test_published_values_stand_below_and_each_reading_has_a_table(ragtruth: Path, make_trial: Any) -> None:
    benchmark, _ = load(ragtruth, "ragtruth")
    trial = make_trial(benchmark, scored(benchmark, lambda text: len(text) % 3 / 2), "bleu", None)
    rows = summary_rows(BenchResults(group_trials([trial]), draws=20))
    assert of_labelled(rows)
    first, second = labelled_tables("ragtruth", rows)
    assert (first.title, second.title) == ("ragtruth", "ragtruth (flagged_supported)")
    assert [line[2] for line in first.lines if line[0] == "bleu"] == [
        "macro average", "all together", "Data2txt", "QA", "Summary",
    ]  # fmt: skip
    heads = dict(zip(first.heads, next(line for line in first.lines if "lettucedetect" in line[1]), strict=True))
    assert heads["data set"] == "all together" and heads["F1 unsupp. at .5"] == "0.792" and "arXiv" in heads["model"]
    assert all(line[0] != "published" for line in second.lines)


def test_a_value_of_fewer_texts_than_its_line_says_so(tmp_path: Path, make_trial: Any) -> None:
    """Reveal has no dev part, so no tuned threshold: the average is of Wice alone."""
    write_claims(tmp_path / "aggrefact/test.csv", CLAIMS)
    write_claims(tmp_path / "aggrefact/dev.csv", {"Wice": DEV["Wice"]})
    benchmark, _ = load(tmp_path, "aggrefact")
    trial = make_trial(benchmark, scored(benchmark, SCORES.__getitem__), "bleu", None)
    [table] = labelled_tables("aggrefact", summary_rows(BenchResults(group_trials([trial]), draws=20)))
    line = dict(zip(table.heads, next(line for line in table.lines if line[2] == "macro average"), strict=True))
    assert line["n"] == "6" and "(n = 4)" in line["balanced acc. tuned"] and "n =" not in line["AUROC"]
    assert "no tuned threshold for Reveal: the dev part has no text of them" in benchmark.about[-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auroc", ("", "", "auroc")),
        ("macro/auroc", ("", "macro", "auroc")),
        ("lenient:auroc", ("lenient", "", "auroc")),
        ("lenient:A/B/auroc", ("lenient", "A/B", "auroc")),
    ],
)
def test_names_of_metrics_are_read_back(name: str, expected: tuple[str, ...]) -> None:
    assert split_metric(name) == expected


WICE = {"label": "supported", "supporting_sentences": [[0]], "claim": "c", "evidence": ["One.", "Two."], "meta": {}}


def test_wice_joins_the_sentences_of_a_page(tmp_path: Path) -> None:
    (tmp_path / "wice").mkdir()
    rows = [WICE, {**WICE, "label": "partially_supported", "claim": "d"}]
    for part in ("test", "dev"):
        (tmp_path / f"wice/{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark, lines = load(tmp_path, "wice")
    assert lines == []
    [example] = [example for example in benchmark.examples if not example.id.startswith("dev")]
    assert (example.reference, example.answers) == ("One. Two.", ("c", "d"))
    assert values(benchmark, scored(benchmark, {"c": 1.0, "d": 0.0}.get))["balanced_accuracy"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "maybe"}, r"wice/test\.jsonl:1: field 'label' must be one of supported, .*, found 'maybe'"),
        ({"label": "supported "}, r"wice/test\.jsonl:1: .*, found 'supported '"),
        ({"evidence": [1]}, r"wice/test\.jsonl:1: field 'evidence' must hold texts"),
        ({"claim": None}, r"wice/test\.jsonl:1: field 'claim' is empty: fill it in, or remove the row"),
        ({"claim": 1}, r"wice/test\.jsonl:1: field 'claim' must be"),
    ],
)
def test_a_row_that_does_not_fit_is_one_line(tmp_path: Path, change: Any, message: str) -> None:
    (tmp_path / "wice").mkdir()
    (tmp_path / "wice/test.jsonl").write_text(json.dumps({**WICE, **change}) + "\n")
    with pytest.raises(InputError, match=message):
        load(tmp_path, "wice")


def test_a_span_outside_of_its_answer_and_a_source_that_is_not_there_are_one_line(ragtruth: Path) -> None:
    path = ragtruth / "ragtruth/response.jsonl"
    for row, message in (
        (answer(0, "1", "short", span(2, 9)), "response.jsonl:1: field 'labels': entry 0: 2 to 9 is outside"),
        (answer(0, "8", "short"), "response.jsonl:1: field 'source_id': 8 is not in"),
    ):
        path.write_text(json.dumps(row) + "\n")
        with pytest.raises(InputError, match=message):
            load(ragtruth, "ragtruth")


def test_a_set_that_is_not_there_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    for name, how in (("aggrefact", "accept its terms"), ("faithbench", "`make data` gets it")):
        benchmark, [line] = load(tmp_path, name)
        assert benchmark is None and line.startswith(f"{name}: data_dir/") and how in line
        assert str(tmp_path) not in line


OWN_SET = (
    "{texts: claims, licence: mine, test: {files: mine/*.csv}, columns: {document: doc, text: claim, label: label},"
    ' readings: [{says: as it is, labels: {"1": true, "0": false}}, {name: strict, says: all, labels: {"2": false}}]}'
)


def test_a_set_of_ones_own_is_named_by_its_file(tmp_path: Path) -> None:
    write_claims(tmp_path / "mine/claims.csv", CLAIMS)
    described, other = tmp_path / "my set.yaml", tmp_path / "other/my set.yaml"
    other.parent.mkdir()
    for path in (described, other):
        path.write_text(OWN_SET)
    ([benchmark], lines) = load_benchmarks(settings(tmp_path, str(described)))
    assert lines == [] and benchmark.name == "my set" and len(benchmark.examples) == 3
    assert ScoringJob(benchmark, Bleu()).file.startswith("rows/my-set__bleu__")  # spaces separate files in tables.csv
    with pytest.raises(InputError, match=r"benchmarks: '.*other/my set\.yaml' has the name of an earlier one, my set"):
        load_benchmarks(settings(tmp_path, str(described), str(other)))


@pytest.mark.parametrize("pattern", ["{data}/mine/claims.csv", "{data}/mi*/*.csv", "**/*.csv", "./mine//claims.csv"])
def test_the_files_of_a_set_may_be_anywhere(tmp_path: Path, pattern: str) -> None:
    write_claims(tmp_path / "mine/claims.csv", CLAIMS)
    path = tmp_path / "my-set.yaml"
    path.write_text(OWN_SET.replace("mine/*.csv", f'"{pattern.format(data=tmp_path)}"'))
    benchmark, _ = load(tmp_path, str(path))
    assert len(benchmark.test.texts) == 7


@pytest.mark.parametrize("pattern", ["{data}/nowhere.csv", "**nowhere", "mine", "mine/[.csv"])
def test_a_pattern_that_fits_no_file_is_one_line(tmp_path: Path, pattern: str) -> None:
    write_claims(tmp_path / "mine/claims.csv", CLAIMS)
    path, pattern = tmp_path / "my-set.yaml", pattern.format(data=tmp_path)
    path.write_text(OWN_SET.replace("mine/*.csv", f'"{pattern}"'))
    benchmark, lines = load(tmp_path, str(path))
    assert benchmark is None
    assert lines == [f"{path}: {Path('data_dir', pattern)} is missing; put it there"]


@pytest.mark.parametrize("label", [1, 1.0, True, "yes"])
def test_a_label_of_any_kind_is_named_as_text(tmp_path: Path, label: Any) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps({"doc": "d", "claim": "c", "label": label}) + "\n")
    path = tmp_path / "my-set.yaml"
    path.write_text(OWN_SET.replace("mine/*.csv", "mine.jsonl").replace('"1"', f'"{label}"'))
    benchmark, _ = load(tmp_path, str(path))
    assert [text.supported[0] for text in benchmark.test.texts] == [True]
    assert benchmark.about[0] == "my-set: 1 supported and 0 unsupported claims about 1 document; as it is"


@pytest.mark.parametrize(
    ("test", "dev", "shares"),
    [
        ("{files: mine/*.csv}", "{files: mine/claims*}", True),
        ("{files: mine/*}", "{files: mine/*, part: {dataset: Reveal}}", True),
        ("{files: mine/*, part: {dataset: Wice}}", "{files: mine/*, part: {dataset: Reveal}}", False),
    ],
)
def test_no_row_is_of_the_test_part_and_of_the_dev_part(tmp_path: Path, test: str, dev: str, shares: bool) -> None:
    write_claims(tmp_path / "mine/claims.csv", CLAIMS)
    path = tmp_path / "my-set.yaml"
    path.write_text(OWN_SET.replace("{files: mine/*.csv}", f"{test}, dev: {dev}"))
    if shares:
        with pytest.raises(InputError, match=r"my-set\.yaml: .*claims\.csv is of both test and dev"):
            load(tmp_path, str(path))
    else:
        benchmark, _ = load(tmp_path, str(path))
        assert (len(benchmark.test.texts), len(benchmark.dev.texts)) == (5, 2)


@pytest.mark.parametrize("name", ["macro", "pooled", "news:2024", "pooled\n"])
def test_a_data_set_whose_name_would_be_taken_for_something_else_is_refused(tmp_path: Path, name: str) -> None:
    write_claims(tmp_path / "mine/claims.csv", {"Wice": CLAIMS["Wice"], name: CLAIMS["Reveal"]})
    path = tmp_path / "my-set.yaml"
    path.write_text(OWN_SET.replace("label: label}", "label: label, data_set: dataset}"))
    with pytest.raises(InputError, match=rf"claims\.csv:7: field 'dataset': rename the data set '{name.strip()}'"):
        load(tmp_path, str(path))


@pytest.mark.parametrize("name", [None, "", " ", "\u200b"])
def test_a_data_set_without_a_name_is_refused(tmp_path: Path, name: str | None) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps({"doc": "d", "claim": "c", "label": "1", "dataset": name}) + "\n")
    path = tmp_path / "my-set.yaml"
    path.write_text(
        OWN_SET.replace("mine/*.csv", "mine.jsonl").replace("label: label}", "label: label, data_set: dataset}")
    )
    with pytest.raises(InputError, match=r"mine\.jsonl:1: field 'dataset' is empty: fill it in, or remove the row"):
        load(tmp_path, str(path))


def test_a_reading_of_which_the_file_has_no_text_has_no_metrics(tmp_path: Path) -> None:
    write_claims(tmp_path / "mine/claims.csv", CLAIMS)
    (tmp_path / "my-set.yaml").write_text(OWN_SET)
    benchmark, _ = load(tmp_path, str(tmp_path / "my-set.yaml"))
    metrics = benchmark.metrics(scored(benchmark, SCORES.get))
    assert metrics and all(metric.coverage == 6 / 7 and ":" not in metric.name for metric in metrics[:2])
    assert not any(metric.name.startswith("strict:") for metric in metrics)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "expected keys with values"),
        ("{texts: claims}", "licence"),
        ("{texts: sentences}", "texts"),
        ("a: {", "YAML"),
        (OWN_SET.replace('"1"', "1"), "readings.1.labels: must be labels in quotation marks .*, found 1"),
        (OWN_SET.replace('"1"', "yes"), "readings.1.labels: must be labels in quotation marks .*, found True"),
        (OWN_SET.replace(', labels: {"2": false}', ""), "readings: each must have labels in quotation marks"),
        (OWN_SET[:-1] + ", averages: [macro]}", "averages: they are over data sets; name the column"),
    ],
)
def test_a_description_that_is_none_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "set.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path, str(path))
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_answers_about_a_document_are_dealt_evenly_to_calls(tmp_path: Path) -> None:
    (tmp_path / "faithbench").mkdir()
    lines = ["source,summary,LLM,worst-label,best-label"] + [f"doc,s{i},m,Benign,Benign" for i in range(10)]
    (tmp_path / "faithbench/FaithBench.csv").write_text("\n".join(lines))
    benchmark, _ = load(tmp_path, "faithbench")
    assert [len(example.answers) for example in benchmark.examples] == [3, 3, 4]
    assert sum((example.answers for example in benchmark.examples), ()) == tuple(f"s{i}" for i in range(10))


def test_every_set_says_where_it_is_and_its_licence() -> None:
    found = dict(descriptions())
    assert set(found) == {"aggrefact", "faithbench", "ragtruth", "wice"}
    for one in found.values():
        assert isinstance(one, Description) and one.licence and (one.files or one.get)
        assert all(file.sha256 or file.rows for file in one.files)


LOUVRE = "The Louvre stands in Paris. It was opened in 1793, and it holds the Mona Lisa of Leonardo."


def marked(*claims: tuple[str, bool], answer: str = LOUVRE) -> list[str]:
    return [answer[start:end] for start, end in unsupported_spans(answer, claims)]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([("The Louvre stands in Paris.", True)], []),
        ([("The Louvre stands in Paris.", False)], ["Louvre stands in Paris"]),
        # what a supported claim of the sentence says as well is not marked
        (
            [("The Louvre was opened in 1793.", False), ("The Louvre holds the Mona Lisa of Leonardo.", True)],
            ["opened in 1793"],
        ),
        ([("It holds the Mona Lisa.", True), ("The Mona Lisa is of Leonardo.", False)], ["Leonardo"]),
        # unless nothing of the claim were left
        ([("The Louvre stands in Paris.", True), ("Paris stands in the Louvre.", False)], ["Louvre stands in Paris"]),
        ([("Bananas are yellow.", False)], []),
        ([], []),
    ],
)
def test_unsupported_words_are_marked_in_the_nearest_sentence(claims: Any, expected: list[str]) -> None:
    assert marked(*claims) == expected


def test_words_of_the_answer_alone_end_a_run() -> None:
    assert marked(("It was red and new.", False), answer="It was red, large and new.") == ["red", "new"]


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: tuple(sorted(pair))), max_size=5)


@given(SPANS, SPANS)
def test_overlaps_count_each_character_once(found: Any, there: Any) -> None:
    def inside(spans: Any, at: int) -> bool:
        return any(start <= at < end for start, end in spans)

    expected = [
        sum(inside(found, at) and inside(there, at) for at in range(31)),
        sum(inside(found, at) for at in range(31)),
        sum(inside(there, at) for at in range(31)),
    ]
    assert list(overlap(found, there)) == expected


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=40), st.booleans()), max_size=4))
def test_spans_are_places_of_the_answer_in_order(answer: str, claims: Any) -> None:
    spans = unsupported_spans(answer, claims)
    assert all(0 <= start < end <= len(answer) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
