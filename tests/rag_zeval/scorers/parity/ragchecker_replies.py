"""What a judge says to refchecker's own prompts, as was decided about an instance."""

import re
from typing import Any

from instances import as_given, labels, statement, whose

CHECK = re.compile(r"### Reference:\n(.*)\n\n### Claims:\n(.*)\n\n\nYour answer", re.DOTALL)
EXTRACT = re.compile(r"### Candidate Answer:\n(.*)\n\n### KG:\n$", re.DOTALL)
TRIPLET = re.compile(r'\("(.*)", "(.*)", "(.*)"\)')


def reply(instance: dict[str, Any], prompt: str) -> str:
    """A prompt of refchecker, answered with what was decided about the instance: labels or triplets, one a line."""
    if check := CHECK.search(prompt):
        reference, claims = check.groups()
        known = labels(instance, reference)
        return "\n".join(as_given(instance, [known[statement(list(one))] for one in TRIPLET.findall(claims)]))
    extract = EXTRACT.search(prompt.rpartition("### Question:")[2])
    assert extract, prompt
    claims = instance["decisions"][f"{whose(instance, extract[1])}_claims"]
    return "\n".join(f'("{subject}", "{predicate}", "{thing}")' for subject, predicate, thing in claims) or "Abstain"
