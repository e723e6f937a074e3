"""The metrics of labelled texts, by the names that result files and tables give them."""

from __future__ import annotations

from rag_zeval.statistics.classification import Formula, balanced_accuracy, f1, f1_unsupported, precision, recall

THRESHOLD = 0.5
TUNED = "_tuned"  # behind the name of a metric: at the threshold found on the dev part
MACRO, POOLED = "macro", "pooled"
BY_THRESHOLD: dict[str, Formula] = {"balanced_accuracy": balanced_accuracy, "f1_unsupported": f1_unsupported}
AUROC = "auroc"
OF_SPANS: dict[str, Formula] = {"span_f1": f1, "span_precision": precision, "span_recall": recall}
