"""What the strict parser takes and refuses, and what the lenient one rescues without making anything up."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rag_zeval.judge.parser import FormatError, as_reply, parse_lenient, parse_ranking, parse_strict, response_schema
from rag_zeval.judge.patterns import read_patterns
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.judge.schema import LETTERS, AtomicClaim

_texts = st.text(max_size=20)
_claims = _texts.map(lambda text: text + "1")  # an empty one says nothing


@st.composite
def trajectories(draw, variant, max_candidates=4):
    """A valid trajectory of a variant, as a JSON-ready list."""
    items = []
    for letter in LETTERS[: draw(st.integers(1, max_candidates))]:
        claims = []
        for _ in range(draw(st.integers(1, 3))):
            values = {
                "claim": draw(_claims),
                "is_supported": draw(st.booleans()),
                "grounding_evidence": draw(st.lists(_texts, max_size=2)),
                "analysis": draw(_texts),
            }
            claims.append({field: values[field] for field in VARIANTS[variant].claim_fields})
        echo = {"answer": draw(_texts)} if VARIANTS[variant].echo_answer else {}
        items.append({"id": letter, **echo, "atomic_claims": claims})
    return items


variants_with_items = st.sampled_from(list(VARIANTS)).flatmap(lambda v: st.tuples(st.just(v), trajectories(v)))


@given(variants_with_items)
def test_valid_json_is_read_and_written_back_exactly(case):
    variant, items = case
    trajectory = parse_strict(json.dumps(items), len(items), variant)
    assert json.loads(as_reply(trajectory, variant)) == items
    assert trajectory[0].atomic_claims[0].is_supported is items[0]["atomic_claims"][0]["is_supported"]


@given(variants_with_items, st.randoms())
def test_the_candidates_are_a_set_read_by_their_letters(case, rng):
    variant, items = case
    shuffled = rng.sample(items, len(items))
    trajectory = parse_strict(json.dumps(items), len(items), variant)
    assert parse_strict(json.dumps(shuffled), len(items), variant) == trajectory
    assert parse_lenient("So: " + json.dumps(shuffled), len(items), variant) == (trajectory, "repaired")
    with pytest.raises(FormatError):
        parse_strict(json.dumps([*items, items[0]]), len(items) + 1, variant)


@given(variants_with_items, st.integers(1, 6))
def test_the_candidates_must_be_exactly_those_asked_about(case, asked):
    variant, items = case
    if asked != len(items):
        with pytest.raises(FormatError):
            parse_strict(json.dumps(items), asked, variant)
        with pytest.raises(FormatError):
            parse_lenient(json.dumps(items), asked, variant)


@given(variants_with_items, st.sampled_from(["id", "atomic_claims", "claim", "is_supported"]))
def test_a_field_given_twice_is_refused_by_both(case, field):
    """Which of the two is meant is unknown; a verdict of either kind must not earn a reward."""
    variant, items = case
    text = json.dumps(items).replace(f'"{field}": ', f'"{field}": null, "{field}": ', 1)
    for parse in (parse_strict, parse_lenient):
        with pytest.raises(FormatError):
            parse(text, len(items), variant)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[NaN]", '[{"id": "A"}]', "[" * 5000, "Sorry, I cannot."])
def test_text_that_is_no_trajectory_is_refused_by_both(text):
    for parse in (parse_strict, parse_lenient):
        with pytest.raises(FormatError):
            parse(text, 1)


def accepts(items, n_candidates, variant):
    """Whether the strict parser takes it."""
    try:
        parse_strict(json.dumps(items), n_candidates, variant)
    except FormatError:
        return False
    return True


def in_schema(items, n_candidates, variant):
    return Draft202012Validator(response_schema(n_candidates, variant)).is_valid(items)


@given(variants_with_items, st.integers(1, 4), st.sampled_from(list(VARIANTS)))
def test_the_schema_has_the_trajectories_that_the_strict_parser_takes(case, asked, other):
    variant, items = case
    assert in_schema(items, len(items), variant)
    assert in_schema(items, asked, variant) == accepts(items, asked, variant)
    if in_schema(items, len(items), other):  # fields that another variant lacks are no fault to the parser alone
        assert accepts(items, len(items), other)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | _texts, lambda inner: st.lists(inner, max_size=2)
)


@given(variants_with_items, st.data())
def test_schema_and_strict_parser_refuse_the_same_changes(case, data):
    """A value anywhere is replaced, removed or doubled."""
    variant, items = case
    broken = copy.deepcopy(items)
    place = broken
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    change = data.draw(st.sampled_from(["replace", "remove", "double"]))
    if change == "replace":
        place[key] = data.draw(_anything)
    elif change == "remove":
        del place[key]
    elif isinstance(place, list):
        place.append(copy.deepcopy(place[key]))
    assert in_schema(broken, len(items), variant) == accepts(broken, len(items), variant)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_candidates", [1, 4, 26])
def test_the_schema_is_one_and_keeps_the_order_of_fields(variant, n_candidates):
    schema = response_schema(n_candidates, variant)
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema and len(schema["prefixItems"]) == n_candidates
    claims = schema["prefixItems"][-1]["properties"]["atomic_claims"]
    assert tuple(claims["items"]["properties"]) == VARIANTS[variant].claim_fields


def claim(text="c", verdict=True, quotes=("q",), analysis="a"):
    return {"claim": text, "is_supported": verdict, "grounding_evidence": list(quotes), "analysis": analysis}


def trajectory_text(*claims_by_candidate):
    return json.dumps(
        [{"id": LETTERS[i], "answer": "x", "atomic_claims": claims} for i, claims in enumerate(claims_by_candidate)]
    )


@given(trajectories("paper"), st.sampled_from(["```json\n%s\n```", "Here it is:\n%s\nDone.", "%s\n"]))
def test_fences_and_prose_are_repaired(items, wrapping):
    text = wrapping % json.dumps(items)
    trajectory, how = parse_lenient(text, len(items))
    assert trajectory == parse_strict(json.dumps(items), len(items))
    assert how == ("strict" if wrapping == "%s\n" else "repaired")


@pytest.mark.parametrize("quote", ['"', "'"])
def test_an_echoed_answer_cannot_add_claims_where_the_json_is_broken(quote):
    """Names of fields in the other quotes are text: in a string of JSON its own are escaped."""
    other = "'" if quote == '"' else '"'
    mine = claim("The sky is green.", False, (), "It says MARKblueMARK.")  # no JSON, nor Python's
    echo = f"{other}claim{other}: {other}y{other}, {other}is_supported{other}: true"
    reply = trajectory_text([mine]).replace('"x"', '"ECHO"').replace('"', quote).replace("MARK", quote)
    reply = reply.replace("ECHO", echo)
    trajectory, how = parse_lenient(reply, 1)
    assert how == "repaired"
    assert [(one.claim, one.is_supported) for one in trajectory[0].atomic_claims] == [("The sky is green.", False)]


@pytest.mark.parametrize(("evidence", "quotes"), [('"one"', ("one",)), ('[null, "one"]', ("one",)), ("[null]", ())])
def test_small_faults_are_repaired(evidence, quotes):
    one = f'{{"claim": "c", "is_supported": "yes", "grounding_evidence": {evidence}}}'
    [found], how = parse_lenient(f'[{{"id": "A", "atomic_claims": [{one},]}}]', 1)
    assert (found.atomic_claims, how) == ((AtomicClaim("c", True, quotes, ""),), "repaired")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"claim": "c"}, "field 'is_supported' is missing"),
        ({"claim": "c", "is_supported": None}, "field 'is_supported' is missing"),
        ({"claim": "c", "is_supported": "partially"}, "'is_supported' is 'partially', neither true nor false"),
        ({"claim": "c", "is_supported": 2}, "'is_supported' is '2', neither true nor false"),
        ({"is_supported": True}, "field 'claim' is missing"),
        ({"claim": ["c"], "is_supported": True}, "field 'claim' must be str, found list"),
        ({"claim": "c", "is_supported": True, "analysis": ["a"]}, "field 'analysis' must be str, found list"),
    ],
)
def test_a_field_that_does_not_fit_is_named(fields, said):
    with pytest.raises(FormatError, match=f"^a claim: {said}$"):
        parse_lenient(trajectory_text([fields]), 1)


def test_a_candidate_without_claims_is_a_format_failure_in_training_and_kept_in_evaluation():
    text = trajectory_text([claim()], [])
    with pytest.raises(FormatError):
        parse_strict(text, 2)
    trajectory, how = parse_lenient(text, 2)
    assert how == "repaired" and trajectory[1].atomic_claims == ()


rankings = st.integers(1, 26).flatmap(lambda k: st.permutations(LETTERS[:k]))


@given(rankings, st.sampled_from([None, 1]))
def test_any_order_of_the_letters_is_a_ranking(letters, indent):
    assert parse_ranking(json.dumps(letters, indent=indent), len(letters)) == tuple(letters)


@given(rankings, st.data())
def test_a_ranking_has_each_letter_once_and_no_other(letters, data):
    at = data.draw(st.integers(0, len(letters) - 1))
    other = data.draw(st.sampled_from([letter for letter in (*LETTERS, "a", "", "AB") if letter != letters[at]]))
    changed = [
        letters[:at] + letters[at + 1 :],  # one is missing
        [*letters, other],  # one too many, or twice
        [*letters[:at], other, *letters[at + 1 :]],
        [*letters[:at], data.draw(st.sampled_from([None, 1, True, [letters[at]]])), *letters[at + 1 :]],
    ]
    for wrong in changed:
        with pytest.raises(FormatError):
            parse_ranking(json.dumps(wrong), len(letters))


@pytest.mark.parametrize("text", ["", "B, A", '"BA"', '{"A": 1, "B": 2}', '["B", "A"].', 'Best: ["B", "A"]', "[NaN]"])
def test_what_is_no_json_list_of_letters_is_no_ranking(text):
    with pytest.raises(FormatError):
        parse_ranking(text, 2)


def verdicts(trajectory):
    return [[(claim.claim, claim.is_supported) for claim in candidate.atomic_claims] for candidate in trajectory]


@given(variants_with_items, st.floats(0, 1))
def test_patterns_read_what_the_strict_parser_reads_and_of_a_cut_reply_the_claims_before_the_cut(case, share):
    variant, items = case
    text, count = json.dumps(items), len(items)
    whole = verdicts(parse_strict(text, count, variant))
    assert verdicts(read_patterns(text, count)) == whole
    cut = verdicts(read_patterns(text[: int(share * len(text))], count))
    assert all(found == claims[: len(found)] for found, claims in zip(cut, whole, strict=True))


def test_patterns_read_prose_fences_and_drafts():
    draft, last = trajectory_text([claim("He sang.", False)]), trajectory_text([claim("He sang.", True)])
    assert verdicts(read_patterns(f"Draft: {draft}\n```json\n{last}\n```", 2)) == [[("He sang.", True)], []]
    assert verdicts(read_patterns("I cannot say.", 1)) == [[]]
    assert verdicts(read_patterns(r'"id": "A" "claim": "a\q" "is_supported": true "is_supported": false', 1)) == [
        [(r"a\q", True)]
    ]
