"""What an experiment trains: commands, settings, budgets, and which results are there already."""

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from experiments.arm_commands import (
    BASE,
    PLACES,
    ArmRun,
    Experiment,
    answers_command,
    arm_runs,
    bench_command,
    read_experiment,
)
from experiments.arm_results import is_done
from rag_zeval.errors import InputError
from rag_zeval.files import flat
from rag_zeval.stages.config import load_config, stored


def planned(*words: str) -> tuple[Experiment, list[ArmRun]]:
    experiment = read_experiment(load_config("experiments", words))
    return experiment, arm_runs(experiment)


def settings(run: ArmRun, stage: str) -> dict[str, Any]:
    [command] = [command for command in run.commands if command.stage == stage]
    return flat(command.settings)


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def test_the_proof_trains_what_make_train_does_with_three_seeds() -> None:
    _, (base, *runs) = planned("experiment=proof")
    assert (base.arm, base.seed, base.commands) == (BASE, None, ())
    assert [(run.arm, run.seed) for run in runs] == [("judge", 1), ("judge", 2), ("judge", 3)]
    plain = load_config("train", ["profile=nano"])
    assert base.model == plain.base_model
    for run in runs:
        wanted = flat(OmegaConf.to_container(load_config("train", [f"seed={run.seed}"]), resolve=True))
        assert differing(settings(run, "train"), wanted) <= set(PLACES)


@pytest.mark.parametrize(("profile", "prompts"), [("nano", 240), ("paper", 11_000)])
def test_an_arm_differs_from_the_reference_in_what_it_is_named_for_and_nothing_else(profile: str, prompts: int) -> None:
    experiment, (_, *runs) = planned(f"profile={profile}", "experiment=ablations", "seeds=[4,2]")
    assert [(run.seed, run.arm) for run in runs] == [(seed, arm) for seed in (4, 2) for arm in experiment.recipes]
    arms, later = ({run.arm: run for run in runs if run.seed == seed} for seed in (4, 2))
    reference = settings(arms[experiment.reference], "train")
    changed = {
        arm: differing(settings(run, "train"), reference)
        for arm, run in arms.items()
        if "train" in [command.stage for command in run.commands]
    }
    assert changed == {
        "curriculum": set(),
        "best-only": {"accuracy"},
        "static-3": {"stages"},
        "static-4": {"stages"},
        "no-evidence": {"variant"},
    }
    for arm, run in arms.items():
        for command in run.commands:
            assert differing(settings(later[arm], command.stage), settings(run, command.stage)) == {"seed"}
    assert {run.prompts for run in runs} == {prompts, None}
    named = [arm for arms in experiment.tables.values() for arm in arms]
    assert sorted([experiment.reference, *named]) == sorted(experiment.recipes)


def test_the_folders_of_arms_and_seeds_are_below_runs_dir_whatever_its_name() -> None:
    _, (_, *runs) = planned("experiment=proof", "runs_dir='my runs: #1'")
    folders = [load_config("train", run.commands[-1].words).out_dir for run in runs]
    assert folders == [f"my runs: #1/proof/judge-seed{seed}/train" for seed in (1, 2, 3)]


