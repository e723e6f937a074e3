"""Context-aware decoding on vLLM: the two streams of an answer are two requests, and a logits processor couples them.

It gives both requests of a pair the same logits, so that both write the same token:

    z = (1 + a) * logits(q, c, y<t) - a * logits(q, y<t)

This only works while vLLM computes both requests in the same steps. A chunked prefill, a preemption or a late partner
breaks a pair without any error. So the answer of a pair is used only if

- `CoupledPairs` saw the two in the same step and never out of step (it gives up a pair that is out of step), and
- both requests wrote the same tokens to their end.

To make losses rare, both prompts are first read into the prefix cache, by the ordinary requests for a = 0 and a = -1.
Partners are submitted next to each other, and never more of them than fit into a step. Lost pairs are retried. Those
that are still lost are left to the packed decoder of `synthesize.cad`.

Import this module only where vLLM is installed. vLLM's sampler casts logits to float32 before logits processors, as
`synthesize.cad` does.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the processor runs in this process and shares the sets below
os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # version 2 has no logits processors

from vllm import LLM, SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor, MoveDirectionality

from synthesize.cad import Prompts, Response

WAVES = 3  # attempts for each pair
lost_pairs: set[str] = set()  # names of pairs that were seen out of step
coupled_pairs: set[str] = set()  # names of pairs that were seen in the same step


@dataclass(frozen=True)
class _Member:
    """A row of vLLM's batch that belongs to a pair. `written` is vLLM's own list of its tokens, which grows."""

    pair: str
    alpha: float
    reads: bool  # whether its prompt has the passage
    end: int | None  # a stop token
    written: Sequence[int]


class CoupledPairs(LogitsProcessor):
    """Mixes the logits of requests whose `extra_args` name the same pair: cad_pair, cad_alpha, cad_reads, cad_end."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool):
        self.rows: dict[int, _Member] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        if batch_update is None:
            return
        for row in batch_update.removed:
            self.rows.pop(row, None)
        for row, params, _, written in batch_update.added:
            self.rows.pop(row, None)
            extra = params.extra_args or {}
            if "cad_pair" in extra:
                self.rows[row] = _Member(
                    extra["cad_pair"], extra["cad_alpha"], extra["cad_reads"], extra["cad_end"], written
                )
        for origin, target, direction in batch_update.moved:
            moved, replaced = self.rows.pop(origin, None), self.rows.pop(target, None)
            if moved is not None:
                self.rows[target] = moved
            if replaced is not None and direction == MoveDirectionality.SWAP:
                self.rows[origin] = replaced

    def apply(self, logits: Any) -> Any:
        pairs: dict[str, dict[bool, int]] = defaultdict(dict)
        for row, member in self.rows.items():
            pairs[member.pair][member.reads] = row
        together = []
        for pair, rows in pairs.items():
            lengths = {len(self.rows[row].written) for row in rows.values()}
            # Before its first token, a member without partner may wait for the partner's prefill. Later the pair is
            # lost, and so is a pair whose members have written different numbers of tokens.
            if len(lengths) > 1 or (len(rows) == 1 and lengths != {0}):
                lost_pairs.add(pair)
            if pair in lost_pairs:
                for row in rows.values():
                    if (end := self.rows[row].end) is not None:
                        logits[row] = -torch.inf
                        logits[row, end] = 0
            elif len(rows) == 2:
                together.append((rows[True], rows[False], self.rows[rows[True]].alpha))
                coupled_pairs.add(pair)
        if together:
            reading, blind = (torch.tensor([pair[at] for pair in together], device=logits.device) for at in (0, 1))
            alpha = torch.tensor([pair[2] for pair in together], device=logits.device, dtype=logits.dtype)[:, None]
            logits[reading] = logits[blind] = (1 + alpha) * logits[reading] - alpha * logits[blind]
        return logits


