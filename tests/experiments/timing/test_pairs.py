from __future__ import annotations

from experiments.timing.pairs import Comparison, table, total


def test_a_table_has_medians_over_pairs_and_says_where_results_differ() -> None:
    slow = Comparison("slow", [(4.0, 2.0), (9.0, 3.0), (8.0, 1.0)], 0.0)
    unequal = Comparison("unequal", [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)], 0.5)
    assert table([slow, unequal, total("both", [slow, unequal])], "plain").splitlines() == [
        "| | plain | ours | ratio | same result |",
        "|---|---:|---:|---:|---|",
        "| slow | 8.00 s | 2.00 s | 3.00 | yes, within 0e+00 |",
        "| unequal | 2.00 s | 0.00 s |  | NO, within 5e-01 |",
        "| both | 11.00 s | 2.00 s | 3.67 | NO, within 5e-01 |",
    ]
