"""Answer with several processes: Ray actors, each with its own copy of the model.

A worker gets one batch at a time and returns its rows. It writes no files: only the main process decides on batches and
writes to the run's folder. So a worker may be lost at any moment, and another one gets its batch. Ray is imported only
when workers are started.
"""

import logging
import os
import platform
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import Row
from rag_zeval.models.folder import model_sha256
from rag_zeval.stages.ray_folder import ray_folder
from synthesize.jobs import Batch
from synthesize.settings import Settings

log = logging.getLogger(__name__)

ATTEMPTS = 3  # workers that try a batch before it fails, and failed starts for each worker before giving up
OBJECT_STORE = 2**27  # bytes of shared memory for our own ray; batches and rows are small


class Worker:
    """The code of an actor: an Answerer, loaded on the actor's machine."""

    def load(self, settings: Settings, model_hash: str) -> None:
        """Load the model. Raises InputError if this machine has no such folder, or another model in it."""
        from synthesize.answering import Answerer

        if model_sha256(settings.model) != model_hash:
            raise InputError(f"{settings.model}: the model on {platform.node()} is a different one")
        self.answerer = Answerer(settings)

    def batch_tokens(self, longest: int, sharing: int) -> int:
        """Return how many cached tokens of a batch fit into this worker's memory (`Answerer.batch_tokens`)."""
        return self.answerer.batch_tokens(longest, sharing)

    def answer(self, batch: Batch) -> list[Row]:
        """Return the finished rows of a batch, in its order."""
        return self.answerer.answer(batch)


