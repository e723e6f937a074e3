"""What a command and its user want of a file: the fields to read, and the columns that were chosen for them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag_zeval.cases.fields import FIELDS, NEEDED, TEXTS
from rag_zeval.cases.paths import has_path, option, spelled
from rag_zeval.cases.survey import Survey
from rag_zeval.errors import InputError, nearest
from rag_zeval.judge.schema import LETTERS


@dataclass(frozen=True)
class Wanted:
    """Which fields to read from a file, and the columns that the user chose.

    names: for each of some fields, the column or path that the user chose.
    systems: the columns or paths that the user chose for the answers of one system each. The first is also in `names`.
    needs: for each field to ask for if it is missing, the fields of which one must be there.
    fields: those to look for. Without `answer`, the file is a set of questions. A column `reference` is then the truth.
    is_joined: whether the rows have columns of other files.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    systems: tuple[str, ...] = ()
    needs: Mapping[str, Collection[str]] = field(default_factory=lambda: NEEDED)
    fields: Collection[str] = tuple(FIELDS)
    is_joined: bool = False

    @classmethod
    def of(
        cls,
        names: Mapping[str, str | int | Sequence[str | int]],
        needs: Mapping[str, Collection[str]],
        fields: Collection[str] = tuple(FIELDS),
    ) -> "Wanted":
        """Return what is wanted, with the columns as the user gave them: one for each field, several for the answer.

        Raises InputError for another field, for one column of two kinds of text, and for several columns of a field
        that is not the answer.
        """
        chosen: dict[str, str] = {}
        first: dict[str, str] = {}
        systems: tuple[str, ...] = ()
        for name, given in names.items():
            several = isinstance(given, (list, tuple))
            columns = [*map(str, given)] if isinstance(given, (list, tuple)) else [str(given)]  # a frame's: numbers
            _check(name, columns, fields)
            for column in columns if name in TEXTS else ():
                if (other := first.setdefault(column, name)) != name:
                    raise InputError(f"{option(other, column)} {option(name, column)}: one column cannot hold both")
            chosen[name] = columns[0]
            systems = tuple(columns) if several and name == "answer" else systems
        return cls(chosen, systems, needs, fields)

    @property
    def is_of_questions(self) -> bool:
        return "answer" not in self.fields

    @property
    def wished(self) -> Collection[str]:
        """The fields to tell of."""
        return self.fields if "question" in self.needs else self.needs.keys()

    @property
    def paths(self) -> list[tuple[str, str]]:
        """The fields and their paths that the user chose, also those of several systems."""
        return [*self.names.items(), *(("answer", path) for path in self.systems)]

    def as_written(self, survey: Survey) -> "Wanted":
        """Return this with the paths as the file writes them. Raises InputError for a path that no row has."""
        written: dict[str, str] = {}
        for name, path in self.paths:
            written[path] = path if path in survey.reached else spelled(path, survey.there)
            if path not in survey.reached and not any(has_path(row, written[path]) for row in survey.sample):
                raise InputError(
                    f"--map {name}={path}: no row has '{path}'; columns: {', '.join(map(repr, survey.there))}"
                )
        names = {name: written[path] for name, path in self.names.items()}
        return replace(self, names=names, systems=tuple(written[path] for path in self.systems))


def _check(name: str, columns: Sequence[str], fields: Collection[str]) -> None:
    """Raise InputError unless a field is one of `fields` and may have these columns."""
    told = " ".join(option(name, column) for column in columns) or f"--map {name}=COLUMN"
    if name not in fields:
        fault = f"this command does not read the field '{name}'" if name in FIELDS else f"unknown field '{name}'"
        hint = (nearest(name, fields) if name not in FIELDS else "") or f"; choose from: {', '.join(fields)}"
        raise InputError(f"{told}: {fault}{hint}")
    if not 1 <= len({*columns}) == len(columns) <= len(LETTERS):
        raise InputError(f"{told}: names {len(columns)} columns, must name 1 to {len(LETTERS)}, each once")
    if len(columns) > 1 and name != "answer":
        raise InputError(f"{told}: a field has one column; only answer may have several, one for each system")
