"""The margin loss on unit rows, fused: what `kernels.py` is to the link loss, for `margin.py`.

Two sweeps, as there. Everything is summed as if unit rows were the parameters; then the gradient of each row
is projected back through x -> x / |x|. What a pair contributes to it is a weight times signs, and signs take
an eighth of the memory that a query would take: waiting for memory is what costs here.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from meor.compiled import fast_kernel, fast_part
from meor.training.division import divided
from meor.training.kernels import HEAD, TAIL, TRANSLATION, _form_query, _score, _sign
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
def _note_signs(weight, query, row, signs, own):
    for i in range(query.shape[0]):
        sign = _sign(query[i] - row[i])
        signs[i] = sign
        own[i] += weight * sign


@fast_part
def _add_signs(weight, signs, own):
    for i in range(own.shape[0]):
        own[i] += weight * signs[i]


@fast_kernel
def sweep_items(begin, end, margin, share, tables, batch, scratch, signs, weight, loss):
    """Loss of each item, d(loss)/d(score) of its pairs, signs of query - row, and folded gradients.

    `share` is what an item's loss counts in the batch. A score is minus a distance. An item beyond the margin
    has weights of 0, and nobody reads its signs and gradients.
    """
    entity, relation = tables
    fact, negative, replaced = batch
    n_negatives, width = negative.shape[1], entity.shape[1]
    each = 1.0 / n_negatives
    # Unit rows are made where they are needed: a whole table of them would cost more to write and to read.
    near = np.empty((n_negatives + 2, width), entity.dtype)
    query = np.empty((2, width), entity.dtype)
    tail, head = near[n_negatives], near[n_negatives + 1]
    rel = np.empty(width, entity.dtype)
    for b in range(begin, end):
        if b + 1 < end:
            _ask_for_item(entity, fact[b + 1], negative[b + 1])
        _unit(entity[fact[b, 0]], head)
        _unit(relation[fact[b, 1]], rel)
        _unit(entity[fact[b, 2]], tail)
        _form_query(TRANSLATION, HEAD, tail, rel, query[0])
        _form_query(TRANSLATION, TAIL, head, rel, query[1])
        total = 0.0
        for k in range(n_negatives):
            _unit(entity[negative[b, k]], near[k])
            total += _score(TRANSLATION, query[replaced[b, k]], near[k], 0.0)
        hinge = -_score(TRANSLATION, query[1], tail, 0.0) + total * each + margin
        loss[b] = max(hinge, 0.0)
        active = share if hinge > 0 else 0.0
        weight[b, n_negatives] = -active
        for k in range(n_negatives):
            weight[b, k] = active * each
        if hinge > 0:
            d_head, d_tail, d_rel = scratch[0, b], scratch[1, b], scratch[2, b]
            d_head[:] = 0
            d_tail[:] = 0
            _note_signs(1.0, query[1], tail, signs[b, n_negatives], d_head)
            for k in range(n_negatives):
                # A head's gradient is that of the query for the tail, a tail's that of the other query.
                own = d_head if replaced[b, k] == 1 else d_tail
                _note_signs(-each, query[replaced[b, k]], near[k], signs[b, k], own)
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
def _ask_for_entries(begin, end, entry, signs, scratch, weight):
    n_negatives = signs.shape[1] - 1
    for p in range(begin, end):
        b, slot = entry[p] // (n_negatives + 3), entry[p] % (n_negatives + 3)
        if weight[b, n_negatives] == 0:
            continue
        if slot <= n_negatives:
            prefetch(signs[b, slot])
        else:
            prefetch(scratch[slot - n_negatives - 1, b])


@fast_kernel
def gather_rows(begin, end, table, batch, gradient):
    """The gradient of some entity rows: what their entries in the batch contribute, added in their order."""
    start, entry, scratch, signs, weight = batch
    n_negatives = signs.shape[1] - 1
    here = np.empty(table.shape[1], table.dtype)
    for row in range(begin, end):
        own = gradient[row - begin]
        own[:] = 0
        if row + 1 < end:
            prefetch(table[row + 1])
            _ask_for_entries(start[row + 1], start[row + 2], entry, signs, scratch, weight)
        if start[row] == start[row + 1]:
            continue
        for p in range(start[row], start[row + 1]):
            b, slot = entry[p] // (n_negatives + 3), entry[p] % (n_negatives + 3)
            if weight[b, n_negatives] == 0:
                continue
            if slot <= n_negatives:
                _add_signs(weight[b, slot], signs[b, slot], own)
            else:
                folded = scratch[slot - n_negatives - 1, b]
                for i in range(own.shape[0]):
                    own[i] += folded[i]
        length = _unit(table[row], here)
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
            folded = scratch[2, entry[p]]
            for i in range(own.shape[0]):
                own[i] += folded[i]
        length = _unit(table[row], here)
        _project(own, here, length)
