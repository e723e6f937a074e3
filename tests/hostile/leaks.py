"""A key in every spelling, wherever a server, an exception or a slip on the command line can say it: nobody sees it.

What a command prints and each file it leaves are decoded in every way that is known, and searched for pieces of the
key (`spelt_keys.shown`).
"""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from commands import new_folder, run_command, write_rows, write_wikieval
from findings import Findings
from spelt_keys import SPELLINGS

from rag_zeval.adapters import langchain, llama_index
from rag_zeval.literal_judge import literal_reply
from rag_zeval.rows import RowWriter
from rag_zeval.scripted_judge import ScriptedJudge

KEY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"
OPAQUE = "7f3b9c0d5e8a1624f0b7c9d3e5a81624"  # a key that looks like no vendor's
SHAPES = (
    KEY, "sk-ant-api03-Zq4xT7vLw9KpR2sN5mJ8", "hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345", "gsk_4eWqT8yUiOp2AsDfGhJk",
    "AIzaSyD4f8Gh2Jk6Lm0Np3Qr5St7Uv9Wx1Yz", "xai-9Kd3Lm5Np7Qr1St",
)  # fmt: skip
NAMES = [*SPELLINGS]
PLACES = ("an error", "a reply", "a claim", "an error as text", "a model's name")

# Programs that end as ours do when something goes wrong in them: the key is in what they print, write or raise.
RAISING = """
import os, sys
from rag_zeval.errors import InputError
from rag_zeval.models.keys import read_key
from rag_zeval.streams import exit_status
key = read_key("OPENAI_API_KEY")
def stage():
    spelt = os.environ["SPELT"]
    print(spelt)
    print(spelt, file=sys.stderr)
    raise {error}
sys.exit(exit_status(stage))
"""
RAISED = {
    "an error": "InputError(spelt)",
    "a bug": "RuntimeError(spelt) from ValueError(spelt)",
    "a file's name": "OSError(2, 'no such file', spelt)",
}
SLIPS = (  # words of a command, in which {} is the key and ~ a space
    "rag_zeval evaluate in.jsonl --model {model} --api-key-env {}",
    "rag_zeval evaluate in.jsonl --model {model} --api-key {}",
    "rag_zeval evaluate in.jsonl --model {model} --api-key={}",
    "rag_zeval evaluate in.jsonl --model openai:judge@http://user:{}@127.0.0.1:9/v1",
    "rag_zeval evaluate in.jsonl --model openai:judge@http://127.0.0.1:9/v1?api_key={}",
    "rag_zeval evaluate in.jsonl --embeddings openai:judge@http://{}@127.0.0.1:9/v1 --scorers ragas_answer_similarity",
    "rag_zeval questions docs --model {model} --out q.jsonl --api-key-env {}",
    "rag_zeval smoke --model {model} --api-key-env {}",
    "rag_zeval collect in.jsonl --url {url} --out a --answer $.a --header Authorization=Bearer~{}",
    "rag_zeval collect in.jsonl --url {url} --out a --answer $.a --header Authorization:~Bearer~{}",
    "rag_zeval collect in.jsonl --url {url} --out a --answer $.a --header X-Key={}",
    "rag_zeval collect in.jsonl --url http://user:{}@127.0.0.1:9/ --out a --answer $.a",
    "rag_zeval collect in.jsonl --url http://127.0.0.1:9/?api_key={} --out a --answer $.a",
    "eval_benchmarks judge.api_key_env={} models=[{model}]",
    "eval_benchmarks embeddings.api_key_env={}",
    "eval_benchmarks judge.api_key={}",
    "eval_benchmarks models=['openai:judge@http://user:{}@127.0.0.1:9/v1']",
    "eval_benchmarks models=['openai:judge@http://127.0.0.1:9/v1?token={}']",
)
KNOWN_SLIPS = (  # where only a key of a known form can be told from a word
    "rag_zeval evaluate {}",
    "rag_zeval evaluate in.jsonl --model {}",
    "rag_zeval evaluate in.jsonl --model openai:{}",
    "rag_zeval {}",
    "rag_zeval gate {} in.jsonl",
    "rag_zeval --version {}",
    "rag_zeval smoke --served {}",
    "rag_zeval serve {} --api-key {}",
    "rag_zeval mock-judge --api-key {}",
    "rag_zeval collect in.jsonl --url {url} --out a --answer $.a --header {}=HOME_OF_NOBODY",
    "eval_benchmarks {}",
    "eval_benchmarks out_dir={} benchmarks=[none]",
    "eval_benchmarks.compare {} bleu rouge_l",
    "synthesize model={}",
    "train profile={}",
)


def said_by_server(place: str, text: str, reply: str | None) -> Any:
    """How a server says a text: an HTTP answer, or the reply of a model."""
    return {
        "an error": {"status": 400, "body": {"error": {"message": f"no such key: {text}."}}},
        "an error as text": {"status": 403, "body": f"Authorization: Bearer {text}\n".encode("utf-8", "replace")},
        "a reply": f"the key is {text}",
        "a claim": (reply or "").replace('"claim": "', f'"claim": {json.dumps(text)[:-1]} ', 1),
        "a model's name": {"status": 200, "body": {"model": text, "choices": [{"finish_reason": text, "message": {}}]}},
    }[place]


SERVED = {  # commands whose servers say the key
    "evaluate": "rag_zeval evaluate in.jsonl --model {model} --out rows --html page.html --cache kept.sqlite",
    "questions": "rag_zeval questions docs --model {model} --out q.jsonl --n 2 --kinds easy",
    "collect": (
        "rag_zeval collect in.jsonl --url {url} --out a --answer $.a --contexts $.docs "
        "--header Authorization=OPENAI_API_KEY"
    ),
    "bench": (
        "eval_benchmarks benchmarks=[wikieval] scorers=[rag_zeval] models=['{model}'] data_dir=. out_dir=out "
        "bootstrap.draws=10"
    ),
}


