"""verl's vLLM server with our workers."""

from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica

from train.verl_rehearsal.worker import WorkerExtension


class Server(vLLMHttpServer):
    def _get_worker_extension_cls(self) -> str:
        return f"{WorkerExtension.__module__}.{WorkerExtension.__qualname__}"


class Replica(vLLMReplica):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(Server)
