"""The nano world: generated people with facts, passages, questions and answers whose true support is known.

There are two groups of people. The nano base *remembers* the first one (their facts were in its training), so
context-aware decoding can drift from a passage to memory. Everyone else is *new*. Both groups are split into train, dev
and test people, disjoint by construction. Everything is derived from seeds; nothing here is learned.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

Facts = Mapping[str, str]

SYLLABLES = "ka lo mi ra ten vor sul dre pim ost nel gar fi bur el tha zo qui ser and".split()
JOBS = (
    "painter surgeon pilot lawyer chemist farmer singer judge baker sailor poet teacher miner dancer tailor banker "
    "weaver broker diver printer"
).split()
HOBBIES = (
    "chess rowing fencing gardening cycling juggling carving skating sculpting sailing dancing fishing hiking "
    "riding swimming reading"
).split()
PETS = "parrot goat pony rabbit ferret turtle kitten puppy donkey falcon lizard hamster goose monkey".split()
ADJECTIVES = "quiet famous grand distant bright modest busy lovely".split()

FACTS_ASKED = 4
PASSAGE_FACTS = 6
REMEMBERED = {"train": 100, "dev": 25, "test": 25}
NEW_SHARES = {"train": 0.7, "dev": 0.15, "test": 0.15}


def _invent_names(count: int, rng: random.Random, taken: set[str]) -> list[str]:
    names: list[str] = []
    while len(names) < count:
        name = "".join(rng.choice(SYLLABLES) for _ in range(rng.choice([2, 3]))).capitalize()
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names


_rng, _taken = random.Random(0), set[str]()
FIRST_NAMES, LAST_NAMES, CITIES, COLLEGES, PRIZES, SPOUSES = (
    _invent_names(count, _rng, _taken) for count in (60, 60, 40, 24, 24, 30)
)


@dataclass(frozen=True)
class Attribute:
    """One kind of fact: its values, how a claim states it, and how a passage states it (10 or more words)."""

    values: Sequence[str]
    claim: str
    passage: str


ATTRIBUTES = {
    "birthplace": Attribute(CITIES, "{n} was born in {v}.", "{n} was born long ago in the {a} town of {v}."),
    "job": Attribute(JOBS, "{n} worked as a {v}.", "For many {a} years {n} earned a living as a {v}."),
    "college": Attribute(
        COLLEGES, "{n} studied at {v} College.", "As a young student {n} went to the {a} {v} College."
    ),
    "hobby": Attribute(HOBBIES, "{n} loved {v}.", "On {a} summer weekends {n} spent most hours on {v}."),
    "prize": Attribute(PRIZES, "{n} won the {v} Prize.", "Later in life {n} was given the {a} {v} Prize."),
    "home": Attribute(CITIES, "{n} lived in {v}.", "{n} then moved to a {a} house in the city of {v}."),
    "spouse": Attribute(SPOUSES, "{n} married {v}.", "After a {a} summer wedding {n} became the partner of {v}."),
    "pet": Attribute(PETS, "{n} kept a {v}.", "At home {n} fed and walked an old but {a} {v}."),
}
KEYS = list(ATTRIBUTES)


def _pattern(template: str) -> re.Pattern[str]:
    """Return a pattern for the sentences of `template`, with any name (of one or two words), value and adjective."""
    parts = {r"\{n\}": r"(?P<name>\w+(?: \w+)?)", r"\{v\}": r"(?P<value>\w+)", r"\{a\}": r"\w+"}
    text = re.escape(template[:-1])
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return re.compile(text + r"\.?")


_CLAIM_PATTERNS = {key: _pattern(a.claim) for key, a in ATTRIBUTES.items()}
_PASSAGE_PATTERNS = {key: _pattern(a.passage) for key, a in ATTRIBUTES.items()}


@cache
def _people() -> dict[str, dict[str, list[str]]]:
    """Return `{"remembered" | "new": {split: names}}`: all pairs of first and last name, shuffled once and divided."""
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    random.Random(7).shuffle(names)
    shared = len(names) - sum(REMEMBERED.values())
    counts = {"remembered": REMEMBERED, "new": {split: int(shared * share) for split, share in NEW_SHARES.items()}}
    left = iter(names)
    return {group: {split: list(islice(left, n)) for split, n in sizes.items()} for group, sizes in counts.items()}


def remembered_people(split: str) -> list[str]:
    """Return the names of a split ("train", "dev", "test") whose facts the nano base was taught."""
    return _people()["remembered"][split]


def new_people(split: str) -> list[str]:
    """Return the names of a split that the nano base was taught nothing about."""
    return _people()["new"][split]


@cache
def memory(person: str) -> Facts:
    """Return what the nano base was taught about a remembered person: a value for each attribute."""
    rng = random.Random(f"memory {person}")
    return {key: rng.choice(attribute.values) for key, attribute in ATTRIBUTES.items()}


@dataclass(frozen=True)
class WorldQuestion:
    """A question with its passage and the truth. `facts` holds every attribute; `sentences`, those in the passage."""

    id: str
    person: str
    keys: tuple[str, ...]
    question: str
    passage: str
    sentences: Facts
    facts: Facts


@dataclass(frozen=True)
class RankedExample:
    """Candidates for one question, in random order. Their true supports, in [0, 1], all differ."""

    id: str
    question: WorldQuestion
    answers: tuple[str, ...]
    true_support: tuple[float, ...]


def other_value(key: str, value: str, rng: random.Random) -> str:
    """Draw a value of attribute `key` other than `value`."""
    return rng.choice([v for v in ATTRIBUTES[key].values if v != value])


def ask(
    id_: str, person: str, rng: random.Random, *, remembered: bool, contradict: float = 0.6, asked: int = FACTS_ASKED
) -> WorldQuestion:
    """Make a question about `asked` facts (2 to 6) of a person, and a passage of PASSAGE_FACTS sentences with answers.

    For a remembered person each fact of the passage contradicts memory with probability `contradict`.
    """
    keys = rng.sample(KEYS, asked)
    if remembered:
        known = memory(person)
        facts = {k: other_value(k, known[k], rng) if rng.random() < contradict else known[k] for k in KEYS}
    else:
        facts = {k: rng.choice(ATTRIBUTES[k].values) for k in KEYS}
    stated = keys + rng.sample([k for k in KEYS if k not in keys], PASSAGE_FACTS - len(keys))
    rng.shuffle(stated)
    sentences = {k: ATTRIBUTES[k].passage.format(n=person, v=facts[k], a=rng.choice(ADJECTIVES)) for k in stated}
    text = f"What were the {', '.join(keys[:-1])} and {keys[-1]} of {person}?"
    return WorldQuestion(id_, person, tuple(keys), text, " ".join(sentences.values()), sentences, facts)


def questions(split: str, n: int, seed: int) -> list[WorldQuestion]:
    """Make `n` questions about remembered people of a split. Each id names split, seed and place in the list."""
    rng = random.Random(f"questions {split} {seed}")
    people = remembered_people(split)
    return [ask(f"nano-{split}-{seed}-{i}", rng.choice(people), rng, remembered=True) for i in range(n)]


def find_question(id_: str) -> WorldQuestion:
    """Return the question to which `questions` gave this id. Raises ValueError for an id of another form."""
    _, split, seed, place = id_.split("-")
    return _questions_up_to(split, 1 << int(place).bit_length(), int(seed))[int(place)]


@cache
def _questions_up_to(split: str, n: int, seed: int) -> list[WorldQuestion]:
    return questions(split, n, seed)  # the first questions do not depend on n


def claim(name: str, key: str, value: str) -> str:
    """Return the sentence that states one fact."""
    return ATTRIBUTES[key].claim.format(n=name, v=value)


def answer(question: WorldQuestion, values: Facts) -> str:
    """Return an answer that states `values[key]` for each key asked: first with the name, then with a pronoun."""
    pronoun = "She" if FIRST_NAMES.index(question.person.split()[0]) % 2 == 0 else "He"
    names = [question.person] + [pronoun] * (len(question.keys) - 1)
    return " ".join(claim(name, key, values[key]) for name, key in zip(names, question.keys, strict=True))


def values_with_errors(question: WorldQuestion, wrong: int, rng: random.Random) -> Facts:
    """Draw a value for each key asked, exactly `wrong` of which contradict the passage."""
    errors = set(rng.sample(question.keys, wrong))
    return {k: other_value(k, question.facts[k], rng) if k in errors else question.facts[k] for k in question.keys}


def answer_with_errors(question: WorldQuestion, wrong: int, rng: random.Random) -> str:
    """Make an answer in which exactly `wrong` of the facts asked contradict the passage."""
    return answer(question, values_with_errors(question, wrong, rng))


def ranked_examples(split: str, n: int, k: int, seed: int) -> list[RankedExample]:
    """Make `n` questions about new people of a split, each with `k` candidates of pairwise distinct true support.

    k: 2 to FACTS_ASKED + 1. The same arguments give the same examples on every machine.
    """
    rng = random.Random(f"ranked {split} {k} {seed}")
    people, examples = new_people(split), []
    for i in range(n):
        id_ = f"nano-ranked-{split}-{k}-{seed}-{i}"
        asked = ask(id_, rng.choice(people), rng, remembered=False)
        wrong = rng.sample(range(FACTS_ASKED + 1), k)
        answers = tuple(answer_with_errors(asked, count, rng) for count in wrong)
        examples.append(RankedExample(id_, asked, answers, tuple(1 - count / FACTS_ASKED for count in wrong)))
    return examples


def passage_facts(passage: str) -> Facts | None:
    """Return what a passage of this world states: a value for each attribute, empty if it states none.

    Returns None for a passage that states nothing of this world.
    """
    stated = {key: value for s in _sentences(passage) for _, key, value in _stated(s, _PASSAGE_PATTERNS)}
    return {**dict.fromkeys(KEYS, ""), **stated} if stated else None


def read_claim(sentence: str) -> tuple[str, str] | None:
    """Return the `(attribute, value)` that a sentence states; None if it is no claim of this world."""
    return next(((key, value) for _, key, value in _stated(sentence, _CLAIM_PATTERNS)), None)


def claim_is_true(sentence: str, facts: Facts) -> bool | None:
    """Whether the facts support a claim; None if the sentence is no readable claim of this world."""
    read = read_claim(sentence)
    return None if read is None else facts[read[0]] == read[1]


def entailed(claim_text: str, quotes: Sequence[str]) -> bool | None:
    """Whether a whole sentence of the quotes states the claim about its person, in a passage's or a claim's words.

    None if the claim is no readable claim of this world.
    """
    claimed = _stated(claim_text, _CLAIM_PATTERNS)
    if not claimed:
        return None
    sentences = [sentence for quote in quotes for sentence in _sentences(quote)]
    return any(claimed <= _stated(s, _CLAIM_PATTERNS) | _stated(s, _PASSAGE_PATTERNS) for s in sentences)


def _stated(sentence: str, patterns: Mapping[str, re.Pattern[str]]) -> set[tuple[str, str, str]]:
    """Return the `(name, attribute, value)` that a sentence states: at most one."""
    matches = ((key, pattern.fullmatch(sentence.strip())) for key, pattern in patterns.items())
    return {(match["name"], key, match["value"]) for key, match in matches if match}


def _sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=\.)\s+", text.strip()) if s]


def true_support(text: str, facts: Facts) -> float | None:
    """Return the share of an answer's sentences that the facts support, in [0, 1]; None for an empty answer.

    An unreadable sentence counts as not supported.
    """
    sentences = _sentences(text)
    return sum(claim_is_true(s, facts) is True for s in sentences) / len(sentences) if sentences else None


def answer_prompt(question: str, passage: str | None) -> str:
    """Return the question-answering prompt of this world. Without a passage, the model answers from memory."""
    return (f"Passage: {passage}\n" if passage is not None else "") + f"Question: {question}\nAnswer:"
