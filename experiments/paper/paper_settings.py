"""The settings of `make paper`, and the mock judge that can stand in for models to preview the tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field

from rag_zeval.files import locate
from rag_zeval.stages.config import Section, Text

LITERAL = "literal"  # in the settings: the rule-based mock judge stands in for the model
MOCK_JUDGE = f"openai:{LITERAL}-"  # prefix of the mock judge's spec


class PaperSettings(Section):
    """The keys of `configs/paper.yaml`, which explains them."""

    profile: str
    out_dir: Text
    tables: list[int]
    models: dict[str, Text | None]
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
        """The models that the mock judge stands in for."""
        return [name for name, spec in self.models.items() if spec == LITERAL]

    def spec(self, model: str) -> str | None:
        """Return the spec of one of the paper's models for the bench, None if the settings have none.

        The mock judge has a fixed port: the spec is part of a run's words, and a run with other words is another run.
        """
        if model in self.mocked:
            return f"{MOCK_JUDGE}{model}@http://127.0.0.1:{self.literal_port}/v1"
        return self.models.get(model)

    def lacks_gpus(self) -> bool:
        """Whether there are no GPUs for the work that needs them. A dry run assumes that there are."""
        import torch

        return not self.dry_run and not torch.cuda.is_available()


@contextmanager
def mock_judge(settings: PaperSettings) -> Iterator[None]:
    """Run the mock judge within the context, if a model needs it. Raises InputError if its port is taken."""
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
