"""How models mark their thoughts, and what opens the answer behind them. Test data, apart from any table of ours.

After the models' own cards and chat templates.
"""

from __future__ import annotations

from typing import NamedTuple


class Tag(NamedTuple):
    """What stands before and behind thoughts, before and behind the answer that follows, and whose they are.

    between: what a model writes between two thoughts; None if it never has two.
    """

    opens: str
    closes: str
    models: str
    before: str = ""
    after: str = ""
    between: str | None = "\n"

    @property
    def ends_alone(self) -> bool:
        """Whether its closing mark, without an opening one, still says that thoughts end there."""
        return self.closes != HARMONY_END


HARMONY_END = "<|end|>"  # it ends any message of its models


def _xml(name: str, models: str, before: str = "", after: str = "") -> Tag:
    return Tag(f"<{name}>", f"</{name}>", models, before, after)


KNOWN = (
    _xml("think", "DeepSeek-R1, Qwen3, QwQ, GLM-4.5, MiniMax-M1, Phi-4-reasoning, Nemotron, SmolLM3"),
    _xml("Think", "the same, in another case"),
    _xml("THINK", "the same, in another case"),
    Tag('<think type="x">', "</think>", "the same, with an attribute"),
    _xml("think", "Hunyuan-A13B", "<answer>\n", "\n</answer>"),
    _xml("thinking", "Claude and others that are asked to think in tags"),
    _xml("Thinking", "the same, in another case"),
    _xml("thought", "EXAONE Deep, Gemini through OpenAI's interface"),
    _xml("reasoning", "models trained with GRPO recipes", "<answer>", "</answer>"),
    _xml("reasoning", "the same, without a mark of the answer"),
    _xml("reflection", "Reflection-Llama-3.1-70B"),
    Tag("[THINK]", "[/THINK]", "Magistral"),
    Tag("[think]", "[/think]", "the same, in another case"),
    _xml("seed:think", "Seed-OSS"),
    Tag(
        "<|begin_of_thought|>", "<|end_of_thought|>", "Sky-T1, OpenThinker",
        "<|begin_of_solution|>\n", "\n<|end_of_solution|>",
    ),
    Tag(
        "<|START_THINKING|>", "<|END_THINKING|>", "Command A Reasoning",
        "<|START_RESPONSE|>", "<|END_RESPONSE|>",
    ),
    Tag("◁think▷", "◁/think▷", "Kimi-VL-Thinking"),
    Tag(
        "<|channel|>analysis<|message|>", HARMONY_END, "gpt-oss (Harmony)",
        "<|start|>assistant<|channel|>final<|message|>", "<|return|>", "<|start|>assistant",
    ),
    Tag("analysis", "assistantfinal", "gpt-oss, its special tokens stripped", between=None),
    _xml("longcat_think", "LongCat-Flash-Thinking"),
    Tag("<unused94>thought\n", "<unused95>", "MedGemma"),
)  # fmt: skip

UNKNOWN = (
    _xml("pondering", "none"),
    _xml("scratchpad", "none"),
    _xml("inner_monologue", "none"),
    Tag("[REASONING]", "[/REASONING]", "none"),
    Tag("<|deliberate|>", "<|/deliberate|>", "none"),
    Tag("◁plan▷", "◁/plan▷", "none"),
    _xml("draft", "none"),
    _xml("my:thoughts", "none"),
    Tag("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
    Tag("<|channel>thought\n", "<channel|>", "Gemma 4"),
    Tag("<|think|>", HARMONY_END, "Solar Open", "<|begin|>assistant<|content|>", between=None),
)
