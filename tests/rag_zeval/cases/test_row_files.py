"""Files in every format and arrangement hold the same rows; what cannot be read is named, with a way out."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from rag_zeval.cases.reading import read_cases
from rag_zeval.cases.row_files import read_table
from rag_zeval.errors import InputError
from rag_zeval.files import Row

ROWS = [
    {"question": "q1?", "answer": "It opens at nine.", "contexts": "It opens; at nine.", "ground_truth": "Ça"},
    {"question": "q2?", "answer": "It closes at 007.", "contexts": "It closes\nat six.", "ground_truth": None},
]
HEAD = list(ROWS[0])


def rows(path: Path, encoding: str | None = None) -> list[Row]:
    found = [row for _, row in read_table(path, encoding)]
    assert not any(isinstance(row, InputError) for row in found), found
    return [row for row in found if isinstance(row, dict)]


def as_text(delimiter: str, encoding: str = "utf-8", before: str = "", end: str = "\r\n", more: str = "") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(HEAD)
    writer.writerows(["" if cell is None else cell for cell in row.values()] for row in ROWS)
    return (before + file.getvalue() + more).encode(encoding)


def json_of(content: Any) -> bytes:
    return json.dumps(content).encode()


COLUMNS = {name: [row[name] for row in ROWS] for name in HEAD}
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "commas": ("a.csv", lambda: as_text(",")),
    "semicolons": ("a.csv", lambda: as_text(";")),
    "tabs in .csv": ("a.csv", lambda: as_text("\t")),
    "tsv": ("a.tsv", lambda: as_text("\t")),
    "commas in .tsv": ("a.tsv", lambda: as_text(",")),
    "txt": ("a.txt", lambda: as_text("\t")),
    "Excel's own line": ("a.csv", lambda: as_text(";", before="sep=;\r\n")),
    "BOM": ("a.csv", lambda: as_text(",", "utf-8-sig")),
    "UTF-16": ("a.csv", lambda: as_text("\t", "utf-16")),
    "UTF-16 without BOM in its name": ("a.csv", lambda: b"\xfe\xff" + as_text("\t", "utf-16-be")),
    "a name with invisible spaces": (
        "a.csv",
        lambda: as_text(",").replace(b'"question"', '"\u200bquestion\u200b"'.encode()),
    ),
    "CR": ("a.csv", lambda: as_text(",", end="\r")),
    "LF": ("a.csv", lambda: as_text(",", end="\n")),
    "Markdown": ("a.md", lambda: as_text("|").replace(b"\r\n", b"\r\n" + b"|".join([b" :--- "] * 4) + b"\r\n", 1)),
    "an empty row before the header": ("a.csv", lambda: as_text(";", before='\r\n;"";;\r\n')),
    "empty rows": ("a.csv", lambda: as_text(",", more=",,,\r\n,,,\r\n\r\n")),
    "packed": ("a.csv.gz", lambda: gzip.compress(as_text(";"))),
    "packed lines": ("a.jsonl.gz", lambda: gzip.compress(b"\n".join(map(json_of, ROWS)))),
    "lines": ("a.jsonl", lambda: b"\n".join(map(json_of, ROWS))),
    "lines in .json": ("a.json", lambda: b"\n".join(map(json_of, ROWS)) + b"\n"),
    "lines of another name": ("a.ndjson", lambda: b"\xef\xbb\xbf" + b"\r\n\r\n".join(map(json_of, ROWS))),
    "a list in .jsonl": ("a.jsonl", lambda: json_of(ROWS)),
    "a printed list in .jsonl": ("a.jsonl", lambda: json.dumps(ROWS, indent=1).encode()),
    "objects one after the other": ("a.json", lambda: b"\n".join(json.dumps(row, indent=1).encode() for row in ROWS)),
    "a list": ("a.json", lambda: json_of(ROWS)),
    "UTF-16 JSON": ("a.json", lambda: json.dumps(ROWS, ensure_ascii=False).encode("utf-16")),
    "columns": ("a.json", lambda: json_of(COLUMNS)),
    "NaN": ("a.json", lambda: json_of(ROWS).replace(b"null", b"NaN")),
    "split": ("a.json", lambda: json_of({"columns": HEAD, "index": [0, 1], "data": [list(r.values()) for r in ROWS]})),
    "numbered columns": ("a.json", lambda: json_of({n: dict(zip("01", c, strict=True)) for n, c in COLUMNS.items()})),
    "numbered rows": ("a.json", lambda: json_of(dict(zip("01", ROWS, strict=True)))),
    "table": ("a.json", lambda: json_of({"schema": {"fields": [{"name": "question"}]}, "data": ROWS})),
    "nested results": ("a.json", lambda: json_of({"version": 1, "results": {"results": ROWS}})),
    **{name: ("a.json", lambda name=name: json_of({name: ROWS})) for name in ("data", "rows", "samples", "test_cases")},
    "rows under any name": ("a.json", lambda: json_of({"meta": {"model": "m"}, "pairs": ROWS, "tags": ["a"]})),
    "rows under any name in an object": ("a.json", lambda: json_of({"data": {"pairs": ROWS, "cursor": "c"}})),
    "aligned by hand": ("a.csv", lambda: as_text(",").replace(b'","', b'"  , "')),
    "a space after each delimiter": ("a.csv", lambda: as_text(",").replace(b'","', b'", "')),
}


@pytest.mark.parametrize("kind", FILES)
def test_the_rows_are_the_same(kind: str, tmp_path: Path) -> None:
    name, write = FILES[kind]
    (tmp_path / name).write_bytes(write())
    assert rows(tmp_path / name) == ROWS


def test_spaces_that_align_a_markdown_table_are_no_part_of_its_cells(tmp_path: Path) -> None:
    lines = ["|   id | question   |", "|-----:|:-----------|", "|    7 | Who is it? |", "|   10 | Who?       |"]
    (tmp_path / "a.md").write_text("\n".join(lines))  # as pandas writes it
    assert rows(tmp_path / "a.md") == [{"id": "7", "question": "Who is it?"}, {"id": "10", "question": "Who?"}]


def test_a_bar_in_a_markdown_cell_is_escaped(tmp_path: Path) -> None:
    head = "| question | answer |\n|---|---|\n"
    (tmp_path / "a.md").write_text(head + "| a \\| b? | c\\|d |\n")
    assert rows(tmp_path / "a.md") == [{"question": "a | b?", "answer": "c|d"}]
    (tmp_path / "a.md").write_text(head + "| a? | c | d |\n")
    ((_, row),) = read_table(tmp_path / "a.md")
    assert str(row) == "has 5 cells where the first line has 4 columns"


@pytest.mark.parametrize(
    ("above", "other"),
    [
        ("Run of May\n", ""),
        ("Run of May,,\n", ""),
        ("Run,of,May\n\nby Ann,,\n", ""),
        ("Run of May,,,,,,\n", ",No.,By,At,To"),
    ],
)
def test_a_header_below_a_title_is_named(tmp_path: Path, above: str, other: str) -> None:
    (tmp_path / "a.csv").write_text(f"{above}Question,Answer,Contexts{other}\nq?,a,c{',x' * other.count(',')}\n")
    line = above.count("\n") + 1
    with pytest.raises(InputError, match=f"a.csv:{line}: seems to name the columns, which the first line must do"):
        read_cases(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("question,answer,contexts", "repeats the names of the columns; remove the line"),
        ('\ufeff"question",answer,contexts', "repeats the names of the columns; remove the line"),
        ("contexts,question,answer", "names the columns in another order; save what begins here as its own file"),
    ],
)
def test_a_header_in_the_middle_is_no_row(tmp_path: Path, second: str, message: str) -> None:
    rows = "".join(f"q{number}?,a,c\n" for number in range(30))
    (tmp_path / "a.csv").write_text(f"\ufeffquestion,answer,contexts\n{rows}{second}\nq?,a,c\n")
    for encoding in (None, "utf-8"):
        with pytest.raises(InputError, match=f"a.csv:32: {message}"):
            read_cases(tmp_path / "a.csv", encoding=encoding, skip_bad_rows=message.startswith("names"))


def test_columns_of_one_name_are_numbered_unless_one_may_be_meant(tmp_path: Path) -> None:
    table = '"[gpt] Answer {{q}}\nwith {{c}}",Score,[b],Score,question,contexts\nIt is.,1,b,2,q?,c\n'
    (tmp_path / "a.csv").write_text(table)
    with pytest.raises(InputError, match=r'--map "answer=\[gpt\] Answer {{q}} with {{c}}", if that is'):
        read_cases(tmp_path / "a.csv")
    read = read_cases(tmp_path / "a.csv", {"answer": "[gpt] Answer {{q}} with {{c}}"})
    assert read.columns.unused == ("Score (column 2)", "[b]", "Score (column 4)")
    with pytest.raises(InputError, match=r"no row has 'Score'"):
        read_cases(tmp_path / "a.csv", {"answer": "Score"})
    (tmp_path / "a.csv").write_text(table * 2)
    with pytest.raises(InputError, match=r"a.csv:4: repeats the names of the columns; remove the line"):
        read_cases(tmp_path / "a.csv", {"answer": "[b]"})


def test_a_name_is_found_if_it_looks_the_same(tmp_path: Path) -> None:
    composed, decomposed = normalize("NFC", "Réponse"), normalize("NFD", "Réponse")
    for written, typed in ((composed, decomposed), (decomposed, composed), ("Réponse ", "Réponse "), (" Ré", "Ré")):
        (tmp_path / "a.csv").write_text(f"question,{written},contexts\nq?,a,c\n")
        (case,) = read_cases(tmp_path / "a.csv", {"answer": typed}).cases
        assert [*case.answers.values()] == ["a"]
    (tmp_path / "a.jsonl").write_bytes(json_of({"question": "q?", "contexts": "c", decomposed: {"text": "a"}}))
    read = read_cases(tmp_path / "a.jsonl", {"answer": f"{composed}.text"})
    assert [*read.cases[0].answers.values()] == ["a"] and not read.columns.unused


def test_rows_that_hold_nothing_but_numbers_of_rows_are_blank(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",frage,antwort\n0, ,\n1, , \n")
    with pytest.raises(InputError, match="all cells of the columns with a name are blank"):
        read_cases(tmp_path / "a.csv")


def test_a_column_without_a_name_is_told_if_it_holds_something(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,,answer,contexts,,\nq?,note,a,c,,\nr?,,a,c,,\n")
    assert read_cases(tmp_path / "a.csv").columns.unused == ("(column 2)",)
    (case, _) = read_cases(tmp_path / "a.csv", {"truth": "(column 2)"}).cases
    assert case.truth == "note"


@pytest.mark.parametrize("name", ["", "Unnamed: 3"])
def test_texts_in_a_column_without_a_name_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text(f"question,answer,contexts,{name}\nq?,a,One is.,Two is.\n")
    (line,) = (line for line in read_cases(tmp_path / "a.csv").lines() if "warning" in line)
    assert line.endswith("it holds texts but has no name; columns of contexts are named context_1, context_2, ...")


def test_arrow_and_excel_files_hold_the_same_rows(tmp_path: Path) -> None:
    import openpyxl
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "a.pq")
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow")
    book = openpyxl.Workbook()
    book.create_sheet("empty")
    for line in ([], HEAD, *([*row.values(), 7.0, None] for row in ROWS), []):
        book.active.append(line)
    book.active.cell(2, 5, "id")
    book.save(tmp_path / "a.xlsx")
    with pyarrow.ipc.new_stream(tmp_path / "stream.arrow", table.schema) as stream:  # as datasets.save_to_disk does
        stream.write_table(table)
    assert rows(tmp_path / "a.pq") == rows(tmp_path / "a.arrow") == rows(tmp_path / "stream.arrow") == ROWS
    assert rows(tmp_path / "a.xlsx") == [{**row, "id": 7} for row in ROWS]
    book["empty"].append(HEAD)
    book["empty"].append(HEAD)
    book.save(tmp_path / "b.xlsx")
    with pytest.raises(InputError, match="has 2 sheets with rows: Sheet, empty"):
        rows(tmp_path / "b.xlsx")


def test_rows_by_their_ids_keep_them(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(json_of({"q-7": ROWS[0], "q-8": {"query_id": "8", **ROWS[1]}}))
    assert rows(tmp_path / "a.json") == [{"id": "q-7", **ROWS[0]}, {"query_id": "8", **ROWS[1]}]
    for content in ({"old": ROWS, "new": ROWS}, {"old": ROWS, "new": ROWS[:1]}):
        (tmp_path / "a.json").write_bytes(json_of(content))
        with pytest.raises(InputError, match="rows in 'old' or 'new'; save the right one, or all in one list, as its"):
            rows(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(json_of({"predictions": [{"response": "a"}]}))  # LlamaIndex: without questions
    assert rows(tmp_path / "a.json") == [{"response": "a"}]
    case = {"input": {"q": "Why?"}, "output": {"a": "So."}, "history": ROWS}
    (tmp_path / "a.json").write_bytes(json_of(case))
    assert rows(tmp_path / "a.json") == [case]


FRAGEN = [{"frage": "Wann?", "antwort": "Um neun."}, {"frage": "Wo?", "antwort": "In Ulm.", "notiz": "-"}]
TOTALS = {"model": "m", "by_topic": {"a": {"mean": 1, "n": 2}, "b": {"mean": 1, "n": 2}}, "notes": []}
CASE = {"frage": "Wann?", "antwort": "Um neun.", "quellen": [{"titel": "A", "seite": 1}, {"titel": "B", "seite": 2}]}
FAILED = [*ROWS, {"error": "timed out"}]  # one row without question and answer
CHAT = {"chat": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({**TOTALS, "faelle": FRAGEN}, FRAGEN),
        ({"totals": TOTALS, "run": {"faelle": FRAGEN, "at": "noon"}}, FRAGEN),
        ({"faelle": FRAGEN, "settings": {"models": [{"name": "a"}, {"name": "b"}]}}, FRAGEN),
        ({"model": "m", "faelle": FRAGEN[:1], "tags": ["a"]}, FRAGEN[:1]),
        ({"faelle": FRAGEN, "settings": [{"model": "m"}]}, FRAGEN),
        ({"f1": FRAGEN[0], "f2": FRAGEN[1]}, [{"id": "f1", **FRAGEN[0]}, {"id": "f2", **FRAGEN[1]}]),
        ({"output": "a.json", "run": {"q7": ROWS[0]}}, [{"id": "q7", **ROWS[0]}]),
        ({"runs": [{"inputs": {"query": "q?"}, "outputs.a": "a"}]}, [{"inputs": {"query": "q?"}, "outputs.a": "a"}]),
        ({"frage": ["q"], "quellen": [{"a": 1}]}, [{"frage": "q", "quellen": {"a": 1}}]),
        (TOTALS, [TOTALS]),
        (CASE, [CASE]),
        (CHAT, [CHAT]),
        ({"antwort": "a", "contexts": FRAGEN}, [{"antwort": "a", "contexts": FRAGEN}]),
        ({"results": []}, []),
        ({"results": FAILED, "tests": [{"input": "q?", "n": 1}]}, FAILED),
        ({"results": [{"model": "m"}, {"mean": 1}], "faelle": FRAGEN}, FRAGEN),
    ],
)  # fmt: skip
def test_rows_are_found_under_any_name_and_one_case_stays_one(tmp_path: Path, content: Row, found: list[Row]) -> None:
    (tmp_path / "a.json").write_bytes(json_of(content))
    assert rows(tmp_path / "a.json") == found


def test_the_columns_that_the_user_chose_say_where_the_rows_are(tmp_path: Path) -> None:
    asks = {**CASE, "frage": "Wann er kam", "belege": [{"satz": "Um neun."}, {"satz": "Um zehn."}]}
    (tmp_path / "a.json").write_bytes(json_of(asks))
    with pytest.raises(InputError, match="could hold its rows in 'quellen' or 'belege'"):
        read_cases(tmp_path / "a.json")
    names = {"question": "frage", "answer": "antwort", "contexts": "belege.satz"}
    for source in (tmp_path / "a.json", asks):
        (case,) = read_cases(source, names).cases
        assert case.contexts == ("Um neun.", "Um zehn.")
    (tmp_path / "a.json").write_bytes(json_of({"fragen": FRAGEN, "andere": [{"x": 1}, {"x": 2}]}))
    assert len(read_cases(tmp_path / "a.json", {"question": "frage", "answer": "antwort"}, judged=False).cases) == 2


def test_an_encoding_is_named_and_can_be_given(tmp_path: Path) -> None:
    texts = {
        "cp1252": "Ça “fait” 5 €", "cp1251": "Магазин открывается в девять", "shift_jis": "店は九時に開きます",
        "cp1256": "متى يفتح المتحف؟ يفتح في التاسعة",
    }  # fmt: skip
    for encoding, text in texts.items():
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(f"question,answer\nq?,{text}\n".encode(encoding))
        with pytest.raises(InputError, match=f"save it as UTF-8, or give .* --encoding {encoding} "):
            rows(path)
        assert rows(path, encoding) == [{"question": "q?", "answer": text}]
    for encoding in ("klingon", "hex", "rot13"):  # the last are none of texts
        with pytest.raises(InputError, match=f"--encoding {encoding}: unknown encoding"):
            rows(path, encoding)


@pytest.mark.parametrize(
    ("written", "given", "advice"),
    [
        ("cp850", None, "is not UTF-8 text; it looks like cp850: save .* --encoding cp850 "),
        ("cp850", "cp1252", "is not CP1252 text; it looks like cp850: save .* --encoding cp850 "),
        ("utf-16-le", None, "is not UTF-8 text; it looks like utf-16-le: save .* --encoding utf-16-le "),
        ("utf-16-le", "utf-16", "is not UTF-16 text; it looks like utf-16-le: save .* --encoding utf-16-le "),
    ],
)
def test_an_advised_encoding_can_read_the_file(tmp_path: Path, written: str, given: str | None, advice: str) -> None:
    text = "It opens in München, über 9.”" if written != "cp850" else "It opens in München, über 9."
    path = tmp_path / "a.csv"
    path.write_bytes(f'question,answer\nq?,"{text}"\n'.encode(written))
    with pytest.raises(InputError, match=advice):
        rows(path, given)
    if "--encoding" in advice:
        assert rows(path, written) == [{"question": "q?", "answer": text}]


@pytest.mark.parametrize(("written", "given"), [("utf-8", "cp1252"), ("utf-8", "gb18030"), ("utf-16", "cp1252")])
def test_utf8_is_not_read_in_another_encoding(tmp_path: Path, written: str, given: str) -> None:
    """In cp1252 it would be a text, too: `MÃ¼nchen`."""
    path = tmp_path / "a.csv"
    long = "x" * 100_000  # so that the letters are not at the beginning
    path.write_bytes(f"question,answer\nq?,{long} in München\n".encode(written))
    with pytest.raises(InputError, match=f"is {written.upper()} text: leave out --encoding {given}"):
        rows(path, given)
    assert rows(path, written) == rows(path) == [{"question": "q?", "answer": f"{long} in München"}]


def test_an_encoding_that_is_not_known_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"question,answer\nq?,5\xa6a 3\xacb\n")
    with pytest.raises(InputError, match=r"is not UTF-8 text; save it as UTF-8$"):
        rows(tmp_path / "a.csv")


def test_a_given_encoding_in_which_words_make_no_sense_is_told(tmp_path: Path) -> None:
    text = "question,answer,truth\nCzy można płacić kartą?,Tak, można.,Proszę wejść.\n".replace("k, ", "k; ")
    (tmp_path / "a.csv").write_bytes(text.encode("cp1250"))
    told = "warning: it looks like cp1250; if the texts look wrong, give --encoding cp1250"
    assert told in str(read_cases(tmp_path / "a.csv", encoding="cp1252"))
    for encoding in ("cp1250", "windows-1250"):
        assert "looks like" not in str(read_cases(tmp_path / "a.csv", encoding=encoding))
    text = "question,answer,truth\nQuel est le taux du prêt ?,Le taux est fixé à 4 %.,Où ça ?\n"
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    assert "it looks like cp1252; if" in str(read_cases(tmp_path / "a.csv", encoding="cp1250"))
    (tmp_path / "a.csv").write_bytes("question,answer,truth\nWie heißt es?,Größe.,Länge.\n".encode("cp1252"))
    for encoding in ("cp1252", "cp1250", "latin-1"):  # which all have these letters in the same place
        assert "looks like" not in str(read_cases(tmp_path / "a.csv", encoding=encoding))


def test_a_line_of_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = ["question,answer", "q1?,München", "q2?,Köln", "q3?,Zürich"]
    path.write_bytes(b"\n".join(line.encode("cp1252" if "Köln" in line else "utf-8") for line in lines))
    with pytest.raises(InputError, match=r"a\.csv:3: this line is not UTF-8 text, and the others are: correct it"):
        rows(path)


def test_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", Path("-")):  # which cannot be read twice
        with pytest.raises(InputError, match="is a pipe or a device, which can be read only once; save its content"):
            read_table(name)
    (tmp_path / "b.arrow").touch()
    with pytest.raises(InputError, match=f"is a folder; name a file in it, such as {tmp_path}/b.arrow"):
        read_table(tmp_path)


def test_the_lines_of_a_text_are_no_rows(tmp_path: Path) -> None:
    texts = ["One, two, three.\nFour, five, six.", "a,b\nc,d", "a,b,c\nd,e,f\n", "Prices\na,b,c\nd,e,f"]
    written = [{"question": text, "answer": other, "contexts": text} for text in texts for other in texts]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["question", "answer", "contexts"])
        writer.writeheader()
        writer.writerows(written)
    assert rows(tmp_path / "a.csv") == written


def test_rows_stand_where_they_begin(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(as_text(",", before="sep=,\n"))
    assert [place.rpartition(":")[2] for place, _ in read_table(tmp_path / "a.csv")] == ["3", "4"]
    (tmp_path / "a.csv").write_text('question,answer\n"a\nb","c\n\nd"\nq,a\n')
    assert [place.rpartition(":")[2] for place, _ in read_table(tmp_path / "a.csv")] == ["2", "6"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            b"\n<!DOCTYPE html><html><table></table></html>",
            "a.csv: is a web page or XML, not a table; save the table as",
        ),
        ("a.xml", b"<rows><row><question>q</question></row></rows>", "a.xml: is a web page or XML, not a table"),
        ("a.xml", b'<?xml version="1.0"?>\n<rows>\n</rows>\n', "a.xml: is a web page or XML, not a table"),
        ("a.csv", b"Wann?;Um neun.\n", "a.csv: no rows below the first line; if that line is a row, add one with"),
        ("a.csv", b"question,answer\n,\n", "a.csv: no rows below the first line"),
        ("a.csv", b"question,question\nq,r\n", "a.csv: has two columns named 'question'; rename one"),
        ("a.csv", b'question,answer\n"q,a\n', "on: no quotation mark ends a cell that begins with one: if"),
        ("a.tsv", b'question\tanswer\tid\nq1\t"a\t1\nq2\tb\t2\nq3\tc"\t3\n', "a cell here, which ends in line 4; but"),
        ("a.csv", b'question,answer,id\nq1,"a,1\nq2,b,2\nq3,c",3\n', "a.csv:2: a quotation mark begins a cell here"),
        ("a.json", b'[{"a": "b', "a.json:1: not valid JSON: Unterminated string starting at column 8"),
        ("a.json", b"[[1, 2]]", "a.json: has rows without column names"),
        ("a.json", b"7", "a.json: must hold a JSON list or object, found int"),
        ("a.json", b'[{"a": 1, "a": 2}]', "an object has two fields named 'a'"),
        ("a.json", b'[{"a": 1},\n {"a" 2}]', "a.json:2: not valid JSON: Expecting ':' delimiter at column 7"),
        (
            "a.json",
            b'[{"a": 1},\n]',
            ": remove the comma after the last item",
        ),
        (
            "a.json",
            b"[{'a': 1}]",
            "column 3: JSON has no single quotation marks, as Python prints them; write the file",
        ),
        (
            "a.json",
            b'{"question": ["q", "r"], "answer": ["a"]}',
            "a.json: its columns differ in length: 'question' has 2, 'answer' has 1; write each row as {",
        ),
        ("a.csv.bz2", bz2.compress(b"question,answer\nq,a\n"), "a.csv.bz2: is packed; unpack it, or pack it by gzip"),
        ("a.csv.xz", lzma.compress(b"question,answer\nq,a\n"), "a.csv.xz: is packed; unpack it, or pack it by gzip"),
        ("a.json", b"[ // all\n]", "column 3: JSON has no comments, so remove this one"),
        ("a.tar.gz", gzip.compress(b"a.csv\0" + bytes(99) + b"\nquestion,answer\n"), "a.tar.gz: is neither text nor"),
        (
            "a.json",
            json_of({"rows": [{"a": 1}] * 2, "data": [{"a": 1}] * 2}),
            "could hold its rows in 'rows' or 'data'",
        ),
        ("a.json", b"[" * 100_000, "a.json: not valid JSON"),
        ("a.json", b'[{"a": ' + b"9" * 5000 + b"}]", "a number has more than 300 digits"),
        ("a.parquet", b"PAR1 no parquet", "a.parquet: cannot be read"),
        (
            "a.xlsx",
            b"PK\x03\x04 no zip",
            "a.xlsx: is a ZIP file, but no Excel file that can be read; unpack it, or save it",
        ),
        ("a.pkl", pickle.dumps({"question": ["é\x01"]}), "a.pkl: is neither text nor a table that can be read"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "is in the old Excel format .xls"),
        ("a.csv.gz", gzip.compress(b"question,answer\nq,a\n" * 99, mtime=0)[:-9], "a.csv.gz: cannot be unpacked"),
        ("none.csv", None, "none.csv: cannot be read: No such file"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        rows(tmp_path / name)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"question,answer\nq\nq,a\n", "has 1 cells where the first line has 2 columns"),
        (
            "a.csv",
            b"question,answer\nq,a,b\nq,a\n",
            "has 3 cells where the first line has 2 columns; put a cell that contains ',' in quotation marks",
        ),
        ("a.jsonl", b'{"question" "q"}\n{"question": "q", "answer": "a"}\n', "not valid JSON: Expecting ':' delimiter"),
        ("a.jsonl", b'{"question": "q\n{"question": "q", "answer": "a"}\n', "not valid JSON: Unterminated string"),
        ("a.jsonl", b'{"question": "q", "answer": "a"}\n[1]\n', "expected a JSON object, found list"),
        ("a.json", b'[{"question": "q", "answer": "a"}, 1]', "expected a JSON object, found int"),
    ],
)
def test_a_bad_row_is_one_of_many(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = list(read_table(tmp_path / name))
    (bad,) = [row for _, row in found if isinstance(row, InputError)]
    assert len(found) == 2 and str(bad).startswith(reason)


def test_yaml_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(
        'made: 2026-01-31\nquestions:\n- {id: 007, question: "Is it open?", answer: yes, truth: 1.10}\n'
        '- {id: b, question: "When?", answer: ~, truth: 2026-01-31}\n'
    )
    first, second = read_cases(path).cases
    assert (first.id, first.answers, first.truth) == ("007", {"golden": "yes"}, "1.10")
    assert second.truth == "2026-01-31" and second.unanswered == {"golden": "no answer"}
    path.write_text("- question: &a q?\n  answer: *a\n")
    with pytest.raises(InputError, match=r"golden.yaml: cannot be read as YAML: aliases"):
        read_cases(path)


def test_the_only_table_of_a_markdown_document_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    table = "| question | answer | truth |\n| :-- | --- | --- |\n| q? | a | t |\n| r? | b | |\n"
    path.write_text(f"# A log\n\n- **Scores** are a | b.\n\n{table}\nThe end.\n")
    rows = read_table(path)
    assert [place for place, _ in rows] == [f"{path}:7", f"{path}:8"]
    assert [case.truth for case in read_cases(path).cases] == ["t", None]
    path.write_text(f"{table}\n{table}")
    with pytest.raises(InputError, match=r"log.md: has tables at lines 1 and 6; save"):
        read_cases(path)
