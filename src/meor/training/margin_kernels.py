"""The margin loss on unit rows, fused: what `kernels.py` is to the link loss, for `margin.py`.

Two sweeps, as there. Unit rows are made first, and everything is summed as if they were the parameters; then
the gradient of each row is projected back through x -> x / |x|.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

from meor.compiled import fast_kernel, fast_part
from meor.training.kernels import HEAD, TAIL, TRANSLATION, _form_query, _pull_query, _score

SMALLEST = 1e-12  # torch's normalize divides by at least this


@fast_kernel
def unit_rows(begin, end, table, unit, length):
    for row in range(begin, end):
        total = 0.0
        for i in range(table.shape[1]):
            total += table[row, i] * table[row, i]
        length[row] = max(math.sqrt(total), SMALLEST)
        inverse = 1.0 / length[row]
        for i in range(table.shape[1]):
            unit[row, i] = table[row, i] * inverse


@fast_kernel
def sweep_items(begin, end, margin, share, entity, relation, fact, negative, replaced, scratch, weight, loss):
    """Loss of each item, d(loss)/d(score) of its pairs, and the folded gradient of head, tail and relation.

    `share` is what an item's loss counts in the batch. A score is minus a distance. Most items of a trained
    model are beyond the margin: they have weights of 0, and no gradient, which nobody reads.
    """
    n_negatives = negative.shape[1]
    each = 1.0 / n_negatives
    for b in range(begin, end):
        head, rel, tail = fact[b, 0], fact[b, 1], fact[b, 2]
        query_tail, query_head = scratch[0, b], scratch[1, b]
        _form_query(TRANSLATION, TAIL, entity[head], relation[rel], query_tail)
        _form_query(TRANSLATION, HEAD, entity[tail], relation[rel], query_head)
        total = 0.0
        for k in range(n_negatives):
            query = query_tail if replaced[b, k] == 1 else query_head
            total += _score(TRANSLATION, query, entity[negative[b, k]], 0.0)
        hinge = -_score(TRANSLATION, query_tail, entity[tail], 0.0) + total * each + margin
        loss[b] = max(hinge, 0.0)
        active = share if hinge > 0 else 0.0
        weight[b, n_negatives] = -active
        for k in range(n_negatives):
            weight[b, k] = active * each
        if hinge > 0:
            d_head, d_tail, d_rel = scratch[2, b], scratch[3, b], scratch[4, b]
            d_head[:] = 0
            d_tail[:] = 0
            # A head's gradient is that of the query for the tail, a tail's that of the query for the head.
            _pull_query(TRANSLATION, -1.0, query_tail, entity[tail], d_head)
            for k in range(n_negatives):
                row = entity[negative[b, k]]
                if replaced[b, k] == 1:
                    _pull_query(TRANSLATION, each, query_tail, row, d_head)
                else:
                    _pull_query(TRANSLATION, each, query_head, row, d_tail)
            for i in range(entity.shape[1]):
                d_head[i] *= active
                d_tail[i] *= active
                d_rel[i] = d_head[i] - d_tail[i]


@fast_part
def _project(own, unit, length):
    """Through the normalisation: g <- (g - (g.u) u) / |x|, in place."""
    along, inverse = 0.0, 1.0 / length
    if length > SMALLEST:
        for i in range(own.shape[0]):
            along += own[i] * unit[i]
    for i in range(own.shape[0]):
        own[i] = (own[i] - along * unit[i]) * inverse


@fast_kernel
def gather_rows(begin, end, first, batch, unit, length, gradient):
    """The gradient of each entity row: what its entries in the batch contribute, added in their order."""
    start, entry, replaced, scratch, weight = batch
    n_negatives = replaced.shape[1]
    slots = n_negatives + 3
    for row in range(begin, end):
        own, here = gradient[row], unit[first + row]
        own[:] = 0
        for p in range(start[row], start[row + 1]):
            b, slot = entry[p] // slots, entry[p] % slots
            if weight[b, n_negatives] == 0:
                continue
            if slot <= n_negatives:
                on_tail = slot == n_negatives or replaced[b, slot] == 1
                query, of = scratch[0 if on_tail else 1, b], weight[b, slot]
                for i in range(own.shape[0]):
                    apart = query[i] - here[i]
                    own[i] += of * math.copysign(1.0, apart) if apart != 0 else 0.0
            else:
                folded = scratch[slot - n_negatives + 1, b]
                for i in range(own.shape[0]):
                    own[i] += folded[i]
        if start[row] < start[row + 1]:
            _project(own, here, length[first + row])


@fast_kernel
def gather_relations(begin, end, first, start, entry, scratch, weight, unit, length, gradient):
    for row in range(begin, end):
        own = gradient[row]
        own[:] = 0
        for p in range(start[row], start[row + 1]):
            if weight[entry[p], -1] == 0:
                continue
            folded = scratch[4, entry[p]]
            for i in range(own.shape[0]):
                own[i] += folded[i]
        _project(own, unit[first + row], length[first + row])
