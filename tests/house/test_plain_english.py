"""What a person reads says things as a colleague would: the field's words, and sentences in which somebody acts.

Each sentence of SAID was in this repository, with the one that replaced it. A phrase of PHRASES is how we can tell that
such a sentence is back. It stands for a kind of sentence that readers had to read twice.

The README answers a newcomer's five questions at its top.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("rag_zeval", "eval_benchmarks", "synthesize", "train", "experiments")
FIRST_SCREEN = 60
ANSWERS = {  # a newcomer's questions, and the words of the README that answer them
    "What is it?": [
        "RAG-Zeval checks the answers of a RAG system (retrieval-augmented generation: a model answers from documents "
        "that were retrieved).",
        "It splits an answer into single statements (*claims*), quotes what a reference text says about each, and "
        "marks each claim supported or not.",
    ],
    "What do I type to check my CSV?": [
        "pip install '.[evaluate]'",
        "rag-zeval evaluate docs/example/old.csv docs/example/new.csv "
        "--model openai:judge@http://127.0.0.1:8001/v1 --html report.html",
        "rag-zeval evaluate my.csv --model openai:gpt-4o-mini --dry-run",
        "The file needs columns for the question, the answer, and the retrieved contexts or the ground truth",
    ],
    "What do I type to reproduce the paper?": [
        "make reproduce",
        "make train PROFILE=paper DRY_RUN=1",
        "**The paper's own numbers need 8 GPUs, and nobody has run that yet**",
    ],
    "What is proved, and what is not?": [
        "runs on two CPU cores in 9 to 12 minutes; reinforcement learning improves the judge",
        "included, but weak",
        "**not trained here yet: on a GPU, only the 135M judge has been trained**",
    ],
    "What does one score mean?": [
        "A score of 0.75 means that three of four claims of the answer are supported by the *reference*, the text it "
        "is checked against.",
    ],
}

SAID = {  # as it stood, as a colleague says it
    "is made to listen to the passage less and less, so it is known which answer should be the better one": (
        "attending less and less to the passage. So we know in advance which answer should be better"
    ),
    "Stopped anywhere, the same command goes on where it was": (
        "Interrupt it at any point; run the same command again to resume"
    ),
    "The base is judged while training runs, so its seconds in the table of costs are longer": (
        "The base model is benchmarked during training, so its timings look slower"
    ),
    "what the paper must assume can be measured": "here we can measure what the paper has to assume",
    "It is for seeing every stage work, and it knows nothing else": (
        "It exercises the whole pipeline; outside its toy world it is useless"
    ),
    "what stands above the stages": "studies that run several stages",
    "a judge that goes by the letter stands in for the large models, so that the page can be seen filled": (
        "a rule-based mock judge stands in for the large models, so you can preview the page"
    ),
    "intervals that draw whole documents; many claims about one document are one call": (
        "intervals resample whole documents; all claims about a document share one call"
    ),
    "None without claims, or as .status says": "`None` if the answer has no claims; otherwise `.status` says why",
    "is told with its reason, and counts in no mean": "is listed with its reason and left out of every mean",
    "What changed, and may it be chance?": "What changed, and could it be noise?",
    "A judge's score is worth as much as its verdicts are right": "A judge is only as good as its verdicts",
    "what is to be mended": "what to fix",
    "nobody has looked whether": "we have not tested whether",
    "so this is no moved threshold": "so this is not merely a shifted threshold",
    "field 'id': 'a' stands twice": "duplicate id 'a'",
    "1 judgements of 2": "got 1 judgement, expected 2",
    "Dollars after which no case is begun": "Stop starting new cases after this many dollars",
    "From which score on an answer is right": "Minimum score that counts as correct",
    "Among how many of the first ids to look": "Cut-offs k, separated by commas",
    "3 not come to": "3 not reached",
    "an order of size": "a rough estimate",
    "How many questions it is well to have under way": "Recommended number of concurrent requests",
}

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


@pytest.mark.parametrize(("before", "after"), SAID.items())
def test_the_sentences_that_were_replaced_are_recognised(before: str, after: str) -> None:
    assert list(found("page.md", 1, f"One line.\n{before.replace(' ', chr(10))}"))
    assert not list(found("page.md", 1, after))


@pytest.mark.parametrize("texts", [pages, strings])
def test_what_people_read_is_in_plain_english(texts: Callable[[], Iterator[tuple[str, int, str]]]) -> None:
    hits = [hit for text in texts() for hit in found(*text)]
    assert not hits, "\n".join(["Say it as a colleague would:", *hits])


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("question", "answer"), ANSWERS.items())
def test_the_readme_answers_on_its_first_screen(question: str, answer: list[str]) -> None:
    first = words("\n".join((ROOT / "README.md").read_text().splitlines()[:FIRST_SCREEN]))
    assert not [quote for quote in answer if quote not in first], question
