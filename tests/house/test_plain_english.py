"""What a person reads says things as a colleague would: the field's words, and sentences in which somebody acts.

A phrase of PHRASES stands for a kind of sentence that readers had to read twice.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("rag_zeval", "eval_benchmarks", "synthesize", "train", "experiments")
PHRASES = [
    r"made to listen",
    r"\bit is known which\b",
    r"stopped anywhere",
    r"\b(goes|go|went|gone) on\b(?! (top|this|a|the)\b)",  # resumes, continues
    r"is judged while\b",
    r"the paper must assume",
    r"\bfor seeing\b",
    r"knows? nothing else",
    r"\bby the letter\b",
    r"\bseen filled\b",
    r"\bdraw(s|n)? whole\b",  # resample
    r"\bare one call\b",
    r"\bas \.?status says\b",
    r"\b(is|are) told (with|by|at|as|where|rightly|apart rightly)\b",
    r"\bcounts? in no\b",
    r"\bmay (it )?be chance\b",
    r"\bworth as much as\b",
    r"\bmend(s|ed|ing)?\b",
    r"\bnobody (has )?(looked|knows what)\b",
    r"\bmoved thresholds?\b",
    r"\b(stands?|stood|standing) (in (?!for\b)|on lines|there\b|beside\b|twice\b|nowhere\b|above\b|below\b|behind\b)",
    r"(\d|\}) judgements? of (\d|\{)",
    r"\bis begun\b",
    r"\bfrom which \w+ on\b",
    r"\bamong how many\b",
    r"\bnot come to\b",
    r"\bcom(e|es|ing) to nothing\b",
    r"\border of size\b",
    r"\bit is well to\b",
    r"\b(is|are|was|were|be) asked (again|for again|anew|for anew)\b",  # retried, requested again
    r"\bwhat is asked of\b",
    r"\bas (much )?as can be asked\b",
    r"\b(did|does|do) not come\b(?! up)",  # is missing
    r"\bwithout a word\b",
    r"\bheld against\b",  # compared with
    r"\bis said (once|how|before)\b",
    r"\bnor is there\b",
    r"\bshun(s|ned)?\b",
    r"\bis (no|not any) (proof|probability|number of)\b",
]
DIALECT = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES).replace(" ", r"\s+"), re.IGNORECASE)


def pages() -> Iterator[tuple[str, int, str]]:
    """Place, first line and text of everything in prose: pages, the cards of models, and the templates of both."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("checkpoints/*/README.md"),
    ]
    found += [path for folder in CODE for path in (ROOT / folder).rglob("templates/*.*") if path.suffix != ".js"]
    for path in sorted(found):
        yield str(path.relative_to(ROOT)), 1, path.read_text(encoding="utf-8")
    before, _, rest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## [Unreleased]")
    yield "CHANGELOG.md", before.count("\n") + 1, rest.partition("\n## [")[0]


def strings() -> Iterator[tuple[str, int, str]]:
    """Place, line and text of every string in the code that is no docstring; `{}` is what an f-string fills in."""
    for path in (path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
        formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        seen = {id(value) for value in statements if isinstance(value, ast.Constant)}
        seen |= {id(part) for node in formatted for part in node.values}
        for string in formatted:
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in string.values)
            yield str(path.relative_to(ROOT)), string.lineno, "".join(map(str, parts))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
                yield str(path.relative_to(ROOT)), node.lineno, node.value


def found(place: str, first: int, text: str) -> Iterator[str]:
    """`file:line: ...the phrase in its sentence...` for each phrase of the dialect."""
    for match in DIALECT.finditer(text):
        around = " ".join(text[max(0, match.start() - 50) : match.end() + 50].split())
        yield f"{place}:{first + text.count(chr(10), 0, match.start())}: “{match[0]}” in ...{around}..."


def test_a_phrase_is_found_also_across_lines() -> None:
    assert [hit.partition(" in ")[0] for hit in found("a.md", 1, "One line.\nIt goes\non.")] == ["a.md:2: “goes\non”"]
    assert not list(found("a.md", 1, "It goes on top."))


@pytest.mark.parametrize("texts", [pages, strings])
def test_what_people_read_is_in_plain_english(texts: Callable[[], Iterator[tuple[str, int, str]]]) -> None:
    hits = [hit for text in texts() for hit in found(*text)]
    assert not hits, "\n".join(["Say it as a colleague would:", *hits])