class Raising:
    """A chain, and an engine, that raise the key in the spelling of a question's number."""

    def invoke(self, asked: dict[str, str]) -> Any:
        return self.query(asked["input"])

    def query(self, text: str) -> Any:
        raise PermissionError(f"bad key\n{SPELLINGS[NAMES[int(text)]](KEY)}")


class Campaign(Findings):
    """Runs commands that know KEY, or are given one by mistake, and searches what they leave."""

    def __init__(self, folder: Path):
        super().__init__("leaks", ("commands run", "keys found", "tracebacks", "other statuses"))
        self.folder = folder
        self._judge = ScriptedJudge(self._reply, keep=False)
        self._system = ScriptedJudge(self._answer, keep=False)
        self._places = {"model": self._judge.spec(), "url": f"{self._system.url}/ask"}
        self._place = ""

    def close(self) -> None:
        self._judge.close()
        self._system.close()

    def _reply(self, body: dict[str, Any]) -> Any:
        asked = re.search(r"question (\d+)\b", body["messages"][-1]["content"])
        spellings = [SPELLINGS[NAMES[int(asked[1])]]] if asked else SPELLINGS.values()  # one of documents has them all
        return said_by_server(self._place, " ".join(spell(KEY) for spell in spellings), literal_reply(body))

    def _answer(self, body: dict[str, Any]) -> Any:
        text = SPELLINGS[NAMES[int(body["question"].split()[1])]](KEY)
        if self._place in ("a reply", "a claim"):
            return {"status": 200, "body": {"a": text, "docs": [text]}}
        return said_by_server(self._place, text, None)

    def _new(self, name: str) -> Path:
        folder = new_folder(self.folder, name)
        row = {"reference": "It is so.", "answers": ["It is so."]}
        write_rows(
            folder / "in.jsonl", [{"id": f"r{n}", "question": f"question {n} ?", **row} for n in range(len(NAMES))]
        )
        write_wikieval(folder, [("It is so.",) * 3] * len(NAMES))
        (folder / "docs").mkdir()
        (folder / "docs" / "a.md").write_text("It is so. That is all.", "utf-8")
        return folder

    def servers(self, command: str, place: str) -> None:
        """A command whose server says the key in every spelling, each for another question, in one place."""
        self._place = place
        words = SERVED[command].format(**self._places).split()
        self.run(f"{command}, the server says it in {place}", words, OPENAI_API_KEY=KEY)

    def raised(self, name: str, spelling: str) -> None:
        """A program of ours that prints the key, and raises it."""
        words = ["-c", RAISING.replace("{error}", RAISED[name])]
        known = {"OPENAI_API_KEY": KEY, "SPELT": SPELLINGS[spelling](KEY)}
        self.run(f"{name}, {spelling}", words, ends=(2,), traced=name == "a bug", **known)

    def slip(self, line: str, key: str) -> None:
        """A key on the command line, where none belongs; the environment does not know it."""
        words = [word.replace("{}", key).format(**self._places).replace("~", " ") for word in line.split()]
        end = 0 if "--version" in words else 2  # the version is printed, whatever follows
        self.run(f"{line} with {key}", words, key=key, ends=(end,))

    def frameworks(self) -> None:
        """Chains and engines that raise the key, in every spelling; the environment knows it."""
        folder = self._new("frameworks")
        known, os.environ["SOME_VENDOR_API_KEY"] = os.environ.get("SOME_VENDOR_API_KEY"), KEY
        for name, adapter in (("langchain", langchain), ("llama_index", llama_index)):
            questions = [{"id": str(n), "question": str(n)} for n in range(len(NAMES))]
            with RowWriter(folder / name) as rows:
                for row in adapter.ask(Raising(), questions):
                    rows.append(row)
                    self.note_if(not row["status"].startswith("failed: Permission"), "tracebacks", name, row["status"])
        os.environ.pop("SOME_VENDOR_API_KEY") if known is None else None
        self.note_keys("frameworks", folder, [], KEY)

    def run(
        self,
        where: str,
        words: Sequence[str],
        *,
        key: str = KEY,
        ends: Sequence[int] = (0, 1, 2),
        traced: bool = False,
        **how: Any,
    ) -> None:
        """Run a command in a folder of its own. ends: exit statuses that it may have. traced: whether it may trace."""
        folder = self._new(where)
        ended = run_command(words, folder, **how)
        self.note_end(where, ended, traced)
        self.note_if(ended.status not in ends, "other statuses", where, ended)
        self.note_keys(where, folder, [ended], key)


def run() -> Findings:
    """Every place with every command; every spelling raised; every slip with keys of every form."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder))
        campaign.frameworks()
        for command in SERVED:  # one place at a time
            for place in PLACES:
                campaign.servers(command, place)
        raised = [*(("a bug", spelling) for spelling in SPELLINGS), ("an error", "as it is")]
        raised.append(("a file's name", "percent-encoding"))
        attempts = {", ".join(words): partial(campaign.raised, *words) for words in raised}
        for at, line in enumerate((*SLIPS, *KNOWN_SLIPS)):
            keys = (*SHAPES, OPAQUE) if at % 5 == 0 and line in SLIPS else (SHAPES[at % len(SHAPES)],)
            attempts |= {f"{line}, {key}": partial(campaign.slip, line, key) for key in keys}
        campaign.attempt(attempts, "commands run")
        campaign.close()
    return campaign
