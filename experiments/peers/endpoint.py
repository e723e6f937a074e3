"""The scripted endpoint that all packages of the comparison call. It counts requests and breaks some replies."""

import hashlib
import json
import threading
from collections import Counter

from experiments.peers.word_judge import word_reply
from rag_zeval.literal_judge import count_tokens
from rag_zeval.scripted_judge import ERRORS, SPOILED, Answer, Body, ScriptedJudge

DELAY = 0.05  # seconds before each reply
BREAKAGES = ("cut", "429", "500", "refusal")  # "refusal": prose without JSON
NO_RESPONSES_API = {"status": 404, "body": {"error": {"message": "the responses API is not supported"}}}


class CountingJudge(ScriptedJudge):
    """The word judge behind an endpoint.

    broken: the share of replies that fail, in [0, 1]. Whether a reply fails depends only on the prompt and on how often
    it has been sent, so a retry may succeed. asked: number of chat requests. tokens: those of prompts and replies,
    except for HTTP errors. paid_twice: number of requests whose prompt had already got a good reply. unknown: the
    prompts that the judge could not answer.
    """

    def __init__(self, broken: float = 0.0):
        super().__init__(self._answer_or_break, keep=False)
        self.delay, self.count = DELAY, count_tokens
        self.asked = self.tokens = self.paid_twice = 0
        self.unknown: list[str] = []
        self._broken = broken
        self._sent: Counter[str] = Counter()
        self._well_answered: set[str] = set()
        self._counting = threading.Lock()

    def _answer_or_break(self, body: Body) -> str | Answer | None:
        if "messages" not in body:
            return NO_RESPONSES_API
        prompt = json.dumps(body["messages"])
        reply = word_reply(body)
        with self._counting:
            self.asked += 1
            self._sent[prompt] += 1
            self.paid_twice += prompt in self._well_answered
            fault = breakage(prompt, self._sent[prompt], self._broken)
            if reply is None:
                self.unknown.append(prompt)
            elif fault in ERRORS:
                return ERRORS[fault]
            else:
                sent = SPOILED[fault](reply) if fault else reply
                self.tokens += count_tokens(sent)
                self.tokens += sum(count_tokens(message["content"]) for message in body["messages"])
                self._well_answered |= set() if fault else {prompt}
                return sent
        return None


def breakage(prompt: str, sent: int, share: float) -> str | None:
    """Return how the reply fails when a prompt is sent for the `sent`-th time; None if it does not fail."""
    drawn = hashlib.sha256(f"{sent} {prompt}".encode()).digest()
    fails = int.from_bytes(drawn[:4], "big") < share * 2**32
    return BREAKAGES[drawn[4] % len(BREAKAGES)] if fails else None
