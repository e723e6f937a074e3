"""The protocol between a package's environment and the bench: a line of JSON for each answer, a line of JSON back.

This module runs in that environment, so it imports only the standard library.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(load: Callable[[str, str], Callable[[dict[str, Any]], float | None]]) -> None:
    """Score the instances that come on standard input, until it ends.

    `load(measure, model)` returns the function that scores an instance. An instance is a dict with id, question,
    answer, reference, truth and chunks (a list of texts). Its url is where to ask the model; any key will do. Its
    embeddings is the name of the embedding model, or None. What the package prints goes to standard error.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    score = load(*sys.argv[1:3])
    for line in sys.stdin:
        try:
            reply: dict[str, Any] = {"score": score(json.loads(line))}
        except Exception as error:
            traceback.print_exc()
            reply = {"failed": f"{type(error).__name__}: {error}"[:300]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
