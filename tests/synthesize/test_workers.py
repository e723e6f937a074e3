"""Several workers give the rows of a single process, whatever is killed on the way, and leave nothing running."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")
ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from rag_zeval.errors import InputError  # noqa: E402
from rag_zeval.files import read_jsonl  # noqa: E402
from synthesize import workers  # noqa: E402
from synthesize.__main__ import main  # noqa: E402

NANO_BASE = Path("checkpoints/nano-base")
N = 30
MACHINE = {"num_cpus": 1, "object_store_memory": workers.OBJECT_STORE}
SETTINGS = [f"model={NANO_BASE}", f"n_questions={N}", "batch_size=2", "max_new_tokens=16", "device=cpu"]


@pytest.fixture(scope="module", autouse=True)
def short_temporary_folder():
    """So that what ray leaves there can be seen; its workers are no less important than anything else here."""
    with tempfile.TemporaryDirectory(prefix="t_", dir="/tmp") as short, pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", short)
        patched.setenv("RAY_worker_niceness", "0")
        patched.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "15")  # so long live agents without a driver; else 60
        patched.delenv("RAY_ADDRESS", raising=False)
        yield Path(short)
        assert not list(Path(short).glob("rz_*"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The rows of a single process."""
    out = tmp_path_factory.mktemp("alone")
    assert main([*SETTINGS, f"out_dir={out}"]) == 0
    return by_id(out)


def by_id(out):
    rows = read_jsonl(out / "responses.jsonl")
    assert len({row["id"] for row in rows}) == len(rows), "a row stands twice"
    return {row["id"]: row for row in rows}


@pytest.fixture(scope="module")
def running(wait_until):
    """A run with two workers that has written at least so many of its rows, not all."""

    @contextmanager
    def running(out, least):
        command = [sys.executable, "-m", "synthesize", *SETTINGS, f"out_dir={out}", "workers=2"]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        responses = out / "responses.jsonl"
        with subprocess.Popen(command, **pipes) as run:
            try:
                wait_until(lambda: responses.exists() and responses.read_bytes().count(b"\n") >= least, 300, of=run)
                yield run
            finally:
                run.kill()

    return running


def wait_until_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=300)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def workers_among(processes):
    """The processes that run a Worker; on a slow machine the second may still be starting."""

    def title(process):
        with suppress(psutil.Error):  # it has ended
            return " ".join(process.cmdline())
        return ""

    return [process for process in processes if title(process).startswith("ray::Worker")]


