"""Values in print, to stand beside ours: of the paper (arXiv:2505.22430) where nothing else is said.

A judge's are by the model that its source used (the paper's baselines: Qwen2.5-72B-Instruct), whatever model ours is.
"""

from __future__ import annotations

CORRELATIONS: dict[str, dict[str, float]] = {
    # Table 2: correlation with the human correctness labels
    "bleu": {"pearson": 0.302, "spearman": 0.305, "kendall": 0.236},
    "rouge_l": {"pearson": 0.395, "spearman": 0.428, "kendall": 0.335},
    "bert_score": {"pearson": 0.350, "spearman": 0.437, "kendall": 0.341},
    "ragas_answer_similarity": {"pearson": 0.411, "spearman": 0.432, "kendall": 0.283},
    "sft_ranker": {"pearson": 0.359, "spearman": 0.350, "kendall": 0.320},
    # Table 8
    "trulens_answer_relevance": {"pearson": 0.368, "spearman": 0.320, "kendall": 0.289},
    "trulens_groundedness": {"pearson": 0.428, "spearman": 0.446, "kendall": 0.360},
    # RAGChecker's own paper (arXiv:2408.08067), Table 2; it prints no Kendall
    "ragchecker_shipped": {"pearson": 0.4966, "spearman": 0.4695},
    "human": {"pearson": 0.6367, "spearman": 0.5919},
}
# Table 1: the lexical values come out against `poor_answer` only, and without ties
WINS = {"bleu": 0.860, "rouge_l": 0.900, "sft_ranker": 0.828}

PUBLISHED: dict[tuple[str, str, str], float] = {
    ("ragchecker_meta", scorer, kind): value for scorer, kinds in CORRELATIONS.items() for kind, value in kinds.items()
} | {
    ("wikieval", scorer, f"poor_answer/pairwise_{ties}"): value
    for scorer, value in WINS.items()
    for ties in ("best", "middle", "worst")
}
