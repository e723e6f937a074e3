import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from rag_zeval.errors import InputError
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.open import open_backend
from rag_zeval.models.window import open_window

WINDOW = 96  # of `tiny_model`


def ask(text: str, trial: int = 0, **sampling: Any) -> Request:
    settings = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 20, **sampling}
    return Request(({"role": "user", "content": text},), Sampling(**settings), trial)


def replies(backend: Any, requests: list[Request]) -> list[Reply]:
    found = dict(as_finished(backend.complete, requests, backend.at_once))
    assert sorted(found) == list(range(len(requests)))
    return [found[i] for i in range(len(requests))]


def test_a_reply_is_the_same_alone_and_in_any_batch(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And replies of every sampling find their request."""
    requests = [ask("a" * (1 + 7 * i % 30), trial) for i in range(8) for trial in range(2)]
    requests += [ask("hello", max_tokens=5), ask("hi", temperature=0.0), ask("hello", max_tokens=9)]
    together = replies(open_backend(f"transformers:{tiny_model}"), requests)
    monkeypatch.setattr("rag_zeval.models.transformers_local.BATCH_TOKENS", 1)
    alone = replies(open_backend(tiny_model), requests)
    assert [(r.text, r.prompt_tokens) for r in together] == [(r.text, r.prompt_tokens) for r in alone]
    assert all(together[i].text != together[i + 1].text for i in range(0, 16, 2))  # trials differ
    for found, request in zip(together, requests, strict=True):
        assert found.completion_tokens is not None and found.completion_tokens <= request.sampling.max_tokens
        assert (found.status == "truncated") <= (found.completion_tokens == request.sampling.max_tokens)
        assert found.calls == 1 and found.text is not None and "<|im_end|>" not in found.text


def test_statuses_tell_a_finished_reply_from_a_cut_one(tiny_model: str) -> None:
    requests = [ask(f"q{i}", temperature=1.5, top_p=1.0, max_tokens=60) for i in range(40)]
    found = replies(open_backend(tiny_model), requests)
    assert {r.status for r in found} == {"ok", "truncated"}
    for reply in found:
        assert reply.completion_tokens is not None and reply.text is not None
        # one character a token; the stop token counts and does not show
        assert (reply.status == "ok") == (len(reply.text) < reply.completion_tokens)


def test_a_prompt_beyond_the_window_is_refused_and_a_long_one_gets_the_room_there_is(tiny_model: str) -> None:
    backend = open_backend(tiny_model)
    too_long, tight = replies(backend, [ask("x" * 200), ask("x" * 80, max_tokens=500)])
    assert too_long.text is None
    assert too_long.status == f"failed: prompt needs 206 tokens, the model's window is {WINDOW}"
    assert backend.max_context == WINDOW and tight.prompt_tokens == 86
    assert tight.completion_tokens is not None and tight.completion_tokens <= 10
    assert backend.count_tokens([{"role": "user", "content": "x" * 200}]) == 206


def test_identity_is_of_the_weights_not_of_the_path(tiny_model: str, model_copy: Path) -> None:
    first = open_backend(tiny_model).identity
    assert open_backend(str(model_copy)).identity == first
    weights = model_copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert open_backend(str(model_copy)).identity != first


def test_the_card_of_a_checkpoint_is_read(tiny_model: str, model_copy: Path) -> None:
    card = model_copy / "rag_zeval.json"
    card.write_text('{"world": "nano", "variant": "compact", "answer_sentences": 3}')
    assert open_backend(str(model_copy)).card == {"world": "nano", "variant": "compact", "answer_sentences": 3}
    assert open_backend(tiny_model).card == {}
    for field, line in (
        ('"world": 1', "'world' must be str, found int"),
        ('"answer_sentences": "3"', "'answer_sentences' must be int, found str"),
        ('"answer_sentences": 0', "'answer_sentences' must be 1 or more, found 0"),
        ('"structured": 1', "'structured' must be bool, found int"),
    ):
        card.write_text(f"{{{field}}}")
        with pytest.raises(InputError, match=f"rag_zeval.json: field {line}"):
            open_backend(str(model_copy))


def test_a_batch_beyond_the_memory_is_run_one_by_one(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from rag_zeval.models import decoding

    backend, real = open_backend(tiny_model), decoding.generate
    requests = [ask("fits"), ask("much too long to fit"), ask("fits as well")]
    expected = replies(backend, requests)

    def generate(model: Any, prompts: list[list[int]], *args: Any, **settings: Any) -> Any:
        if sum(map(len, prompts)) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nSee documentation.")
        return real(model, prompts, *args, **settings)

    monkeypatch.setattr(decoding, "generate", generate)
    first, failed, last = replies(backend, requests)
    assert [first.text, last.text] == [expected[0].text, expected[2].text]
    assert failed == Reply(None, "failed: CUDA out of memory. Tried to allocate 9 GiB.", calls=1)


def test_several_processes_give_the_replies_of_one(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_zeval.models.transformers_local.BATCH_ROWS", 2)
    requests = [ask("a" * (1 + 7 * i % 30), i) for i in range(8)] + [ask("x" * 200)]
    alone, backend = replies(open_backend(tiny_model), requests), open_backend(tiny_model, processes=2)
    for _ in range(2):  # the processes stay
        together = replies(backend, requests)
        assert [replace(reply, seconds=0.0) for reply in together] == [replace(reply, seconds=0.0) for reply in alone]
    for child in psutil.Process().children():
        if any("spawn_main" in word for word in child.cmdline()):
            child.kill()
    for _ in range(2):
        with pytest.raises(InputError, match="a process with this model was killed"):
            replies(backend, requests)
    assert len(replies(open_backend(tiny_model, processes=2), requests)) == len(requests)  # with new ones


def test_replies_come_in_the_same_order_whichever_process_ends_first(tiny_model: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_zeval.models.transformers_local.BATCH_ROWS", 1)
    requests = [*(ask("short", trial, max_tokens=1) for trial in range(3)), ask("x" * 60, max_tokens=30)]
    found = [index for index, _ in open_backend(tiny_model, processes=2).replies_to(requests)]
    assert found == [3, 2, 1, 0]  # the longest comes first, though it ends last


def test_models_asked_one_after_the_other_share_their_processes(tiny_model: str, tmp_path: Path) -> None:
    """Two requests are two batches then, though they would fit into one."""
    from safetensors.torch import load_file, save_file

    other = shutil.copytree(tiny_model, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: -value for name, value in weights.items()}, other / "model.safetensors", {"format": "pt"})
    requests, written, started = [ask("a"), ask("b")], [], set()
    for folder in (tiny_model, str(other)):
        written.append([reply.text for reply in replies(open_backend(folder, processes=2), requests)])
        assert written[-1] == [reply.text for reply in replies(open_backend(folder), requests)]
        started |= {child.pid for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())}
    assert len(started) == 2 and written[0] != written[1]


INTERRUPTED = """for child in psutil.Process().children():
            if any("spawn_main" in word for word in child.cmdline()):
                child.suspend()  # as in the middle of a long batch
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        ask()"""


@pytest.mark.parametrize("end", ["psutil.Process().kill()", INTERRUPTED], ids=["killed", "ctrl-c"])
def test_processes_end_with_the_one_that_asks(tiny_model: str, tmp_path: Path, end: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """if __name__ == "__main__":
        import os, signal, sys, threading
        import psutil
        from rag_zeval.models import transformers_local
        transformers_local.BATCH_ROWS = 1
        from rag_zeval.models.as_finished import as_finished
        from rag_zeval.models.language_model import Request
        from rag_zeval.models.open import open_backend
        backend = open_backend(sys.argv[1], processes=2)
        def ask():
            list(as_finished(backend.complete, [Request(({"role": "user", "content": text},)) for text in "ab"], 2))
        ask()
        print(*(child.pid for child in psutil.Process().children()), flush=True)
        """
        + end
    )
    done = subprocess.run([sys.executable, str(script), tiny_model], capture_output=True, text=True, timeout=120)
    children = [int(pid) for pid in done.stdout.split()]
    assert len(children) >= 2, done.stderr
    psutil.wait_procs([psutil.Process(pid) for pid in children if psutil.pid_exists(pid)], timeout=10)
    assert not [pid for pid in children if psutil.pid_exists(pid)]


UNLOADABLE = "copy: not a model transformers can load: "


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model.safetensors", lambda weights: weights[:-10], UNLOADABLE),
        ("model.safetensors", None, UNLOADABLE),
        ("config.json", lambda text: text.replace(b'"intermediate_size": 32', b'"intermediate_size": 64'), UNLOADABLE),
        ("tokenizer.json", None, UNLOADABLE),
        ("chat_template.jinja", None, "copy: the tokenizer has no chat template"),
        ("config.json", None, "copy: no model in this folder"),
    ],
)
def test_a_folder_that_holds_no_usable_model_is_refused_in_one_line(
    model_copy: Path, file: str, change: Callable[[bytes], bytes] | None, message: str
) -> None:
    content = (model_copy / file).read_bytes()
    (model_copy / file).unlink()
    if change:
        (model_copy / file).write_bytes(change(content))
    with pytest.raises(InputError, match=message) as error:
        open_backend(str(model_copy))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "template",
    ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ 1 / 0 }}", "{{ messages[7]['role'] }}", "{%"],
)
def test_a_chat_template_that_cannot_be_used_is_one_line(model_copy: Path, template: str) -> None:
    (model_copy / "chat_template.jinja").write_text(template)
    with pytest.raises(InputError, match=r"copy: the chat template cannot be used: [A-Z][a-zA-Z]*Error: ") as error:
        open_window(str(model_copy)).count_tokens([{"role": "user", "content": "x"}])  # type: ignore[union-attr]
    assert "\n" not in str(error.value)


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"no such folder; name a model as transformers:FOLDER, vllm:FOLDER, openai:MODEL@"
    ):
        open_backend("nowhere")


def test_a_checkpoint_cannot_bring_code(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": auto}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto}))
    with pytest.raises(InputError, match="not a model transformers can load"):
        open_backend(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_vllm_gets_the_gpus_that_the_spec_names(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def engine(**settings: Any) -> Any:
        asked.append(settings)
        if settings["tensor_parallel_size"] == 3:
            raise ValueError("1 validation error for VllmConfig\n  Total number of attention heads (64) must be ...")
        config = SimpleNamespace(max_model_len=WINDOW)
        return SimpleNamespace(get_tokenizer=str, llm_engine=SimpleNamespace(model_config=config))

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=engine))
    one, four = (open_backend(f"vllm:{tiny_model}{on}") for on in ("", "@4"))
    assert [of["tensor_parallel_size"] for of in asked] == [1, 4]
    assert {of["model"] for of in asked} == {tiny_model}
    assert one.identity == four.identity  # so rows and cached replies are kept when the number of GPUs changes
    with pytest.raises(InputError, match=r"model 'vllm:.*': vLLM refuses it: 1 validation error") as refused:
        open_backend(f"vllm:{tiny_model}@3")
    assert len(refused.value.lines) == 1


@pytest.mark.vllm
def test_vllm_replies_like_transformers(tiny_model: str) -> None:
    pytest.importorskip("vllm")
    requests = [ask("hello", temperature=0.0), ask("x" * 200), ask("hi", temperature=0.0, max_tokens=5)]
    ours, theirs = open_backend(tiny_model), open_backend(f"vllm:{tiny_model}")
    assert theirs.identity == ours.identity and theirs.max_context == WINDOW
    for one, other in zip(replies(ours, requests), replies(theirs, requests), strict=True):
        assert (one.text, one.status, one.prompt_tokens) == (other.text, other.status, other.prompt_tokens)


def test_the_shipped_judge_reads_its_world_and_says_that_it_knows_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    from rag_zeval.judge.evaluator import Evaluator
    from rag_zeval.judge.example import Example
    from rag_zeval.stages.world import ranked_examples

    shipped = Path(__file__).parents[3] / "checkpoints" / "nano-base"
    asked = ranked_examples("dev", 8, 2, seed=5)
    judge = Evaluator(open_backend(str(shipped)))
    examples = [Example(e.id, e.question.question, e.question.passage, e.answers) for e in asked]
    found = {evaluation.id: evaluation for evaluation in judge.evaluate_many(examples)}
    assert judge.variant.name == "compact" and "it knows only its generated world" in capsys.readouterr().err
    assert sum(evaluation.status == "ok" for evaluation in found.values()) >= 7
    errors = [
        abs(score - truth)
        for e in asked
        for score, truth in zip(found[e.id].scores, e.true_support, strict=True)
        if score is not None
    ]
    assert sum(errors) / len(errors) < 0.25  # .35 and more if the verdicts were drawn by lot