def test_a_killed_driver_leaves_no_worker_and_the_same_command_goes_on_even_if_a_worker_is_killed(
    alone, running, tmp_path, short_temporary_folder
):
    with running(tmp_path, random.randrange(1, N // 4)) as run:
        orphans = psutil.Process(run.pid).children(recursive=True)
        answering = workers_among(orphans)
        assert answering
        run.send_signal(signal.SIGKILL)
    wait_until_gone(answering)
    assert list(short_temporary_folder.glob("rz_*")) and not (tmp_path / "manifest.json").exists()
    done = (tmp_path / "responses.jsonl").read_bytes().count(b"\n")
    with running(tmp_path, done + random.randrange(1, N // 4)) as run:
        started = psutil.Process(run.pid).children(recursive=True)
        random.choice(workers_among(started)).kill()
        errors = run.communicate()[1]
    assert run.returncode == 0, errors
    # on a slow machine the other worker may have written the row that was waited for, and the killed one be loading
    assert "another one is given its " in errors or "a worker could not start" in errors
    assert by_id(tmp_path) == alone
    assert json.loads((tmp_path / "manifest.json").read_text())["statistics"]["answered"] == N
    wait_until_gone([*orphans, *started])
    assert not list(short_temporary_folder.glob("rz_*"))


@pytest.fixture(scope="module")
def cluster(short_temporary_folder):
    """Two machines with a core each, all on this one."""
    before = psutil.Process().children(recursive=True)  # the browser of other tests, say
    patched = pytest.MonkeyPatch()
    patched.setenv("RAY_prestart_worker_first_driver", "0")
    head = {**MACHINE, "include_dashboard": False, "temp_dir": str(short_temporary_folder / "ray")}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.second = cluster.add_node(**MACHINE)
    patched.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    started = [process for process in psutil.Process().children(recursive=True) if process not in before]
    ray.shutdown()
    cluster.shutdown()
    patched.undo()
    wait_until_gone(started)


def test_a_batch_that_always_fails_takes_no_other_with_it(alone, cluster, tmp_path, monkeypatch):
    ids = list(alone)
    deadly, broken = ids[4], ids[11]

    class Fragile(workers.Worker):
        def answer(self, batch):
            asked = {job.question.id for job in batch}
            if deadly in asked:
                os.kill(os.getpid(), signal.SIGKILL)
            if broken in asked:
                raise IndexError("beyond all bounds")
            return super().answer(batch)

    monkeypatch.setattr(workers, "Worker", Fragile)
    monkeypatch.setattr(workers, "ATTEMPTS", workers.ATTEMPTS - 1)  # a worker takes seconds to start
    out = tmp_path / "out"
    assert main([*SETTINGS, f"out_dir={out}", "workers=2", "address=auto", "batch_tokens=null"]) == 0
    rows = by_id(out)
    failed = {id_: row["status"] for id_, row in rows.items() if row["status"] != "ok"}
    assert rows.keys() == alone.keys() and 2 <= len(failed) <= 4 and {deadly, broken} <= failed.keys()
    assert failed[broken] == "failed: with 2 workers, the last: IndexError: beyond all bounds"
    assert failed[deadly].startswith("failed: with 2 workers, the last: The actor is dead because its worker process")
    assert all(rows[id_] == alone[id_] for id_ in rows.keys() - failed.keys())
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["statistics"]["failed"] == len(failed) and manifest["config"]["batch_tokens"] > 1000


def test_what_cannot_be_started_is_one_line(cluster, tmp_path, capsys):
    auto = [*SETTINGS, f"out_dir={tmp_path / 'out'}", "address=auto"]
    model = tmp_path / "model"
    shutil.copytree(NANO_BASE, model)
    (model / "model.safetensors").write_bytes(b"torn")
    for words, said in (
        (["workers=3"], "error: config: key 'workers' is 3, but ray sees 2 CPUs\n"),
        (["workers=null"], "ray sees no GPU to use"),
        ([f"model={model}", "workers=2"], f"{model}: not a model transformers can load: "),
    ):
        assert main([*auto, *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("call", ["load", "answer"])
def test_a_machine_lost_in_a_call_changes_no_row(alone, cluster, wait_until, tmp_path, monkeypatch, call):
    second, reached, whole = cluster.second.node_id, tmp_path / "reached", getattr(workers.Worker, call)

    def endless(worker, *arguments):
        if ray.get_runtime_context().get_node_id() == second:
            reached.touch()
            time.sleep(600)
        return whole(worker, *arguments)

    def lose_machine():
        wait_until(reached.exists, 300)
        cluster.remove_node(cluster.second, allow_graceful=False)

    monkeypatch.setattr(workers, "Worker", type("Worker", (workers.Worker,), {call: endless}))
    with ThreadPoolExecutor(1) as other:
        lost = other.submit(lose_machine)
        out = tmp_path / "out"
        assert main([*SETTINGS, f"out_dir={out}", "workers=2", "address=auto", "batch_tokens=null"]) == 0
        lost.result()
    assert by_id(out) == alone
    cluster.second = cluster.add_node(**MACHINE)


def test_another_model_on_a_machine_is_refused(settings):
    with pytest.raises(InputError, match="is a different one"):
        workers.Worker().load(settings(model=str(NANO_BASE)), "0" * 64)
