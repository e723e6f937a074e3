"""Values that the paper (arXiv:2505.22430) prints, to stand beside ours."""

from __future__ import annotations

PUBLISHED: dict[tuple[str, str, str], float] = {
    # Table 2: correlation with the human correctness labels
    ("ragchecker_meta", "bleu", "pearson"): 0.302,
    ("ragchecker_meta", "bleu", "spearman"): 0.305,
    ("ragchecker_meta", "bleu", "kendall"): 0.236,
    ("ragchecker_meta", "rouge_l", "pearson"): 0.395,
    ("ragchecker_meta", "rouge_l", "spearman"): 0.428,
    ("ragchecker_meta", "rouge_l", "kendall"): 0.335,
} | {
    # Table 1: they come out against `poor_answer` only, and without ties
    ("wikieval", scorer, f"poor_answer/pairwise_{ties}"): value
    for scorer, value in (("bleu", 0.860), ("rouge_l", 0.900))
    for ties in ("best", "middle", "worst")
}
