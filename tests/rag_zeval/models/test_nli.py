import json
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.__main__ import main
from rag_zeval.errors import InputError
from rag_zeval.files import read_jsonl
from rag_zeval.models.nli import NLI, OwnCode, open_checker, wants_code

torch = pytest.importorskip("torch")
PAIRS = [("the cat sat on a mat", "the dog sat"), ("a dog", "the cat"), ("the dog", "a mat"), ("the cat", "the cat")]
MINICHECK = ["LABEL_0", "LABEL_1"]


def probabilities(folder: Path, inputs: list[Any], label: str) -> list[float]:
    """By transformers' own pipeline."""
    from transformers import pipeline

    classify = pipeline("text-classification", model=str(folder), top_k=None)
    return [{found["label"]: found["score"] for found in classify([one])[0]}[label] for one in inputs]


@pytest.mark.parametrize("roberta", [False, True])
def test_a_named_label_is_asked_with_a_pair_of_texts(write_nli: Any, tmp_path: Path, roberta: bool) -> None:
    folder = write_nli(tmp_path, ["neutral", "contradiction", "Entailment"], roberta)
    expected = probabilities(folder, [{"text": p, "text_pair": h} for p, h in PAIRS], "Entailment")
    assert NLI(str(folder)).score(PAIRS) == pytest.approx(expected, abs=1e-5)
    assert max(expected) - min(expected) > 1e-3


@pytest.mark.parametrize("roberta", [False, True])
def test_minicheck_has_two_classes_without_a_name(write_nli: Any, tmp_path: Path, roberta: bool) -> None:
    folder = write_nli(tmp_path, MINICHECK, roberta)
    inputs = ["</s>".join(pair) if roberta else {"text": pair[0], "text_pair": pair[1]} for pair in PAIRS]
    assert NLI(str(folder)).score(PAIRS) == pytest.approx(probabilities(folder, inputs, "LABEL_1"), abs=1e-5)
    if roberta:  # one mark between the texts, where a pair has two
        pairs = [{"text": p, "text_pair": h} for p, h in PAIRS]
        assert NLI(str(folder)).score(PAIRS) != pytest.approx(probabilities(folder, pairs, "LABEL_1"), abs=1e-3)


@pytest.mark.parametrize("labels", [MINICHECK, ["entailment", "not_entailment"]])
def test_a_text_cannot_move_the_boundary(write_nli: Any, tmp_path: Path, labels: list[str]) -> None:
    checker = NLI(str(write_nli(tmp_path, labels, True)))
    hostile, plain = checker.score([("a dog</s>the cat", "the cat"), ("a dog the cat", "the cat")])
    assert hostile == pytest.approx(plain, abs=1e-5)
    assert checker.score([("a dog", "the cat the cat")]) != [pytest.approx(plain, abs=1e-3)]
    assert None not in checker.score([("a lone \ud800", "\udfff")])


@pytest.mark.parametrize("roberta", [False, True])
def test_what_is_longer_than_the_window_has_no_score(write_nli: Any, tmp_path: Path, roberta: bool) -> None:
    checker = NLI(str(write_nli(tmp_path, MINICHECK, roberta)))
    pairs = [("the cat " * n, "the dog") for n in range(10)]  # and three marks
    assert [checker.fits(pair) for pair in pairs] == [2 * n + 2 + 3 <= 16 for n in range(10)]
    assert [value is not None for value in checker.score(pairs)] == [checker.fits(pair) for pair in pairs]
    assert checker.score([]) == []


def test_weights_that_are_no_numbers_give_no_score(write_nli: Any, tmp_path: Path) -> None:
    checker = NLI(str(write_nli(tmp_path, MINICHECK)))
    for weights in checker._model.parameters():
        weights.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="the model gave no number"):
        checker.score(PAIRS)


@pytest.mark.parametrize("labels", [["LABEL_0", "LABEL_1", "LABEL_2"], ["correct", "incorrect"], ["LABEL_0"]])
def test_other_classes_are_refused(write_nli: Any, tmp_path: Path, labels: list[str]) -> None:
    with pytest.raises(InputError, match=f"is not a trained NLI model \\(labels: {', '.join(labels).lower()};"):
        NLI(str(write_nli(tmp_path, labels)))


def test_the_identity_changes_with_the_weights_only(write_nli: Any, tmp_path: Path) -> None:
    one, other = (write_nli(tmp_path / name, MINICHECK) for name in ("one", "other"))
    assert NLI(str(one)).identity == NLI(str(other)).identity
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-3}))
    assert NLI(str(one)).identity != NLI(str(other)).identity


CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel, T5Config, T5ForTokenClassification


class OwnConfig(PretrainedConfig):
    model_type = "own"


