"""Build verl's rows from synthesized responses, in training order: first with K=3 candidates, then with K=4."""

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, iter_jsonl, locate, readable, write_bytes
from rag_zeval.judge.parser import as_reply
from rag_zeval.judge.prompt import find_variant, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.models.language_model import chat_ids
from rag_zeval.scorers.word_rule import STRICTNESS, is_contested, judge_by_words
from rag_zeval.stages.answer_quality import (
    REASONS,
    AnswerFilter,
    Flags,
    blocking_reason,
    count_flags,
    find_flags,
    may_be_shown,
)
from rag_zeval.text import without_surrogates
from train.settings import Stage, TrainSettings, response_files

DATA_SOURCE = "rag_zeval"
TOO_LONG, UNCONTESTED = "too_long", "uncontested"
TokenCounter = Callable[[list[dict[str, str]]], int]  # number of tokens of a chat's messages


@dataclass(frozen=True)
class Question:
    """A question with its passage and one answer for each α. `unfinished` holds the α whose answer was cut off."""

    id: str
    question: str
    passage: str
    answers: Mapping[float, str]
    unfinished: frozenset[float] = frozenset()

    def answers_at(self, alphas: Sequence[float]) -> list[str]:
        return [self.answers[alpha] for alpha in alphas]


@dataclass
class Curriculum:
    """Rows in training order and validation rows, with counts.

    flagged: how many answers, and pairs of answers, may not be shown, in the form of `count_flags`. counts: for each
    stage the number of rows, how many questions were left out for which reason, and what `count_shown` counts.
    """

    flagged: dict[str, dict[str, int]]
    train: list[Row] = field(default_factory=list)
    val: list[Row] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)

    def add(self, split: str, at: int, k: int, rows: Sequence[Row], left_out: Mapping[str, int]) -> None:
        """Append the rows of stage `at`, with their index, split and stage, and count them.

        The rows have `k` answers each, or a single one.
        """
        ranked = [row["extra_info"]["alphas"] for row in rows if row["extra_info"]["k"] == k]
        single = {"single": len(rows) - len(ranked)} if len(rows) > len(ranked) else {}
        counts = {"k": k, "rows": len(rows), "left_out": dict(left_out), **count_shown(ranked), **single}
        self.counts[f"{split} stage {at}"] = counts
        kept = self.val if split == "val" else self.train
        for index, row in enumerate(rows, len(kept)):
            row["extra_info"] |= {"index": index, "split": split, "stage": at}
        kept += rows


def read_questions(
    pattern: str, alphas: Sequence[float] | None = None, half: str | None = None
) -> tuple[list[Question], int]:
    """Return `(questions, failed)` from the files of `response_files`. `failed` counts rows without answers.

    alphas: the α of the answers to use, in this order; None: all α of the first row. half: return only questions whose
    passage is in this half (`half_of`); None: all. An answer without the field `finished` counts as finished. Lone
    surrogates (half an emoji) cannot be written to a file, so they become U+FFFD.

    Raises InputError for a missing file, a malformed field (naming file, line and field), an α that a row lacks, or a
    duplicate id.
    """
    chosen = None if alphas is None else [float(alpha) for alpha in alphas]
    questions: dict[str, Question] = {}
    failed = 0
    for path in response_files(pattern):
        for number, row in iter_jsonl(path, {"id": str, "status": str}):
            if row["status"] != "ok":
                failed += 1
                continue
            with locate(f"{path}:{number}"):
                check_fields(row, {"question": str, "passage": str, "responses": list})
                answers, unfinished = _read_answers(row["responses"])
                chosen = list(answers) if chosen is None else chosen
                if lacking := [alpha for alpha in chosen if alpha not in answers]:
                    there = ", ".join(f"{alpha:g}" for alpha in answers)
                    raise InputError(f"field 'responses': no answer for alpha={lacking[0]:g}; choose from: {there}")
                id_, question, passage = (without_surrogates(row[key]) for key in ("id", "question", "passage"))
                if id_ in questions:
                    raise InputError(f"duplicate id {id_!r}")
            wanted = {alpha: answers[alpha] for alpha in chosen}
            questions[id_] = Question(id_, question, passage, wanted, unfinished)
    kept = [question for question in questions.values() if half in (None, half_of(question.passage))]
    return kept, failed


def half_of(passage: str) -> str:
    """Return `first` or `second` for a passage, by a hash: about half of all passages each, independent of files."""
    return "first" if hashlib.sha256(passage.encode()).digest()[0] % 2 == 0 else "second"


