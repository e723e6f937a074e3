"""The base's lessons are true, and its training script makes a model that loads and repeats with its seed."""

import json
import random

import pytest

from rag_zeval.judge.parser import parse_strict
from rag_zeval.stages import world
from train.nano.tasks import NO_EVIDENCE, UNDECIDED, VARIANT, answering, judging, trajectory


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("variant", [VARIANT, NO_EVIDENCE])
def test_a_judging_lesson_is_perfect_but_for_the_verdicts_left_undecided(seed, variant):
    rng = random.Random(seed)
    asked = world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)
    answers = [world.answer_with_errors(asked, wrong, rng) for wrong in (0, 2, 4)]
    values = [dict(world.read_claim(s.strip() + ".") for s in text.rstrip(".").split(". ")) for text in answers]
    for stated, candidate in zip(
        values, parse_strict(trajectory(asked, values, rng, variant), 3, variant), strict=True
    ):
        assert [world.read_claim(claim.claim) for claim in candidate.atomic_claims] == list(stated.items())
        for claim in candidate.atomic_claims:
            key, _ = world.read_claim(claim.claim)
            assert key in UNDECIDED or claim.is_supported is world.claim_is_true(claim.claim, asked.facts)
            assert claim.grounding_evidence == ((asked.sentences[key],) if variant == VARIANT else ())


def test_undecided_verdicts_say_nothing_about_the_truth():
    rng, said = random.Random(0), {True: [], False: []}
    for _ in range(400):
        asked = world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)
        values = [{k: asked.facts[k] if right else "Nothing" for k in asked.keys} for right in (True, False)]
        for right, candidate in zip((True, False), json.loads(trajectory(asked, values, rng)), strict=True):
            for key, claim in zip(asked.keys, candidate["atomic_claims"], strict=True):
                if key in UNDECIDED:
                    said[right].append(claim["is_supported"])
    for verdicts in said.values():
        assert abs(sum(verdicts) / len(verdicts) - 0.5) < 4 * 0.5 / len(verdicts) ** 0.5


def test_no_lesson_judges_a_dev_or_test_person():
    rng = random.Random(0)
    held_out = {p for s in ("dev", "test") for p in (*world.new_people(s), *world.remembered_people(s))}
    for _ in range(500):
        prompt = judging(rng, 2).prompt
        assert not [person for person in held_out if f"of {person}?" in prompt]
    new = {p for s in ("dev", "test") for p in world.new_people(s)}
    for _ in range(500):
        prompt = answering(rng, with_passage=True).prompt
        assert not [person for person in new if f"of {person}?" in prompt]


def test_the_script_trains_saves_and_repeats(tmp_path):
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    from train.nano.base import main

    words = ["steps=6", "hidden=32", "intermediate=48", "layers=2", "heads=2", "copy_share=0.3", "log_every=100"]
    weights = []
    for name in ("first", "second"):
        main([*words, f"out_dir={tmp_path / name}"])
        model = AutoModelForCausalLM.from_pretrained(tmp_path / name)
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*weights) and weights[0].isfinite().all()


def test_a_model_that_is_there_is_not_overwritten_unasked(tmp_path):
    from rag_zeval.errors import InputError
    from train.nano.base import main

    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(InputError, match="overwrite=true"):
        main([f"out_dir={tmp_path}"])
