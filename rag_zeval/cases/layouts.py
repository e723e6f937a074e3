"""The layouts of known tools: which columns their files have, and which of our fields each holds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rag_zeval.cases.names import snake_name


@dataclass(frozen=True)
class Layout:
    """The columns of a tool's files.

    known_by: columns that all its files have. The layout is recognised by them.
    columns: for each of our fields, the tool's column.
    other_meaning: columns whose name suggests one of our fields, and what they hold instead, in words.
    separator: a pattern of what the tool writes between several contexts in one text.
    """

    name: str
    known_by: tuple[str, ...]
    columns: Mapping[str, str]
    other_meaning: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = None

    def fits(self, there: Collection[str], chosen: Mapping[str, str]) -> bool:
        """Whether a file has the layout, and the user does not say that a known column holds another field.

        there: the file's columns. chosen: the columns that the user chose, by field.
        """
        named = {of: snake_name(path) for of, path in chosen.items()}
        is_otherwise = any(path in self.known_by and self.columns.get(of) != path for of, path in named.items())
        return not is_otherwise and {*map(snake_name, there)}.issuperset(self.known_by)


LAYOUTS = (
    Layout(
        "ragas",  # ragas 0.2 to 0.4: SingleTurnSample
        ("user_input", "response"),
        {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts", "truth": "reference",
         "context_ids": "retrieved_context_ids", "gold_chunk_ids": "reference_context_ids"},
    ),
    Layout(
        "ragas",  # its test sets from 0.2 on, with answers beside
        ("user_input", "reference"),
        {"question": "user_input", "truth": "reference", "contexts": "retrieved_contexts",
         "context_ids": "retrieved_context_ids", "gold_chunk_ids": "reference_context_ids"},
    ),
    Layout(
        "a test set of ragas",  # ragas 0.1: TestsetGenerator, with answers beside
        ("question", "contexts", "evolution_type"),
        {"question": "question", "answer": "answer", "contexts": "retrieved_contexts", "truth": "ground_truth"},
        {"contexts": "what the question was written from; if you have put in what was retrieved, add --map "
                     "contexts=contexts"},
    ),
    Layout(
        "RAGChecker",  # ragchecker 0.1.9: RAGResult
        ("query", "response", "retrieved_context"),
        {"id": "query_id", "question": "query", "answer": "response", "truth": "gt_answer",
         "contexts": "retrieved_context"},
    ),
    Layout(
        "open-rag-eval",  # open-rag-eval 0.3.0: RAGResultsLoader
        ("query", "passage", "generated_answer"),
        {"id": "query_id", "question": "query", "answer": "generated_answer", "passage": "passage",
         "context_ids": "passage_id", "run": "query_run"},
    ),
    Layout(
        "Phoenix",  # phoenix: get_qa_with_reference and get_retrieved_documents, joined
        ("context.span_id", "document_position", "input", "output", "reference"),
        {"id": "context.span_id", "question": "input", "answer": "output", "passage": "reference",
         "context_ids": "document_position"},
    ),
    Layout(
        "Phoenix",  # phoenix.client: get_input_output_context and get_retrieved_documents, joined
        ("context.span_id", "document_position", "input", "output", "document"),
        {"id": "context.span_id", "question": "input", "answer": "output", "passage": "document",
         "context_ids": "document_position"},
    ),
    Layout(
        "DeepEval",  # deepeval: EvaluationDataset.save_as, in version 4 with `name` and `additional_metadata`
        ("input", "actual_output", "retrieval_context", "source_file"),
        {"question": "input", "answer": "actual_output", "truth": "expected_output", "contexts": "retrieval_context",
         "id": "name"},
        {"context": "the ideal context of DeepEval, not what was retrieved"},
        separator=r"(?<=\S)\|(?=\S)(?!--)",  # not the one of a table in Markdown
    ),
    Layout(
        "DeepEval",  # deepeval 4: LLMTestCase
        ("input", "actual_output"),
        {"question": "input", "answer": "actual_output", "truth": "expected_output", "contexts": "retrieval_context",
         "id": "name"},
        {"context": "the ideal context of DeepEval, not what was retrieved"},
    ),
    Layout(
        "Databricks",  # Agent Evaluation
        ("request", "response", "retrieved_context"),
        {"id": "request_id", "question": "request", "answer": "response", "contexts": "retrieved_context",
         "truth": "expected_response"},
    ),
    Layout(
        "Galileo",  # datasets of galileo 1: `output` is shown as ground truth
        ("input", "output", "generated_output"),
        {"question": "input", "answer": "generated_output", "truth": "output"},
    ),
    Layout(
        "rag-zeval questions",  # with answers beside them
        ("question", "truth", "snippets", "gold_chunk_ids", "documents"),
        {"question": "question", "truth": "truth", "gold_chunk_ids": "gold_chunk_ids", "contexts": "contexts"},
        {"documents": "a list of file names, not what was retrieved"},
    ),
    Layout(
        "DPR",  # DPR, FiD, Atlas: gold answers in `answers`, retrieved contexts in `ctxs`
        ("question", "answers", "ctxs"),
        {"question": "question", "truth": "answers", "contexts": "ctxs"},
    ),
    Layout(
        "DSPy",  # dspy.Evaluate(save_as_json=...): a field of the example and of the prediction gets a prefix
        ("example_answer", "pred_answer"),
        {"question": "question", "answer": "pred_answer", "truth": "example_answer", "contexts": "context"},
    ),
    Layout(
        "DSPy",
        ("example_response", "pred_response"),
        {"question": "question", "answer": "pred_response", "truth": "example_response", "contexts": "context"},
    ),
    Layout(
        "HotpotQA",  # HotpotQA, 2WikiMultihopQA: `answer` is gold, and people add a model's answer to the rows
        ("question", "answer", "supporting_facts", "context"),
        {"question": "question", "truth": "answer", "contexts": "context"},
    ),
    Layout(
        "MuSiQue",
        ("question", "answer", "paragraphs", "question_decomposition"),
        {"question": "question", "truth": "answer", "contexts": "paragraphs"},
    ),
)  # fmt: skip
