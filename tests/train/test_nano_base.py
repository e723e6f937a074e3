"""The base's lessons are true, and its training script makes a model that loads and repeats with its seed."""

import random

import pytest

from rag_zeval import world
from rag_zeval.parser import parse_strict
from rag_zeval.scoring import support_scores
from train.nano_tasks import answering, judging, true_trajectory


@pytest.mark.parametrize("seed", range(30))
def test_a_judging_lesson_is_a_valid_trajectory_with_true_verdicts(seed):
    rng = random.Random(seed)
    asked = world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)
    answers = [world.answer_with_errors(asked, wrong, rng) for wrong in (0, 2, 4)]
    values = [dict(world.read_claim(s.strip() + ".") for s in text.rstrip(".").split(". ")) for text in answers]
    trajectory = parse_strict(true_trajectory(asked, values), 3, "compact")
    assert support_scores(trajectory) == [world.true_support(text, asked.facts) for text in answers] == [1.0, 0.5, 0.0]
    for candidate in trajectory:
        for claim in candidate.atomic_claims:
            assert claim.is_supported is world.claim_is_true(claim.claim, asked.facts)
            assert all(span in asked.passage for span in claim.grounding_evidence)


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

    from train.nano_base import main

    words = ["steps=6", "hidden=32", "intermediate=48", "layers=2", "heads=2", "copy_share=0.3", "log_every=100"]
    weights = []
    for name in ("first", "second"):
        main([*words, f"out_dir={tmp_path / name}"])
        model = AutoModelForCausalLM.from_pretrained(tmp_path / name)
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*weights) and weights[0].isfinite().all()


def test_a_model_that_is_there_is_not_overwritten_unasked(tmp_path):
    from rag_zeval.errors import InputError
    from train.nano_base import main

    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(InputError, match="overwrite=true"):
        main([f"out_dir={tmp_path}"])
