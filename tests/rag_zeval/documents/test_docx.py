import io
import zipfile
from pathlib import Path

import pytest

from rag_zeval.documents.bounded import read_files
from rag_zeval.documents.docx import word_text
from rag_zeval.errors import InputError

MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml."
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
PARTS = {
    "word/document.xml": "document.main+xml",
    "word/footnotes.xml": "footnotes+xml",
    "word/header1.xml": "header+xml",
}


def docx(body: str, head: str = "", types: str | None = None, **more: str) -> bytes:
    """A Word document with this XML in its body; more: the XML of other parts, by the end of PARTS' names.

    types: the XML of the list of types; by default each part has its own.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        own = "".join(f'<Override PartName="/{name}" ContentType="{MAIN}{kind}"/>' for name, kind in PARTS.items())
        archive.writestr("[Content_Types].xml", f"<Types>{own if types is None else types}</Types>")
        for name in PARTS:
            xml = body if name.endswith("document.xml") else more.get(Path(name).stem, "")
            archive.writestr(name, f'{head}<w:x xmlns:w="{W}" xmlns:mc="mc">{xml}</w:x>')
    return file.getvalue()


def p(*runs: str) -> str:
    return "<w:p>" + "".join(f"<w:r><w:t xml:space='preserve'>{run}</w:t></w:r>" for run in runs) + "</w:p>"


def test_a_document_is_read_as_word_shows_it() -> None:
    row = "".join(f"<w:tc>{cell}</w:tc>" for cell in (p("Mon"), p("10:00") + p("daily")))
    box = f"<w:txbxContent>{p('In a box.')}</w:txbxContent>"
    body = [
        p("The fer", "ry", " costs", " 5 &lt; 6 pounds."),
        f"<w:tbl><w:tr>{row}</w:tr><w:tr>{row}</w:tr></w:tbl>",
        f"<w:p><w:r><w:t>One</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>three</w:t></w:r></w:p>{p()}{p(' ')}{p()}",
        "<w:p><w:ins><w:r><w:t>Kept</w:t></w:r></w:ins><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r>"
        "</w:del><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>",
        f"<w:p><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>",
        "</w:p>",
    ]
    text, not_read = word_text(docx("\n".join(body), footnotes=p("A note."), header1=p("On every page")))
    assert text.split("\n\n") == [
        "The ferry costs 5 < 6 pounds.", "Mon 10:00\ndaily", "Mon 10:00\ndaily", "One\ntwo three", "Kept", "In a box.",
        "A note.",
    ]  # fmt: skip
    assert not_read == []


def test_a_pronunciation_is_no_text_and_equations_are_told() -> None:
    ruby = (
        "<w:ruby><w:rt><w:r><w:t>Kana</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>Kanji</w:t></w:r></w:rubyBase></w:ruby>"
    )
    half = "<m:oMath><m:f><m:num><m:t>1</m:t></m:num><m:den><m:t>2</m:t></m:den></m:f></m:oMath>"
    text, doubts = word_text(docx(f"<w:p><w:r>{ruby}</w:r></w:p><w:p xmlns:m='m'>{half}</w:p>"))
    assert text == "Kanji\n\n12"
    assert doubts == ["has equations, of which only the letters and digits are read: a fraction 1/2 becomes 12"]


def test_hidden_text_is_told_and_not_read() -> None:
    def run(text: str, vanish: str = "") -> str:
        return f"<w:r><w:rPr>{vanish}</w:rPr><w:t>{text}</w:t></w:r>"

    box = f"<w:r><w:rPr><w:vanish/></w:rPr><w:drawing><w:txbxContent>{p('in it')}</w:txbxContent></w:drawing></w:r>"
    shown = [
        "<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>",  # of the paragraph's end
        run("A", "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>"),  # before a tracked change
        run("B", "<w:vanish w:val='0'/>"),
        run("C", "<w:webHidden/>"),
    ]
    assert word_text(docx(f"<w:p>{''.join(shown)}</w:p>")) == ("ABC", [])
    text, doubts = word_text(docx(f"<w:p>{run('A')}{run('gone', '<w:vanish/>')}{run('B')}{box}{run('C')}</w:p>"))
    assert ("".join(text.split()), doubts) == ("ABC", ["has hidden text, which is not read"])


def test_what_is_not_read_is_told_and_other_files_are_left_out(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    swollen = docx(p("Word. ") * 3 + "<w:p>" + " " * 5_000_000 + "</w:p>")
    assert len(swollen) < 100_000
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    files = {
        "chart": docx(p("Seen.") + "<w:p><w:chart/><w:chart/><w:sym/></w:p>"),
        "deep": docx("<w:p>" * 50_000 + p("Deep.") + "</w:p>" * 50_000),
        "swollen": swollen,
        "entities": docx(p("&b;"), bomb),
        "cut": docx(p("One.") + "<w:p>"[:-1]),
        "truncated": docx(p("One."))[:-40],
        "password": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        "other": other.getvalue(),
        "empty": docx("<w:p/>"),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.docx").write_bytes(content)
    outcomes = dict(zip(files, read_files((str(tmp_path / f"{name}.docx"), ".docx") for name in files), strict=True))
    assert outcomes["chart"] == {
        "text": "Seen.",
        "doubts": ["has charts, which are not read", "has symbols of a font, which are not read"],
    }
    assert outcomes["deep"] == {"text": "Deep.", "doubts": []}
    assert outcomes["swollen"]["text"] == "Word.\n\nWord.\n\nWord."
    reasons = {name: outcome["left_out"] for name, outcome in outcomes.items() if "left_out" in outcome}
    assert reasons.pop("cut").startswith("ExpatError: not well-formed")
    assert reasons == {
        "entities": "has a document type in word/document.xml, which no Word document has",
        "truncated": "needs a password, or is no Word document",
        "password": "needs a password, or is no Word document",
        "other": "is no Word document",
        "empty": "no text in it",
    }


def test_a_part_may_have_the_type_of_its_suffix() -> None:
    """As the packages of .NET write it: the first part gives its suffix a type, and all others have their own."""
    types = f'<Default Extension="XML" ContentType="{MAIN}document.main+xml"/>'
    types += "".join(f'<Override PartName="/{name}" ContentType="{MAIN}{PARTS[name]}"/>' for name in [*PARTS][1:])
    text, _ = word_text(docx(p("Body."), types=types, footnotes=p("A note."), header1=p("On every page")))
    assert text == "Body.\n\nA note."
    with pytest.raises(InputError, match="has two parts of the type document"):
        word_text(docx(p("Body."), types=types[: types.index("<Override")]))


@pytest.mark.parametrize("missing", ["word/document.xml", "[Content_Types].xml"])
def test_a_missing_part_is_an_error(missing: str) -> None:
    whole, less = zipfile.ZipFile(io.BytesIO(docx(p("One.")))), io.BytesIO()
    with zipfile.ZipFile(less, "w") as archive:
        for name in whole.namelist():
            if name != missing:
                archive.writestr(name, whole.read(name))
    with pytest.raises((InputError, KeyError)):
        word_text(less.getvalue())
