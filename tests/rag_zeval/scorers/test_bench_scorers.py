import math
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from rag_zeval.judge.example import Example
from rag_zeval.scorers.overlap import Bleu, RougeL
from rag_zeval.scorers.score import Failed

WORDS = st.lists(st.sampled_from("the cat sat on a mat . The x1".split()), max_size=14).map(" ".join)
ASCII = st.text(st.characters(codec="ascii"), max_size=40)
TEXTS = WORDS | ASCII | st.text(alphabet="ab c\n\u00a0\x1f", max_size=40)
HAN = st.text("猫坐在垫子上。", max_size=14).map("猫{}".format)
ARABIC = st.lists(st.sampled_from("قطة على مُقعد، 7 .".split()), max_size=14).map(" ".join).map("قطة {}".format)
Tokens = Callable[[str], list[str]]


def ascii_words(text: str) -> list[str]:
    return re.sub("[^a-z0-9]+", " ", text.lower()).split()


def textbook_bleu(answer: str, reference: str, tokens: Tokens = str.split) -> float:
    """Papineni et al. 2002, one reference, n = 1..4."""
    hypothesis, target = tokens(answer), tokens(reference)
    logs = []
    for n in range(1, 5):
        grams = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
        known = Counter(tuple(target[i : i + n]) for i in range(len(target) - n + 1))
        matched = sum((grams & known).values())
        if matched == 0:
            return 0.0
        logs.append(math.log(matched / sum(grams.values())))
    brevity = min(0.0, 1 - len(target) / len(hypothesis))
    return math.exp(brevity + sum(logs) / 4)


def textbook_rouge_l(answer: str, reference: str, tokens: Tokens = ascii_words) -> float:
    """Lin 2004: F1 of the longest common subsequence, by the dynamic programme."""
    a, b = tokens(answer), tokens(reference)
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, word in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if word == other else max(table[i][j + 1], table[i + 1][j])
    common = table[-1][-1]
    return 2 * common / (len(a) + len(b)) if common else 0.0


def value(scorer: Bleu | RougeL, answer: str, reference: str) -> float:
    return scorer.value(Example("x", "q", reference, (answer,)), answer)


@given(TEXTS, TEXTS)
@example("the cat sat on the mat", "the cat sat on the mat")
@example("", "the cat")
@example("the cat sat", "the cat sat")
@example("a cat sat on (紫禁城) Müller's mat", "the cat sat on (紫禁城) Müller's mat")  # English all the same
def test_bleu_is_the_textbook_definition(answer: str, reference: str) -> None:
    assert value(Bleu(), answer, reference) == pytest.approx(textbook_bleu(answer, reference), abs=1e-9)


@given(TEXTS, TEXTS)
@example("Running dogs", "run dog")
@example("", "_0")
@example("A café in Zürich", "the café of Zürich, a cafe")
def test_rouge_l_is_the_textbook_definition(answer: str, reference: str) -> None:
    assume(ascii_words(reference))
    found = value(RougeL(), answer, reference)
    assert found == pytest.approx(textbook_rouge_l(answer, reference), abs=1e-9)
    assert found == RougeScorer(["rougeL"]).score(reference, answer)["rougeL"].fmeasure


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The answer is ٤٢", "٤٢", 2 / 5),  # mostly ASCII, but rouge-score has no token for such a number
        ("٤٢", "٤٢", 1),
        ("२०२४", "It was २०२४.", 1 / 2),
        ("٤٣", "٤٢", 0),
        ("", "٤٢", 0),
        ("...", "Ann has cats.", 0),
    ],
)
def test_rouge_l_compares_words_that_rouge_score_does_not_see(answer: str, reference: str, expected: float) -> None:
    assert value(RougeL(), answer, reference) == pytest.approx(expected)


def test_a_reference_without_a_word_gives_no_rouge_l() -> None:
    with pytest.raises(Failed, match="no word in the reference"):
        value(RougeL(), "It is so ✓", "✓")


def test_rouge_l_of_long_texts_needs_little_memory() -> None:
    words = [f"w{at}" for at in range(3000)]
    scorer = RougeL()
    tracemalloc.start()
    found = value(scorer, " ".join(words[::2]), " ".join(words))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == 2 / 3 and peak < 2**24  # a table of 1,500 x 3,000 numbers has 36 MB


@given(HAN, HAN)
def test_chinese_is_counted_by_characters(answer: str, reference: str) -> None:
    assert value(Bleu(), answer, reference) == pytest.approx(textbook_bleu(answer, reference, list), abs=1e-9)
    expected = textbook_rouge_l(answer, reference, lambda text: list(text.replace("。", "")))
    assert value(RougeL(), answer, reference) == pytest.approx(expected, abs=1e-9)


@given(ARABIC, ARABIC)
def test_arabic_is_counted_by_words_with_their_vowel_signs(answer: str, reference: str) -> None:
    expected = textbook_bleu(answer, reference, lambda text: text.replace("،", " ،").split())
    assert value(Bleu(), answer, reference) == pytest.approx(expected, abs=1e-9)
    expected = textbook_rouge_l(answer, reference, lambda text: re.sub("[،.]", "", text).split())
    assert value(RougeL(), answer, reference) == pytest.approx(expected, abs=1e-9)
