"""Guesses from the words of a column's name, in several languages, what it holds. No column is taken for its words.

`generated_sql` seems to be an answer, `kb_article` a context, `respuesta_esperada` the ground truth.
"""

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache

from rag_zeval.cases.names import CHUNK_TEXT, FIELD_OF, plain_name, snake_name
from rag_zeval.text import QUESTION_MARKS

# Beginnings and ends of words, without accents. A short Latin one is a whole word.
WORDS: Mapping[str, tuple[str, ...]] = {
    "question": (
        "question", "query", "queries", "asked", "ask", "usermessage", "user_message", "customer_message",
        "pregunt", "pergunt", "frage", "domanda", "vraag", "pytani", "fraga", "sporgsmal", "kysymys", "otazka",
        "kerdes", "intrebar", "soru", "sorgu", "pertanyaan", "cau_hoi", "вопрос", "питан", "ερωτη",
        "问题", "提问", "質問", "問題", "질문", "سؤال", "سوال", "प्रश्न",
    ),
    "answer": (
        "answer", "respon", "output", "reply", "replies", "predict", "generated", "generation", "completion", "bot",
        "assistant",
        "respuest", "respost", "repons", "antwort", "rispost", "antwoord", "odpowied", "svar", "vastaus", "odpoved",
        "valasz", "raspuns", "cevap", "yanit", "jawab", "tra_loi", "ответ", "відповід", "απαντη",
        "回答", "答案", "応答", "답변", "응답", "جواب", "إجابة", "پاسخ", "उत्तर",
    ),
    "contexts": (
        "context", "chunk", "passage", "document", "doc", "docs", "excerpt", "snippet", "evidence", "source", "article",
        "knowledge", "kb", "retriev", "rerank",
        "contest", "contexto", "kontext", "kontekst", "konteks", "fuente", "fonte", "quelle", "контекст",
        "上下文", "检索", "文脈", "コンテキスト", "컨텍스트", "문맥", "سياق", "زمینه",
    ),
    # whose answers people wrote, or that are right
    "truth": (
        "annotat", "correct", "expert", "expected", "gold", "golden", "human", "ideal", "orig", "original", "reference",
        "sme", "true", "truth", "ground",
        "esperad", "referenci", "attend", "erwart", "korrekt", "richtig", "attes", "riferiment", "verwacht",
        "oczekiwan", "beklenen", "benar", "rujukan", "acuan", "эталон", "ожида", "правильн", "очікуван",
        "标准", "参考", "正确", "正解", "期待", "模範", "정답", "모범", "صحيح",
    ),
}  # fmt: skip
# With these a name begins or ends if what it holds is neither a question nor an answer nor a context, but about one.
ASIDE = {
    "category", "choice", "comment", "date", "decision", "description", "error", "explanation", "failure", "feedback",
    "file", "forbidden", "id", "is",
    "justification", "keyword", "kind", "label", "length", "link", "metadata", "missing", "name", "note",
    "option", "page", "persona", "rationale", "reason", "reasoning", "score", "span", "style", "template", "term",
    "time", "timestamp", "title", "trace", "type", "url",
    "anmerkung", "begrundung", "bemerkung", "categoria", "categorie", "comentario", "commentaire", "hinweis",
    "kategori", "kategoria", "kategorie", "kommentar", "nota", "observacao", "observacion", "remarque", "titel",
    "titre", "titulo",
}  # fmt: skip
# Words in the name of an object that holds what a judge or a metric said about an answer.
JUDGED = {
    "critique", "faithful", "faithfulness", "grounded", "groundedness", "judge", "judgement", "judgment", "metric",
    "precision", "recall", "relevance", "relevancy", "verdict",
}  # fmt: skip
MOST_WORDS = 6  # in a name
SHORT = 4  # letters of a Latin word that is compared as a whole
BEGIN, END = r"(?<![^\W_])", r"(?![^\W_])"  # of a word
LEAST = 5  # letters of a name that may be misspelt
ALIKE = 0.85  # difflib ratio from which two names are alike: one wrong letter in seven
WORDS_ALIKE = 0.65  # the same for each pair of their words