class VLLMDecoder:
    """A model on vLLM, loaded from a folder.

    dtype: of the weights, float32 or bfloat16. engine: further arguments of vLLM's LLM. The default of
    gpu_memory_utilization leaves memory for the packed decoder, which answers lost pairs.

    `cache_tokens` is the number of tokens for which vLLM's key-value cache has room.
    """

    def __init__(self, folder: str, dtype: str, **engine: Any):
        self._llm = LLM(
            model=folder,
            dtype=dtype,
            seed=0,
            skip_tokenizer_init=True,
            generation_config="vllm",  # ignore the model's own sampling settings
            logits_processors=[CoupledPairs],
            async_scheduling=False,  # the processor must see each token before the next step
            **{"gpu_memory_utilization": 0.6, "enable_prefix_caching": True, "disable_log_stats": True, **engine},
        )
        config = self._llm.llm_engine.vllm_config
        self.cache_tokens: int = config.cache_config.num_gpu_blocks * config.cache_config.block_size
        self.generation_config = _generation_config(folder)
        self._pairs = max(1, config.scheduler_config.max_num_seqs // 2)  # most pairs in one step
        self._names = map(str, count())

    def decode(
        self,
        with_passage: Prompts,
        without_passage: Prompts,
        alphas: Sequence[float],
        max_new_tokens: int,
        stops: Collection[int],
    ) -> list[list[Response | None]]:
        """Return answers `[question][alpha]` as `synthesize.cad.decode` does, or None for pairs lost in each attempt.

        with_passage, without_passage: prompt token ids of each question. An answer has at most `max_new_tokens` tokens.
        """
        answers: list[list[Response | None]] = [[None] * len(alphas) for _ in with_passage]
        streams = ((with_passage, 0.0), (without_passage, -1.0))
        plain = []
        for prompts, alpha in streams:
            length = max_new_tokens if alpha in alphas else 1  # 1 only fills the prefix cache for the pairs
            plain += [(prompt, _greedy(length, stops)) for prompt in prompts]
        outputs = self._generate(plain)
        for (_, alpha), at in zip(streams, (0, len(with_passage)), strict=True):
            if alpha in alphas:
                for question, ids in enumerate(outputs[at : at + len(with_passage)]):
                    answers[question][list(alphas).index(alpha)] = _response(alpha, ids, stops)
        todo = [(q, b) for q in range(len(answers)) for b in range(len(alphas)) if answers[q][b] is None]
        for _ in range(WAVES):
            for start in range(0, len(todo), self._pairs):
                wave = todo[start : start + self._pairs]
                pairs = [(with_passage[q], without_passage[q], alphas[b]) for q, b in wave]
                for (q, b), written in zip(wave, self._coupled(pairs, max_new_tokens, stops), strict=True):
                    answers[q][b] = None if written is None else _response(alphas[b], written, stops)
            todo = [(q, b) for q, b in todo if answers[q][b] is None]
        return answers

    def forget(self) -> None:
        """Empty the prefix cache."""
        self._llm.reset_prefix_cache()

    def _coupled(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int], float]],
        max_new_tokens: int,
        stops: Collection[int],
    ) -> list[list[int] | None]:
        """Return the tokens that each pair wrote, or None for a lost pair."""
        names = [next(self._names) for _ in pairs]
        requests = []
        for name, (*prompts, alpha) in zip(names, pairs, strict=True):
            for reads, prompt in zip((True, False), prompts, strict=True):
                extra = {"cad_pair": name, "cad_alpha": alpha, "cad_reads": reads, "cad_end": min(stops, default=None)}
                requests.append((prompt, _greedy(max_new_tokens, stops, extra)))
        outputs = self._generate(requests)
        answers: list[list[int] | None] = []
        for name, reading, blind in zip(names, outputs[::2], outputs[1::2], strict=True):
            in_step = reading == blind and name in coupled_pairs - lost_pairs
            answers.append(reading if in_step else None)
            lost_pairs.discard(name)
            coupled_pairs.discard(name)
        return answers

    def _generate(self, requests: Sequence[tuple[Sequence[int], Any]]) -> list[list[int]]:
        outputs = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt, _ in requests],
            [params for _, params in requests],
            use_tqdm=False,
        )
        return [list(output.outputs[0].token_ids) for output in outputs]


def _generation_config(folder: str) -> Any:
    """Return the generation config that transformers uses for the model in this folder."""
    try:
        return GenerationConfig.from_pretrained(folder)
    except OSError:  # no generation_config.json
        return GenerationConfig.from_model_config(AutoConfig.from_pretrained(folder, trust_remote_code=False))


def _greedy(max_new_tokens: int, stops: Collection[int], extra: dict[str, Any] | None = None) -> Any:
    return SamplingParams(
        temperature=0.0,
        max_tokens=max_new_tokens,
        stop_token_ids=sorted(stops),
        ignore_eos=True,  # only `stops` are stop tokens
        detokenize=False,
        extra_args=extra,
    )


def _response(alpha: float, ids: Sequence[int], stops: Collection[int]) -> Response:
    return Response(alpha, tuple(ids), ids[-1] in stops)
