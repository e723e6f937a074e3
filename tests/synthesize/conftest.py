"""A tiny random model in a folder, with a word-level tokenizer of the nano world."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of a random Llama-architecture model that stops early often; its answers are no sentences."""
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from rag_zeval.stages.world import answer_prompt, questions

    folder = tmp_path_factory.mktemp("model") / "tiny"
    splitter = pre_tokenizers.Whitespace()
    text = " ".join(answer_prompt(q.question, q.passage) for q in questions("train", 100, 0))
    words = dict.fromkeys(word for word, _ in splitter.pre_tokenize_str(text))
    listed = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>", "user", "assistant", *words]
    vocabulary = {word: at for at, word in enumerate(dict.fromkeys(listed))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = splitter
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=(
            "{% for m in messages %}<|im_start|> {{ m['role'] }} {{ m['content'] }} <|im_end|> {% endfor %}"
            "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
        ),
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        max_position_embeddings=700,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    for weights in model.parameters():
        if weights.dim() == 2:
            torch.nn.init.normal_(weights, std=0.3)
    model.generation_config.eos_token_id = list(range(2, 40))  # so that many answers end early
    model.save_pretrained(folder)
    return folder
