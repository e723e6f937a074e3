"""The names that people give to their columns, and the column layouts of known tools. `columns` reads these data.

Names are compared without case. Spaces, hyphens and capital letters inside a word count as `_`, and a plural counts as
its singular. So `Retrieved Contexts`, `retrievedContext` and `retrieved-contexts` are all `retrieved_context`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unicodedata import normalize

from rag_zeval.errors import InputError

# Our fields, and their names in messages.
FIELDS: Mapping[str, str] = {
    "question": "question",
    "answer": "answer",
    "answers": "answers by system",
    "contexts": "retrieved contexts",
    "passage": "one retrieved passage a row",
    "truth": "ground truth",
    "reference": "reference to judge by",
    "id": "id",
    "system": "system",
    "slice_tag": "slice",
    "context_ids": "ids of the retrieved contexts",
    "gold_chunk_ids": "ids of the gold chunks",
    "latency_s": "latency in seconds",
    "cost_usd": "cost in dollars",
    "run": "run of a query",
}
NEEDED = {  # required: at least one of the fields on the right
    "question": {"question"},
    "answer": {"answer", "answers"},
    "contexts": {"contexts", "passage", "truth", "reference"},
}
CHECKED = ("contexts", "truth", "reference")  # fields that answers are checked against
TEXTS = ("question", "answer", "answers", "passage", *CHECKED)  # fields that hold texts
DOUBLES = {"answer": ("answers",), "contexts": ("passage",)}  # fields that take the place of another

# With these words the names of gold chunks begin, and with those they go on: relevant_chunk_ids, expected_documents.
GOLD = ("gold", "relevant", "expected", "reference", "required", "ground_truth", "gt")
UNITS = ("chunk", "context", "doc", "document", "file", "passage", "retrieval", "source", "uid", "url")
# Column names that are recognised for each field. A file with two such columns for one field is rejected, unless one
# has our own name. Sources: field names of ragas 0.1 to 0.4, DeepEval, RAGChecker, open-rag-eval, TruLens, ARES,
# Phoenix, MLflow, Databricks, LangSmith, LangChain (create_retrieval_chain, RetrievalQA), LlamaIndex, DPR, FiD,
# promptfoo, Giskard, Galileo, AutoRAG, Dify, DSPy, Haystack, lm-eval, SQuAD and MuSiQue.
NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "user_input", "user_query", "user_question", "input", "prompt", "question_text",
                 "request"),
    "answer": (
        "answer", "response", "output", "prediction", "actual_output", "generated_answer", "model_answer",
        "model_output", "system_answer", "rag_answer", "predicted_answer", "generated_response", "model_response",
        "llm_response", "llm_output", "output_text", "completion", "generation", "generated_text", "pred", "hypothesis",
        "result", "generated_output", "agent_answer", "assistant_answer", "pred_answer", "pred_response",
        "prediction_text", "filtered_resp", "reply", "predicted", "generated", "actual_answer", "actual_response",
        "final_answer", "final_response", "ai_answer", "ai_response", "bot_answer", "bot_response", "chatbot_answer",
        "chatbot_response", "rag_response",
    ),
    "contexts": (
        "context", "chunk", "document", "doc", "passage", "source_document", "retrieved_context", "retrieval_context",
        "retrieved_document", "retrieved_doc", "retrieved_passage", "retrieved_chunk", "context_list", "contexts_list",
        "context_text", "ctx", "relevant_context", "source_node", "search_result", "retrieved_text", "chunk_text",
        "passage_text", "document_text", "retrieved_content", "retriever_resource", "paragraph",
    ),
    "truth": (
        "truth", "ground_truth", "ground_truth_answer", "gold_answer", "gold", "golden_answer", "gt_answer", "gt",
        "reference_answer", "expected_output", "expected_answer", "expected_response", "expected", "correct_answer",
        "ideal_answer", "ideal", "target", "target_answer", "reference_output", "true_answer", "answer_ground_truth",
        "label_answer", "generation_gt",
    ),
    "reference": ("reference",),
    "id": (
        "id", "_id", "query_id", "question_id", "qid", "q_id", "case_id", "sample_id", "example_id", "item_id",
        "row_id", "uid", "uuid",
    ),
    "system": ("system", "system_name", "rag_system"),
    "slice_tag": ("slice_tag", "slice"),
    "context_ids": (
        "context_id", "retrieved_context_id", "retrieved_id", "retrieved_doc_id", "retrieved_chunk_id", "chunk_id",
        "doc_id", "document_id", "passage_id",
    ),
    "gold_chunk_ids": ("gold_id", "relevant_id", "expected_id", *(f"{a}_{b}_id" for a in GOLD for b in UNITS)),
    "latency_s": ("latency_s", "latency_seconds", "latency_sec"),
    "cost_usd": ("cost_usd", "cost_dollar", "total_cost_usd"),
    "run": ("query_run", "repetition_number"),
}  # fmt: skip

# Names of columns that hold ids if their items look like ids, and texts otherwise.
IDS: Mapping[str, tuple[str, ...]] = {
    "context_ids": ("retrieved", *(f"retrieved_{unit}" for unit in UNITS)),
    "gold_chunk_ids": ("expected", "gold", "ideal", "relevant", "target", *(f"{a}_{b}" for a in GOLD for b in UNITS)),
}
ONE_ID = ("chunk_id", "doc_id", "document_id", "passage_id")  # of what was retrieved, or of the gold chunk

# Names of the text and of the id in an object that is a chunk. LangChain: page_content; LlamaIndex, RAGChecker, DPR:
# text; MLflow, OpenAI, Haystack: content; FlashRAG: contents; MS MARCO: passage_text; MuSiQue: paragraph_text;
# OpenInference, which Phoenix records: document.content.
CHUNK_TEXT = (
    "text", "page_content", "content", "passage", "chunk", "document", "body", "contents", "passage_text",
    "paragraph_text", "document.content",
)  # fmt: skip
SNIPPET = ("snippet", "chunk_text")  # texts if there is no other. Cohere, Perplexity, Google
CHUNK_ID = (
    "doc_id", "id", "chunk_id", "id_", "node_id", "doc_uri", "passage_id", "document_id", "document.id", "_id",
)  # fmt: skip
# Names of an object in a chunk that holds its text. LlamaIndex: node, text_resource; LangChain's dumpd: kwargs;
# Elasticsearch: _source; Bedrock: content; Cohere: document, data; Google: chunkInfo, retrievedContext; Pinecone
# Assistant: highlight, which Elasticsearch has, too.
CHUNK_IN = (
    "node", "text_resource", "kwargs", "_source", "content", "document", "doc", "data", "chunkInfo", "retrievedContext",
    "highlight",
)  # fmt: skip
# Names of the list in an object that holds chunks. Azure: citations; Elasticsearch: hits; Bedrock: retrievalResults;
# Chroma: documents.
CHUNK_LIST = ("citation", "hit", "retrieval_result", "document", "doc", "passage", "chunk", "context")
# Names of the text in an object that is a ground truth. TriviaQA: value; KILT: answer; SQuAD: text.
TRUTH_TEXT = ("value", "answer", "text", "content")
TEXT_PARTS = ("text", "output_text", "input_text")  # types of the parts of a text in the replies of model APIs

# Columns that hold a row's fields as an object: {"inputs": {"question": ...}}, or inputs.question in a flattened table.
# MLflow, LangSmith: inputs, outputs; Azure: inputs; OpenAI: item, sample, datasource_item. They hold no ids of rows.
RECORDS = (
    "input", "output", "expectation", "reference_output", "item", "sample", "datasource_item", "request", "response",
)  # fmt: skip
# Where the replies and files of model APIs hold our fields. A reply may be a row, or the value of a column for answers.
# All are known by the paths of their answer and contexts.
REPLIES: tuple[Mapping[str, str], ...] = (
    # Azure OpenAI On Your Data; OpenAI's chat completions, which many copy
    {"answer": "choices.message.content", "contexts": "choices.message.context.citations"},
    {"answer": "choices.message.content"},
    {"answer": "body.choices.message.content"},  # OpenAI's batches
    # Gemini with grounding, and without
    {"answer": "candidates.content.parts", "contexts": "candidates.groundingMetadata.groundingChunks"},
    {"answer": "candidates.content.parts"},
    # Amazon Bedrock: RetrieveAndGenerate, and the data sets of its RAG evaluation
    {"question": "input.text", "answer": "output.text", "contexts": "citations.retrievedReferences"},
    {"question": "conversationTurns.prompt.content.text", "answer": "conversationTurns.output.text",
     "contexts": "conversationTurns.output.retrievedPassages.retrievalResults",
     "truth": "conversationTurns.referenceResponses.content.text"},
    {"answer": "answer.answerText", "contexts": "answer.references"},  # Vertex AI Search
    {"answer": "sample.output.content"},  # output items of OpenAI's Evals API
)  # fmt: skip

# What spreadsheets write where a formula failed. A text that begins with "=" or "-" becomes "#NAME?". Excel writes them
# in its own language: here English and Google Sheets, German, French, Spanish, Italian, Portuguese and Dutch.
SPREADSHEET_ERRORS = frozenset(
    "#N/A #NAME? #VALUE! #REF! #DIV/0! #NULL! #NUM! #SPILL! #CALC! #ERROR! #NV #WERT! #BEZUG! #ZAHL! #N/D #NOM? "
    "#VALEUR! #NOMBRE! #NUL! #¿NOMBRE? #¡VALOR! #¡REF! #¡DIV/0! #¡NUM! #¡NULO! #NOME? #VALORE! #RIF! #VALOR! #NÚM! "
    "#N/B #NAAM? #WAARDE! #VERW! #GETAL! #DEEL/0!".split()
)
# How pandas, numpy, Python, databases and spreadsheets write a cell or field without a value.
NOTHING = frozenset({"nan", "NaN", "None", "null", "NULL", "<NA>", "NaT", r"\N"}) | SPREADSHEET_ERRORS
# Texts that may mean that nothing is there, in lower case. They are read as they are, with a warning.
PLACEHOLDERS = frozenset({"n/a", "na", "nan", "none", "null", "nil", "-", "--", "?", "unknown", "tbd", "undefined"})

# Texts of a column such as `result` that are no answers, in lower case. But yes and no may well be answers.
VERDICTS = frozenset(
    "pass passed fail failed correct incorrect partial success failure error ok timeout answerable unanswerable "
    "abstain refuse refused".split()
)
YES_NO = frozenset("yes no si sí oui non ja nein sim não nao".split())  # which are no contexts
VAGUE = frozenset({"expected", "gold", "target", "ideal"})  # names of the ground truth that may hold a label, too

# What the first cell of a row of totals says, in lower case, in the languages of SPREADSHEET_ERRORS.
TOTALS = frozenset(
    "total totals sum average avg mean median overall summary gesamt summe mittelwert durchschnitt somme moyenne "
    "suma promedio media totale somma soma média totaal som gemiddelde".split()
) | {"grand total"}

INVISIBLE = "\u200b\u2060\ufeff"  # spaces without a width, which come with a copied text


@dataclass(frozen=True)
class Layout:
    """The columns of a tool's files.

    known_by: columns that all its files have. The layout is recognised by them.
    columns: for each of our fields, the tool's column.
    other_meaning: columns whose name suggests one of our fields, and what they hold instead, in words.
    example: a row as the tool writes it, for the tests.
    separator: a pattern of what the tool writes between several contexts in one text.
    """

    name: str
    known_by: tuple[str, ...]
    columns: Mapping[str, str]
    example: Mapping[str, Any]
    other_meaning: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = None


LAYOUTS = (
    Layout(
        "ragas",  # ragas 0.2 to 0.4: SingleTurnSample
        ("user_input", "response"),
        {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts", "truth": "reference",
         "context_ids": "retrieved_context_ids", "gold_chunk_ids": "reference_context_ids"},
        {"user_input": "q?", "response": "a", "retrieved_contexts": ["c"], "reference": "t",
         "reference_contexts": ["g"]},
    ),
    Layout(
        "ragas",  # its test sets from 0.2 on, with answers beside
        ("user_input", "reference"),
        {"question": "user_input", "truth": "reference", "contexts": "retrieved_contexts",
         "context_ids": "retrieved_context_ids", "gold_chunk_ids": "reference_context_ids"},
        {"user_input": "q?", "reference_contexts": ["g"], "reference": "t", "synthesizer_name": "s", "answer": "a",
         "retrieved_contexts": ["c"]},
    ),
    Layout(
        "a test set of ragas",  # ragas 0.1: TestsetGenerator, with answers beside
        ("question", "contexts", "evolution_type"),
        {"question": "question", "answer": "answer", "contexts": "retrieved_contexts", "truth": "ground_truth"},
        {"question": "q?", "contexts": ["g"], "ground_truth": "t", "evolution_type": "simple", "metadata": [],
         "episode_done": True, "answer": "a", "retrieved_contexts": ["c"]},
        {"contexts": "what the question was written from; if you have put in what was retrieved, add --map "
                     "contexts=contexts"},
    ),
    Layout(
        "RAGChecker",  # ragchecker 0.1.9: RAGResult
        ("query", "response", "retrieved_context"),
        {"id": "query_id", "question": "query", "answer": "response", "truth": "gt_answer",
         "contexts": "retrieved_context"},
        {"query_id": "1", "query": "q?", "response": "a", "gt_answer": "t",
         "retrieved_context": [{"doc_id": "d", "text": "c"}]},
    ),
    Layout(
        "open-rag-eval",  # open-rag-eval 0.3.0: RAGResultsLoader
        ("query", "passage", "generated_answer"),
        {"id": "query_id", "question": "query", "answer": "generated_answer", "passage": "passage",
         "context_ids": "passage_id", "run": "query_run"},
        {"query_id": "1", "query": "q?", "query_run": 1, "passage_id": "[1]", "passage": "c", "generated_answer": "a"},
    ),
    Layout(
        "Phoenix",  # phoenix: get_qa_with_reference and get_retrieved_documents, joined
        ("context.span_id", "document_position", "input", "output", "reference"),
        {"id": "context.span_id", "question": "input", "answer": "output", "passage": "reference",
         "context_ids": "document_position"},
        {"context.span_id": "s", "document_position": 0, "input": "q?", "output": "a", "reference": "c"},
    ),
    Layout(
        "Phoenix",  # phoenix.client: get_input_output_context and get_retrieved_documents, joined
        ("context.span_id", "document_position", "input", "output", "document"),
        {"id": "context.span_id", "question": "input", "answer": "output", "passage": "document",
         "context_ids": "document_position"},
        {"context.span_id": "s", "document_position": 0, "input": "q?", "output": "a", "document": "c"},
    ),
    Layout(
        "DeepEval",  # deepeval: EvaluationDataset.save_as, in version 4 with `name` and `additional_metadata`
        ("input", "actual_output", "retrieval_context", "source_file"),
        {"question": "input", "answer": "actual_output", "truth": "expected_output", "contexts": "retrieval_context",
         "id": "name"},
        {"input": "q?", "actual_output": "a", "expected_output": "t", "retrieval_context": "c", "name": "1",
         "source_file": None, "additional_metadata": None},
        {"context": "the ideal context of DeepEval, not what was retrieved"},
        separator=r"(?<=\S)\|(?=\S)(?!--)",  # not the one of a table in Markdown
    ),
    Layout(
        "DeepEval",  # deepeval 4: LLMTestCase
        ("input", "actual_output"),
        {"question": "input", "answer": "actual_output", "truth": "expected_output", "contexts": "retrieval_context",
         "id": "name"},
        {"input": "q?", "actual_output": "a", "expected_output": "t", "retrieval_context": ["c"], "name": "1"},
        {"context": "the ideal context of DeepEval, not what was retrieved"},
    ),
    Layout(
        "Databricks",  # Agent Evaluation
        ("request", "response", "retrieved_context"),
        {"id": "request_id", "question": "request", "answer": "response", "contexts": "retrieved_context",
         "truth": "expected_response"},
        {"request_id": "1", "request": "q?", "response": "a", "expected_response": "t", "expected_facts": ["f"],
         "retrieved_context": [{"doc_uri": "d", "content": "c"}]},
    ),
    Layout(
        "Galileo",  # datasets of galileo 1: `output` is shown as ground truth
        ("input", "output", "generated_output"),
        {"question": "input", "answer": "generated_output", "truth": "output"},
        {"input": "q?", "output": "t", "generated_output": "a", "context": "c", "metadata": None},
    ),
    Layout(
        "rag-zeval questions",  # with answers beside them
        ("question", "truth", "snippets", "gold_chunk_ids", "documents"),
        {"question": "question", "truth": "truth", "gold_chunk_ids": "gold_chunk_ids", "contexts": "contexts"},
        {"question": "q?", "truth": "t", "snippets": ["s"], "gold_chunk_ids": ["d.md#1"],
         "documents": ["d.md"], "answer": "a", "contexts": ["c"]},
        {"documents": "a list of file names, not what was retrieved"},
    ),
    Layout(
        "DPR",  # DPR, FiD, Atlas: gold answers in `answers`, retrieved contexts in `ctxs`
        ("question", "answers", "ctxs"),
        {"question": "question", "truth": "answers", "contexts": "ctxs"},
        {"question": "q?", "answers": ["t", "t2"], "ctxs": [{"id": "d", "title": "T", "text": "c"}], "output": "a"},
    ),
    Layout(
        "DSPy",  # dspy.Evaluate(save_as_json=...): a field of the example and of the prediction gets a prefix
        ("example_answer", "pred_answer"),
        {"question": "question", "answer": "pred_answer", "truth": "example_answer", "contexts": "context"},
        {"question": "q?", "example_answer": "t", "context": ["c"], "reasoning": "r", "pred_answer": "a", "metric": 1},
    ),
    Layout(
        "DSPy",
        ("example_response", "pred_response"),
        {"question": "question", "answer": "pred_response", "truth": "example_response", "contexts": "context"},
        {"question": "q?", "example_response": "t", "context": ["c"], "pred_response": "a", "SemanticF1": 1},
    ),
    Layout(
        "HotpotQA",  # HotpotQA, 2WikiMultihopQA: `answer` is gold, and people add a model's answer to the rows
        ("question", "answer", "supporting_facts", "context"),
        {"question": "question", "truth": "answer", "contexts": "context"},
        {"question": "q?", "answer": "t", "supporting_facts": [["T", 0]], "context": [["T", ["c"]]], "prediction": "a"},
    ),
    Layout(
        "MuSiQue",
        ("question", "answer", "paragraphs", "question_decomposition"),
        {"question": "question", "truth": "answer", "contexts": "paragraphs"},
        {"question": "q?", "answer": "t", "paragraphs": [{"title": "T", "paragraph_text": "c"}],
         "question_decomposition": [{"question": "p?", "answer": "s"}], "predicted_answer": "a"},
    ),
)  # fmt: skip


@cache
def snake_name(name: str) -> str:
    """Return `retrieved_contexts` for `Retrieved Contexts` or `retrievedContexts`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s\-]+", "_", words).lower()


