"""Measures of the words that an answer and the reference share, without a model."""

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version

from rag_zeval.errors import needed
from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import ANSWER, ANY_ANSWER, texts_of
from rag_zeval.judge.words import composed, mostly_ascii, words
from rag_zeval.scorers.score import AnswerScorer, Failed


class Bleu(AnswerScorer):
    """Sentence BLEU-4 as in the paper's tables: cased whitespace tokens, no smoothing, 0 if any precision is 0.

    It compares each answer with the reference, in [0, 1]. If the texts are not mostly ASCII, tokens are words and
    punctuation marks, because a Chinese sentence would otherwise be one token. Papineni et al. 2002, through sacrebleu
    (whose own defaults, 13a tokens and exponential smoothing, give other numbers).
    """

    name = "bleu"
    needs = (ANY_ANSWER, "reference")

    def __init__(self) -> None:
        with needed("sacrebleu", self.name):
            import sacrebleu

        self.identity = f"sacrebleu {sacrebleu.__version__} bleu4 tokenize=none, else words, smooth=none"
        self._bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none", effective_order=False)
        # at each call, sacrebleu warns that a sentence score without smoothing is often 0, which is intended here
        logging.getLogger("sacrebleu").setLevel(logging.ERROR)

    def value(self, example: Example, answer: str) -> float:
        """Return the BLEU-4 of one answer; 0 for an empty one."""
        tokens = str.split if mostly_ascii(answer, example.reference) else words
        hypothesis, target = (" ".join(tokens(composed(text))) for text in (answer, example.reference))
        percent = self._bleu.sentence_score(hypothesis, [target]).score
        return min(float(percent), 100.0) / 100  # rounding may leave a little more than 100


def plain_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation marks."""
    return [word for word in words(text.lower()) if any(map(str.isalnum, word))]


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One integer holds a row of the usual table, a bit for each token (Hyyrö 2004): a 0 where the length grows. The table
    of rouge-score takes a minute, and gigabytes, for two texts of 10,000 words.
    """
    places: dict[str, int] = {}
    for at, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << at
    every = row = (1 << len(first)) - 1
    for token in second:
        match = row & places.get(token, 0)
        row = (row + match | row - match) & every
    return len(first) - row.bit_count()


class RougeL(AnswerScorer):
    """ROUGE-L F1 as in the paper's tables: rouge-score's own tokens (lower case, a-z and 0-9), no stemmer.

    It compares each answer with the reference by their longest common subsequence, in [0, 1]. In a Chinese or Arabic
    text, the only such tokens are numbers. So if the texts are not mostly ASCII, tokens are words of any script. The
    same holds if one of the texts has words but no such token, such as a reference that is an Arabic number.
    Lin 2004. Tokens and formula are those of Google's rouge-score, with a faster longest common subsequence.
    """

    name = "rouge_l"
    needs = (ANY_ANSWER, "reference")

    def __init__(self) -> None:
        with needed("rouge-score", self.name):
            from rouge_score.tokenize import tokenize

        self.identity = f"rouge-score {version('rouge-score')} rougeL no stemmer, else words"
        self._tokens: Callable[[str], list[str]] = lambda text: tokenize(text, None)

    def value(self, example: Example, answer: str) -> float:
        """Return the ROUGE-L F1 of one answer; 0 for an empty one. Raises Failed for a reference without a word."""
        answer, reference = composed(answer), composed(example.reference)
        ours, theirs = self._tokens(answer), self._tokens(reference)
        if not (ours and theirs and mostly_ascii(answer, reference)):
            ours, theirs = plain_words(answer), plain_words(reference)
        if not theirs:
            raise Failed("no word in the reference")
        shared = common_subsequence(ours, theirs)
        if not shared:
            return 0.0
        precision, recall = shared / len(ours), shared / len(theirs)
        return 2 * precision * recall / (precision + recall)  # as rouge-score computes it, to the last digit


class StringMatch(AnswerScorer):
    """How much of the ground truth the answer contains word for word.

    The score is the longest run of the ground truth's words that is in the answer / all words of the ground truth. So
    it is 1 if the answer contains the whole ground truth, whatever else it says. Case and punctuation do not count. If
    there is no ground truth, a reference that the example gives itself takes its place.
    """

    name = "string_match"
    source = "truth or reference"
    needs = (ANSWER, source)
    identity = "longest run of words, __names__ too"

    def value(self, example: Example, answer: str) -> float:
        """Return the share for one answer, in [0, 1]. Raises Failed for a ground truth without a word."""
        (text,) = texts_of(example, self.source)
        truth = plain_words(text)
        if not truth:
            raise Failed("no word in the ground truth")
        return ReferenceIndex(plain_words(answer)).longest_common_span(truth) / len(truth)