def _read_answers(responses: Sequence[Any]) -> tuple[dict[float, str], frozenset[float]]:
    """Return the answers by α, and the α whose answer was cut off. Raises InputError naming a wrong field."""
    answers: dict[float, str] = {}
    unfinished = set()
    for at, response in enumerate(responses):
        with locate(f"field 'responses[{at}]'"):
            check_fields(response, {"alpha": (int, float), "text": str})
            check_fields({"finished": True, **response}, {"finished": bool})
        alpha = float(response["alpha"])
        if alpha in answers:
            raise InputError(f"field 'responses': alpha={alpha:g} occurs twice")
        answers[alpha] = without_surrogates(response["text"])
        if not response.get("finished", True):
            unfinished.add(alpha)
    return answers, frozenset(unfinished)


def shuffled(questions: Sequence[Question], seed: int, purpose: str) -> list[Question]:
    """Sort questions by a hash of (seed, purpose, id). If some are added or removed, the others keep their order."""
    return sorted(questions, key=lambda q: hashlib.sha256(f"{seed}:{purpose}:{q.id}".encode()).digest())


def flag_questions(
    questions: Sequence[Question], stages: Mapping[str, Sequence[Stage]], answer_filter: AnswerFilter
) -> dict[str, Flags]:
    """Return each question's flags (what may not be shown), by id.

    stages: by the key that has them. Raises InputError, naming the key, if a stage's K exceeds the number of α.
    """
    for key, each in stages.items():
        for at, stage in enumerate(each):
            if questions and stage.k > len(there := questions[0].answers):
                raise InputError(f"{key}[{at}]: K={stage.k}, but there are answers at {len(there)} alphas only")
    return {q.id: find_flags(q.answers, q.passage, q.unfinished, answer_filter) for q in questions}


def candidate_sets(question: Question, k: int, seed: int, flags: Flags, turn: int = 0) -> Iterator[list[float]]:
    """Yield, in random order, each set of k α whose answers may be shown together. Each set is in the order to show.

    The seed, the question's id and `turn` determine the random order. turn: number of earlier stages with this k.
    """
    rng = random.Random(f"{seed}:{k}:{question.id}" + (f":{turn}" if turn else ""))
    subsets = list(itertools.combinations([alpha for alpha, text in question.answers.items() if text.strip()], k))
    rng.shuffle(subsets)
    for subset in subsets:
        if may_be_shown(subset, flags):
            chosen = list(subset)
            rng.shuffle(chosen)
            yield chosen


def build_row(question: Question, alphas: Sequence[float], variant: str) -> Row:
    """Return a row of verl's RLHF data set. `alphas` are those of candidates A, B, ... in the prompt.

    If the variant's trajectories repeat the answers, the ground truth for the reward includes the answers.
    """
    answers = question.answers_at(alphas)
    truth: Row = {"alphas": list(alphas), "reference": question.passage, "variant": variant}
    if find_variant(variant).echo_answer:
        truth["answers"] = answers
    return {
        "data_source": DATA_SOURCE,
        "prompt": judge_messages(variant, question.question, question.passage, answers),
        "reward_model": {"style": "rule", "ground_truth": json.dumps(truth, ensure_ascii=False)},
        "extra_info": {"id": question.id, "k": len(answers), "alphas": list(alphas)},
    }


@dataclass(frozen=True)
class _Wanted:
    """The rows to draw for a stage. The questions come in a random order that `name` determines.

    turn: number of earlier stages with this k. contested: leave out sets of candidates that the word rule ranks the
    same way at each strictness. others: further stages that must be able to use the same questions.
    """

    name: str
    stage: Stage
    turn: int = 0
    contested: bool = False
    others: Sequence[Stage] = ()


