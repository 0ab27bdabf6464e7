"""LKGE's masked autoencoder: each row is predicted from the rows around it, and should be what is predicted.

One layer without weights, on the facts of the update, their inverses, and one self-loop per entity:

    e_rec = relu( mean over edges (h, r, e) of x_h + x_r ),   r_rec = mean over edges (h, r, t) of x_t - x_h
    L_MAE = |E_rec - E|^2 / |E| + |R_rec - R|^2 / |R|

Both are one sparse operator on the stacked rows [E; R], so the loss is one product, and its gradient the
product with the transposed operator. Stored rows are meant, not unit rows. A relation without a fact has no
prediction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from torch import Tensor

from meor.compiled import fast_kernel, fast_part, share
from meor.training.loss import Embedding
from meor.training.margin import items_of
from meor.training.rows import Array, Part, Term
from meor.typing import Facts, Floats, Ids


class Sparse(NamedTuple):
    """Row i is sum over k in start[i]..start[i + 1] of value[k] * row column[k] of what it is applied to.

    Columns ascend: those of entities end at middle[i]. A branch at every entry would cost a third.
    """

    start: Ids
    middle: Ids
    column: Ids
    value: Floats


@fast_part
def _add(weight, row, own):  # type: ignore[no-untyped-def]
    for i in range(own.shape[0]):
        own[i] += weight * row[i]


@fast_kernel
def _predict(begin, end, operator, entity, vector, constant, out):  # type: ignore[no-untyped-def]
    """out = relu of the product for entities, the product for relations."""
    start, middle, column, value = operator
    n = entity.shape[0]
    for row in range(begin, end):
        own = out[row]
        own[:] = 0
        if constant.shape[0]:
            for i in range(own.shape[0]):
                own[i] = constant[row, i]
        for k in range(start[row], middle[row]):
            _add(value[k], entity[column[k]], own)
        for k in range(middle[row], start[row + 1]):
            _add(value[k], vector[column[k] - n], own)
        if row < n:
            for i in range(own.shape[0]):
                own[i] = max(own[i], 0.0)


@fast_kernel
def _compare(begin, end, entity, vector, scale, predicted, loss):  # type: ignore[no-untyped-def]
    """predicted <- d(loss)/d(prediction), which is also minus d(loss)/d(row)."""
    n = entity.shape[0]
    for row in range(begin, end):
        own, meant = predicted[row], entity[row] if row < n else vector[row - n]
        total = 0.0
        for i in range(own.shape[0]):
            apart = own[i] - meant[i]
            total += apart * apart
            own[i] = 2.0 * scale[row] * apart
        loss[row] = scale[row] * total


@fast_kernel
def _back(begin, end, first, transposed, positive, apart, gradient):  # type: ignore[no-untyped-def]
    """Adds to the gradient of rows first..: by predictions they are part of, and as what is predicted."""
    start, middle, column, value = transposed
    for row in range(begin, end):
        own, direct = gradient[row - begin], apart[first + row]
        for i in range(own.shape[0]):
            own[i] -= direct[i]
        for k in range(start[first + row], middle[first + row]):
            of, through, weight = apart[column[k]], positive[column[k]], value[k]
            for i in range(own.shape[0]):
                own[i] += weight * of[i] if through[i] else 0.0
        for k in range(middle[first + row], start[first + row + 1]):
            _add(value[k], apart[column[k]], own)


@dataclass(slots=True)
class Autoencoder:
    """The autoencoder of one update. `past` counts what earlier snapshots said of each row (0: nothing)."""

    n_entities: int
    operator: Sparse
    transposed: Sparse
    scale: Floats  # [n + 2m] what the square of a row counts; 0 where nothing is predicted
    constant: Array  # [n + 2m, W] the part of a prediction that earlier snapshots fix, or no rows
    _apart: Array = field(init=False)

    @classmethod
    def of(
        cls,
        train: Facts,
        n_entities: int,
        n_vectors: int,
        past: Floats | None = None,
        rows: Array | None = None,
    ) -> Autoencoder:
        """`past` [n + 2m] weighs the `rows` [n + 2m, W] of the update before, by what they were made from."""
        head, of, tail = items_of(train).T
        n, everyone = n_entities, np.arange(n_entities)
        vector = n + of
        # (target row, source row, sign): into entities, then into relations
        target = np.concatenate([tail, tail, everyone, vector, vector])
        source = np.concatenate([head, vector, everyone, tail, head])
        sign = np.concatenate([np.ones(2 * len(tail) + n + len(of)), -np.ones(len(of))])
        count = np.bincount(np.concatenate([tail, everyone, vector]), minlength=n + n_vectors).astype(float)
        total = count if past is None else count + past
        entry = coo_array((sign / total[target], (target, source)), shape=(n + n_vectors,) * 2)
        scale = np.repeat([1.0 / n, 1.0 / n_vectors], [n, n_vectors]) * (count > 0)
        constant: Array = np.empty((0, 0))
        if past is not None and rows is not None:
            constant = rows * (past / np.maximum(total, 1.0))[:, None]
        return cls(n, _sparse(entry, n), _sparse(entry.T, n), scale, constant)

    def __post_init__(self) -> None:
        self._apart = np.empty((0, 0))

    def predict(self, entity: Tensor, relation: Tensor) -> Array:
        """[n + 2m, W] what each row should be; kept memory, to be used before the next call."""
        tables = entity.numpy(), relation.reshape(-1, entity.shape[1]).numpy()
        shape = len(self.scale), entity.shape[1]
        if self._apart.shape != shape or self._apart.dtype != tables[0].dtype:
            self._apart = np.empty(shape, tables[0].dtype)
        constant = self.constant.astype(tables[0].dtype, copy=False)
        share(_predict, len(self.scale), self.operator, *tables, constant, self._apart)
        return self._apart

    def term(self, entity: Embedding, relation: Embedding, strength: float) -> Term:
        """strength * L_MAE."""

        width, n = entity.data.shape[1], self.n_entities
        apart = self.predict(entity.data, relation.data)
        positive = apart[:n] > 0
        loss = np.empty(len(apart))
        tables = entity.data.numpy(), relation.data.reshape(-1, width).numpy()
        share(_compare, len(apart), *tables, strength * self.scale, apart, loss)

        def part(first: int, vectors: int) -> Part:
            """Of a table with so many vectors per row, whose trained ones are `apart` from `first` on."""

            def add(begin: int, end: int, block: Array) -> None:
                told = first, self.transposed, positive, apart, block.reshape(-1, width)
                _back(vectors * begin, vectors * end, *told)

            return add

        vectors = relation.data.shape[1] // width
        of_relations = part(n + vectors * relation.first, vectors)
        return Term(lambda: float(loss.sum()), ((entity, part(entity.first, 1)), (relation, of_relations)))


def _sparse(entry: Any, n_entities: int) -> Sparse:
    """Sorted, and each pair once: sums have one order."""
    rows = entry.tocsr()
    rows.sum_duplicates()
    start, column = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    of_entities = np.concatenate([[0], np.cumsum(column < n_entities)])
    middle = start[:-1] + np.diff(of_entities[start])
    return Sparse(start, middle, column, rows.data.astype(np.float64))
