"""What a text looks like: a label, a title or a sentence, in the scripts of many languages."""

import re

from rag_zeval.cases.names import VERDICTS

# An id, which has no spaces and a character that is rare in words. JSON and rows of a table may be such texts, too.
# Or the name of a file, or numbers.
LABEL = re.compile(
    r"(?![!-~]*[\"{}<>=,;])[!-~]*[\d_/#][!-~]*|.+\.(?:csv|docx?|html?|json|md|pdf|pptx?|txt|xlsx?)|[\d\s.,;%-]+",
    re.IGNORECASE,
)
TAG = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")  # such as should_refuse
NUMBER = re.compile(r"[\d\s.,%]+")
LINK = re.compile(r"\(?\bhttps?://\S+")
SENTENCE_END = (".", "?", "!", ":", ";", "。", "？", "！", "：", "；")
LONGEST_TITLE, MOST_TITLE_WORDS = 80, 10
LETTER = re.compile(r"[^\W\d_]")
# The end of a sentence or of a line within a text, or a text that was cut off. Titles and names of files have none.
PROSE = re.compile(r"[^\W\d_][)\]'\"”»]*[.!?؟।](?:\s|\Z)|[。！？]|\w\n|…\Z|\.\.\.\Z")
WORD = re.compile(r"[^\W\d_]{2,}")
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")  # Thai, Japanese, Chinese


def is_label(text: str) -> bool:
    """Whether a text is a number, an id, a link with or without its title, or the name of a file."""
    bare = text.strip()
    title = LINK.sub("", bare) if "://" in bare else bare
    return bool(LABEL.fullmatch(bare)) or (title != bare and (not re.search(r"\w", title) or is_title(title)))


def is_verdict(text: str) -> bool:
    """Whether a text says how something turned out, or what kind it is of: `PASS`, `should_refuse`."""
    return text.strip().lower() in VERDICTS or TAG.fullmatch(text.strip()) is not None


def is_flag(text: str) -> bool:
    """Whether a text is a truth value. But yes and no may well be answers."""
    return text.strip().lower() in ("true", "false")


def is_title(text: str) -> bool:
    """Whether a text is short, begins with a capital letter or a number and does not end as a sentence does.

    A text in a script without capital letters is no title, because it may be a short fact as well.
    """
    bare = re.sub(r"\A\W+|\s+\Z", "", text)
    is_short = len(bare) <= LONGEST_TITLE and len(bare.split()) <= MOST_TITLE_WORDS
    begins_so = bare[:1].isupper() or bare[:1].isdecimal()
    return is_short and begins_so and not bare.endswith(SENTENCE_END) and not is_prose(bare)


def is_prose(text: str) -> bool:
    """Whether a text is written in sentences or lines, as passages are, and not like a title.

    >>> is_prose("The museum opens at nine. It closes at five."), is_prose("Opening hours of the museum; page 7")
    (True, False)
    """
    return PROSE.search(text) is not None


def is_sentence(text: str, words: int = 2) -> bool:
    """Whether a text has so many words. Two characters count as one in a script without spaces between words."""
    characters = len(UNSPACED.findall(text))
    count = len(WORD.findall(text)) + characters // 2
    return count >= words and (characters > 0 or " " in text.strip()) and not is_label(text)