def is_no_name(name: str) -> bool:
    """Whether what a file has in the place of a column's name looks like a value, or like a line of a text.

    >>> is_no_name("When does it open?"), is_no_name("S.No."), is_no_name("# Answers of May")
    (True, False, True)
    """
    return (
        len(name.split()) > MOST_WORDS
        or name.endswith(("。", *QUESTION_MARKS))
        or (name.endswith(".") and " " in name)
        or name.startswith(("-", "# "))
        or ": " in name
    )


def words_of(name: str) -> list[str]:
    """Return the words of a column's name, in small letters.

    >>> words_of("Retrieved Sources (Top 2)"), words_of("modelAnswer")
    (['retrieved', 'sources', 'top', '2'], ['model', 'answer'])
    """
    return re.findall(r"[^\W_]+", snake_name(name))


def field_said_by(name: str) -> str | None:
    """Return the field that the words of a column's name say it holds, or None.

    >>> field_said_by("Respuesta (Ground Truth)"), field_said_by("kb_article"), field_said_by("expected_documents")
    ('truth', 'contexts', None)
    """
    if is_about_truth(name):
        return None if _has_word(name, "question") or _has_word(name, "contexts") else "truth"
    return next((field for field in ("question", "answer", "contexts") if _has_word(name, field)), None)


def is_about_truth(name: str) -> bool:
    """Whether a word of a column's name says that people wrote what it holds, or that it is right."""
    return _has_word(name, "truth")


def is_aside(name: str) -> bool:
    """Whether a column's name says that what it holds is about a question, an answer or a context.

    >>> is_aside("answer_times"), is_aside("is_generated"), is_aside("answer")
    (True, True, False)
    """
    words = words_of(_folded(name))
    return any({word, word.removesuffix("s")} & ASIDE for word in words[:1] + words[-1:])


def is_judged(name: str) -> bool:
    """Whether an object's name says that a judge or a metric wrote what it holds.

    >>> is_judged("faithfulness"), is_judged("judge_result"), is_judged("result")
    (True, True, False)
    """
    return any({word, word.removesuffix("s")} & JUDGED for word in words_of(name))


def misspelt_field(name: str) -> str | None:
    """Return the field with a known name of which this one seems to be a misspelt form, or None.

    >>> misspelt_field("retreived_contexts"), misspelt_field("retrieved_topic"), misspelt_field("content")
    ('contexts', None, None)
    """
    plain = plain_name(name)
    if plain in CHUNK_TEXT:
        return None
    known = (one for one in FIELD_OF if len(one) >= LEAST and one.endswith("_id") == plain.endswith("_id"))
    found = difflib.get_close_matches(plain, known, 1, ALIKE)
    return FIELD_OF[found[0]] if found and _are_alike(words_of(plain), words_of(found[0])) else None


def _are_alike(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each word of one name is alike to that of the other, or one name lacks the mark between two words."""
    if len(some) != len(others):  # but `is_generated` is not `generated`
        return 1 in (len(some), len(others)) and {*some}.isdisjoint(others)
    pairs = zip(some, others, strict=True)
    return all(difflib.SequenceMatcher(None, one, other).ratio() >= WORDS_ALIKE for one, other in pairs)


@cache
def _has_word(name: str, field: str) -> bool:
    return _pattern(field).search(snake_name(_folded(name))) is not None


@cache
def _pattern(field: str) -> re.Pattern[str]:
    """Return what matches the words of a field: at either end of another word, a short one alone."""
    signs = []
    for word in map(_folded, WORDS[field]):
        if "_" in word or not any("LATIN" in unicodedata.name(c, "") for c in word):  # some scripts put no spaces
            signs.append(word)
        else:
            signs += [f"{BEGIN}{word}{END}"] if len(word) <= SHORT else [f"{BEGIN}{word}", f"{word}{END}"]
    return re.compile("|".join(signs))


def _folded(text: str) -> str:
    """Return the text without accents."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))
