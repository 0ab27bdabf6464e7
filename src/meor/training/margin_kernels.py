"""The margin loss on unit rows, fused: what `kernels.py` is to the link loss, for `margin.py`.

Two sweeps, as there. Everything is summed as if unit rows were the parameters; then the gradient of each row
is projected back through x -> x / |x|.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from meor.compiled import fast_kernel, fast_part
from meor.training.division import divided
from meor.training.kernels import HEAD, TAIL, TRANSLATION, _form_query, _pull_query, _pull_row, _score
from meor.training.prefetch import prefetch

SMALLEST = 1e-12  # torch's normalize divides by at least this


@fast_part
def _unit(row, out):
    """Write a row at length 1; returns the length it had."""
    total = 0.0
    for i in range(row.shape[0]):
        total += row[i] * row[i]
    length = max(math.sqrt(total), SMALLEST)
    inverse = 1.0 / length
    for i in range(row.shape[0]):
        out[i] = divided(row[i], length, inverse)
    return length


@fast_part
def _ask_for_item(entity, fact, negative):
    prefetch(entity[fact[0]])
    prefetch(entity[fact[2]])
    for k in range(negative.shape[0]):
        prefetch(entity[negative[k]])


@fast_part
def _pull_queries(each, replaced, near, query_tail, query_head, d_head, d_tail):
    """A head's gradient is that of the query for the tail, a tail's that of the query for the head."""
    for k in range(replaced.shape[0]):
        if replaced[k] == 1:
            _pull_query(TRANSLATION, each, query_tail, near[k], d_head)
        else:
            _pull_query(TRANSLATION, each, query_head, near[k], d_tail)


@fast_kernel
def sweep_items(begin, end, margin, share, tables, batch, scratch, weight, loss):
    """Loss of each item, d(loss)/d(score) of its pairs, and the folded gradient of head, tail and relation.

    `share` is what an item's loss counts in the batch. A score is minus a distance. Most items of a trained
    model are beyond the margin: they have weights of 0, and no gradient, which nobody reads.
    """
    entity, relation = tables
    fact, negative, replaced = batch
    n_negatives, width = negative.shape[1], entity.shape[1]
    each = 1.0 / n_negatives
    # Unit rows are made where they are needed: a whole table of them would cost more to write and to read.
    near = np.empty((n_negatives + 3, width), entity.dtype)
    head, rel, tail = near[n_negatives], near[n_negatives + 1], near[n_negatives + 2]
    for b in range(begin, end):
        if b + 1 < end:
            _ask_for_item(entity, fact[b + 1], negative[b + 1])
        _unit(entity[fact[b, 0]], head)
        _unit(relation[fact[b, 1]], rel)
        _unit(entity[fact[b, 2]], tail)
        query_tail, query_head = scratch[0, b], scratch[1, b]
        _form_query(TRANSLATION, TAIL, head, rel, query_tail)
        _form_query(TRANSLATION, HEAD, tail, rel, query_head)
        total = 0.0
        for k in range(n_negatives):
            _unit(entity[negative[b, k]], near[k])
            query = query_tail if replaced[b, k] == 1 else query_head
            total += _score(TRANSLATION, query, near[k], 0.0)
        hinge = -_score(TRANSLATION, query_tail, tail, 0.0) + total * each + margin
        loss[b] = max(hinge, 0.0)
        active = share if hinge > 0 else 0.0
        weight[b, n_negatives] = -active
        for k in range(n_negatives):
            weight[b, k] = active * each
        if hinge > 0:
            d_head, d_tail, d_rel = scratch[2, b], scratch[3, b], scratch[4, b]
            d_head[:] = 0
            d_tail[:] = 0
            _pull_query(TRANSLATION, -1.0, query_tail, tail, d_head)
            _pull_queries(each, replaced[b], near, query_tail, query_head, d_head, d_tail)
            for i in range(width):
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
        own[i] = divided(own[i] - along * unit[i], length, inverse)


@fast_part
def _told(entry, replaced, scratch):
    """The item and the slot of an entry of the batch, and the row in the scratch that it contributes."""
    n_negatives = replaced.shape[1]
    b, slot = entry // (n_negatives + 3), entry % (n_negatives + 3)
    if slot > n_negatives:
        return b, slot, scratch[slot - n_negatives + 1, b]
    on_tail = slot == n_negatives or replaced[b, slot] == 1
    return b, slot, scratch[0 if on_tail else 1, b]


@fast_part
def _ask_for_entries(begin, end, entry, replaced, scratch):
    for p in range(begin, end):
        prefetch(_told(entry[p], replaced, scratch)[2])


@fast_kernel
def gather_rows(begin, end, table, batch, gradient):
    """The gradient of some entity rows: what their entries in the batch contribute, added in their order."""
    start, entry, replaced, scratch, weight = batch
    n_negatives = replaced.shape[1]
    here = np.empty(table.shape[1], table.dtype)
    for row in range(begin, end):
        own = gradient[row - begin]
        own[:] = 0
        if row + 1 < end:
            _ask_for_entries(start[row + 1], start[row + 2], entry, replaced, scratch)
        if start[row] == start[row + 1]:
            continue
        length = _unit(table[row], here)
        for p in range(start[row], start[row + 1]):
            b, slot, there = _told(entry[p], replaced, scratch)
            if weight[b, n_negatives] == 0:
                continue
            if slot <= n_negatives:
                _pull_row(TRANSLATION, weight[b, slot], there, here, own)
            else:
                for i in range(own.shape[0]):
                    own[i] += there[i]
        _project(own, here, length)


@fast_kernel
def gather_relations(begin, end, table, start, entry, scratch, weight, gradient):
    here = np.empty(table.shape[1], table.dtype)
    for row in range(begin, end):
        own = gradient[row - begin]
        own[:] = 0
        for p in range(start[row], start[row + 1]):
            if weight[entry[p], -1] == 0:
                continue
            folded = scratch[4, entry[p]]
            for i in range(own.shape[0]):
                own[i] += folded[i]
        length = _unit(table[row], here)
        _project(own, here, length)
