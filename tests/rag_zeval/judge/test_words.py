from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.judge.words import mostly_ascii, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's 3.5 km", ["It", "'", "s", "3", ".", "5", "km"]),
        ("größe", ["größe"]),
        ("東京は首都。", list("東京は首都。")),
        ("ภาษาไทย", list("ภาษาไทย")),
        ("وُلد سالم، هنا؟", ["وُلد", "سالم", "،", "هنا", "؟"]),
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),
        ("\u200fسالم\u200e (1950)", ["سالم", "(", "1950", ")"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text("aäß éоё أآَّ がギ7.、 ", max_size=40))
def test_how_a_text_is_coded_makes_no_difference(text: str) -> None:
    assert words(normalize("NFD", text)) == words(normalize("NFC", text)) == words(text)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Über Füße müsste man, so Jörg, auch an der See reden."], True),
        (["The name (紫禁城) means forbidden city."], True),
        (["", "12."], True),
        (["PyTorch 的 DataLoader 加载数据"], False),
        (["سالم", "1950 7"], False),
    ],
)
def test_texts_that_are_mostly_ascii(texts: list[str], expected: bool) -> None:
    assert mostly_ascii(*texts) == expected
