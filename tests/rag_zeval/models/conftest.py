"""A small model for all that loads one from a folder."""

import shutil
import string
from pathlib import Path

import pytest

WINDOW = 96


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random two-layer model that reads characters: it says nothing sensible, and says it reproducibly."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = {token: i for i, token in enumerate(["<|im_end|>", "\ufffd", *string.printable])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="\ufffd"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    characters.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, eos_token="<|im_end|>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }}{% endfor %}>"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=WINDOW,
        bos_token_id=None,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def model_copy(tiny_model: str, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "copy"))
