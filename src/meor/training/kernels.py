"""Fused CPU training kernels: loss and gradient of a batch, without temporaries.

Two sweeps. The first walks the facts: it forms the two query rows that all negatives of a fact share,
scores positive and negatives, and folds the gradient back through the query. The second walks the
*rows* that may be trained: each row gathers its contributions in a fixed order. No two threads ever
write the same row and no sum depends on how the work was divided, so the thread count does not change
a bit. Torch autograd (`loss.py`) is the reference.

Forms (the `fused_form` of a backbone): 0 complex product, 1 real product, 2 translation.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from typing import Final

import numpy as np

from meor.compiled import fast_kernel, fast_part, kernel

COMPLEX: Final = 0
PRODUCT: Final = 1
TRANSLATION: Final = 2
TAIL: Final = 1.0  # floats, because numba compiles a separate copy of a function for True and for False
HEAD: Final = -1.0


@fast_part
def _form_query(form, sign, anchor, relation, out):
    """`sign` is 1.0 for tail queries and -1.0 for head queries, which use conj(r), or -r."""
    width = anchor.shape[0]
    if form == COMPLEX:
        half = width // 2
        for i in range(half):
            re, im = anchor[i], anchor[half + i]
            rel_re, rel_im = relation[i], sign * relation[half + i]
            out[i] = re * rel_re - im * rel_im
            out[half + i] = re * rel_im + im * rel_re
    elif form == PRODUCT:
        for i in range(width):
            out[i] = anchor[i] * relation[i]
    else:
        for i in range(width):
            out[i] = anchor[i] + sign * relation[i]


@fast_part
def _fold_query(form, sign, d_query, anchor, relation, d_anchor, d_relation):
    """Add the gradient of a query row to those of its anchor and relation rows."""
    width = anchor.shape[0]
    if form == COMPLEX:
        half = width // 2
        for i in range(half):
            d_re, d_im = d_query[i], d_query[half + i]
            re, im = anchor[i], anchor[half + i]
            rel_re, rel_im = relation[i], sign * relation[half + i]
            d_anchor[i] += d_re * rel_re + d_im * rel_im
            d_anchor[half + i] += d_im * rel_re - d_re * rel_im
            d_relation[i] += d_re * re + d_im * im
            d_relation[half + i] += sign * (d_im * re - d_re * im)
    elif form == PRODUCT:
        for i in range(width):
            d_anchor[i] += d_query[i] * relation[i]
            d_relation[i] += d_query[i] * anchor[i]
    else:
        for i in range(width):
            d_anchor[i] += d_query[i]
            d_relation[i] += sign * d_query[i]


@fast_part
def _score(form, query, row, gamma):
    total = query[0] * 0
    if form == TRANSLATION:
        for i in range(query.shape[0]):
            total += abs(query[i] - row[i])
        return gamma - total
    for i in range(query.shape[0]):
        total += query[i] * row[i]
    return total


@fast_part
def _sign(value):
    return (1.0 if value > 0 else 0.0) - (1.0 if value < 0 else 0.0)


@fast_part
def _pull_query(form, weight, query, row, d_query):
    """d_query += weight * ds/dquery."""
    if form == TRANSLATION:
        for i in range(query.shape[0]):
            d_query[i] -= weight * _sign(query[i] - row[i])
    else:
        for i in range(query.shape[0]):
            d_query[i] += weight * row[i]


@fast_part
def _pull_row(form, weight, query, row, d_row):
    """d_row += weight * ds/drow."""
    if form == TRANSLATION:
        for i in range(query.shape[0]):
            d_row[i] += weight * _sign(query[i] - row[i])
    else:
        for i in range(query.shape[0]):
            d_row[i] += weight * query[i]


@kernel
def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@kernel
def _sigmoid(x):
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


@fast_part
def _meet(form, gamma, lift, query, row, is_fact, count, pulls, d_query, weight, slot):
    """The loss of a pair; its derivative by the score, over `count`; the gradient of a query that `pulls`."""
    score = _score(form, query, row, gamma)
    if is_fact:
        score -= lift
    of = (-_sigmoid(-score) if is_fact else _sigmoid(score)) / count
    weight[slot] = of
    if pulls:
        _pull_query(form, of, query, row, d_query)
    return _softplus(-score if is_fact else score)


@fast_part
def _cubes(entity, ends, first):
    """The cubes of the coordinates of the rows that may be trained."""
    total = entity[0, 0] * 0
    for row in ends:
        if row >= first:
            for i in range(entity.shape[1]):
                total += abs(entity[row, i]) * entity[row, i] * entity[row, i]
    return total


@fast_kernel
def sweep_facts(begin, end, form, gamma, aim, counts, trained, tables, batch, scratch, weight, loss):
    """Loss of each fact, d(loss)/d(score) of its pairs, and the folded gradient of head, tail and relation.

    `counts` are the facts and the negatives that the batch stands for. `aim` is the lift, the score at which
    a fact has the loss that it would have at 0, and the price of the cubes of its rows. Rows before `trained`
    (entities, relations) are frozen: pairs of such rows alone have no gradient and are left out.
    """
    entity, relation = tables
    lift, shrink = aim
    fact, negative, replaced = batch
    n_negatives = negative.shape[1]
    d_query = np.empty((2, entity.shape[1]), entity.dtype)  # of the query for the tail, and for the head
    for b in range(begin, end):
        head, rel, tail = fact[b, 0], fact[b, 1], fact[b, 2]
        asks_tail = head >= trained[0] or rel >= trained[1]
        asks_head = tail >= trained[0] or rel >= trained[1]
        _form_query(form, TAIL, entity[head], relation[rel], scratch[0, b])
        _form_query(form, HEAD, entity[tail], relation[rel], scratch[1, b])
        d_query[:] = 0
        loss[b] = total = 0.0
        if asks_tail or asks_head:
            pair = scratch[0, b], entity[tail], True, counts[0], asks_tail
            loss[b] = _meet(form, gamma, lift, *pair, d_query[0], weight[b], n_negatives)
        for k in range(n_negatives):
            on_tail, put_in = replaced[b, k] == 1, negative[b, k]
            asks, which = (asks_tail, 0) if on_tail else (asks_head, 1)
            if asks or put_in >= trained[0]:
                pair = scratch[which, b], entity[put_in], False, counts[1], asks
                total += _meet(form, gamma, lift, *pair, d_query[which], weight[b], k)
        loss[b] += total / n_negatives
        if shrink > 0:
            loss[b] += shrink * _cubes(entity, (head, tail), trained[0])
        # Whoever is frozen has no gradient, and nobody reads it.
        d_head, d_tail, d_rel = scratch[2, b], scratch[3, b], scratch[4, b]
        d_rel[:] = 0
        if asks_tail:
            d_head[:] = 0
            _fold_query(form, TAIL, d_query[0], entity[head], relation[rel], d_head, d_rel)
        if asks_head:
            d_tail[:] = 0
            _fold_query(form, HEAD, d_query[1], entity[tail], relation[rel], d_tail, d_rel)


@kernel
def group(target, first, n_rows, start, entry):
    """Counting sort: the entries of each trainable row, in the order they stand in the batch."""
    start[: n_rows + 1] = 0
    for p in range(target.shape[0]):
        row = target[p] - first
        if row >= 0:
            start[row + 1] += 1
    for row in range(n_rows):
        start[row + 1] += start[row]
    for p in range(target.shape[0]):
        row = target[p] - first
        if row >= 0:
            entry[start[row]] = p
            start[row] += 1
    for row in range(n_rows, 0, -1):
        start[row] = start[row - 1]
    start[0] = 0


@fast_kernel
def sweep_rows(begin, end, form, entity, first, start, entry, replaced, scratch, weight, shrink, gradient):
    """The gradient of each row; `shrink` is the price of its cubes in each of the facts that name it."""
    n_negatives = replaced.shape[1]
    slots = n_negatives + 3
    for row in range(begin, end):
        own = gradient[row]
        own[:] = 0
        named = 0
        for p in range(start[row], start[row + 1]):
            b, slot = entry[p] // slots, entry[p] % slots
            if slot < n_negatives:
                query = scratch[0, b] if replaced[b, slot] == 1 else scratch[1, b]
                _pull_row(form, weight[b, slot], query, entity[first + row], own)
            elif slot == n_negatives:
                _pull_row(form, weight[b, slot], scratch[0, b], entity[first + row], own)
            else:
                folded = scratch[slot - n_negatives + 1, b]
                for i in range(own.shape[0]):
                    own[i] += folded[i]
            named += n_negatives <= slot < n_negatives + 2  # as tail, and as head
        if shrink > 0:
            price, at = 3 * shrink * named, entity[first + row]
            for i in range(own.shape[0]):
                own[i] += price * abs(at[i]) * at[i]


@fast_kernel
def sweep_relations(begin, end, start, entry, scratch, gradient):
    for row in range(begin, end):
        own = gradient[row]
        own[:] = 0
        for p in range(start[row], start[row + 1]):
            folded = scratch[4, entry[p]]
            for i in range(own.shape[0]):
                own[i] += folded[i]