@cache
def plain_name(name: str) -> str:
    """Return the form in which names are compared. `Retrieved Contexts` becomes `retrieved_context`."""
    plain = snake_name(name)
    if plain.endswith("ies"):
        return plain.removesuffix("ies") + "y"
    return plain.removesuffix("s") if len(plain) > 2 and not plain.endswith("ss") else plain


FIELD_OF = {plain_name(name): ours for ours, names in NAMES.items() for name in names}


def field_of(name: str) -> str | None:
    """Return the field that a column of this name holds, or None if the name is not known."""
    if name.strip().lower() == "answers":  # not the plural of `answer`
        return "answers"
    return FIELD_OF.get(plain_name(name))


def spaced_once(cell: Any) -> str:
    """Return the name in a cell on one line, as messages show it and people type it, without invisible marks around."""
    return "" if cell is None else " ".join(str(cell).split()).strip(INVISIBLE)


def same_name(name: str) -> str:
    """Return the form that is the same for names that look the same."""
    return normalize("NFC", spaced_once(name))


def unique_names(cells: Iterable[Any]) -> list[str]:
    """Return the names of columns, "" for a column without one. Raises InputError if two names are the same."""
    names = [spaced_once(cell) for cell in cells]
    if twice := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"has two columns named '{twice[0]}'; rename one")
    return names
