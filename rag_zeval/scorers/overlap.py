"""Measures of the words that an answer and the reference share; no model is asked."""

import logging
from importlib.metadata import version

from rag_zeval.errors import needed
from rag_zeval.judge.evidence import ReferenceIndex
from rag_zeval.judge.example import Example
from rag_zeval.judge.needs import ANSWER, ANY_ANSWER, texts_of
from rag_zeval.judge.words import composed, mostly_ascii, words
from rag_zeval.scorers.score import AnswerScorer, Failed


class Bleu(AnswerScorer):
    """Sentence BLEU-4 as the paper's tables have it: cased whitespace tokens, no smoothing, 0 if any precision is 0.

    In [0, 1], of each answer against the reference. Where texts are not mostly ASCII, tokens are words and punctuation
    marks: a Chinese sentence would be one token. Papineni et al. 2002, through sacrebleu (whose own defaults, 13a
    tokens and exponential smoothing, give other numbers).
    """

    name = "bleu"
    needs = (ANY_ANSWER, "reference")

    def __init__(self) -> None:
        with needed("sacrebleu", self.name):
            import sacrebleu

        self.identity = f"sacrebleu {sacrebleu.__version__} bleu4 tokenize=none, else words, smooth=none"
        self._bleu = sacrebleu.BLEU(tokenize="none", smooth_method="none", effective_order=False)
        # sacrebleu warns, at each call, that a sentence score without smoothing is often 0: here that is meant
        logging.getLogger("sacrebleu").setLevel(logging.ERROR)

    def value(self, example: Example, answer: str) -> float:
        """BLEU-4 of one answer; 0 for an empty one."""
        tokens = str.split if mostly_ascii(answer, example.reference) else words
        hypothesis, target = (" ".join(tokens(composed(text))) for text in (answer, example.reference))
        percent = self._bleu.sentence_score(hypothesis, [target]).score
        return min(float(percent), 100.0) / 100  # rounding may leave a little more than 100


class _Words:
    """A tokenizer as rouge-score takes it."""

    def tokenize(self, text: str) -> list[str]:
        return [word for word in words(text.lower()) if word[0].isalnum()]


class RougeL(AnswerScorer):
    """ROUGE-L F1 as the paper's tables have it: rouge-score's own tokens (lower case, a-z and 0-9), no stemmer.

    In [0, 1], of the longest common subsequence of each answer and the reference. Of a Chinese or Arabic text these
    tokens are the numbers alone: where texts are not mostly ASCII, tokens are words of any script.
    Lin 2004, through Google's rouge-score.
    """

    name = "rouge_l"
    needs = (ANY_ANSWER, "reference")

    def __init__(self) -> None:
        with needed("rouge-score", self.name):
            from rouge_score.rouge_scorer import RougeScorer

        self.identity = f"rouge-score {version('rouge-score')} rougeL no stemmer, else words of any script"
        self._rouge = RougeScorer(["rougeL"], use_stemmer=False)
        self._any_script = RougeScorer(["rougeL"], tokenizer=_Words())

    def value(self, example: Example, answer: str) -> float:
        """ROUGE-L F1 of one answer; 0 for an empty one."""
        answer, reference = composed(answer), composed(example.reference)
        rouge = self._rouge if mostly_ascii(answer, reference) else self._any_script
        return float(rouge.score(target=reference, prediction=answer)["rougeL"].fmeasure)


class StringMatch(AnswerScorer):
    """How much of the ground truth the answer contains word for word.

    In [0, 1]: the longest run of the ground truth's words that is in the answer / all its words; so 1 if the answer
    contains the whole of it, whatever else it says. Case and punctuation do not count. Compared is the ground truth
    where there is one, else a reference of the example's own.
    """

    name = "string_match"
    source = "truth or reference"
    needs = (ANSWER, source)
    identity = "longest run of words"

    def value(self, example: Example, answer: str) -> float:
        """The share for one answer. Raises Failed for a ground truth without a word."""
        tokens = _Words().tokenize
        (text,) = texts_of(example, self.source)
        truth = tokens(text)
        if not truth:
            raise Failed("no word in the ground truth")
        return ReferenceIndex(tokens(answer)).longest_common_span(truth) / len(truth)
