"""The nano world: its truth is exact, its people are disjoint, its seeds fix everything."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.stages import world

SPLITS = ("train", "dev", "test")


def question_about_a_new_person(rng):
    return world.ask("x", rng.choice(world.new_people("train")), rng, remembered=False)


def test_no_person_stands_in_two_splits_or_both_groups():
    groups = [set(people(split)) for people in (world.remembered_people, world.new_people) for split in SPLITS]
    assert all(groups)
    assert all(not first & second for first, second in itertools.combinations(groups, 2))


@given(st.integers(0, 10_000), st.integers(0, world.FACTS_ASKED))
def test_true_support_counts_the_errors_made(seed, wrong):
    rng = random.Random(seed)
    asked = question_about_a_new_person(rng)
    text = world.answer_with_errors(asked, wrong, rng)
    assert world.true_support(text, asked.facts) == 1 - wrong / world.FACTS_ASKED


@given(st.sampled_from(world.KEYS), st.integers(0, 10_000))
def test_every_claim_is_read_back(key, seed):
    rng = random.Random(seed)
    person, value = rng.choice(world.new_people("dev")), rng.choice(world.ATTRIBUTES[key].values)
    true, false = (world.claim(person, key, stated) for stated in (value, world.other_value(key, value, rng)))
    assert world.read_claim(true) == (key, value)
    assert (world.claim_is_true(true, {key: value}), world.claim_is_true(false, {key: value})) == (True, False)


def test_text_from_elsewhere_is_no_claim():
    for text in ("", "Hello.", "Ka Lo was born in", "Ka Lo married X and kept a pony."):
        assert world.read_claim(text) is None
    assert world.entailed("Paris is in France.", ["Paris is in France."]) is None
    assert world.true_support("", {}) is None
    assert world.true_support("Nonsense. More nonsense.", {}) == 0


def test_ranked_examples_differ_in_true_support_and_repeat_with_their_seed():
    for k in (2, 3, 4):
        examples = world.ranked_examples("test", 50, k, seed=0)
        assert examples == world.ranked_examples("test", 50, k, seed=0)
        assert examples != world.ranked_examples("test", 50, k, seed=1)
        for example in examples:
            measured = [world.true_support(answer, example.question.facts) for answer in example.answers]
            assert tuple(measured) == example.true_support
            assert len(set(measured)) == k
            assert example.question.person in world.new_people("test")


def test_the_passage_holds_what_is_asked_in_sentences_long_enough_to_quote():
    for asked in world.questions("train", 50, seed=3):
        assert asked.person in world.remembered_people("train")
        for key in asked.keys:
            assert asked.sentences[key] in asked.passage
            assert asked.facts[key] in asked.sentences[key]
            assert len(asked.sentences[key].split()) >= 10


@given(st.sampled_from(world.KEYS), st.integers(0, 10_000))
def test_a_claim_is_entailed_by_the_sentence_that_states_its_fact_and_by_no_other(key, seed):
    rng = random.Random(seed)
    asked = question_about_a_new_person(rng)
    true = world.claim(asked.person, key, asked.facts[key])
    false = world.claim(asked.person, key, world.other_value(key, asked.facts[key], rng))
    told = key in asked.sentences
    assert world.entailed(true, [asked.passage]) is told  # a quote may be of several sentences
    for other, sentence in asked.sentences.items():
        assert world.entailed(true, [sentence, "and more"]) is (other == key)
        assert world.entailed(false, [sentence]) is False
    assert world.entailed(true, [true]) is True and world.entailed(true, []) is False
    assert world.entailed(world.claim("Somebody Else", key, asked.facts[key]), [asked.passage]) is False


@given(st.integers(0, 10_000))
def test_a_passage_tells_the_facts_that_it_states_and_no_other(seed):
    asked = question_about_a_new_person(random.Random(seed))
    stated = world.passage_facts(asked.passage)
    assert stated == {key: asked.facts[key] if key in asked.sentences else "" for key in world.KEYS}
    for wrong in range(len(asked.keys) + 1):
        answer = world.answer_with_errors(asked, wrong, random.Random(seed))
        assert world.true_support(answer, stated) == world.true_support(answer, asked.facts)
    assert world.passage_facts("It rains in Paris.") is None
