import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spelt_keys import SPELLINGS, shown

from rag_zeval.secrets import MASK, hide, hide_environment, hide_header, hide_words, is_variable, scrub, without_keys

KEY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
LETTERS = string.ascii_letters + string.digits
CUT = [KEY, f"\n{KEY[1:]}\\"]  # whose escapes stand beside a key
keys = st.builds(
    "sk-{}{}".format, st.sampled_from(["", "proj-", "ant/", "a+b_"]), st.text(LETTERS, min_size=24, max_size=60)
)
texts = st.text(max_size=300) | st.text('abc \\u004&#%;\n".-', max_size=300)


@given(keys, st.sampled_from([*SPELLINGS]), texts, texts)
def test_no_spelling_shows_a_key_and_what_stands_around_it_stays(key: str, name: str, before: str, after: str) -> None:
    hide(key)
    spelt = SPELLINGS[name](key)
    scrubbed = scrub(f"{before} !{spelt}! {after}")
    assert MASK in scrubbed and not shown(scrubbed.encode("utf-8", "replace"), key)
    if "base64" not in name and "half" not in name:
        assert scrubbed == f"{scrub(before)} !{MASK}! {scrub(after)}"


@given(
    st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)),
    st.booleans(),
    st.sampled_from([*SPELLINGS]),
)
@example(CUT, True, "as it is")
def test_json_stays_json(value: Any, ascii_only: bool, name: str) -> None:
    hide(KEY)
    spelt = SPELLINGS[name](KEY)
    content = json.dumps({"a": value, "b": [spelt, "\\", f"\n{spelt}\\"]}, ensure_ascii=ascii_only)
    read = json.loads(scrub(content))
    assert (read["a"] == value or value == CUT) and read["b"][1] == "\\"
    if "base64" not in name and "half" not in name:
        assert read["b"] == [MASK, "\\", f"\n{MASK}\\"], name


words = st.sampled_from(
    "the a key is not needed needed. sk- proj Bearer token openai none base64 %20 &amp; \\u0041".split()
)


@given(texts | st.lists(words | st.text(LETTERS, max_size=14), max_size=60).map(" ".join))
@example("There is no key, and it is not needed: the token is the key.")
@example("Our company's internal RAG service answers.")
def test_honest_text_is_unchanged(text: str) -> None:
    for key in (
        KEY,
        "not-needed-here",
        "our-company-internal-rag-service",
        "sk-no-key-required",
        "0123456789abcdef0123456789abcdef",
    ):
        hide(key)
    assert scrub(text) == text


def test_a_short_key_is_masked_only_as_it_is_and_where_no_word_looks_so() -> None:
    hide("not-needed")
    hide("so")
    assert scrub("so it is not needed, not-needed.") == "so it is not needed, [key]."
    for name in ("base64 of user", "hex", "JSON's escapes", "percent-encoding", "hexadecimal entities"):
        assert MASK in scrub(SPELLINGS[name]("not-needed")), name


def test_a_header_is_hidden_with_its_scheme_and_without() -> None:
    hide_header("Bearer sesame-4711-open")
    hide_header("Basic dXNlcjpvcGVuLXNlc2FtZS0xMjM0NS1ub3c=")
    told = "Bearer sesame-4711-open, sesame-4711-open, open-sesame-12345-now, dXNlcjpvcGVuLXNlc2FtZS0xMjM0NS1ub3c="
    assert scrub(told) == f"{MASK}, {MASK}, {MASK}, {MASK}="


def test_the_environment_hides_what_is_called_a_key_and_is_no_word() -> None:
    hide_environment(
        {"HF_TOKEN": "hf_0123456789abcdefgh", "DB_PASSWORD": "postgres", "PATH": "/usr/bin/fedcba9876543210"}
    )
    text = "hf_0123456789abcdefgh at postgres in /usr/bin/fedcba9876543210"
    assert scrub(text) == text.replace("hf_0123456789abcdefgh", MASK)


OPAQUE = "0123456789abcdef0123456789abcdef"
TYPED = {
    f"--api-key={KEY}": KEY, f"openai:x@http://user:{KEY}@host/v1": KEY, f"http://host/v1?api_key={KEY}": KEY,
    f"Authorization=Bearer {OPAQUE}": OPAQUE, f"Authorization: Bearer {OPAQUE}": OPAQUE, f"models=[{KEY}]": KEY,
    f"judge.api_key_env={OPAQUE}": OPAQUE, "hf_abcdefghijklmnopqrst0": "hf_abcdefghijklmnopqrst0",
    "sk-ant-api03-abcdefghijklmnop": "sk-ant-api03-abcdefghijklmnop", f"--api-key-env {OPAQUE}": OPAQUE,
}  # fmt: skip


@pytest.mark.parametrize(("typed", "key"), TYPED.items())
def test_what_looks_like_a_key_on_the_command_line_is_hidden(typed: str, key: str) -> None:
    hide_words(typed.split(" ") if typed.startswith("--") else [typed])
    assert key not in scrub(f"No such option: {typed}") and MASK in scrub(key)


def test_ordinary_words_of_a_command_are_not_hidden() -> None:
    typed = [
        "--model", "openai:gpt-4o-2024-08-06@http://127.0.0.1:8000/v1", "--header", "X-Api-Key=MY_SERVICE_KEY_2024",
        "--api-key-env", "OPENAI_API_KEY_2", "judge.max_tokens=8192", "--out", "risk-assessment-2024-results.jsonl",
        "--map", "key=question_text_2024", "scorers=[rag_zeval,is_correct]", "--tokenizer", "/models/task-12345678",
    ]  # fmt: skip
    hide_words([word for word in typed if not word.startswith("key=")])
    assert scrub(" ".join(typed)) == " ".join(typed)
    assert is_variable("OPENAI_API_KEY") and not is_variable("AKIAIOSFODNN7EXAMPLE") and not is_variable("hf_abc")


def test_a_file_that_is_named_like_a_key_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    there = [Path("key-questions-2024-march-old"), Path("runs") / "fw-manual-2024-03"]
    there[0].mkdir()
    there[1].parent.mkdir()
    there[1].touch()
    typed = [str(there[0]), f"new={there[1]}", "--html", "runs/pk-questions-2024-march.html"]
    url = "https://host.example/sk-canary4711-0123456789/data.json"
    hide_words([*typed, url])
    assert scrub(" ".join(typed)) == " ".join(typed)
    assert "canary" not in scrub(url)


def test_what_others_raised_shows_no_key_that_was_given_to_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_API_KEY", OPAQUE)
    assert (
        without_keys(f"401: {OPAQUE.upper()} or {KEY}, Bearer sesame-4711") == f"401: {MASK} or {MASK}, Bearer {MASK}"
    )


HOSTILE = [
    "\\", "%25", "&amp;", "&" + "amp;" * 9, f"{KEY} ", " ".join(KEY), "canary", KEY[:14] + "x", "\u200b", " ", "\uff41",
    SPELLINGS["entities in JSON"](KEY),
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_scrubbing_takes_linear_time(growth: Callable[..., float], part: str) -> None:
    hide(KEY)
    assert growth(lambda n: scrub(part * (n // len(part)) + KEY), 20_000) < 8
