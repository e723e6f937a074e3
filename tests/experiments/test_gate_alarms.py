"""The simulated releases: where they have noise. What the gate says of them is tested beside the gate."""

from collections import Counter

import numpy as np

from experiments import gate_alarms


def test_only_the_small_slice_has_noise_where_the_name_says_so() -> None:
    release = gate_alarms.RELEASES[-1]
    assert release.name == "nothing changes, noise only in a slice of 3"
    old, new = gate_alarms.versions(release, 0.2, np.random.default_rng(0))
    assert (old != new)[:3].any() and (old == new)[3:].all()
    sizes = Counter(one.slice_tag for one in gate_alarms.side(old, release.cases).cases.values())
    assert sizes == {"slice 0": 3, "slice 1": 15, "slice 2": 14, "slice 3": 14, "slice 4": 14}