@dataclass(frozen=True)
class _Drawing:
    """Draws the rows of all stages. flags: each question's flags, by id. tokens: counts the tokens of messages."""

    settings: TrainSettings
    flags: Mapping[str, Flags]
    tokens: TokenCounter

    def rows(self, wanted: _Wanted, pool: Sequence[Question]) -> tuple[list[Row], Counter[str]]:
        """Return the rows of a stage, and how many questions were left out for which reason.

        Raises InputError, with the numbers, if there are too few.
        """
        rows, left_out = self._drawn(wanted, pool)
        stage = wanted.stage
        if len(rows) < (stage.rows or 1):
            raise InputError(
                f"{wanted.name} (K={stage.k}) needs {stage.rows or 'some'} rows, but {len(pool)} questions gave "
                f"{len(rows)}; left out: {listed(left_out)} ({self._limits()} are too long); synthesize more questions "
                "or ask for fewer rows"
            )
        return rows, left_out

    def single_rows(
        self, stage: Stage, at: int, every: int, ranked: Sequence[Row], pool: Sequence[Question]
    ) -> tuple[list[Row], list[Row]]:
        """Return the stage's rows that rank answers, and those that show a single answer, about other questions.

        A stage that takes all questions may leave too few for single answers. Then its last questions show a single
        answer instead. Raises InputError as `rows`.
        """
        n = stage.rows // every if stage.rows else len(ranked) // (every - 1)
        if n == 0:
            return list(ranked), []
        left, of_single = without(pool, ranked), _Wanted(f"train stage {at}, single answers", Stage(1, n), at)
        if stage.rows:
            return list(ranked), self.rows(of_single, left)[0]
        kept, single = list(ranked), self._drawn(of_single, left)[0]
        questions = {question.id: question for question in pool}
        while len(kept) > 1 and len(single) < len(kept) // (every - 1):
            row = self._row(questions[kept.pop()["extra_info"]["id"]], of_single)
            single += [] if isinstance(row, str) else [row]
        return kept, single

    def _drawn(self, wanted: _Wanted, pool: Sequence[Question]) -> tuple[list[Row], Counter[str]]:
        """Return the same as `rows`, but fewer rows if there are too few."""
        rows: list[Row] = []
        reasons = [*REASONS, UNCONTESTED, TOO_LONG] if wanted.contested else [*REASONS, TOO_LONG]
        left_out: Counter[str] = Counter(dict.fromkeys(reasons, 0))
        for question in shuffled(pool, self.settings.seed, wanted.name):
            if len(rows) == wanted.stage.rows:
                break
            row = self._row(question, wanted)
            if isinstance(row, str):
                left_out[row] += 1
            else:
                rows.append(row)
        return rows, left_out

    def _row(self, question: Question, wanted: _Wanted) -> Row | str:
        """Return the question's row, or the reason why it has none."""
        flags = self.flags[question.id]
        for stage in (wanted.stage, *wanted.others):
            if reason := blocking_reason(flags, question.answers, stage.k):
                return reason
        for alphas in candidate_sets(question, wanted.stage.k, self.settings.seed, flags, wanted.turn):
            if wanted.contested and not is_contested(question.question, question.passage, question.answers_at(alphas)):
                continue
            row = build_row(question, alphas, self.settings.variant)
            longest = list(question.answers) if wanted.others else alphas
            return row if self._fits(question, question.answers_at(longest)) else TOO_LONG
        return UNCONTESTED

    def _fits(self, question: Question, answers: Sequence[str]) -> bool:
        """Whether prompt and reply are short enough. The reply's length is taken to be that of the word rule's."""
        prompt = judge_messages(self.settings.variant, question.question, question.passage, answers)
        prompt_tokens, limit = self.tokens(prompt), self.settings.max_rule_tokens
        if prompt_tokens > self.settings.verl.data.max_prompt_length:
            return False
        if limit is None:
            return True
        rule = judge_by_words(question.question, question.passage, answers, STRICTNESS[0])
        reply = {"role": "assistant", "content": as_reply(rule, self.settings.variant)}
        return self.tokens([*prompt, reply]) - prompt_tokens <= limit

    def _limits(self) -> str:
        prompts = f"prompts over {self.settings.verl.data.max_prompt_length} tokens"
        rule = self.settings.max_rule_tokens
        return prompts if rule is None else f"{prompts}, and trajectories of the word rule over {rule}"


