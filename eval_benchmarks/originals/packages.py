"""The original packages and their measures. Each measure has the name of our scorer that follows it.

A new one needs a line in ORIGINALS, and for a new package a script.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "original:"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Original:
    """A measure of an original package.

    package: the name of its environment, lock file and script. needs: as of a Scorer.
    """

    name: str
    package: str
    needs: tuple[str, ...]
    embeds: bool = False

    @property
    def environment(self) -> str:
        """The folder of the package's environment, which is also that of `make parity`; a target of make."""
        return f".venv-parity-{self.package}"

    @property
    def python(self) -> Path:
        return ROOT / self.environment / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        """Whether the environment is complete. An installation that was interrupted leaves a Python without it."""
        return (ROOT / self.environment / ".ready").is_file()

    @property
    def script(self) -> Path:
        return HERE / f"run_{self.package.replace('-', '_')}.py"

    @property
    def lock(self) -> Path:
        return ROOT / "requirements" / "parity" / f"{self.package}.txt"


ORIGINALS: Mapping[str, Original] = {
    original.name: original
    for original in (
        Original(f"{PREFIX}ragas_faithfulness", "ragas", ("answer", "chunks or reference")),
        Original(f"{PREFIX}ragas_answer_similarity", "ragas", ("answer", "truth"), embeds=True),
        Original(f"{PREFIX}ragchecker_precision", "ragchecker", ("answer", "truth")),
        Original(f"{PREFIX}ragchecker_faithfulness", "ragchecker", ("answer", "chunks or reference")),
        Original(f"{PREFIX}trulens_groundedness", "trulens", ("answer", "reference")),
        Original(f"{PREFIX}trulens_answer_relevance", "trulens", ("answer",)),
        Original(f"{PREFIX}umbrela", "open-rag-eval", ("chunks",)),
        Original(f"{PREFIX}nuggets_all", "open-rag-eval", ("answer", "chunks")),
        Original(f"{PREFIX}citation_f1", "open-rag-eval", ("answer", "chunks")),
    )
}
