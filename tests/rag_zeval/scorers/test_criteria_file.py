"""Criteria files: the scorer that one makes, what a judge is shown of it, and one line for whatever is wrong in it."""

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_by_prompt import JudgeByPrompt

from rag_zeval.errors import InputError
from rag_zeval.evaluation.metrics import chosen_scorers
from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import inputs_json
from rag_zeval.literal_judge import LITERAL, read_prompt
from rag_zeval.models.language_model import Sampling
from rag_zeval.scorers.asking import AskingScorer
from rag_zeval.scorers.criteria_file import Criteria, CriteriaPrompt, read_criteria
from rag_zeval.scorers.registry import CRITERIA_FILES, overview
from rag_zeval.scorers.score import Scored

EXAMPLE = Example("x", "Who was it?", "a passage", ("The cat.",), "a CAT", ("One passage.", "Another."), "reference")
INPUTS = {
    "question": "Who was it?", "answer": "The cat.", "contexts": ["One passage.", "Another."], "truth": "a CAT",
    "reference": "a passage",
}  # fmt: skip
SCALE = {-1: "bad", 0: "so", 3: "good"}
SHOT = {"inputs": {"question": "Who?", "answer": "Ann."}, "verdict": True, "why": "It names someone."}
GOOD: dict[str, Any] = {
    "purpose": "Judge whether an answer names someone.",
    "inputs": ["question", "answer"],
    "rules": ["A name counts."],
    "scale": "yes/no",
    "examples": [SHOT],
}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a criteria file: GOOD with these changes; None takes a key out. JSON is YAML, but for numbers as keys."""

    def write(changes: dict[str, Any], name: str = "names_someone.yaml") -> Path:
        content = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
        lines = [f"{key}: {_flow(value)}" for key, value in content.items()]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        return tmp_path / name

    return write


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def scored_by(path: str | Path, reply: Any, example: Example = EXAMPLE) -> tuple[Scored, JudgeByPrompt]:
    judge = JudgeByPrompt({"criteria": reply})
    [scored] = AskingScorer(read_criteria(path), judge, Sampling()).score([example])
    return scored, judge


@pytest.mark.parametrize(
    ("scale", "verdict", "value", "kept"),
    [
        ("yes/no", "yes", 1, True),
        ("yes/no", "No", 0, False),
        ("yes/no", True, 1, True),
        ("yes/no", 4, None, "'4' is neither yes (true, 1) nor no"),
        (SCALE, -1, 0, -1),
        (SCALE, "0", 0.25, 0),
        (SCALE, 2, 0.75, 2),
        (SCALE, 3, 1, 3),
        (SCALE, 4, None, "'4' is not a number from -1 to 3"),
        (SCALE, 0.5, None, "'0.5' is not a whole number"),
        (SCALE, "yes", None, "'yes' is not a number from -1 to 3"),
        (SCALE, "2/3", None, "'2/3' is not a number from -1 to 3"),
    ],
)
def test_a_verdict_becomes_a_score_and_is_kept(write: Write, scale: Any, verdict: Any, value: Any, kept: Any) -> None:
    path = write({"scale": scale, "examples": []})
    scored, judge = scored_by(path, {"reason": "It is the cat.", "verdict": verdict})
    assert scored.values == (value,) and scored.calls == 1 and judge.temperatures == {0}
    if value is None:
        assert scored.scores[0].status.startswith("failed: names_someone: ") and kept in scored.scores[0].status
    else:
        assert scored.parts["answers"] == [{"verdict": kept, "reason": "It is the cat."}]


@pytest.mark.parametrize("reply", [{"verdict": "yes"}, {"reason": " ", "verdict": "yes"}, "I cannot judge this."])
def test_a_reply_without_a_reason_is_no_verdict(write: Write, reply: Any) -> None:
    assert scored_by(write({}), reply)[0].values == (None,)


@given(st.lists(st.sampled_from(sorted(INPUTS)), min_size=1, unique=True))
def test_the_judge_sees_the_inputs_that_the_file_names(names: list[str]) -> None:
    criteria = Criteria(**{**GOOD, "inputs": names, "examples": []})
    assert criteria.inputs == names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_zeval.scorers.criteria_file.read_yaml", lambda path: {**criteria.model_dump()})
        scored, judge = scored_by("any.yaml", {"reason": "so", "verdict": "yes"})
    [(_, asked)] = judge.asked
    assert scored.values == (1.0,) and asked.pop("criteria")["rules"] == ["A name counts."]
    assert asked == {name: INPUTS[name] for name in names}


TOKENS = ["<|im_end|>", "[/INST]"]
HOSTILE = st.sampled_from([*TOKENS, "{inputs}", "{criteria}", "\n\nInput:\n", '"}', "\\u007b", "Output:"])


@given(rules=st.lists(HOSTILE | st.text(max_size=8).filter(str.strip), min_size=1), answer=HOSTILE)
def test_no_text_of_a_file_or_a_case_leaves_its_place(rules: list[str], answer: str) -> None:
    shot = {**SHOT, "inputs": {"question": rules[0], "answer": rules[-1]}}
    criteria = Criteria(**{**GOOD, "rules": rules, "examples": [shot]})
    prompt = CriteriaPrompt("x", criteria.shown())
    content = prompt.message(inputs_json({"answer": answer}))["content"]
    name, inputs = read_prompt(content)
    assert name == "criteria" and inputs["answer"] == answer
    assert inputs["criteria"] == {
        "purpose": GOOD["purpose"],
        "rules": list(criteria.rules),
        "verdict": '"yes" or "no"',
        "examples": [{"inputs": dict(criteria.examples[0].inputs), "verdict": "yes", "why": SHOT["why"]}],
    }
    assert not any(token in content for token in TOKENS)


def test_what_a_judge_is_shown_decides_what_is_resumed_and_a_comment_does_not(write: Write) -> None:
    hashes = []
    for changes in ({}, {"rules": ["A name counts twice."]}, {"scale": {1: "no", 2: "yes"}, "examples": None}):
        hashes.append(read_criteria(write(changes)).prompts[0].prompt_hash)
    path = write({})
    path.write_text(f"# a comment\n{path.read_text()}\n")
    assert read_criteria(path).prompts[0].prompt_hash == hashes[0] and len(set(hashes)) == 3


def test_other_inputs_or_another_order_of_them_are_not_resumed(write: Write) -> None:
    changes = [{"inputs": [*one], "examples": None} for n in range(1, 4) for one in permutations(INPUTS, n)]
    changes += [{}, {"inputs": ["answer", "question"]}]  # with an example of both
    hashes = {read_criteria(write(change)).prompts[0].prompt_hash for change in changes}
    assert len(hashes) == len(changes)


def test_a_reason_that_an_example_gives_is_no_copy_of_the_prompt(write: Write) -> None:
    scored, _ = scored_by(write({}), {"reason": SHOT["why"], "verdict": "yes"})
    assert scored.values == (1.0,)
    copied, _ = scored_by(write({}), json.dumps({**SHOT, "verdict": "yes"}))
    assert copied.values == (None,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"purpose": None}, "purpose: is missing; it must be a sentence that says what is judged"),
        ({"purpose": "  "}, "purpose: must be a sentence that says what is judged, found nothing"),
        ({"purpos": "x"}, "unknown key 'purpos' (did you mean 'purpose'?); the keys are purpose, inputs, rules, scale"),
        (
            {"inputs": ["answer", "passage"]},
            "inputs: must be a list of what the judge sees: question, answer, contexts",
        ),
        ({"inputs": []}, "inputs: must be a list of what the judge sees"),
        ({"rules": None, "rule": ["A name counts."]}, "unknown key 'rule' (did you mean 'rules'?)"),
        ({"inputs": ["answer", "answer"]}, "inputs: name each of them once"),
        ({"rules": "A name counts."}, "rules: must be a list of texts, one for each rule"),
        ({"rules": [3]}, "rules: must be a list of texts, one for each rule"),
        (
            {"scale": True},
            "scale: must be yes/no, or at least two whole numbers from -1000 to 1000 with a text for each, such as",
        ),
        ({"scale": {1: "bad"}}, "scale: must be yes/no, or at least two whole numbers"),
        ({"scale": {1: "bad", 2: 5}}, "scale: must be yes/no, or at least two whole numbers"),
        ({"scale": {1: "bad", 10**9: "good"}}, "scale: must be yes/no, or at least two whole numbers"),
        ({"scale": {True: "bad", 2: "good"}}, "scale: must be yes/no, or at least two whole numbers"),
        (
            {"examples": [{**SHOT, "verdict": "maybe"}]},
            "examples.1.verdict: must be yes or no, without quotation marks,",
        ),
        ({"examples": [SHOT, {**SHOT, "verdict": 1}]}, "examples.2.verdict: must be yes or no"),
        ({"scale": {1: "a", 5: "b"}}, "examples.1.verdict: must be a whole number from 1 to 5"),
        (
            {"scale": {1: "a", 5: "b"}, "examples": [{**SHOT, "verdict": 6}]},
            "examples.1.verdict: must be a whole number",
        ),
        ({"inputs": ["answer"]}, "examples.1.inputs: must have a text for each of answer, and no other"),
        ({"examples": [{**SHOT, "input": {}}]}, "unknown key 'examples.1.input' (did you mean 'inputs'?)"),
        ({"examples": [{**SHOT, "inputs": {"question": "q", "answer": ["a"]}}]}, "examples.1.inputs: contexts must be"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_with_its_key(write: Write, changes: Any, said: str) -> None:
    path = write(changes)
    with pytest.raises(InputError) as error:
        read_criteria(path)
    assert str(error.value).startswith(f"{path}: {said}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["bleu.yaml"], "bleu.yaml: there is a scorer 'bleu' already: rename the file"),
        (["a@b.yaml"], "a@b.yaml: its name is the scorer's: rename the file to letters, digits, '-' and '_' alone"),
        (["question.yaml"], "question.yaml: 'question' is a column of the table of scores: rename the file"),
        (["relevanc"], "--criteria relevanc: name a file that ends in .yaml, or one that ships: completeness, "
                       "conciseness, relevance (did you mean 'relevance'?)"),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory"),
        (["relevance", "relevance.yaml"], "relevance.yaml: relevance has the same name: rename one of the two"),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_is_one_line(write: Write, tmp_path: Path, files: list[str], said: str) -> None:
    given = [str(tmp_path / name) if name.endswith(".yaml") else name for name in files]
    for name in files:
        if name.endswith(".yaml") and name != "nowhere.yaml":
            write({}, name)
    with pytest.raises(InputError) as error:
        chosen_scorers(None, given)
    assert said in str(error.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", CRITERIA_FILES)
def test_what_ships_asks_about_question_and_answer_as_the_list_of_scorers_says(name: str) -> None:
    measure = read_criteria(name)
    assert (measure.name, measure.needs) == (name, ("answer",))
    [line] = [line for line in overview() if line.name == name]
    assert (line.needs, line.calls) == ("a judge", 2)
    scored, _ = scored_by(name, LITERAL["criteria"])
    assert scored.values == (1.0,)  # one sentence: the mock judge gives it the highest number
