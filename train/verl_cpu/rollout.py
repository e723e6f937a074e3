"""Rollout server of verl on transformers, as a ray actor: token ids in, token ids and log-probabilities out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from rag_zeval.models.decoding import generate, stop_ids
from train.verl_cpu.burst import Bursts, Request, Sampling


class Server:
    """Holds a copy of the policy and decodes; `ServerAdapter` brings new weights after each update."""

    def __init__(self, config: Any, model_config: Any) -> None:
        self.config: RolloutConfig = omega_conf_to_dataclass(config)
        self.model_config: HFModelConfig = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)

    async def launch_server(self) -> None:
        from transformers import AutoModelForCausalLM

        path, tokenizer = self.model_config.local_path, self.model_config.tokenizer
        attention = self.model_config.override_config.get("attn_implementation", "sdpa")
        dtype = getattr(torch, self.config.dtype)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=attention)
        self.model = model.eval()
        self.eos = stop_ids(self.model, tokenizer)
        self.pad = self.eos[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        validation = self.config.val_kwargs
        rows = self.config.engine_kwargs.get("hf_cpu", {})
        expected = {
            _sampling(self.config.temperature, self.config.top_p, self.config.top_k): rows.get("train_rows"),
            _sampling(validation.temperature, validation.top_p, validation.top_k): rows.get("val_rows"),
        }
        known = {sampling: n for sampling, n in expected.items() if n is not None} if len(expected) == 2 else {}
        self.bursts = Bursts(self._decode, self.config.seed, self.config.max_num_seqs, known)
        self.serving = asyncio.create_task(self.bursts.serve())

    async def generate(
        self, prompt_ids: Sequence[int], sampling_params: dict[str, Any], request_id: str, **kwargs: Any
    ) -> TokenOutput:
        """One sample after these token ids, as verl's agent loop asks for it.

        Gives the ids written and, where `logprobs` is set, the log-probability of each. It has at most `max_tokens`
        (without them, the configured response length), and never more than prompt and response have room for.
        """
        params = sampling_params
        limit = params.get("max_tokens") or params.get("max_new_tokens") or self.config.response_length
        room = self.config.prompt_length + self.config.response_length - len(prompt_ids)
        sampling = _sampling(params.get("temperature", 1.0), params.get("top_p", 1.0), params.get("top_k", -1))
        rollout = await self.bursts.put(Request(tuple(prompt_ids), max(1, min(int(limit), room)), sampling))
        return TokenOutput(
            token_ids=rollout.ids,
            log_probs=rollout.logprobs if params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.bursts.step, "sample": rollout.sample},
        )

    def _decode(self, requests: Sequence[Request], seeds: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        prompts, limits = [request.prompt for request in requests], [request.limit for request in requests]
        sampling = requests[0].sampling._asdict()
        return generate(self.model, prompts, limits, **sampling, seeds=seeds, eos=self.eos, pad=self.pad)

    async def load_weights(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        """Take over all parameters, in the server's precision. Raises RuntimeError if a name is missing or unknown."""
        own = self.model.state_dict()
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        unknown, missing = weights.keys() - own.keys(), own.keys() - weights.keys() - tied
        if unknown or missing:
            raise RuntimeError(f"weights do not fit: unknown {sorted(unknown)[:4]}, missing {sorted(missing)[:4]}")
        for name, value in weights.items():
            own[name].copy_(value)
        if step is not None:
            self.bursts.start_step(step)

    # verl calls these around updates and checkpoints; nothing here needs waking, and no cache outlives a burst
    async def wake_up(self, tags: Any = None) -> None: ...
    async def sleep(self) -> None: ...
    async def clear_kv_cache(self) -> None: ...
    async def release_kv_cache(self) -> None: ...
    async def resume_kv_cache(self) -> None: ...
    async def start_profile(self, **kwargs: Any) -> None: ...
    async def stop_profile(self) -> None: ...
    async def abort_all_requests(self, reject_request: bool = False) -> None: ...
    async def resume_generation(self) -> None: ...


def _sampling(temperature: float, top_p: float, top_k: int) -> Sampling:
    return Sampling(float(temperature), float(top_p), int(top_k))


class Replica(RolloutReplica):
    """Starts the one server of this rank."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError("rollout hf_cpu: tensor, pipeline and data parallel sizes must be 1")
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node_id=ray.get_runtime_context().get_node_id(), soft=True
        )
        server = (
            ray.remote(Server)
            .options(
                name=_server_name(self.replica_rank) + self.name_suffix,
                num_cpus=1,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=here,
            )
            .remote(self.config, self.model_config)
        )
        await server.launch_server.remote()
        self.servers, self._server_handle = [server], server
        host = ray.util.get_node_ip_address().strip("[]")
        self._server_address = f"{host}:hf-{self.replica_rank}"  # only a key for verl's load balancer


def _server_name(rank: int) -> str:
    return f"hf_cpu_server_{rank}"


class ServerAdapter(BaseRollout):
    """Lives in the FSDP worker and sends the trained weights to the server of its rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self.is_leader_rank = True
        self._server: Any = None

    async def resume(self, tags: Any) -> None: ...
    async def release(self) -> None: ...

    @torch.no_grad()
    async def update_weights(
        self, weights: Any, global_steps: int | None = None, wire_format: str = "named_tensors", **kwargs: Any
    ) -> None:
        """Hand the trained weights, (name, tensor) in any precision, to the server in fp32, with the step they are of.

        Raises ValueError for any other format.
        """
        if wire_format != "named_tensors":
            raise ValueError(f"rollout hf_cpu takes named tensors, not {wire_format}")
        if hasattr(weights, "__aiter__"):
            named = [pair async for pair in weights]
        else:
            named = list(weights)
        state = {name: value.detach().cpu().float().clone() for name, value in named}
        if self._server is None:
            self._server = ray.get_actor(_server_name(self.rank))
        await self._server.load_weights.remote(state, global_steps)
