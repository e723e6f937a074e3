"""RAG-Zeval as a scorer: its row says how the judge's reply was read."""

from typing import Any

import pytest
from scripted_backend import ScriptedBackend

from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Reply, Sampling
from rag_zeval.scorers.rag_zeval import RagZeval

CLAIM = '{"claim": "c", "is_supported": true, "grounding_evidence": ["q"], "analysis": ""}'
CUT = Reply('[{"id": "A", "atomic_claims": [' + CLAIM + ', {"claim": "an', "truncated", calls=1)


@pytest.mark.parametrize(
    ("reply", "patterns", "strict", "status", "of_answer", "final"),
    [
        ('[{"id": "A", "atomic_claims": [' + CLAIM + "]}]", False, True, "ok", "ok", True),
        (
            'so: [{"id": "A", "atomic_claims": [{"claim": "c", "is_supported": "yes"}]}]',
            False, False, "repaired", "repaired", True,
        ),
        ("no idea", False, False, "failed: format", "failed: format", True),
        (Reply(None, "failed: HTTP 500", calls=3), False, None, "failed: HTTP 500", "failed: HTTP 500", False),
        (CUT, False, False, "failed: reply cut off", "failed: reply cut off", True),
        (CUT, True, False, "patterns", "patterns", True),  # read by patterns only where that is asked
        ('[{"id": "A", "atomic_claims": []}]', False, False, "repaired", "failed: no claims", True),
    ],
)  # fmt: skip
def test_the_row_says_how_the_reply_was_read(
    reply: Any, patterns: bool, strict: Any, status: str, of_answer: str, final: bool
) -> None:
    scorer = RagZeval(ScriptedBackend([reply]), "compact", Sampling(temperature=0), patterns=patterns)
    (scored,) = scorer.score([Example("1", "q", "r", ("a",))])
    assert (scored.parts["strict"], scored.final) == (strict, final)
    assert scored.parts["status"].startswith(status) and scored.scores[0].status.startswith(of_answer)
    assert scored.values == ((None,) if of_answer.startswith("failed") else (1.0,))
    assert scored.calls == (1 if final else 3)


def test_examples_of_one_id_are_refused() -> None:
    scorer = RagZeval(ScriptedBackend(["no idea"] * 2), "compact", Sampling())
    first, second = Example("1", "q", "r", ("", "a")), Example("1", "q", "r", ("b", "c"))  # one answer is left out
    with pytest.raises(InputError, match=r"^duplicate id '1': give each example its own$"):
        list(scorer.score([first, second]))
