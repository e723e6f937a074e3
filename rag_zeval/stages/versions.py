"""Says which version of a package is installed."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
