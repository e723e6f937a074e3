"""A word-level tokenizer for the nano world that can encode and decode any text without loss.

It is a BPE model without merges. A word in the vocabulary is one token, and anything else is encoded as bytes. A word
includes the space after it, and the JSON between two fields of a trajectory is one token. So a trajectory for four
candidates has only about 500 tokens.
"""

import random
import re
from typing import Any

from rag_zeval.stages import world
from train.nano.tasks import NO_EVIDENCE, answering, judging

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CLAIM_ENDINGS = ['}, {"claim": "', '}]}, {"id": "', "}]}]"]
JSON_PIECES = [
    '{"question": "', '", "reference": "', '", "candidates": {"A": "', '", "B": "', '", "C": "', '", "D": "', '"}}',
    '[{"id": "', '", "atomic_claims": [{"claim": "', '", "grounding_evidence": ["', '"], "analysis": "',
    '", "analysis": "', '", "is_supported": ', *CLAIM_ENDINGS,
]  # fmt: skip
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def build_tokenizer() -> Any:
    """Build the tokenizer. Its vocabulary (about 1,000 tokens) comes from generated samples of all tasks."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = [re.escape(piece).replace(r"\ ", " ") for piece in sorted(JSON_PIECES, key=len, reverse=True)]
    pattern = "|".join([*pieces, r"\w+ ?", r"[^\w\s] ?", r"\s"])
    splitter = pre_tokenizers.Split(Regex(pattern), "isolated")
    words = dict.fromkeys(JSON_PIECES)
    for text in ["user", "assistant", "\n", *_texts(random.Random(1))]:
        words.update(dict.fromkeys(word for word, _ in splitter.pre_tokenize_str(text)))
    vocabulary = [PAD, START, END, *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: at for at, token in enumerate(vocabulary)}, merges=[], byte_fallback=True, ignore_merges=True
        )
    )
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def _texts(rng: random.Random) -> list[str]:
    texts = []
    for _ in range(2000):
        for sample in (
            judging(rng, 4),
            judging(rng, 1, 4, NO_EVIDENCE),
            answering(rng, with_passage=True),
            answering(rng, with_passage=False),
        ):
            texts += [sample.prompt, sample.reply]
    values = [*world.FIRST_NAMES, *world.LAST_NAMES, *(v for a in world.ATTRIBUTES.values() for v in a.values)]
    return texts + [text for value in values for text in (value, value + " ")]
