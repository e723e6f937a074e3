"""`make data`: downloads the public data sets and checks them.

`python -m eval_benchmarks.datasets.download data_dir=DIR` names another folder. To add a file, add an entry to
`downloads.yaml`, or to the description of a set of labelled texts.

A download goes to a `.part` file, which a later run resumes. It takes its final place only after it was checked.
"""

import gzip
import json
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

from omegaconf import DictConfig

from eval_benchmarks.bench_settings import DownloadSettings
from eval_benchmarks.datasets.labelled.description import DataFile, descriptions
from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, file_sha256, locate, opened_new, parse_row, write_bytes
from rag_zeval.stages.command import stage_main
from rag_zeval.stages.config import check_settings
from rag_zeval.streams import drawn
from rag_zeval.yaml_file import read_yaml

BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte
DOWNLOADS = Path(__file__).with_name("downloads.yaml")
TYPES = {"text": str, "list": list}
NATURAL_QUESTIONS = (
    "Natural Questions as a whole (for synthesis at paper scale, CC BY-SA 3.0) are not downloaded here: "
    "docs/paper-scale.md has the commands; synthesis reads its files as they are, in any public layout"
)


def downloads() -> Iterator[tuple[DataFile, str]]:
    """Yield every file that `make data` downloads, and its licence."""
    for entry in read_yaml(DOWNLOADS)["files"]:
        file = check_settings(DataFile, entry)
        yield file, str(file.licence)
    for _, description in descriptions():
        for file in description.files:
            yield file, file.licence or description.licence


def gated() -> Iterator[str]:
    """Yield a line for each set of labelled texts that people must get themselves."""
    for name, description in descriptions():
        if description.get is not None:
            yield f"{name} is not downloaded here ({description.licence}): {description.get} ({description.test.files})"


def get(file: DataFile, server: str, data_dir: Path) -> str:
    """Download one file into `data_dir`, and return "already there" or how the download was checked.

    A file that is there is downloaded again if its sha256 is known and differs. Raises InputError if the file cannot be
    downloaded or is wrong; a wrong file is removed.
    """
    target = data_dir / file.path
    if target.is_file() and (file.sha256 is None or file_sha256(target) == file.sha256):
        return "already there"
    part = target.with_name(Path(file.route).name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    url = server.rstrip("/") + file.route
    _fetch(url, part)
    sha256 = file_sha256(part)
    try:
        if file.sha256 is None:
            write_bytes(target, _checked(file, part))
        elif sha256 == file.sha256:
            part.replace(target)
        else:
            raise InputError(f"sha256 is {sha256}, expected {file.sha256}")
    except InputError as error:
        raise InputError(f"{url}: {error}; the file was removed") from error
    finally:
        part.unlink(missing_ok=True)
    checked = "sha256 as expected" if file.sha256 else f"content checked (no checksum known; sha256 {sha256})"
    return f"downloaded, {checked}"


def _checked(file: DataFile, part: Path) -> bytes:
    """Return the content to keep of a file whose sha256 is unknown. Raises InputError if it is not as expected."""
    content = FORMS[file.form](part)
    if file.form == "qrels":
        return content
    fields = {name: TYPES[kind] for name, kind in file.fields.items()}
    lines = content.removesuffix(b"\n").split(b"\n")  # not splitlines: texts may contain other line ends
    for number, line in enumerate(lines, 1):
        with locate(f"line {number}"):
            check_fields(parse_row(line), fields)
    if len(lines) != file.rows:
        raise InputError(f"expected {file.rows} rows, found {len(lines)}")
    return content


def _of_parquet(part: Path) -> bytes:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(part).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a parquet file: {str(error).splitlines()[0]}") from error
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def _of_gzip(part: Path) -> bytes:
    try:
        return gzip.decompress(part.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"not a gzip file: {error}") from error


def _of_qrels(part: Path) -> bytes:
    from rag_zeval.audit.qrels import read_qrels

    read_qrels(part)
    return part.read_bytes()


FORMS: dict[str, Callable[[Path], bytes]] = {
    "jsonl": Path.read_bytes,
    "parquet": _of_parquet,
    "gzip": _of_gzip,
    "qrels": _of_qrels,
}


def _fetch(url: str, part: Path) -> None:
    """Download `url` to `part`. If the server can, resume after the bytes that are there."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    have = part.stat().st_size if part.is_file() and not part.is_symlink() else 0  # no link is followed
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    screen = Console(file=drawn(sys.stdout))
    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply, Progress(*columns, console=screen) as progress:
            have = have if reply.status == 206 else 0  # 200: the server starts at the beginning
            total = None if reply.length is None else have + reply.length  # None: the server does not say
            task = progress.add_task(part.name.removesuffix(".part"), total=total, completed=have)
            with open(part, "ab") if have else opened_new(part) as file:
                while block := reply.read(BLOCK):
                    file.write(block)
                    progress.advance(task, len(block))
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # the bytes that are there do not fit the server's file
            part.unlink()
            return _fetch(url, part)
        raise InputError(f"{url}: cannot be downloaded: HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise InputError(f"{url}: cannot be downloaded: {getattr(error, 'reason', None) or error}") from error
    if total is not None and part.stat().st_size != total:
        raise InputError(f"{url}: the connection ended early; run the same command again to resume")


def download(config: DictConfig) -> int:
    """Download all files, and return 0, or 2 after a line on stderr for each file that failed."""
    settings = check_settings(DownloadSettings, config)
    data_dir, status = Path(settings.data_dir), 0
    for file, licence in downloads():
        try:
            done = get(file, getattr(settings.download, file.server), data_dir)
            print(f"{data_dir / file.path}: {done} ({licence})")
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
    print(*gated(), NATURAL_QUESTIONS, sep="\n")
    return status


main = stage_main("bench", download)

if __name__ == "__main__":
    sys.exit(main())
