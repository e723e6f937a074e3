"""The rehearsal's model is of Qwen2's architecture, but its tokenizer is the nano world's, which is not Qwen's."""

from __future__ import annotations


def leave_to_the_folder() -> None:
    """Two libraries take `model_type: qwen2` for a promise about the tokenizer; here the model's folder says which.

    transformers would put Qwen2Tokenizer in its place, to which most of the vocabulary is unknown. verl would merge the
    messages of a chat the way Qwen's template does, with a token for the newline alone.
    """
    from transformers.models.auto import tokenization_auto
    from verl.utils.tokenizer import continuous_token_wiring

    tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.discard("qwen2")
    families = continuous_token_wiring.ContinuousTokenModelFamily
    continuous_token_wiring._MODEL_TYPE_TO_FAMILY["qwen2"] = families.DEFAULT
