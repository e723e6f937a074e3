"""A BERT of 12 layers with random weights, that reads characters: small enough to be made wherever it is needed."""

import string
from pathlib import Path

WINDOW = 20  # tokens, [CLS] and [SEP] among them


def write_bert(folder: Path, layers: int = 12) -> Path:
    """Write model and tokenizer into the folder; the weights follow from a seed."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(["?", "[CLS]", "[SEP]", *string.ascii_lowercase, " "])}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    special = [("[CLS]", 1), ("[SEP]", 2)]
    characters.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    tokens = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "?"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=characters, model_max_length=WINDOW, **tokens)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "max_position_embeddings": WINDOW}
    BertModel(BertConfig(vocab_size=len(vocabulary), num_hidden_layers=layers, **sizes)).save_pretrained(folder)
    return folder
