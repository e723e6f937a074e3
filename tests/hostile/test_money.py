"""The short form: every kind of reply that is quick meets an endpoint with a limit, one the real command."""

import re
from typing import Any

import money
import pytest
from commands import run_here

from rag_zeval.budget import Account, Budget, Price
from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.open import open_backend

PRICE = Price(**money.PRICES)
LIGHT = [kind for kind in money.KINDS if not re.search("usage of|50[024]|408|524|closed|reset|for ever|all", kind)]


@pytest.mark.parametrize("kind", LIGHT)
def test_no_kind_of_reply_makes_a_server_bill_more_than_one_call_beyond_the_limit(no_proxy: None, kind: str) -> None:
    till = money.Till(kind)
    texts = [money.texts(number) for number in range(16)]
    examples = [Example(str(n), f"question {n}", reference, (answer,)) for n, (reference, answer) in enumerate(texts)]
    account = Account(budget := Budget(money.LIMIT), PRICE)
    calls: Any = {"timeout": money.timeout(kind, short=0.4), "max_body_mib": money.MAX_BODY_MIB, "account": account}
    judge = Evaluator(open_backend(f"openai:judge@{till.url}", **calls), sampling=Sampling(max_tokens=money.MAX_TOKENS))
    evaluations = list(judge.evaluate_many(examples))
    till.close()
    bill = sum(till.bills)
    assert bill <= money.LIMIT + max(till.bills, default=0)
    assert bill <= budget.spent + 1e-9 and (kind not in money.EXACT or budget.spent == pytest.approx(bill))
    assert budget.spent == pytest.approx(sum(PRICE.of(*evaluation.paid_tokens) for evaluation in evaluations))
    assert budget.is_spent == any("the budget is spent" in evaluation.status for evaluation in evaluations)


def test_the_real_command_keeps_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(money, "run_command", run_here)
    findings = money.run(["thoughts that ran out"], ["evaluate"])
    assert findings.faults == []
    assert findings.counts["kinds x commands"] == findings.counts["runs stopped by the limit"] == 1
