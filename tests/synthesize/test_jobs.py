from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from synthesize.jobs import Job, batches

LENGTH = st.integers(1, 500)


@given(st.lists(st.tuples(LENGTH, LENGTH), max_size=60), st.integers(1, 8), st.integers(100, 3000), st.integers(1, 12))
def test_batches_hold_every_job_that_is_not_refused_once_within_bounds(settings, lengths, rows, tokens, new):
    jobs = [Job(number, [1] * first, [1] * second) for number, (first, second) in enumerate(lengths)]
    refused = Job(None, [1], [1], "too long")
    groups = batches([refused, *jobs], settings(batch_size=rows, max_new_tokens=new), tokens)
    assert [job for group in groups for job in group] == sorted(jobs, key=lambda job: (job.width, job.question))
    for group in groups:
        assert len(group) <= rows
        assert len(group) == 1 or len(group) * (group[-1].width + 2 * 4 * new) <= tokens
