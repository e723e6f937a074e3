"""A rollout server for verl with transformers in ray actors. It returns token ids and log-probabilities."""

import asyncio
import itertools
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from train.rollouts.decoder import Decoder
from train.verl_cpu.burst import Bursts, Decoded, Request, Sampling, deal


class Server:
    """Collects the requests of a step and divides them among the decoders of its ranks."""

    def __init__(self, config: Any, decoders: Sequence[Any]) -> None:
        self.config: RolloutConfig = omega_conf_to_dataclass(config)
        self.decoders = decoders

    async def launch_server(self) -> None:
        await asyncio.gather(*(decoder.ready.remote() for decoder in self.decoders))
        validation = self.config.val_kwargs
        rows = self.config.engine_kwargs.get("hf_cpu", {})
        expected = {
            Sampling(self.config.temperature, self.config.top_p, self.config.top_k): rows.get("train_rows"),
            Sampling(validation.temperature, validation.top_p, validation.top_k): rows.get("val_rows"),
        }
        known = {sampling: n for sampling, n in expected.items() if n is not None} if len(expected) == 2 else {}
        at_once = self.config.max_num_seqs * len(self.decoders)
        self.bursts = Bursts(self._decode, self.config.seed, at_once, known)
        self.serving = asyncio.create_task(self.bursts.serve())

    async def generate(
        self, prompt_ids: Sequence[int], sampling_params: dict[str, Any], request_id: str, **kwargs: Any
    ) -> TokenOutput:
        """Return one sample for these prompt token ids, as verl's agent loop requests it.

        The output has the new token ids and, if `logprobs` is set, the log-probability of each. There are at most
        `max_tokens` (default: the configured response length). Prompt and response together never exceed the configured
        lengths.
        """
        params = sampling_params
        limit = params.get("max_tokens") or params.get("max_new_tokens") or self.config.response_length
        room = self.config.prompt_length + self.config.response_length - len(prompt_ids)
        sampling = Sampling(params.get("temperature", 1.0), params.get("top_p", 1.0), params.get("top_k", -1))
        rollout = await self.bursts.put(Request(tuple(prompt_ids), max(1, min(int(limit), room)), sampling))
        return TokenOutput(
            token_ids=rollout.ids,
            log_probs=rollout.logprobs if params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.bursts.step, "sample": rollout.sample},
        )

    async def _decode(self, requests: Sequence[Request], seeds: Sequence[int]) -> list[Decoded]:
        shares = deal([request.prompt for request in requests], len(self.decoders))
        parts = await asyncio.gather(
            *(
                decoder.decode.remote(
                    [requests[at].prompt for at in share],
                    [requests[at].limit for at in share],
                    requests[0].sampling._asdict(),  # a dict, since a class of this package would import verl
                    [seeds[at] for at in share],
                )
                for decoder, share in zip(self.decoders, shares, strict=True)
                if share
            )
        )
        by_request = dict(zip(itertools.chain(*shares), itertools.chain(*parts), strict=True))
        return [by_request[at] for at in range(len(requests))]

    async def start_step(self, step: int) -> None:
        """Start a step: the decoders have its weights now."""
        self.bursts.start_step(step)

    async def nothing(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing. verl calls these around updates and checkpoints, but decoders do not sleep and keep no cache."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    start_profile = stop_profile = abort_all_requests = resume_generation = nothing


class Replica(RolloutReplica):
    """Starts a decoder for each rank, and a server that uses them."""

    async def launch_servers(self) -> None:
        if self.world_size != self.config.data_parallel_size:
            raise ValueError("rollout hf_cpu: tensor and pipeline parallel sizes must be 1")
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node_id=ray.get_runtime_context().get_node_id(), soft=True
        )
        first = self.replica_rank * self.world_size
        attention = self.model_config.get("override_config", {}).get("attn_implementation", "sdpa")
        decoders = [
            ray.remote(Decoder)
            .options(name=_decoder_name(rank), num_cpus=1, scheduling_strategy=here)
            .remote(self.model_config.path, self.config.dtype, attention)
            for rank in range(first, first + self.world_size)
        ]
        server = (
            ray.remote(Server)
            .options(
                name=_server_name(self.replica_rank),
                num_cpus=1,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=here,
            )
            .remote(self.config, decoders)
        )
        await server.launch_server.remote()
        self.servers, self._server_handle = [server], server
        self.decoders = decoders  # keep a reference: ray ends an actor without references
        host = ray.util.get_node_ip_address().strip("[]")
        self._server_address = f"{host}:hf-{self.replica_rank}"  # only a key for verl's load balancer


def _server_name(replica: int) -> str:
    return f"hf_cpu_server_{replica}"


def _decoder_name(rank: int) -> str:
    return f"hf_cpu_decoder_{rank}"


class ServerAdapter(BaseRollout):
    """The part in the FSDP worker, which sends the trained weights to the decoder of its rank."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.rank, self.is_leader_rank = int(os.environ["RANK"]), True
        self.replica, of_replica = divmod(self.rank, self.config.data_parallel_size)
        self.tells_server = of_replica == 0

    # Both are looked up once: a handle tells why an actor died, but a dead actor cannot be found by name.
    @cached_property
    def decoder(self) -> Any:
        return ray.get_actor(_decoder_name(self.rank))

    @cached_property
    def server(self) -> Any:
        return ray.get_actor(_server_name(self.replica))

    async def resume(self, *args: Any) -> None:
        """Do nothing, because decoders do not sleep."""

    release = resume

    @torch.no_grad()
    async def update_weights(
        self, weights: Any, global_steps: int | None = None, wire_format: str = "named_tensors", **kwargs: Any
    ) -> None:
        """Send the trained weights, (name, tensor) in any precision, to the decoder in fp32.

        The server gets the step of the weights before the next rollouts are requested. Raises ValueError for any other
        wire format.
        """
        if wire_format != "named_tensors":
            raise ValueError(f"rollout hf_cpu takes named tensors, not {wire_format}")
        if hasattr(weights, "__aiter__"):
            named = [pair async for pair in weights]
        else:
            named = list(weights)
        state = {name: value.detach().cpu().float().clone() for name, value in named}
        await self.decoder.load_weights.remote(state)
        if self.tells_server and global_steps is not None:
            await self.server.start_step.remote(global_steps)
