"""Parameters counted from a config, against the models that transformers and peft make of it (on the meta device)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from rag_zeval.errors import InputError
from train.model_shape import KEPT, Shape, read_shape, shape_of

QWEN = {"Qwen2.5-7B-Instruct": 7_615_616_512, "Qwen2.5-1.5B-Instruct": 1_543_714_304}
TINY = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 10,
}  # fmt: skip


def model_of(config: dict[str, Any]) -> Any:
    own = {key: value for key, value in config.items() if key not in ("model_type", "source")}
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **own))


def count(model: Any, trained: bool = False) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained)


def shape_named(name: str) -> Shape:
    shape, where = read_shape(f"models/{name}")
    assert shape is not None and where == "train/model_shapes.json"
    return shape


@pytest.mark.parametrize("name", QWEN)
def test_the_kept_shapes_have_the_parameters_of_the_published_models(name: str) -> None:
    kept = json.loads(KEPT.read_text())[name]
    assert kept["source"].startswith("config.json of Qwen/" + name)
    assert shape_named(name).parameters == count(model_of(kept)) == QWEN[name]


@pytest.mark.parametrize("name", QWEN)
@pytest.mark.parametrize("modules", ["all-linear", ["q_proj", "v_proj"]])
def test_an_adapter_has_the_parameters_that_peft_gives_it(name: str, modules: Any) -> None:
    lora = LoraConfig(task_type="CAUSAL_LM", r=32, target_modules=modules)
    model = get_peft_model(model_of(json.loads(KEPT.read_text())[name]), lora, low_cpu_mem_usage=True)
    assert shape_named(name).adapter(32, modules) == count(model, trained=True)


shapes = st.fixed_dictionaries(
    {
        "model_type": st.sampled_from(["llama", "qwen2"]),
        "hidden_size": st.sampled_from([8, 16, 24]),
        "intermediate_size": st.integers(1, 40),
        "num_hidden_layers": st.integers(1, 3),
        "num_attention_heads": st.just(4),
        "num_key_value_heads": st.sampled_from([1, 2, 4]),
        "vocab_size": st.integers(1, 50),
        "tie_word_embeddings": st.booleans(),
    },
    optional={"head_dim": st.sampled_from([2, 8]), "attention_bias": st.booleans(), "mlp_bias": st.booleans()},
)


@given(shapes)
@settings(max_examples=40)
def test_any_shape_of_the_families_is_counted_as_transformers_does(config: dict[str, Any]) -> None:
    model, shape = model_of(config), shape_of(config, "here")
    assert shape.parameters == count(model)
    assert shape.layer == count(model.model.layers[0])


def test_a_folder_says_its_own_shape(nano_base: Path, tmp_path: Path) -> None:
    shape, where = read_shape(str(nano_base))
    assert shape is not None and where == str(nano_base / "config.json")
    assert shape.parameters == count(AutoModelForCausalLM.from_pretrained(nano_base))
    named = tmp_path / "Qwen2.5-7B-Instruct"  # what is there counts, whatever its name
    named.mkdir()
    (named / "config.json").write_text(json.dumps(TINY))
    assert read_shape(str(named)) == (shape_of(TINY, ""), str(named / "config.json"))


def test_a_model_of_another_family_has_no_shape(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    shape, why = read_shape(str(tmp_path))
    assert shape is None and "model_type=mamba" in why


@pytest.mark.parametrize("size", ["8", 0])
def test_a_size_that_is_none_is_named_with_its_field(size: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**TINY, "hidden_size": size}))
    with pytest.raises(InputError, match=r"config\.json: field 'hidden_size' must be a whole number above 0, found "):
        read_shape(str(tmp_path))


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no linear module 'qkv'; there is q_proj"):
        shape_of(TINY, "").adapter(4, ["qkv"])
