from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.documents.chunks import Chunk, ChunkIndex, read_chunks, split_document
from rag_zeval.documents.documents import Document
from rag_zeval.judge.words import words

WORD = st.text("abcdefghij", min_size=2, max_size=5)
SENTENCE = st.lists(WORD, min_size=1, max_size=12).map(lambda said: f"X{' '.join(said)}.")
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=8)
BLANK = st.sampled_from(["\n\n", "\n \n", "\n\n\n"])
TEXT = st.text(st.sampled_from("aB .!?。！」\n\r\t\u3000\x1f\u00a0\u200b\u202e中…\"'1"), max_size=200) | st.text(
    max_size=200
)


def split(text: str, most: int) -> list[Chunk]:
    return split_document(Document("a.txt", text), most)


@given(TEXT, st.integers(1, 12))
def test_chunks_give_all_text_back_in_its_order(text: str, most: int) -> None:
    chunks = split(text, most)
    at = 0
    for number, chunk in enumerate(chunks, 1):
        start = text.index(chunk.text, at)
        assert chunk.id == f"a.txt#{number}" and chunk.text == chunk.text.strip() != ""
        assert not text[at:start].strip()
        assert len(words(chunk.text)) <= most
        at = start + len(chunk.text)
    assert not text[at:].strip()


@given(st.lists(PARAGRAPH, min_size=1, max_size=6), st.data(), st.integers(13, 40))
def test_a_chunk_is_whole_sentences_if_they_fit(paragraphs: list[list[str]], data: st.DataObject, most: int) -> None:
    text = "".join(" ".join(sentences) + data.draw(BLANK) for sentences in paragraphs)
    left = [sentence for sentences in paragraphs for sentence in sentences]
    for chunk in split(text, most):
        held = [left.pop(0)]
        while " ".join(held) != " ".join(chunk.text.split()):
            held.append(left.pop(0))  # IndexError: the chunk ends, or begins, within a sentence
    assert not left


@given(st.lists(PARAGRAPH, max_size=6), st.lists(PARAGRAPH, max_size=3), st.integers(1, 40))
def test_what_is_added_at_the_end_changes_no_chunk_but_the_last(
    paragraphs: list[list[str]], more: list[list[str]], most: int
) -> None:
    before, after = ("\n\n".join(map(" ".join, some)) for some in (paragraphs, paragraphs + more))
    first = split(before, most)
    assert split(before, most) == first
    assert split(after, most)[: max(0, len(first) - 1)] == first[:-1]


def test_paragraphs_that_fit_stay_whole() -> None:
    text = "One two three.\n\nFour five. Six seven.\n\nEight."
    assert [chunk.text for chunk in split(text, 8)] == ["One two three.", "Four five. Six seven.\n\nEight."]
    assert [chunk.text for chunk in split(text, 4)] == ["One two three.", "Four five.", "Six seven.", "Eight."]


def test_sentences_end_without_a_space_in_chinese_and_not_at_an_abbreviation() -> None:
    spoken = "他说：「好。」我走了！你好吗？"
    assert [chunk.text for chunk in split(spoken, 7)] == ["他说：「好。」", "我走了！", "你好吗？"]
    assert [chunk.text for chunk in split("Ask Dr. Ann Lee. She knows.", 6)] == ["Ask Dr. Ann Lee.", "She knows."]


@pytest.mark.parametrize(
    ("text", "most", "chunks"),
    [
        ("It is so. a 1 x\nb 2 y\nc 3 z\n", 6, ["It is so.", "a 1 x\nb 2 y", "c 3 z"]),  # the lines of a table
        ("see a.b/c d.e/f", 5, ["see", "a.b/c", "d.e/f"]),
        ("เรือออก", 2, ["เรื", "ออ", "อก"]),
        ("वह आया। वह गया।", 4, ["वह आया।", "वह गया।"]),
    ],
)
def test_a_sentence_that_is_too_long_is_cut_at_its_lines_or_else_between_words(
    text: str, most: int, chunks: list[str]
) -> None:
    assert [chunk.text for chunk in split(text, most)] == chunks


def test_what_the_chunks_lack_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.txt").write_text("Good.")
    (tmp_path / "half.html").write_text("<p>Half <!--")
    assert [chunk.text for chunk in read_chunks([tmp_path])] == ["Good."]
    said = "left out: half.html: ends inside a comment that line 1 opens and no line closes"
    assert caplog.messages == [said]


def test_the_nearest_chunk_shares_the_rarest_words(tmp_path: Path) -> None:
    texts = ["The ferry to Inchcolm.", "The abbey of Inchcolm.", "The price of a ferry.", "The end."]
    for name, text in zip("abcd", texts, strict=True):
        (tmp_path / f"{name}.txt").write_text(text)
    a, b, c, d = read_chunks([tmp_path])
    index = ChunkIndex([a, b, c, d])
    assert index.nearest("Is the Inchcolm abbey open?", but=d) == [b, a, c]
    assert index.nearest(a.text, but=a) == [b, c, d]  # "the" and "." are everywhere, and bring nobody near
    assert index.nearest("unheard", but=a) == [b, c, d]
    assert ChunkIndex([a, b]).nearest("Inchcolm?", but=a) == [b]  # the word is in both, and b may yet answer it
