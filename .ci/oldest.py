"""Build the wheel, install it into an empty environment with the oldest versions that it allows, and use it.

First the wheel alone, then with its extra `scorers`. Nothing of the checkout is on the path.
"""

import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = "question,answer,truth\nWho?,Ann has cats.,Ann has two cats.\nWhat?,Bob has dogs.,Bob has dogs.\n"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def run(folder: Path, *line: object, status: int = 0, says: str = "") -> None:
    """Run a command in the folder. Exit with what it printed if it ends in another status, or does not say that."""
    print("  ", *line, flush=True)
    done = subprocess.run(list(map(str, line)), check=False, cwd=folder, capture_output=True, encoding="utf-8")
    if done.returncode != status or says not in done.stdout + done.stderr:
        sys.exit(f"{done.stdout}{done.stderr}\nexit status {done.returncode}, expected {status} and {says!r}")


def oldest(wheel: Path) -> list[str]:
    """`name==version` of each lower bound in the requirements of the wheel and its extra `scorers`."""
    with zipfile.ZipFile(wheel) as files:
        [path] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(files.read(path).decode())
    lines = [line.partition(";") for line in metadata.get_all("Requires-Dist") or []]
    wanted = [needs for needs, _, condition in lines if "extra" not in condition or "scorers" in condition]
    return [re.sub(r"[>=]=", "==", needs.strip()) for needs in wanted]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(ROOT, *PIP, "wheel", "--no-deps", "-w", folder, ".")
        [wheel] = folder.glob("*.whl")
        pins = oldest(wheel)
        print("  ", *pins)
        (folder / "oldest.txt").write_text("\n".join(pins))
        (folder / "answers.csv").write_text(ANSWERS)
        venv.create(folder / "venv")
        command = folder / "venv" / "bin" / "rag-zeval"
        install = (*PIP, "--python", folder / "venv", "install", "--no-compile", "-c", "oldest.txt")
        run(folder, *install, wheel)
        run(folder, command, "--help", says="mock-judge")
        run(folder, command, "scorers", says="rouge_l")
        rouge_l = (command, "evaluate", "answers.csv", "--scorers", "rouge_l", "--html", "report.html")
        run(folder, *rouge_l, "--dry-run", says="2 cases")
        run(
            folder, *rouge_l, status=2, says="rouge_l needs the rouge-score package: pip install 'rag-zeval[scorers]'\n"
        )
        run(folder, *install, f"{wheel}[scorers]")
        run(folder, *rouge_l, says="rouge_l@truth")
        run(folder, command, "report", "answers.results.jsonl", "--html", "again.html")
        run(folder, command, "compare", "answers.results.jsonl", "answers.results.jsonl", says="rouge_l@truth")


if __name__ == "__main__":
    main()
