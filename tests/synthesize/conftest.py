"""Settings, questions, and small random models with prompts for them."""

import gzip
import json
import random

import pytest
from omegaconf import OmegaConf

from rag_zeval.stages.config import check_settings
from synthesize.settings import Settings
from synthesize.sources import Tally, load_questions

MARGIN = 1e-4  # two decoders may part only where the two best mixed logits are this close


@pytest.fixture(scope="session")
def settings():
    """Settings as the stage's file has them, but for the keys given."""
    defaults = OmegaConf.to_container(OmegaConf.load("configs/synthesize.yaml"))
    return lambda **keys: check_settings(Settings, {**defaults, "out_dir": "out", "device": "cpu", **keys})


@pytest.fixture(scope="session")
def load(settings):
    """The questions of a source: all of them without `n_questions`. Without a tally the first fault is an error."""

    def load(source, n_questions=None, seed=0, *, tally=None, too_long=lambda question: False, **keys):
        asked = settings(source=str(source), n_questions=n_questions, seed=seed, **keys)
        return load_questions(asked, tally or Tally(strict=True), too_long)

    return load


@pytest.fixture(scope="session")
def write_rows():
    """Writes rows, or lines that are none, as .jsonl, .jsonl.gz or .parquet; the file's path as text."""

    def write(path, rows):
        if path.suffix == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
            return str(path)
        lines = (json.dumps(row) if isinstance(row, dict) else row for row in rows)
        content = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return str(path)

    return write


@pytest.fixture(scope="session")
def random_model():
    """Makes a decoder with random weights; its answers depend on alpha if their deviation `std` is large enough."""
    torch = pytest.importorskip("torch")
    import transformers

    def build(kind="Qwen2", seed=0, std=0.25, layers=2, heads=4, groups=2, **keys):
        torch.manual_seed(seed)
        keys = {
            "vocab_size": 97,
            "hidden_size": 32,
            "intermediate_size": 64,
            "max_position_embeddings": 512,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": 0,
            **keys,
        }
        config = getattr(transformers, f"{kind}Config")(
            num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups, **keys
        )
        model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
        for weights in model.parameters():
            if weights.dim() == 2:
                torch.nn.init.normal_(weights, std=std)
        return model

    return build


@pytest.fixture(scope="session")
def random_prompts():
    """Token ids of n prompts with a passage, and of the same without; `question`, `passage`: where lengths end."""

    def draw(seed, n, tokens=range(1, 97), question=20, passage=120):
        rng = random.Random(seed)
        without, passages = (
            [[rng.choice(tokens) for _ in range(rng.randrange(1, length))] for _ in range(n)]
            for length in (question, passage)
        )
        return [passage + question for passage, question in zip(passages, without, strict=True)], without

    return draw


@pytest.fixture(scope="session")
def same_but_for_ties():
    """Whether two decoders wrote the same, or parted where the model could as well have chosen the other token."""
    torch = pytest.importorskip("torch")

    @torch.inference_mode()
    def compare(model, prompts, alpha, ours, theirs):
        if list(ours) == list(theirs):
            return True
        first = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
        assert first is not None, "one answer is the beginning of the other: it stopped at the wrong place"
        logits, without = (model(torch.tensor([[*prompt, *ours[:first]]])).logits[0, -1].double() for prompt in prompts)
        best = ((1 + alpha) * logits - alpha * without).topk(2).values
        return float(best[0] - best[1]) <= MARGIN

    return compare


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory, random_model):
    """Folder of a random model with the nano base's tokenizer; it stops early often, and writes no sentences."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = AutoTokenizer.from_pretrained("checkpoints/nano-base")
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 1700}  # two shots take 1,500
    model = random_model("Llama", std=0.3, layers=3, vocab_size=len(tokenizer), **shape)
    model.generation_config.eos_token_id = list(range(2, 40))  # so that many answers end early
    model.save_pretrained(folder)
    return folder
