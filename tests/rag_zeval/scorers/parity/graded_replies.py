"""What a judge says of chunks, nuggets and citations, as was decided about an instance."""

from typing import Any


class Judge:
    """Answers with what was decided about one instance. no_fact: what stands for a nugget where there is none."""

    def __init__(self, instance: dict[str, Any], no_fact: str | None = None):
        self.chunks, self.decisions = instance["chunks"], instance["decisions"]
        texts = [text for text, _, _ in self.decisions["nuggets"]]
        self.rounds = [[texts[at] for at in made] for made in self.decisions["rounds"]] or [
            [no_fact] if no_fact else []
        ]
        self.labels = {text: (importance, held) for text, importance, held in self.decisions["nuggets"]}
        if no_fact:
            self.labels[no_fact] = ("vital", "not_support" if self.decisions["answered"] else "support")

    def grade(self, passage: str) -> int:
        grade: int = self.decisions["grades"][self.chunks.index(passage)]
        return grade

    def created(self, before: list[str]) -> list[str]:
        done = self.rounds.index(before) + 1 if before in self.rounds else 0
        return self.rounds[min(done, len(self.rounds) - 1)]

    def importance(self, nuggets: list[str]) -> list[str]:
        return [self.labels[nugget][0] for nugget in nuggets]

    def assignment(self, nuggets: list[str]) -> list[str]:
        return [self.labels[nugget][1] for nugget in nuggets][: len(nuggets) - self.decisions["labels_missing"]]

    def support(self, statement: str, passage: str) -> str:
        number = str(self.chunks.index(passage) + 1)
        found = [part["support"][number] for part in self.decisions["parts"] if part["text"] in statement]
        return found[0] if found else "no_support"  # none: a statement of punctuation

    def answered(self) -> str:
        return "yes" if self.decisions["answered"] else "no"
