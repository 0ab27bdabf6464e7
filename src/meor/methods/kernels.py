"""CPU kernels of the penalty. One thread does all the work of an occurrence, or of a row.

So no sum depends on how work was divided. Only candidates above the answer are ever looked at: the
others add exactly 1 to the mean of exponentials and have no gradient (decision 29).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from meor.compiled import fast_kernel, fast_part, kernel, kernel_part
from meor.methods.equations import SHIFT_ABOVE


@kernel_part
def _smooth(total, size, shift, beta):
    """U_beta (`equations.smooth_pressure`) from the sum of expm1(beta z - shift) over the whole multiset."""
    return (shift + math.log1p(total / size)) / beta


@kernel_part
def _fill_gaps(gap, column, score, answer_score, tau, answer, known):
    """Gaps (`equations.gaps`) by old entity: 0 below the answer, -1 where it is no candidate of x."""
    gap[:] = 0.0
    for at in range(len(column)):
        gap[column[at]] = (score[at] - answer_score) / tau
    gap[answer] = -1.0
    for entity in known:
        if entity < len(gap):
            gap[entity] = -1.0


@kernel_part
def _press(gap, drawn, beta, out):
    """U_beta, V (`equations.pressure`) and size of one drawn multiset; -1 is a place without an entity."""
    size, active, peak = 0, 0, 0.0
    for entity in drawn:
        if entity >= 0 and gap[entity] >= 0.0:
            size += 1
            active += gap[entity] > 0.0
            peak = max(peak, gap[entity])
    shift = max(beta * peak - SHIFT_ABOVE, 0.0)
    total = (size - active) * math.expm1(-shift)
    for entity in drawn:
        if entity >= 0 and gap[entity] > 0.0:
            total += math.expm1(beta * gap[entity] - shift)
    out[0] = _smooth(total, size, shift, beta) if active else 0.0
    out[1] = peak
    out[2] = size


@kernel
def reference_pressures(begin, end, drawn_QJN, start, column, score, tau_Q, asked, n_old, beta, out_QJ3):
    """U_beta, V and size of every drawn multiset. Entries that are no candidates of x are left out."""
    gap = np.empty(n_old, np.float64)
    for q in range(begin, end):
        own = slice(start[q], start[q + 1])
        known = asked.known_id[asked.known_start[q] : asked.known_end[q]]
        _fill_gaps(gap, column[own], score[own], asked.threshold[q], tau_Q[q], asked.answer[q], known)
        for j in range(drawn_QJN.shape[1]):
            _press(gap, drawn_QJN[q, j], beta, out_QJ3[q, j])


@kernel_part
def _smooth_and_slope(gap, peak, size, beta, slope):
    """U_beta (`equations.smooth_pressure`) of `size` candidates of whom the given ones outrank, and dU/dz."""
    shift = max(beta * peak - SHIFT_ABOVE, 0.0)
    total = (size - len(gap)) * math.expm1(-shift)
    for i in range(len(gap)):
        grown = math.expm1(beta * gap[i] - shift)
        slope[i] = grown + 1.0
        total += grown
    for i in range(len(gap)):
        slope[i] /= size + total
    return _smooth(total, size, shift, beta)


@kernel_part
def _maximum_and_slope(gap, peak, slope):
    """V (`equations.maximum`), and dV/dz: ties share it evenly."""
    ties = 0
    for i in range(len(gap)):
        ties += gap[i] == peak
    for i in range(len(gap)):
        slope[i] = 1.0 / ties if gap[i] == peak else 0.0
    return peak


@kernel
def newcomer_pressures(begin, end, start, score, answer_score, tau, size, beta, is_smooth, value_Q, weight):
    """U_beta or V of the newcomers, and its derivative by each outranker's score."""
    for q in range(begin, end):
        gap = np.empty(start[q + 1] - start[q], np.float64)
        slope = weight[start[q] : start[q + 1]]
        peak = 0.0
        for i in range(len(gap)):
            gap[i] = (score[start[q] + i] - answer_score[q]) / tau[q]
            peak = max(peak, gap[i])
        if len(gap) == 0:
            value_Q[q] = 0.0
        elif is_smooth:
            value_Q[q] = _smooth_and_slope(gap, peak, size[q], beta, slope)
        else:
            value_Q[q] = _maximum_and_slope(gap, peak, slope)
        for i in range(len(slope)):
            slope[i] /= tau[q]


@kernel
def by_row(start, column, active, row_start, query, entry):
    """Turn outrankers by query into outrankers by newcomer; only active queries count."""
    row_start[:] = 0
    for q in active:
        for at in range(start[q], start[q + 1]):
            row_start[column[at] + 1] += 1
    for row in range(len(row_start) - 1):
        row_start[row + 1] += row_start[row]
    for q in active:
        for at in range(start[q], start[q + 1]):
            put = row_start[column[at]]
            query[put] = q
            entry[put] = at
            row_start[column[at]] += 1
    for row in range(len(row_start) - 1, 0, -1):
        row_start[row] = row_start[row - 1]
    row_start[0] = 0


@fast_kernel
def add_row_gradients(
    begin,
    end,
    is_dot,
    touched,
    row_start,
    query,
    entry,
    weight,
    slope_Q,
    query_XW,
    place_Q,
    row_NW,
    gradient_NW,
):
    """Add d loss / d newcomer rows that are touched at all, each summing its queries in order."""
    own = np.empty(row_NW.shape[1], gradient_NW.dtype)
    for row in touched[begin:end]:
        own[:] = 0
        for at in range(row_start[row], row_start[row + 1]):
            q = query[at]
            _pull(is_dot, slope_Q[q] * weight[entry[at]], query_XW[place_Q[q]], row_NW[row], own)
        for i in range(own.shape[0]):
            gradient_NW[row, i] += own[i]


@fast_part
def _pull(is_dot, factor, query, row, own):
    """own += factor * ds/drow."""
    if is_dot:
        for i in range(own.shape[0]):
            own[i] += factor * query[i]
    else:
        for i in range(own.shape[0]):
            side = query[i] - row[i]
            own[i] += factor * ((1.0 if side > 0 else 0.0) - (1.0 if side < 0 else 0.0))