def test_a_stage_starts_from_the_model_of_the_one_before_and_all_read_the_same_answers() -> None:
    experiment, runs = planned("experiment=ablations", "seeds=[1]")
    answers = dict(word.split("=", 1) for word in answers_command(experiment).words)
    for run in runs:
        model = runs[0].model
        for command in run.commands:
            words = dict(word.split("=", 1) for word in command.words)
            assert words["base_model"] == model
            assert words["responses"] == f"{answers['out_dir']}/responses.jsonl"
            model = f"{words['out_dir']}/model"
        assert run.model == model
        measured = load_config("bench", bench_command(experiment, run).words)
        assert (list(measured.models), list(measured.benchmarks)) == ([model], experiment.benchmarks)
    folders = [word for run in runs for command in run.commands for word in command.words if "out_dir=" in word]
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("experiment=prof", "experiment: unknown name 'prof' (did you mean 'proof'?)"),
        ("arms=[best]", "arms: unknown name 'best'"),
        ("arms=[]", "arms: must be a list of names"),
        ("seeds=[1,1]", "seeds: must be a list of different whole numbers"),
        ("only_tables=maybe", "only_tables: Input should be a valid boolean, found maybe"),
        ("jobs=0", "jobs: must be a whole number of at least 1"),
        ("experiments.ablations.arms.curriculum=null", "experiments.ablations.arms.curriculum: must hold stages"),
        (
            "experiments.ablations.arms.static-3.train.stages=[{k: 3, rows: 200}]",
            "arms.static-3: trains on 200 prompts, curriculum on 240: arms are compared at one budget",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(word: str, said: str) -> None:
    words = [word] if word.startswith("experiment=") else ["experiment=ablations", word]
    with pytest.raises(InputError) as refused:
        planned(*words)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_result_counts_as_long_as_its_settings_are_the_ones_wanted(tmp_path: Path) -> None:
    path, train = tmp_path / "judge-seed1.json", {"seed": 1, "stages": [{"k": 3, "rows": 8}], "verl": {}}

    def wanted(base: str = "abc", **settings: Any) -> dict[str, Any]:
        return {"settings": {"train": train, **settings}, "base": base}

    assert not is_done(path, wanted())
    path.write_text(json.dumps({**wanted(), "minutes": {"train": 3}}))
    assert is_done(path, wanted())
    for other, said in (
        (wanted(train={**train, "seed": 2}), "settings.train.seed=1, not 2"),
        (wanted(train={**train, "lr": 1}), "settings.train.lr=None, not 1"),
        (wanted(synthesize={"seed": 0}), "settings.synthesize.seed=None, not 0"),
        (wanted(base="abd"), "base=abc, not abd"),
    ):
        with pytest.raises(InputError, match=said):
            is_done(path, other)
    path.write_text("{")
    with pytest.raises(InputError, match=r"judge-seed1\.json:1: not valid JSON"):
        is_done(path, wanted())


def test_a_result_does_not_depend_on_how_fast_its_judge_was_asked_nor_on_settings_that_came_later(
    tmp_path: Path,
) -> None:
    path, judge = tmp_path / "base.json", stored(load_config("bench", []))["judge"]

    def settings(**judged: Any) -> dict[str, Any]:
        return {"settings": {"judge": {key: value for key, value in judged.items() if value != ""}}, "base": "abc"}

    for changed in ({}, {"concurrency": 99, "processes": 4, "timeout": 1}, {"patterns": "", "connect_timeout": ""}):
        path.write_text(json.dumps(settings(**{**judge, **changed})))
        assert is_done(path, settings(**judge))
    path.write_text(json.dumps(settings(**{**judge, "temperature": 0.7})))
    with pytest.raises(InputError, match=r"settings\.judge\.temperature=0\.7, not 0\.1"):
        is_done(path, settings(**judge))


def test_the_published_results_count_though_their_stages_have_got_more_filters() -> None:
    results = sorted((Path(__file__).resolve().parents[2] / "docs" / "nano-results").glob("*/*-seed*.json"))
    assert results
    for path in results:
        row = json.loads(path.read_text())
        stages = {
            stage: {
                **{k: v for k, v in load_config(stage, []).items() if str(k).startswith(("filter_", "flag_"))}, **own
            }
            for stage, own in row["settings"].items()
            if stage in ("synthesize", "train", "sft")
        }  # fmt: skip
        wanted = {"settings": {**row["settings"], **stages}, "base": row["base"]}
        assert is_done(path, wanted)
        trained = "train" if "train" in stages else "sft"
        wanted["settings"][trained]["filter_near_identical"] = 0.9
        with pytest.raises(InputError, match=rf"settings\.{trained}\.filter_near_identical=None, not 0\.9"):
            is_done(path, wanted)


def test_on_real_words_arms_start_from_the_cold_start_and_are_measured_on_answers_of_held_out_questions() -> None:
    experiment = read_experiment(load_config("experiments", ["profile=small"]))
    base, judge, *others = arm_runs(experiment)
    assert (base.model, judge.base, len(others)) == ("models/small-cold-start", "models/small-cold-start", 2)
    assert experiment.responses == Path("runs/synthesize/small/responses.jsonl")
    [train] = judge.commands
    assert train.settings["profile"] == "small" and train.settings["verl"]["actor_rollout_ref"]["rollout"]["n"] == 8
    bench = bench_command(experiment, judge).settings
    assert bench["cad_pairs"]["responses"].endswith("small-test-whole/responses.jsonl")
    assert bench["cad_sentences"]["responses"].endswith("small-test/responses.jsonl")
    assert bench["benchmarks"] == ["cad_pairs", "cad_sentences", "wikieval"]
