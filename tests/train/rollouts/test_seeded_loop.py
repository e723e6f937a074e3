"""verl's own agent loop worker runs our loop; only the server behind it is made up."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rag_zeval.stages.config import load_config
from train.derived_keys import derived_keys
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import build

SAMPLES, ROWS = 8, ("who wrote it?", "where?")


class Server:
    """Writes the seed of each request, last come first served."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def generate(self, *, sampling_params: dict[str, Any], **request: Any) -> Any:
        from verl.workers.rollout.replica import TokenOutput

        self.asked.append(sampling_params)
        await asyncio.sleep(random.random() / 100)
        ids = [3 + int(digit) for digit in str(sampling_params["seed"])]
        return TokenOutput(token_ids=ids, log_probs=[0.0] * len(ids), extra_fields={"global_steps": 1})


@pytest.fixture
def worker(nano_base: Path, tmp_path: Path) -> Any:
    """verl's agent loop worker on the config of a run on GPUs, without the actors it talks to."""
    from transformers import AutoTokenizer
    from verl.experimental.agent_loop import AgentLoopWorker
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.utils.dataset.rl_dataset import RLHFDataset

    settings = read_settings(TrainSettings, load_config("train", ["profile=paper", f"base_model={nano_base}"]))
    config = build(settings.verl, derived_keys(settings, RunFolder(tmp_path), 0, 2))

    class Worker(AgentLoopWorker):
        def __init__(self) -> None:  # the part of verl's that reads the agent loops
            self.config, self.llm_client = config, Server()
            self.tokenizer, self.processor = AutoTokenizer.from_pretrained(nano_base), None
            self.hf_model_type, self.dataset_cls, self.tools = "llama", RLHFDataset, []
            for loop in OmegaConf.load(config.actor_rollout_ref.rollout.agent.agent_loop_config_path):
                _agent_loop_registry[loop.name] = loop  # type: ignore[union-attr]

        async def _agent_loop_postprocess(self, output: Any, validate: bool, **row: Any) -> Any:
            return output

    return Worker()


def roll_out(worker: Any, step: int, order: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """What each (row, sample) wrote and its number, the requests sent in this order."""
    agent = worker.config.actor_rollout_ref.rollout.agent.default_agent_loop
    sampling: dict[str, Any] = {"temperature": 1.0, "logprobs": True}
    trajectory = {"step": step, "sample_index": 0, "rollout_n": 0, "validate": False}

    async def one(text: str, sample: int) -> Any:
        row = {"raw_prompt": [{"role": "user", "content": text}], "global_steps": step, "uid": "u", "index": 0}
        return await worker._run_agent_loop(
            sampling, trajectory, trace=False, session_id=sample, agent_name=agent, **row
        )

    async def everyone() -> list[Any]:
        return await asyncio.gather(*(one(*which) for which in order))

    outputs = asyncio.run(everyone())
    assert sampling == {"temperature": 1.0, "logprobs": True}  # shared by all: nobody's seed stays in it
    return {
        which: (tuple(output.response_ids), output.extra_fields["sample"])
        for which, output in zip(order, outputs, strict=True)
    }


def test_rollouts_depend_on_step_prompt_and_sample_not_on_arrival(worker: Any) -> None:
    order = [(text, sample) for text in ROWS for sample in range(SAMPLES)]
    first = roll_out(worker, 3, order)
    assert len({ids for ids, _ in first.values()}) == len(order)  # no two share a seed
    assert all(number == sample for (_, sample), (_, number) in first.items())
    assert roll_out(worker, 3, random.sample(order, len(order))) == first
    later = roll_out(worker, 4, order)
    assert not {ids for ids, _ in later.values()} & {ids for ids, _ in first.values()}
    assert all(asked["temperature"] == 1.0 for asked in worker.llm_client.asked)
