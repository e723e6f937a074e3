"""The names that people give to their columns, and to the fields of chunks and replies. `columns` reads these data.

Names are compared without case. Spaces, hyphens and capital letters inside a word count as `_`, and a plural counts as
its singular. So `Retrieved Contexts`, `retrievedContext` and `retrieved-contexts` are all `retrieved_context`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from unicodedata import normalize

from rag_zeval.errors import InputError

# With these words the names of gold chunks begin, and with those they go on: relevant_chunk_ids, expected_documents.
GOLD = ("gold", "relevant", "expected", "reference", "required", "ground_truth", "gt")
UNITS = ("chunk", "context", "doc", "document", "file", "passage", "retrieval", "source", "uid", "url")
# Column names that are recognised for each field. A file with two such columns for one field is rejected, unless one
# has our own name. Sources: field names of ragas 0.1 to 0.4, DeepEval, RAGChecker, open-rag-eval, TruLens, ARES,
# Phoenix, MLflow, Databricks, LangSmith, LangChain (create_retrieval_chain, RetrievalQA), LlamaIndex, DPR, FiD,
# promptfoo, Giskard, Galileo, AutoRAG, Dify, DSPy, Haystack, lm-eval, SQuAD and MuSiQue.
NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "user_input", "user_query", "user_question", "input", "prompt", "question_text",
                 "request", "instruction"),
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
GIVEN = ("input", "item", "datasource_item", "request")  # records of what a system got
EXPECTED = ("expectation", "reference_output")  # records of what it should say
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
CLASSES = frozenset({"0", "1"})  # all that a column of classes holds, if both are there. One alone may be a count
YES_NO = frozenset("yes no si sí oui non ja nein sim não nao".split())  # which are no contexts
VAGUE = frozenset({"expected", "gold", "target", "ideal"})  # names of the ground truth that may hold a label, too

# What the first cell of a row of totals says, in lower case, in the languages of SPREADSHEET_ERRORS.
TOTALS = frozenset(
    "total totals sum average avg mean median overall summary gesamt summe mittelwert durchschnitt somme moyenne "
    "suma promedio media totale somma soma média totaal som gemiddelde".split()
) | {"grand total"}

UNNAMED = ("(column ", "Unnamed: ")  # how we and pandas call a column without a name
COLUMN_NUMBER = re.compile(r" ?\(column [0-9]+\)\Z")  # by which we tell columns with the same name apart
INVISIBLE = "\u200b\u2060\ufeff"  # spaces without a width, which come with a copied text


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


@cache
def field_in_record(path: str) -> str | None:
    """Return the field that a path such as `inputs.question` holds; None if it does not begin in a record."""
    outer, dot, last = path.partition(".")
    if not dot or plain_name(outer) not in RECORDS:
        return None
    while plain_name(last.partition(".")[0]) in RECORDS and "." in last:
        outer, _, last = last.partition(".")
    field, outer = field_of(last), plain_name(outer)
    if outer in EXPECTED:
        return "truth" if field in ("truth", "answer", "reference") else None
    if outer in GIVEN and field == "answer" and "response" not in plain_name(last):
        return None  # an answer beside the question may be the ground truth
    return field


def spaced_once(cell: Any) -> str:
    """Return the name in a cell on one line, as messages show it and people type it, without invisible marks around."""
    return "" if cell is None else " ".join(str(cell).split()).strip(INVISIBLE)


@cache
def written_name(name: str) -> str:
    """Return the name of a column as its file writes it."""
    return COLUMN_NUMBER.sub("", name)


def same_name(name: str) -> str:
    """Return the form that is the same for names that look the same."""
    return normalize("NFC", spaced_once(name))


def unique_names(cells: Iterable[Any]) -> list[str]:
    """Return the names of columns, "" for a column without one. Raises InputError if two names are the same."""
    names = [spaced_once(cell) for cell in cells]
    if twice := [name for name, count in Counter(names).items() if name and count > 1]:
        raise InputError(f"has two columns named '{twice[0]}'; rename one")
    return names