def build_curriculum(settings: TrainSettings, questions: Sequence[Question], tokens: TokenCounter) -> Curriculum:
    """Build the validation rows, then the training rows of each stage, shuffled within the stage.

    Training uses no question of a validation row. A stage uses a question at most once, and a later stage with the same
    k draws its candidates again. A question that cannot be used is counted and replaced by the next one.

    - Each stage draws its own questions. With `same_questions` all stages use those of the first, which draws only
      questions that all stages can use.
    - With `only_contested`, training leaves out sets of candidates that the word rule ranks the same way at each
      strictness.
    - With `single_answer_every`, some rows of a stage show a single answer instead (`_Drawing.single_rows`). They are
      about questions without another row in that stage.

    Raises InputError, with the numbers, if too few questions remain.
    """
    asked = {"validation": settings.validation, "stages": settings.stages}
    flags = flag_questions(questions, asked, settings.answer_filter)
    curriculum = Curriculum(count_flags(flags.values()))
    drawing = _Drawing(settings, flags, tokens)
    rest = list(questions)
    for at, stage in enumerate(settings.validation, 1):
        rows, left_out = drawing.rows(_Wanted(f"val stage {at}", stage), rest)
        curriculum.add("val", at, stage.k, rows, left_out)
        rest = without(rest, rows)
    trained, every = list(rest), settings.single_answer_every
    for at, stage in enumerate(settings.stages, 1):
        turn = sum(earlier.k == stage.k for earlier in settings.stages[: at - 1])
        others = settings.stages[1:] if settings.same_questions and at == 1 else ()
        ranking = replace(stage, rows=stage.rows - stage.rows // every) if every and stage.rows else stage
        wanted = _Wanted(f"train stage {at}", ranking, turn, bool(settings.only_contested), others)
        (ranked, left_out), single = drawing.rows(wanted, rest), list[Row]()
        if every:
            ranked, single = drawing.single_rows(stage, at, every, ranked, trained)
        if others:
            used = {row["extra_info"]["id"] for row in ranked}
            rest = [question for question in rest if question.id in used]
        rows = list(with_singles(ranked, single, every)) if every else ranked
        curriculum.add("train", at, stage.k, rows, left_out)
    return curriculum


def without(questions: Sequence[Question], rows: Sequence[Row]) -> list[Question]:
    """Return the questions that are in none of the rows, nor are those of a row under another id.

    `questions` must have those of the rows.
    """
    ids = {row["extra_info"]["id"] for row in rows}
    asked = {(question.question, question.passage) for question in questions if question.id in ids}
    return [question for question in questions if (question.question, question.passage) not in asked]


def with_singles(rows: Iterable[Row], single: Iterable[Row], every: int) -> Iterator[Row]:
    """Yield the rows in their order, with the next of `single` as each `every`-th row."""
    left = iter(single)
    for number, row in enumerate(rows, 1):
        yield row
        if number % (every - 1) == 0:
            yield from itertools.islice(left, 1)


def count_shown(shown: Sequence[Sequence[float]]) -> dict[str, dict[str, Any]]:
    """Count the rows of each set of α (`alphas`), and for each letter the rows in which it has each α (`positions`)."""
    sets = Counter(" ".join(f"{alpha:g}" for alpha in sorted(alphas, reverse=True)) for alphas in shown)
    places = {
        letter: Counter(f"{alpha:g}" for alpha in sorted(column, reverse=True))
        for letter, column in zip(LETTERS, zip(*shown, strict=True), strict=False)
    }
    return {"alphas": dict(sorted(sets.items())), "positions": {letter: dict(at) for letter, at in places.items()}}


def check_answers(path: Path, variant: str) -> None:
    """Raise InputError if the variant repeats answers and the rows of a file lack them for the reward.

    Only the first row is checked, since all rows of a file are written together.
    """
    import pyarrow.parquet

    if not find_variant(variant).echo_answer:
        return
    try:
        with readable(path), pyarrow.parquet.ParquetFile(path) as rows:
            first = rows.read(["reward_model"]).slice(0, min(1, rows.metadata.num_rows)).to_pylist()
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if first and "answers" not in json.loads(first[0]["reward_model"]["ground_truth"]):
        raise InputError(
            f"{path}: field 'answers' is missing, which the reward of variant '{variant}' needs; an older version "
            f"wrote these rows. Remove {path.parent} and run the same command again"
        )


def listed(left_out: Mapping[str, int]) -> str:
    """Return the reasons that occurred as text, such as `31 identical, 2 too long`, or `none`."""
    return ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in left_out.items() if n) or "none"


def prompt_counter(model: str) -> TokenCounter:
    """Return a counter of a prompt's tokens that counts as verl does, with the model's chat template."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    return lambda messages: len(chat_ids(tokenizer, messages))


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a Parquet file. An existing file is replaced atomically."""
    import pyarrow
    import pyarrow.parquet

    content = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), content)
    write_bytes(path, content.getvalue().to_pybytes())


def describe(counts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line per stage for the terminal."""
    for name, stage in counts.items():
        single = f", {stage['single']} of them with K=1" if "single" in stage else ""
        replaced = listed(stage["left_out"])
        yield f"{name}: {stage['rows']} rows with K={stage['k']}{single}; questions replaced: {replaced}"
