"""How a package's environment talks to the bench: a line of JSON for each answer, a line of JSON back.

Runs there, so it imports nothing but the standard library.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(load: Callable[[str, str], Callable[[dict[str, Any]], float | None]]) -> None:
    """Score what comes on standard input until it ends.

    `load(measure, model)` gives the function that scores. Its instance has question, answer, reference, truth, chunks
    (a list of texts), url (where the model is asked, with any key) and embeddings (the name of that model). What the
    package prints goes to standard error.
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
