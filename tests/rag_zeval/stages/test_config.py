"""Configuration: its layers, and the nearest name for a key that does not exist."""

import pytest

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config, stored, word


@pytest.fixture
def configs(tmp_path):
    (tmp_path / "profile").mkdir()
    (tmp_path / "stage.yaml").write_text("n: 1\nname: a\nalphas: [0, -1]\nverl:\n  trainer: {}\ninner:\n  deep: 2\n")
    (tmp_path / "profile/nano.yaml").write_text("stage:\n  n: 2\n")
    (tmp_path / "profile/paper.yaml").write_text("stage:\n  m: 2\n")
    return tmp_path


def test_command_line_over_profile_over_stage(configs):
    assert load_config("stage", [], configs).n == 2
    config = load_config("stage", ["n=3", "alphas=[0,-0.5]", "inner.deep=4", "verl.data.any=1"], configs)
    assert (config.n, list(config.alphas), config.inner.deep, config.verl.data.any) == (3, [0, -0.5], 4, 1)


@pytest.mark.parametrize(
    ("words", "own_profile", "message"),
    [
        (["alpha=[0]"], "", "unknown key 'alpha' (did you mean 'alphas'?)"),
        (["inner.dep=1"], "", "unknown key 'inner.dep' (did you mean 'inner.deep'?)"),
        (["deep=1"], "", "unknown key 'deep' (did you mean 'inner.deep'?)"),
        (["name=~/a"], "", "key 'name': '~/a': write $HOME in place of ~"),
        (["profile=papr"], "", "unknown profile 'papr' (did you mean 'paper'?)"),
        (["profile=paper"], "", "profile paper: unknown key 'm' (--help lists the keys)"),
        (["n"], "", "'n' is not of the form key=value"),
        (["profile=own"], "stag:\n  n: 2\n", "own.yaml: unknown stage 'stag' (did you mean 'stage'?)"),
        (["profile=own"], "stage: [\n", "own.yaml: cannot be read as YAML: "),
        (["profile=own"], "- a\n", "own.yaml: expected keys with values, found a list"),
        (["profile=own"], "stage: 5\n", "own.yaml: 'stage' must be keys with values"),
        (["profile=own"], "extends: own\n", "own.yaml: extends itself, by way of own"),
        (
            ["profile=own"],
            "stage:\n  name: ${oc.env:CANARY}\n",
            "key 'name': '${oc.env:CANARY}' refers to something other",
        ),
        (["verl.a='$'", "verl.b='${verl.a}{oc.env:CANARY}'"], "", "key 'verl.b': '${oc.env:CANARY}' refers to"),
    ],
)
def test_what_is_wrong_gets_one_line_with_the_nearest_name(configs, words, own_profile, message):
    (configs / "profile/own.yaml").write_text(own_profile)
    with pytest.raises(InputError) as error:
        load_config("stage", words, configs)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_help_shows_the_file_and_what_the_profile_changes(configs, capsys):
    with pytest.raises(SystemExit) as stop:
        load_config("stage", ["--help", "profile=paper"], configs)
    shown = capsys.readouterr().out
    assert stop.value.code == 0 and "alphas: [0, -1]" in shown and shown.endswith("profile=paper changes\nm: 2\n")


@pytest.mark.parametrize(
    "text", ["runs/x", "a #1", "a: b", "[a] b", "{a}", "1e3", "null", "- a", '"a\\', " a", "a=😀", ""]
)
def test_a_word_gives_the_text_that_it_was_made_of(configs, text):
    assert load_config("stage", [word("name", text), word("alphas", [0.5, -1])], configs).name == text
    assert word("name", "runs/x y") == "name=runs/x y"


def test_verls_subtree_is_open_only_where_a_stage_has_it(configs):
    (configs / "other.yaml").write_text("n: 1\n")
    with pytest.raises(InputError, match=r"unknown key 'verl"):
        load_config("other", ["verl.trainer.save_freq=3"], configs)


OWN = "data: ${oc.env:RAG_ZEVAL_DATA,here}/x\nout: runs/${profile}\nboth: [a, '${data}']\nn: 1\n"


def test_what_comes_from_the_environment_is_stored_as_it_is_written(configs, monkeypatch):
    (configs / "own.yaml").write_text(OWN)
    monkeypatch.setenv("RAG_ZEVAL_DATA", "/canary")
    config = load_config("own", ["n=2"], configs)
    assert (config.data, config.out) == ("/canary/x", "runs/nano")
    written = "${oc.env:RAG_ZEVAL_DATA,here}/x"
    assert stored(config) == {"profile": "nano", "data": written, "out": "runs/nano", "both": ["a", written], "n": 2}


@pytest.mark.parametrize(
    "word",
    [
        "name=${oc.env:CANARY}",
        "name=${oc.env:RAG_ZEVAL_DATA}",
        "name=x ${ oc.env:CANARY }",
        "name=${oc.decode:'${oc.env:CANARY}'}",
        "name=${oc.select:n,${oc.env:CANARY}}",
        r"name=\${oc.env:CANARY}",
        "name=${oc.${n}:CANARY}",
        "alphas=[0,'${oc.env:CANARY}']",
        "profile=${oc.env:CANARY}",
        "verl.trainer.name=${oc.env:CANARY}",
        "verl.a={b: [{c: '${oc.env:CANARY}'}]}",
        "name=${nothing}",
        "name=${name}",
        "name=${",
    ],
)
def test_no_word_reads_an_environment_variable(configs, monkeypatch, word):
    monkeypatch.setenv("CANARY", "/canary")
    monkeypatch.setenv("RAG_ZEVAL_DATA", "/canary")
    with pytest.raises(InputError) as error:
        load_config("stage", [word], configs)
    assert "/canary" not in str(error.value) and "\n" not in str(error.value)
