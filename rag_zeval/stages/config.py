"""Stage configuration: `configs/<stage>.yaml`, then the profile's section for that stage, then `key=value` words.

A profile may name another one under `extends`, and change its sections. `check_settings` turns the configuration into
typed settings, a `Section`. `stored` gives what a run's files keep of it.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat

from rag_zeval.errors import InputError, nearest
from rag_zeval.text import one_line
from rag_zeval.yaml_file import Settings, checked

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
HELP = ("-h", "--help")
Text = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]  # NumPy, torch and vLLM take any of these


def _different(alphas: list[float]) -> list[float]:
    if len(set(alphas)) < len(alphas):
        raise ValueError("each number may occur only once")
    return alphas


Alphas = Annotated[list[FiniteFloat], Field(min_length=1), AfterValidator(_different)]
# Keys whose inner keys are not ours: verl's, which the train stage checks against its schema, and those of a vendor.
FREE = ("verl", "judge.extra_body")
NOTHING, OTHER_KEY = r"(?!)", r"\$\{[\w.]+\}"
# The only environment variable that the configuration may read, and only in our files: the folder of the public data.
DATA = r"\$\{oc\.env:RAG_ZEVAL_DATA(?:,[^${}\\]*)?\}"


class Section(BaseModel):
    """A part of the configuration. Its file explains the keys. Values are not coerced: `"1"` is not a number."""

    model_config = ConfigDict(strict=True, frozen=True)


def load_config(stage: str, argv: Sequence[str], configs: Path = CONFIGS) -> DictConfig:
    """Return the configuration of one stage.

    `argv` holds words like `profile=nano` or `alphas=[0,-1]`. `--help` prints the stage's file with its comments and
    the profile's changes, and exits. Raises InputError, with the nearest known name, for an unknown key or profile. It
    is also raised for a value of the wrong kind, and for a value that refers to something other than another key. A
    file may also refer to RAG_ZEVAL_DATA. So no word can bring an environment variable's value into what a run writes.
    """
    path = configs / f"{stage}.yaml"
    words = _parse_words([word for word in argv if word not in HELP])
    plain: Any = OmegaConf.to_container(words)
    _check_references("command line", plain, OTHER_KEY)
    for key, text in _texts(plain):
        if text.startswith("~"):  # no shell expands it after `key=`, and a folder of this name would be made
            raise InputError(f"command line: key '{key}': '{one_line(text)}': write $HOME in place of ~")
    profile = str(plain.get("profile", "nano"))
    section = _profile(configs, profile).get(stage)
    if set(HELP) & set(argv):
        print(f"usage: key=value ...   (keys with defaults follow; profile=NAME: {configs.name}/profile/NAME.yaml)\n")
        print(path.read_text(encoding="utf-8"), end="")
        if section is not None:
            print(f"\n# what profile={profile} changes\n{OmegaConf.to_yaml(section)}", end="")
        sys.exit(0)
    config = OmegaConf.create({"profile": profile})
    config.merge_with(_load_yaml(path))
    for source, layer in ((f"profile {profile}", section), ("command line", words)):
        if layer is not None:
            _check_keys(source, config, layer)
            try:
                config.merge_with(layer)
            except OmegaConfBaseException as error:
                raise InputError(f"{source}: {str(error).splitlines()[0]}") from error
    config.profile = profile
    _check_references("configuration", OmegaConf.to_container(config), f"{OTHER_KEY}|{DATA}")
    try:
        resolved = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(f"configuration: {' '.join(str(error).split())}") from error
    _check_references("configuration", resolved, NOTHING)  # one made of pieces would be resolved at the next reading
    return config


def word(key: str, value: Any) -> str:
    """Return `key=value` for the command line of a stage, which reads this value from it.

    A text is quoted only if it would be read as something else, such as a path with ` #` in it.
    """
    if isinstance(value, str):
        with suppress(InputError):
            if OmegaConf.to_container(_parse_words([f"value={value}"])) == {"value": value}:
                return f"{key}={value}"
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def stored(config: DictConfig) -> dict[str, Any]:
    """Return the configuration as a run's files keep it. References to the environment are not resolved.

    References to other keys are resolved, so that two runs can be compared and a file can be read by itself.
    """
    written = OmegaConf.create(_as_written(OmegaConf.to_container(config)))
    kept: dict[str, Any] = OmegaConf.to_container(written, resolve=True)  # type: ignore[assignment]
    return kept


def _as_written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_written(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_written(inner) for inner in value]
    return re.sub(DATA, lambda found: f"\\{found[0]}", value) if isinstance(value, str) else value


def _check_references(source: str, values: Any, known: str) -> None:
    for key, text in _texts(values):
        if "${" in re.sub(known, "", text):
            raise InputError(
                f"{source}: key '{key}': '{one_line(text)}' refers to something other than another key; "
                "write the value itself"
            )


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield `(dotted key, text)` for each text, also in lists."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield key, value


def _parse_words(argv: Sequence[str]) -> DictConfig:
    for word in argv:
        if "=" not in word:
            raise InputError(f"command line: '{word}' is not of the form key=value (--help lists the keys)")
    try:
        return OmegaConf.from_dotlist(list(argv))
    except Exception as error:
        raise InputError(f"command line: {str(error).splitlines()[0]}") from error


def _profile(configs: Path, name: str, extending: Sequence[str] = ()) -> DictConfig:
    """Return the sections of a profile. extending: the profiles that are changes of this one, outermost first."""
    path = configs / "profile" / f"{name}.yaml"
    if name in extending:
        raise InputError(f"{path}: extends itself, by way of {', '.join(extending)}")
    if not path.is_file():
        names = sorted(p.stem for p in (configs / "profile").glob("*.yaml"))
        raise InputError(f"unknown profile '{name}'{nearest(name, names)}; choose from: {', '.join(names)}")
    loaded = _load_yaml(path)
    extended = loaded.pop("extends", None)
    stages = [p.stem for p in configs.glob("*.yaml")]
    for section in map(str, loaded):
        if section not in stages:
            raise InputError(f"{path}: unknown stage '{section}'{nearest(section, stages)}")
        if not isinstance(loaded[section], DictConfig | None):
            raise InputError(f"{path}: '{section}' must be keys with values")
    if extended is None:
        return loaded
    return DictConfig(OmegaConf.merge(_profile(configs, str(extended), [*extending, name]), loaded))


def _load_yaml(path: Path) -> DictConfig:
    try:
        loaded = deepcopy(_parsed(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(loaded, DictConfig):
        raise InputError(f"{path}: expected keys with values, found a list")
    return loaded


@cache  # a plan of many runs reads the same few files again and again, and YAML is slow to read
def _parsed(text: str) -> Any:
    return OmegaConf.load(StringIO(text))


def _check_keys(source: str, config: DictConfig, layer: DictConfig) -> None:
    known = set(key_paths(config))
    inner = tuple(f"{key}." for key in FREE if key in known)
    for key in key_paths(layer):
        if key not in known and not key.startswith(inner):
            raise InputError(f"{source}: unknown key '{key}'{nearest(key, known) or ' (--help lists the keys)'}")


def key_paths(config: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all keys, inner ones included: `a`, `a.b`, ..."""
    for key in config:
        yield f"{prefix}{key}"
        child = config._get_node(key) if isinstance(config, DictConfig) else config[key]
        if isinstance(child, DictConfig | dict) and child:
            yield from key_paths(child, f"{prefix}{key}.")


def check_settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return the settings of this kind. Keys that the kind does not name are ignored.

    Raises InputError for the first value that does not fit. It names the key, what the value must be and what it is. A
    field's description ends the sentence "must be ..."; without one, pydantic says what is wrong.

    >>> check_settings(BenchSettings, load_config("bench", ["bootstrap.draws=0"]))
    InputError: bootstrap.draws: must be a whole number from 1 to 1,000,000, found 0
    """
    plain = OmegaConf.to_container(values, resolve=True) if isinstance(values, DictConfig) else values
    return checked(kind, plain)
