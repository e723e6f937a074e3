"""TruLens' own groundedness and answer relevance.

Its providers are separate packages that only send the messages. This script sends them with the standard library.
nltk's trained sentence splitter would be a download, so the untrained one replaces it.
"""

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import nltk
from nltk.tokenize import PunktSentenceTokenizer
from protocol import serve
from trulens.core.feedback.endpoint import Endpoint
from trulens.feedback import llm_provider

nltk.download = lambda *args, **kwargs: True
llm_provider.sent_tokenize = PunktSentenceTokenizer().tokenize


class Provider(llm_provider.LLMProvider):
    """Asks the model under `url` for chat completions."""

    url: str = ""

    def _create_chat_completion(self, prompt: Any = None, messages: Any = None, **options: Any) -> str:
        sampling = {name: options[name] for name in ("temperature", "seed") if options.get(name) is not None}
        asked = messages or [{"role": "system", "content": prompt}]
        body = json.dumps({"model": self.model_engine, "messages": list(asked), **sampling}).encode()
        request = urllib.request.Request(f"{self.url}/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return str(json.load(answer)["choices"][0]["message"]["content"])


def load(measure: str, model: str) -> Callable[[dict[str, Any]], float | None]:
    provider = Provider(model_engine=model, endpoint=Endpoint(name="judge", rpm=1_000_000))

    def score(instance: dict[str, Any]) -> float | None:
        provider.url = instance["url"]
        if measure == "trulens_groundedness":
            value, _ = provider.groundedness_measure_with_cot_reasons(instance["reference"], instance["answer"])
        else:
            value, _ = provider.relevance_with_cot_reasons(instance["question"], instance["answer"])
        return float(value)

    return score


if __name__ == "__main__":
    serve(load)