class Own(PreTrainedModel):
    config_class = OwnConfig
    {attributes}

    def __init__(self, config):
        super().__init__(config)
        sizes = dict(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, num_labels=2)
        self.t5 = T5ForTokenClassification(T5Config(vocab_size=20, **sizes))
        {initialised}

    def predict(self, pairs):
        ids = torch.tensor([[ord(character) % 20 for character in chr(10).join(pair)] for pair in pairs])
        return {result}
"""
SOUND = {
    "attributes": "",
    "initialised": "self.post_init()",
    "result": "self.t5(input_ids=ids).logits[:, 0].softmax(-1)[:, 1]",
}


@pytest.fixture
def write_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a folder whose model runs the code above, as HHEM's does, with weights of 0.5; the folder."""
    import transformers.dynamic_module_utils as dynamic
    from safetensors.torch import save_file
    from transformers import T5Config, T5ForTokenClassification

    monkeypatch.setattr(dynamic, "HF_MODULES_CACHE", str(tmp_path / "modules"))

    def write(**changes: str) -> Path:
        folder = tmp_path / f"own{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "own.py").write_text(CODE.format(**{**SOUND, **changes}))
        classes = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.Own"}
        (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": classes}))
        torch.manual_seed(0)
        sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "num_labels": 2}
        weights = T5ForTokenClassification(T5Config(vocab_size=20, **sizes)).state_dict()
        tied = "transformer.encoder.embed_tokens.weight"  # the same as `shared`, so files do without it
        kept = {f"t5.{name}": value.clone() for name, value in weights.items() if name != tied}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return write


def test_a_model_with_code_of_its_own_is_asked_by_it_on_request_only(write_own_code: Any) -> None:
    folder = write_own_code()
    assert wants_code(str(folder))
    with pytest.raises(InputError, match="not a model transformers can load"):
        open_checker(str(folder), remote_code=False)
    checker = open_checker(str(folder), remote_code=True)
    assert isinstance(checker, OwnCode) and checker.fits(("x" * 10**6, "y"))
    found = checker.score(PAIRS)
    assert found == [value for pair in PAIRS for value in checker.score([pair])]
    assert len(set(found)) == len(PAIRS) and all(value is not None and 0 < value < 1 for value in found)
    (folder / "own.py").write_text((folder / "own.py").read_text() + "\n# another\n")
    assert OwnCode(str(folder)).identity != checker.identity


def test_the_bench_asks_it_when_its_code_is_allowed(write_own_code: Any, write_ragchecker: Any, tmp_path: Path) -> None:
    folder, out = write_own_code(), tmp_path / "out"
    words = [f"data_dir={write_ragchecker(3, shipped=False)}", f"out_dir={out}", "benchmarks=[ragchecker_meta]"]
    words += ["scorers=[hhem]", f"claim_checker.model={folder}", "bootstrap.draws=20"]
    assert main(words) == 2 and not list(tmp_path.glob("modules/**/*.py"))
    assert main([*words, "claim_checker.remote_code=true"]) == 0
    (file,) = (out / "rows").iterdir()
    assert [score["status"] for row in read_jsonl(file) for score in row["scores"]] == ["ok"] * 6


def test_the_flag_runs_no_code_that_the_folder_does_not_want(write_nli: Any, tmp_path: Path) -> None:
    folder = write_nli(tmp_path, MINICHECK)
    (folder / "own.py").write_text("raise SystemExit('was run')")
    assert isinstance(open_checker(str(folder), remote_code=True), NLI)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initialised": "", "attributes": "all_tied_weights_keys = {}"}, "missing weights: 1"),
        ({"initialised": ""}, "not a model transformers can load: "),  # transformers 5 wants it
        ({"initialised": "raise RuntimeError('no' + chr(10) + 'way')"}, "not a model transformers can load: no way$"),
        ({"initialised": "self.post_init(); self.predict = None"}, r"its code has no predict\(pairs\)"),
    ],
)
def test_code_that_does_not_work_is_refused(write_own_code: Any, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OwnCode(str(write_own_code(**changes)))


@pytest.mark.parametrize("result", ["[1.5]", "[float('nan')]", "[0.5, 0.5]", "[]"])
def test_what_is_no_score_is_not_taken_for_one(write_own_code: Any, result: str) -> None:
    with pytest.raises(ValueError):
        OwnCode(str(write_own_code(result=result))).score(PAIRS[:1])


def test_code_of_another_repository_is_never_run(write_own_code: Any) -> None:
    folder = write_own_code()
    config = folder / "config.json"
    config.write_text(config.read_text().replace("own.Own", "someone/else--own.Own"))
    with pytest.raises(InputError, match="names code of another repository"):
        open_checker(str(folder), remote_code=True)
