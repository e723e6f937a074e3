"""verl's single-turn agent loop with a seed for each rollout: a run draws the same samples, whatever arrives first.

vLLM draws requests without a seed from one stream of random numbers, so that a rollout depends on what else arrives,
and when; and a resumed run restarts that stream.
"""

from collections.abc import Mapping
from typing import Any

from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from train.rollouts import rollout_seed


class SeededSingleTurn(SingleTurnAgentLoop):
    """Each request is seeded by (run, step, prompt, sample); `sample` of its extra fields is the sample's number."""

    async def run(self, sampling_params: Mapping[str, Any], **row: Any) -> AgentLoopOutput:
        """One rollout of a row of the data, to which verl adds `global_steps` and, within the prompt, `session_id`."""
        sample = int(row["session_id"])
        messages = [dict(message) for message in row["raw_prompt"]]
        seed = rollout_seed(int(self.rollout_config.seed), int(row["global_steps"]), messages, sample)
        output = await super().run({**sampling_params, "seed": seed}, **row)  # verl's samples share one dict
        output.extra_fields["sample"] = sample
        return output
