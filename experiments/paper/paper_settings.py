"""The settings of the paper's tables, and the mock judge that takes the place of models, so that tables are filled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field

from rag_zeval.files import locate
from rag_zeval.stages.config import Section, Text

LITERAL = "literal"  # in the place of a model: the rule-based mock judge
MOCK_JUDGE = f"openai:{LITERAL}-"  # how its spec begins


class PaperSettings(Section):
    """The keys of `configs/paper.yaml`, where they are explained."""

    profile: str
    out_dir: Text
    tables: list[int]
    models: dict[str, Text | None]
    experiment: Text
    seeds: Annotated[list[int], Field(min_length=1, description="a list of the experiment's seeds")]
    arms: dict[str, Text | list[Text] | None]
    benchmark_of_arms: Text
    example: Text | int | None
    entailment: Text | None
    bench: dict[str, Any]
    bert_score: Text | None
    trials: dict[str, int]
    prices: Text | None
    literal_port: int
    dry_run: bool

    @property
    def mocked(self) -> list[str]:
        """The models whose place the mock judge takes."""
        return [name for name, spec in self.models.items() if spec == LITERAL]

    def spec(self, model: str) -> str | None:
        """Where a model of the paper is, as the bench takes it; None if it is nowhere.

        The mock judge has a fixed port, since a spec is part of what a run is known by.
        """
        if model in self.mocked:
            return f"{MOCK_JUDGE}{model}@http://127.0.0.1:{self.literal_port}/v1"
        return self.models.get(model)

    def lacks_gpus(self) -> bool:
        """Whether this machine cannot train and decode what asks for GPUs. A dry run takes them to be there."""
        import torch

        return not self.dry_run and not torch.cuda.is_available()


@contextmanager
def mock_judge(settings: PaperSettings) -> Iterator[None]:
    """It answers inside, if a model needs it. Raises InputError if its port is taken."""
    from rag_zeval.literal_judge import count_tokens, literal_reply
    from rag_zeval.scripted_judge import ScriptedJudge

    if not settings.mocked:
        yield
        return
    with locate("literal_port"):
        judge = ScriptedJudge(literal_reply, port=settings.literal_port, keep=False)
    judge.count = count_tokens
    try:
        yield
    finally:
        judge.close()