class Crew:
    """Several workers, which are started at once and replaced when they are lost. Ray must be running.

    count: number of workers. gpus: GPUs of each worker, 0 or 1. The methods raise InputError if no worker can start, or
    if one cannot load the model.
    """

    def __init__(self, settings: Settings, model_hash: str, count: int, gpus: int):
        self.settings, self.model_hash, self.count, self.gpus = settings, model_hash, count, gpus
        # Worker and batch of each running call, by ray's reference. Without a batch the worker is loading the model.
        self.calls: dict[Any, tuple[Any, Batch | None]] = {}
        self.idle: list[Any] = []
        self.failed_starts = 0
        for _ in range(count):
            self._start()

    def batch_tokens(self, longest: int) -> int:
        """Return how many cached tokens of a batch fit into every worker's memory, at least 1.

        This waits until all workers have loaded the model. It does not wait for the replacement of a worker that was
        lost while loading, unless no other is ready: ray may have no resources left for the replacement.
        """
        import ray
        from ray.exceptions import RayActorError

        starts = list(self.calls)
        while not self.idle or any(start in self.calls for start in starts):
            self._next()
        sharing, room = 1 if self.gpus else self.count, []
        for worker in self.idle:
            with suppress(RayActorError):  # lost meanwhile; it will be replaced when it gets a batch
                room.append(ray.get(worker.batch_tokens.remote(longest, sharing)))
        if not room:
            raise InputError("all workers were lost before they answered anything")
        return min(room)

    def answers(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        """Yield the rows of each batch, in the order in which batches are finished.

        If a worker is lost, or fails in a way that Answerer does not handle, another worker gets the batch. After
        ATTEMPTS workers the rows of the batch say why it failed.
        """
        todo, failures = deque(batches), Counter[str]()  # failures by the id of a batch's first question
        while todo or any(batch for _, batch in self.calls.values()):
            while todo and self.idle:
                worker, waiting = self.idle.pop(), todo.popleft()
                self.calls[worker.answer.remote(waiting)] = worker, waiting
            batch, rows, reason = self._next()
            if batch is None:
                continue
            if reason is None:
                yield rows
                continue
            failures[batch[0].question.id] += 1
            if failures[batch[0].question.id] < ATTEMPTS:
                log.warning("a worker failed (%s): another one is given its %d questions", reason, len(batch))
                todo.appendleft(batch)
            else:
                log.warning("%d questions failed with %d workers (%s)", len(batch), ATTEMPTS, reason)
                yield [job.row(f"failed: with {ATTEMPTS} workers, the last: {reason}") for job in batch]

    def _start(self) -> None:
        import ray

        worker = ray.remote(Worker).options(num_cpus=1, num_gpus=self.gpus).remote()
        self.calls[worker.load.remote(self.settings, self.model_hash)] = worker, None

    def _next(self) -> tuple[Batch | None, list[Row], str | None]:
        """Wait until a call ends, and return its batch, its rows, and the reason if it failed.

        The batch is None if the worker was loading; the reason is None if it succeeded. The worker is then idle. A
        worker that failed is replaced.
        """
        import ray
        from ray.exceptions import RayError

        [call], _ = ray.wait(list(self.calls), num_returns=1)
        worker, batch = self.calls.pop(call)
        try:
            rows = ray.get(call)
        except RayError as error:
            if isinstance(getattr(error, "cause", None), InputError):
                raise error.cause from None
            reason = _why(error)
            ray.kill(worker)
            if batch is None:
                self.failed_starts += 1
                log.warning("a worker could not start (%s)", reason)
            if self.failed_starts < ATTEMPTS * self.count:
                self._start()
            elif not self.idle and not self.calls:
                raise InputError(f"no worker could start; the last: {reason}") from error
            return batch, [], reason
        if batch is None:
            self.failed_starts = 0
        self.idle.append(worker)
        return batch, rows or [], None


def _why(error: Any) -> str:
    """Return one line with what the worker raised. If it is gone: ray's last line, as the first ones are only ids."""
    cause = getattr(error, "cause", None)
    if cause is None:
        return shorten(str(error).rpartition("\n")[2], 200)
    return shorten(f"{type(cause).__name__}: {str(cause).partition(os.linesep)[0]}", 200)


@contextmanager
def hired(settings: Settings, out: Path, model_hash: str) -> Iterator[Crew]:
    """Start a crew for the settings: on our own ray, whose folder is noted in `out`, or on an existing cluster.

    Raises InputError if ray cannot be started or joined, or if it has fewer GPUs (or CPU cores) than workers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # else ray starts an idle worker for each CPU
    import ray

    with ExitStack() as stack:
        own: dict[str, Any] = {}
        if settings.address == "local":
            own["num_cpus"] = max(os.cpu_count() or 1, settings.workers or 1)
            own["include_dashboard"] = False
            own["object_store_memory"] = OBJECT_STORE
            own["_temp_dir"] = str(stack.enter_context(ray_folder(out)))
        try:
            ray.init(settings.address, logging_level=logging.ERROR, **own)
        except Exception as error:  # ray raises a plain Exception if it cannot start in time
            raise InputError(f"config: key 'address' is {settings.address}: {shorten(str(error), 300)}") from error
        stack.callback(ray.shutdown)
        count, gpus = _size(settings, ray.cluster_resources())
        # Ray chooses the worker's folder, so the path must be absolute. A worker must not use the CPU if its GPU fails.
        changed = {"model": str(Path(settings.model).resolve()), "device": "cuda" if gpus else "cpu"}
        yield Crew(settings.model_copy(update=changed), model_hash, count, gpus)


def _size(settings: Settings, resources: dict[str, float]) -> tuple[int, int]:
    """Return the number of workers and of the GPUs of each. Raises InputError if ray has too few."""
    all_gpus = int(resources.get("GPU", 0))
    gpus = 0 if settings.device == "cpu" or (settings.device == "auto" and not all_gpus) else 1
    if settings.workers is None and not (gpus and all_gpus):
        raise InputError("config: key 'workers' is null (one for each GPU), but ray sees no GPU to use: give a number")
    count = all_gpus if settings.workers is None else settings.workers
    kind = "GPU" if gpus else "CPU"
    if count > (seen := int(resources.get(kind, 0))):
        raise InputError(f"config: key 'workers' is {count}, but ray sees {seen} {kind}s")
    return count, gpus
