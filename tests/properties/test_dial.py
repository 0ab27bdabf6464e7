"""P3 at every scale: the dial equals a sort of the whole universe with scaled rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from tests import oracle
from tests.properties.lengths import Lengths

from meor.backbone import Model
from meor.evaluation.dial import Asking, dial_update, scaled
from meor.stream.snapshot import Stream
from meor.typing import SPLITS

holds = Lengths(short=300, long=5000)

# Powers of two and small dyadic numbers: scaled scores are exact, so ties are real ties at every scale.
SCALES = np.array([0.25, 0.5, 1.0, 1.5, 2.0])


@st.composite
def cases(draw) -> tuple[Stream, Model, int]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stream = oracle.small_stream(
        rng,
        snapshots=draw(st.integers(2, 4)),
        base=draw(st.integers(1, 6)),
        admitted=draw(st.integers(0, 4)),
        facts=draw(st.integers(0, 12)),
        relations=draw(st.integers(1, 2)),
    )
    name = draw(st.sampled_from(["complex", "distmult"]))
    sizes = len(stream.entities), len(stream.relations)
    levels = draw(st.integers(0, 3))
    model = oracle.dyadic_model(name, *sizes, rng, dim=draw(st.integers(1, 3)), levels=levels)
    far = 2.0 ** draw(st.sampled_from([0, 0, -90, 90]))  # out of float32's range: nothing is screened
    model = Model(model.backbone, model.entity * far, model.relation)
    return stream, model, draw(st.integers(1, len(stream.snapshots) - 1))


@holds(cases(), st.sampled_from(SPLITS))
def test_every_point_equals_a_sort_of_scaled_rows(case, split):
    stream, model, update = case
    n_base, (n_old, n_cur) = stream.entity_counts[0], stream.entity_counts[update - 1 : update + 1]
    known = stream.prefix(update)
    for found in dial_update(stream, model, update, SCALES, Asking(split)):
        for point, scale in enumerate(SCALES):
            judged = oracle.judge(scaled(model, n_base, scale), found.occurrences, known, n_old, n_cur)
            assert found.cur[point].tolist() == [each.cur for each in judged]
            assert found.old[point].tolist() == [each.old or 0 for each in judged]


@pytest.mark.long
@pytest.mark.parametrize("name", holds.known)
def test_the_same_at_length(name):
    holds.at_length(name)
