from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.documents.formats import decode
from rag_zeval.errors import InputError

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"))
MARKED = {"utf-8-sig": b"", "utf-16": b"", "utf-32": b"", "utf-16-be": b"\xfe\xff", "utf-32-be": b"\0\0\xfe\xff"}


@given(TEXT, st.sampled_from(sorted(MARKED)), st.booleans())
def test_a_text_with_its_mark_is_read_as_it_is(text: str, encoding: str, declares: bool) -> None:
    assert decode(MARKED[encoding] + text.replace("\n", "\r\n").encode(encoding), declares) == text


@given(TEXT.filter(lambda text: not text.startswith("\ufeff")))
def test_a_text_without_a_mark_is_utf_8(text: str) -> None:
    assert decode(text.encode()) == text


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "“Größe” – 5 €"),
        ("Windows-1251", "cp1251", "Размер"),
        ("gb2312", "gb18030", "镕基"),
        ("shift_jis", "cp932", "①大きさ"),
        ("iso-2022-jp", "iso-2022-jp", "大きさ"),  # all its bytes are ASCII
        ("shift_jis", "utf-8", "Größe"),  # what it says is wrong
        ("utf-16", "ascii", "plain"),
    ],
)
@pytest.mark.parametrize("form", ["<meta charset='{}'>", "<META content='x; charset={}'>", '<?xml encoding="{}"?>'])
def test_a_page_says_its_encoding(form: str, label: str, encoding: str, text: str) -> None:
    page = f"<!-- -->{form.format(label)}\n<p>{text}"
    assert decode(page.encode(encoding), declares=True) == page
    if encoding not in ("utf-8", "ascii", "iso-2022-jp"):
        with pytest.raises(InputError, match="is not in utf-8: save it as UTF-8"):
            decode(page.encode(encoding))  # other files say nothing


@pytest.mark.parametrize(
    "label", ["utf-8", "utf-16", "utf-32", "cp037", "rot13", "base64", "idna", "undefined", "nosuch", "big5"]
)
def test_no_byte_is_replaced_and_no_text_made_up(label: str) -> None:
    with pytest.raises(InputError, match="is not in utf-8"):
        decode(f"<meta charset={label}><p>Größe é".encode("latin-1"), declares=True)


@pytest.mark.parametrize("content", [b"a\0b", "Größe".encode("utf-16-le") + b"\0", bytes(8), b"\xff\xfea\0\0\0"])
def test_what_holds_nul_is_no_text(content: bytes) -> None:
    with pytest.raises(InputError, match=r"holds NUL bytes|is not in utf-8"):
        decode(content, declares=True)
