"""Rollouts: one order and seeds of their own, whatever arrives first, and from the weights that are trained."""

import asyncio
import copy
import random
from math import nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rag_zeval.stages.config import load_config
from rewards.combined import KEYS, OF_PAIRS, WATCHED, failed
from train.derived_keys import derived_keys
from train.reward_metrics import reward_metrics
from train.rollouts import rollout_seed
from train.rollouts.agreement import CORRELATION, LIMITS, MEAN, Agreement, precision
from train.rollouts.ordered_buffer import row_order
from train.run_folder import RunFolder
from train.settings import TrainSettings, read_settings
from train.verl_config import build
from train.verl_cpu.replay import partitions_by_prompt, work_of_prompts


@settings(deadline=None)  # the first case imports verl
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True, min_size=1),
    st.randoms(use_true_random=False),
)
def test_order_follows_rows_and_samples_only(pairs: list[tuple[int, int]], rng: random.Random) -> None:
    arrived = rng.sample(pairs, len(pairs))
    order = row_order([row for row, _ in arrived], [sample for _, sample in arrived])
    assert [arrived[at] for at in order] == sorted(pairs)


def test_parts_of_a_trajectory_are_averaged_over_trajectories() -> None:
    good = {**dict.fromkeys(KEYS, 1.0), "claims": 4.0, "evidence": 0.5, "errors": 0.0}
    bad = {**failed(), "errors": 0.0}
    metrics = reward_metrics([good, bad, bad, bad], [2, 3, 2, 2])
    assert metrics["reward_extra/format/mean"] == 0.25
    assert metrics["reward_extra/score/mean"] == (1.0 - 3 * 0.5) / 4
    assert metrics["reward_extra/claims/mean"] == 4.0 and metrics["reward_extra/evidence/mean"] == 0.5
    assert metrics["curriculum/candidates"] == 3.0  # a step with rows of both stages has K of the later one
    nothing = reward_metrics([bad], [2])
    assert not {f"reward_extra/{name}/mean" for name in WATCHED} & nothing.keys()  # missing, not 0
    assert nothing["reward_extra/accuracy/mean"] == 0.0


def test_a_single_answer_counts_for_nothing_that_is_about_pairs() -> None:
    good = {**dict.fromkeys(KEYS, 1.0), "errors": 0.0}
    single = {**good, **dict.fromkeys(OF_PAIRS, 0.0)}
    metrics = reward_metrics([good, single, {**single, "format": 0.0}], [2, 1, 1])
    assert all(metrics[f"reward_extra/{name}/mean"] == 1.0 for name in OF_PAIRS)
    assert metrics["reward_extra/format/mean"] == pytest.approx(2 / 3)
    assert metrics["curriculum/candidates"] == 2.0  # K of the stage


TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.data())
def test_ranks_get_whole_prompts_and_about_as_many_tokens_to_compute(
    ranks: int, each: int, rollouts: int, data: st.DataObject
) -> None:
    """Shared prefixes count once. Prompts whose rewards are all equal are no work, if the engine skips them."""
    rows = ranks * each * rollouts
    tokens = data.draw(st.lists(TEXTS, min_size=rows, max_size=rows))
    rewards = data.draw(st.none() | st.lists(st.sampled_from([0.0, 1.5]), min_size=rows, max_size=rows))
    work = work_of_prompts(tokens, rollouts, rewards)
    for at, size in enumerate(work):
        of_prompt = slice(at * rollouts, (at + 1) * rollouts)
        prefixes = {tuple(row[:end]) for row in tokens[of_prompt] for end in range(1, len(row) + 1)}
        assert size == (0 if rewards is not None and len({*rewards[of_prompt]}) == 1 else len(prefixes))
    parts = partitions_by_prompt([1] * rows, ranks, True, rollouts=rollouts, work=work)
    assert sorted(row for part in parts for row in part) == list(range(rows))
    for part in parts:
        assert len(part) == each * rollouts
        assert all(row == part[at - at % rollouts] + at % rollouts for at, row in enumerate(part))
        assert all(part[at] % rollouts == 0 for at in range(0, len(part), rollouts))
    loads = [sum(work[row // rollouts] for row in part[::rollouts]) for part in parts]
    assert max(loads) - min(loads) <= max(work)


def test_rows_of_incomplete_prompts_are_dealt_as_verl_deals_them() -> None:
    sizes = [5, 1, 1, 1, 1, 1]
    for work in ([6, 2], [6, 2, 2]):  # rows were missing, and verl filled the batch up; or an odd number of prompts
        assert sorted(map(len, partitions_by_prompt(sizes, 2, True, rollouts=2, work=work))) == [3, 3]


IDS: dict[str, Any] = {"seed": 0, "step": 0, "prompt": (1, 2), "sample": 0}


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"step": 1}, {"prompt": (1, 3)}, {"sample": 1}, {"prompt": [{"role": "user", "content": "who?"}]}],
)
def test_seeds_depend_on_all_four(change: dict[str, Any]) -> None:
    changed = {**IDS, **change}
    assert rollout_seed(**IDS) != rollout_seed(**changed) == rollout_seed(**copy.deepcopy(changed)) < 2**56


EXACT = [
    "verl.actor_rollout_ref.rollout.dtype=float32",
    "verl.actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32}",
    "verl.actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32}",
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["profile=paper"], "bf16"),
        (["profile=single"], "bf16"),
        (["profile=nano"], "fp32"),
        (["profile=paper", *EXACT], "fp32"),
        (["profile=paper", EXACT[0]], "bf16"),
    ],
)
def test_precision_is_the_coarser_of_rollout_and_training(words: list[str], expected: str) -> None:
    settings = read_settings(TrainSettings, load_config("train", words))
    assert precision(build(settings.verl, {})) == expected


@pytest.mark.parametrize("dtypes", LIMITS)
@pytest.mark.parametrize(("times", "correlation"), [(2, 1.0), (0, 0.5), (nan, 1.0)])
def test_a_run_is_warned_about_once_whichever_measure_says_it(dtypes: str, times: float, correlation: float) -> None:
    half = {"rollout": {"dtype": "bfloat16" if dtypes == "bf16" else "float32"}}
    exact = {"actor": {"fsdp_config": {"mixed_precision": {"param_dtype": "fp32"}}}}
    watched, limits = Agreement(OmegaConf.create({"actor_rollout_ref": half | exact})), LIMITS[dtypes]
    for healthy in ({}, {"train/loss": 9.0}, {MEAN: limits.mean, CORRELATION: limits.correlation}):
        assert watched.step(1, healthy) is None
    outside = {MEAN: times * limits.mean, CORRELATION: correlation}
    for step, data in enumerate((outside, {}, outside), 4):  # one step alone may be chance
        assert watched.step(step, data) is None
    warning = watched.step(7, outside)
    assert warning and "step 7" in warning and dtypes in warning and "\n" not in warning
    assert watched.step(8, {MEAN: nan, CORRELATION: nan}) is None


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
