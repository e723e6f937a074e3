"""A model's shape, read from its config.json, and its number of parameters. No weights are needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import read_json
from rag_zeval.models.folder import window_of

FAMILIES = ("llama", "qwen2")
KEPT = Path(__file__).with_name("model_shapes.json")  # configs of models that may not be on this machine yet


@dataclass(frozen=True)
class Shape:
    """The shape of a Llama-like decoder: q, k, v, o, gate, up and down in each layer, and RMS norms without bias."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool  # whether the output head shares the embedding's weights
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool

    @property
    def linear(self) -> dict[str, tuple[int, int, bool]]:
        """(Input size, output size, has a bias) of each linear module of a layer, by name."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, queries, self.qkv_bias),
            "k_proj": (self.hidden, keys, self.qkv_bias),
            "v_proj": (self.hidden, keys, self.qkv_bias),
            "o_proj": (queries, self.hidden, self.o_bias),
            "gate_proj": (self.hidden, self.intermediate, self.mlp_bias),
            "up_proj": (self.hidden, self.intermediate, self.mlp_bias),
            "down_proj": (self.intermediate, self.hidden, self.mlp_bias),
        }

    @property
    def layer(self) -> int:
        """Number of parameters of one layer."""
        return sum(i * o + (o if bias else 0) for i, o, bias in self.linear.values()) + 2 * self.hidden

    @property
    def embedding(self) -> int:
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer + self.hidden + (1 if self.tied else 2) * self.embedding

    def adapter(self, rank: int, modules: str | Sequence[str] = "all-linear") -> int:
        """Return the number of parameters of LoRA matrices of this rank on the named modules.

        As in peft, all-linear leaves out the output head. Raises InputError for a module that a layer does not have.
        """
        names = list(self.linear) if modules == "all-linear" else [modules] if isinstance(modules, str) else modules
        for name in names:
            if name not in self.linear:
                raise InputError(
                    f"target_modules: there is no linear module '{name}'; there is {', '.join(self.linear)}"
                )
        return self.layers * sum(rank * (self.linear[name][0] + self.linear[name][1]) for name in names)

    def kv_bytes(self, element: int) -> int:
        """Return the bytes of one token's keys and values in a cache with `element` bytes per number."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element


def read_shape(base_model: str) -> tuple[Shape | None, str]:
    """Return a model's shape and the file that it was read from.

    The file is config.json in the model's folder, or else train/model_shapes.json with an entry for its name. Returns
    None and the reason if there is neither, or if the model is of another family. Raises InputError, naming file and
    field, for a config that cannot be read.
    """
    path = Path(base_model) / "config.json"
    name = Path(base_model).name
    if path.is_file():
        config, where = read_json(path), str(path)
    elif name in (kept := read_json(KEPT)):
        config, where = kept[name], f"train/{KEPT.name}"
    else:
        return None, f"there is no {path}, and no shape is kept for '{name}'"
    if config.get("model_type") not in FAMILIES:
        return None, f"{where}: model_type={config.get('model_type')}, and only {' and '.join(FAMILIES)} are known"
    return shape_of(config, where), where


def read_window(base_model: str) -> int | None:
    """Return the context window in the config.json of a model's folder (`window_of`); None without such a file."""
    path = Path(base_model) / "config.json"
    return window_of(read_json(path), path) if path.is_file() else None


def shape_of(config: Mapping[str, Any], where: str) -> Shape:
    """Return the shape in a Hugging Face config of one of FAMILIES. Raises InputError naming a wrong field."""

    def size(name: str, default: int | None = None) -> int:
        value = default if config.get(name) is None else config[name]
        if type(value) is not int or value < 1:
            raise InputError(f"{where}: field '{name}' must be a whole number above 0, found {value}")
        return value

    hidden, heads = size("hidden_size"), size("num_attention_heads")
    qwen2, attention_bias = config["model_type"] == "qwen2", bool(config.get("attention_bias", False))
    return Shape(
        hidden=hidden,
        intermediate=size("intermediate_size"),
        layers=size("num_hidden_layers"),
        heads=heads,
        kv_heads=size("num_key_value_heads", heads),
        head_dim=size("head_dim", hidden // heads),
        vocab=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=qwen2 or attention_bias,
        o_bias=not qwen2 and attention_bias,
        mlp_bias=not qwen2 and bool(config.get("mlp_bias", False)),
    )
