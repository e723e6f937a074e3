"""The original packages and their measures, each named as ours is that follows it. A new one is a line and a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "original:"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Original:
    """A measure of a package: `package` names its environment, lock and script; needs: as of a Scorer."""

    package: str
    needs: tuple[str, ...]
    embeds: bool = False

    @property
    def python(self) -> Path:
        """Of its environment, the one of `make parity`."""
        return ROOT / f".venv-parity-{self.package}" / "bin" / "python"

    @property
    def script(self) -> Path:
        return HERE / f"run_{self.package.replace('-', '_')}.py"

    @property
    def lock(self) -> Path:
        return ROOT / "requirements" / "parity" / f"{self.package}.txt"


ORIGINALS: Mapping[str, Original] = {
    f"{PREFIX}{measure}": original
    for measure, original in {
        "ragas_faithfulness": Original("ragas", ("answer", "chunks or reference")),
        "ragas_answer_similarity": Original("ragas", ("answer", "truth"), embeds=True),
        "ragchecker_precision": Original("ragchecker", ("answer", "truth")),
        "ragchecker_faithfulness": Original("ragchecker", ("answer", "chunks or reference")),
        "trulens_groundedness": Original("trulens", ("answer", "reference")),
        "trulens_answer_relevance": Original("trulens", ("answer",)),
        "umbrela": Original("open-rag-eval", ("chunks",)),
        "nuggets_all": Original("open-rag-eval", ("answer", "chunks")),
        "citation_f1": Original("open-rag-eval", ("answer", "chunks")),
    }.items()
}
