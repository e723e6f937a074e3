"""verl's single-turn agent loop with a seed for each rollout, so that a run always draws the same samples.

vLLM samples requests without a seed from one stream of random numbers. Then a rollout depends on which other requests
arrive, and when. A resumed run would also restart that stream.
"""

from collections.abc import Mapping
from typing import Any

from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from train.rollouts import rollout_seed


class SeededSingleTurn(SingleTurnAgentLoop):
    """Seeds each request by (run's seed, step, prompt, sample), and stores the sample's number as extra field."""

    async def run(self, sampling_params: Mapping[str, Any], **row: Any) -> AgentLoopOutput:
        """Run one rollout of a data row. verl adds `global_steps`, and the sample's number as `session_id`."""
        sample = int(row["session_id"])
        messages = [dict(message) for message in row["raw_prompt"]]
        seed = rollout_seed(int(self.rollout_config.seed), int(row["global_steps"]), messages, sample)
        output = await super().run({**sampling_params, "seed": seed}, **row)  # a copy: verl's samples share one dict
        output.extra_fields["sample"] = sample
        return output
