"""The order in which the sparse solver eliminates values, derivatives and rows.

Values of the fields at all points come first, from coarse to fine, then all derivatives; boundary
values before those of equations.
"""

import numpy as np
from jaxtyping import Float, Int

from kernelpde.arrays import array
from kernelpde.functionals import Functionals, Term
from kernelpde.linear_solvers._metric import Metric
from kernelpde.linear_solvers._ordering import Level, levels
from kernelpde.problem import Collocation, Residual

_TOP = 256
"""Number of points that are ordered one by one, each after all before it."""


def _stages(residuals: tuple[Residual, ...]) -> list[list[int]]:
    """The numbers of the conditions, those with the lowest derivatives first.

    Boundary values come before equations: what they leave open is more local.
    """
    orders = [max(sum(gamma) for term in r.terms for gamma in term.orders) for r in residuals]
    return [[n for n, o in enumerate(orders) if o == order] for order in sorted(set(orders))]


def _staged(
    points: Float[np.ndarray, "N d"], stages: list[Int[np.ndarray, " _"]], metric: Metric
) -> list[Level]:
    """Points in levels, stage by stage; each is in the first stage that has it."""
    found: list[Level] = []
    left = np.ones(len(points), dtype=bool)
    for stage in stages:
        mine = np.unique(stage[left[stage]])
        left[mine] = False
        if mine.size:
            found += [
                Level(mine[level.members], level.scale)
                for level in levels(metric(points[mine]), _TOP, metric.spacing(points[mine]))
            ]
    return found


def pool_of(
    residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...], metric: Metric
) -> tuple[Functionals, list[Int[np.ndarray, "_ _"]], list[Level]]:
    """ψ, each once; for every point and entry of the conditions its number; the order.

    For each field values at all points, from coarse to fine, then all derivatives.
    """
    unique, where = _places(blocks)
    terms = sorted({term for residual in residuals for term in residual.terms})
    stages = _stages(residuals)
    index: dict[Term, np.ndarray] = {}
    points, kinds, groups, last = [], [], [], []
    start, fine = 0, 0.0

    def add(term: Term, at: Int[np.ndarray, " n"]) -> None:
        nonlocal start
        index[term] = np.full(len(unique), -1)
        index[term][at] = np.arange(start, start + len(at))
        points.append(unique[at])
        kinds.extend([term] * len(at))
        start += len(at)

    for field in sorted({term.field for term in terms}):
        value = Term(field, ((0,) * unique.shape[1],))
        using = [any(term.field == field for term in residual.terms) for residual in residuals]
        parts = [
            np.concatenate([np.zeros(0, dtype=int), *(where[n] for n in stage if using[n])])
            for stage in stages
        ]
        at = np.unique(np.concatenate(parts))
        leveled = _staged(unique, parts, metric)
        add(value, at)
        groups += [Level(index[value][level.members], level.scale) for level in leveled]
        fine = max(fine, leveled[-1].scale)
    for term in terms:
        if term not in index:
            used = [w for w, r in zip(where, residuals, strict=True) if term in r.terms]
            first = start
            add(term, np.unique(np.concatenate(used)))
            last.append(np.arange(first, start))
    if last:
        groups.append(Level(np.concatenate(last), fine))
    alias = [
        np.stack([index[term][place] for term in residual.terms], axis=1)
        for place, residual in zip(where, residuals, strict=True)
    ]
    names = tuple(sorted(set(kinds)))
    coefficients = np.zeros((start, len(names)))
    coefficients[np.arange(start), [names.index(kind) for kind in kinds]] = 1.0
    pool = Functionals(array(np.concatenate(points)), array(coefficients), names)
    return pool, alias, groups


def _places(
    blocks: tuple[Collocation, ...],
) -> tuple[Float[np.ndarray, "N d"], list[Int[np.ndarray, " _"]]]:
    """All points, each once, and the numbers of the points of each condition."""
    every = np.concatenate([np.asarray(block.points) for block in blocks])
    unique, number = np.unique(every, axis=0, return_inverse=True)
    ends = np.cumsum([len(block.points) for block in blocks])[:-1]
    return unique, np.split(number.reshape(-1), ends)


def row_groups(
    residuals: tuple[Residual, ...], blocks: tuple[Collocation, ...], metric: Metric
) -> list[Level]:
    """Rows from coarse to fine; those at one point follow each other."""
    unique, where = _places(blocks)
    number = np.concatenate(
        [np.tile(w, len(r.components)) for w, r in zip(where, residuals, strict=True)]
    )
    ends = np.cumsum(
        [0, *(len(w) * len(r.components) for w, r in zip(where, residuals, strict=True))]
    )
    found: list[Level] = []
    for stage in _stages(residuals):
        rows = np.concatenate([np.arange(ends[n], ends[n + 1]) for n in stage])
        rows = rows[np.argsort(number[rows], kind="stable")]
        mine, starts = np.unique(number[rows], return_index=True)
        parts = np.split(rows, starts[1:])
        found += [
            Level(np.concatenate([parts[n] for n in level.members]), level.scale)
            for level in levels(metric(unique[mine]), _TOP, metric.spacing(unique[mine]))
        ]
    return found
