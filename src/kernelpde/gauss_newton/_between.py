"""How well a solution meets its conditions between the points at which it was made to."""

from collections.abc import Callable

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree

from kernelpde.arrays import array
from kernelpde.arrays import known as constant
from kernelpde.compiling import pointwise, rung
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.geometry import AbstractRegion, patches_of
from kernelpde.problem import Collocation, Problem, Residual, extents_of

LIMIT = 0.05
"""A relative residual between points above this is not met. Chosen on solves of 238 random problems
with kernels good and bad (`benchmarks/robustness.py problems`), where of 429 settled solutions with
an error above 10% it misses 3, and of 1375 with an error below 1% it refuses 12 (at 0.1: 18 and
10). Measured on 119 others (`--seeds 200:207`): 1 of 216 and 10 of 703 (at 0.1: 13 and 4). Halfway
between given points (`own-points --seeds 400:402`) 1 of 68 and 0 of 145, at drawn ones 0 and 4."""

ALONE = 2.0
"""Below this condition number no point knows of another."""

_SMALLEST = 1e-3
"""A derivative is as large as that part of what its field, changing once over the domain, would
have: otherwise rounding is all there is where derivatives vanish."""

_MOST = 300
"""Maximum number of points per condition."""


def between_points(
    problem: Problem,
    blocks: tuple[Collocation, ...],
    jets: Callable[[tuple[Term, ...], np.ndarray], Array],
    seed: int,
) -> dict[str, float | Array | None]:
    """For each condition its residual at points of another draw, relative to what it is made of.

    That is, in root mean square, F(u) over F(0) + Σₜ |∂F/∂jₜ| ⟨jₜ⟩, with ⟨jₜ⟩ the size of a jet
    entry over all those points, that of a Laplacian the size of its parts; the largest over the
    equations of a condition. `None` for a condition of which there are no other points. An equation
    at points of one's own is looked at halfway between these.

    **Arguments:**

    - `problem`, `blocks`: what was solved, and where.
    - `jets`: jet entries of the solution at points.
    - `seed`: of the draw that was used.
    """
    drawn = {
        c.name: other
        for c, block in zip(problem.conditions, blocks, strict=True)
        if (other := _others(problem, c.name, block, seed)) is not None
    }
    found: dict[str, float | Array | None] = {c.name: None for c in problem.conditions}
    if not drawn:
        return found
    chosen = {name: problem.residuals[problem.condition_index(name)] for name in drawn}
    used = {p for residual in chosen.values() for term in residual.terms for p in term.parts}
    whole = {Term(p.field, (problem.frame.order(),)) for p in used if p.node is None}
    parts = tuple(sorted(used | whole))
    # As many points as some program may have been compiled for.
    sizes = [rung(len(block.points)) for block in drawn.values()]
    points = [
        np.resize(np.asarray(block.points), (size, block.points.shape[1]))
        for block, size in zip(drawn.values(), sizes, strict=True)
    ]
    entries = jets(parts, np.concatenate(points))
    known = not isinstance(entries, jax.core.Tracer)
    entries = np.asarray(entries) if known else entries
    starts = np.cumsum([0, *sizes[:-1]])
    counts = [len(block.points) for block in drawn.values()]
    own = [entries[start : start + count] for start, count in zip(starts, counts, strict=True)]
    np_ = np if known else jnp
    # Which parts each entry is the sum of.
    sums = [
        np.array([[part in term.parts for term in residual.terms] for part in parts], dtype=float)
        for residual in chosen.values()
    ]
    # Where points are finer, derivatives are compared in units of the size there.
    orders = np.array([part.order for part in parts])
    regions = {c.name: c.region for c in problem.conditions}
    units = [
        _sizes(regions[name], np.asarray(block.points))[:, None] ** orders
        for name, block in drawn.items()
    ]
    every = np_.abs(np_.concatenate([e * u for e, u in zip(own, units, strict=True)]))
    extents = extents_of(list(drawn.values()))
    every = np_.maximum(every, np.concatenate(units) * _smallest(parts, extents, entries))
    relative = _relative(
        tuple(chosen.values()),
        tuple(drawn.values()),
        tuple(array(each @ some) for each, some in zip(own, sums, strict=True)),
        tuple(
            array(unit @ some / some.sum(axis=0)) for unit, some in zip(units, sums, strict=True)
        ),
        tuple(array(np_.sqrt(((every @ some) ** 2).mean(axis=0))) for some in sums),
    )
    values = np.asarray(relative).tolist() if known else list(relative)
    return {**found, **dict(zip(drawn, values, strict=True))}


def _smallest(
    parts: tuple[Term, ...], extents: np.ndarray, entries: Array | np.ndarray
) -> Array | np.ndarray:
    """What each derivative is taken to be at least, by the size of its field."""
    orders = np.maximum([part.orders[0] for part in parts], 0)
    values = {part.field: n for n, part in enumerate(parts) if not orders[n].any()}
    sizes = (entries[:, [values[part.field] for part in parts]] ** 2).mean(axis=0) ** 0.5
    return orders.any(axis=1) * _SMALLEST * sizes / np.prod(extents**orders, axis=1)


def _sizes(region: AbstractRegion, points: np.ndarray) -> np.ndarray:
    """How far apart points are from place to place; one where they are even."""
    found = [patch.sizes for patch in patches_of(region) if patch.sizes is not None]
    return found[0].at(points) if found else np.ones(len(points))


def _others(problem: Problem, name: str, block: Collocation, seed: int) -> Collocation | None:
    """Other points of a condition, if there are any."""
    if problem.has_own_points(name):
        return _halfway(problem.residuals[problem.condition_index(name)], block)
    try:
        drawn = problem.collocated(
            name, min(block.count, _MOST), seed=seed + 2_000_003, sampling="halton"
        )
    except InputError:
        # A region of single points, of which only some were asked for.
        return None
    if isinstance(block.points, jax.core.Tracer):
        return drawn
    # Nodes of integrals, which follow the points of their rows, may be the same.
    known = {tuple(point) for point in np.asarray(block.points)[:: block.width].tolist()}
    places = np.asarray(drawn.points)[:: drawn.width].tolist()
    new = [tuple(point) not in known for point in places]
    return drawn if all(new) else None


def _halfway(residual: Residual, block: Collocation) -> Collocation | None:
    """Places between given points of an equation, where nothing but the points themselves is given.

    Each lies halfway to a neighbor, of which points of a grid have twice as many as dimensions.
    """
    alone = block.width == 1 and block.normals is None and not block.data
    derivatives = any(part.order > 0 for term in residual.terms for part in term.parts)
    traced = any(isinstance(each, jax.core.Tracer) for each in (block.points, block.noise))
    if not alone or not derivatives or traced:
        return None
    points = np.asarray(block.points)
    extents, neighbors = np.ptp(points, axis=0), 2 * points.shape[1]
    if np.asarray(block.noise).any() or len(points) <= neighbors or not extents.all():
        return None
    tree = KDTree(points / extents)
    rows = np.linspace(0, len(points) - 1, min(len(points), _MOST)).round().astype(int)
    distances, found = map(np.asarray, tree.query(points[rows] / extents, neighbors + 1))
    middles = (points[rows] + points[found[:, -1]]) / 2
    # On a grid some are halfway to a neighbor of a neighbor, where there is a point.
    middles = middles[np.asarray(tree.query(middles / extents)[0]) > distances[:, -1] / 4]
    return (
        Collocation(constant(middles), None, {}, constant(np.zeros(len(middles))))
        if len(middles)
        else None
    )


@pointwise
def _relative(
    residuals: tuple[Residual, ...],
    blocks: tuple[Collocation, ...],
    entries: tuple[Float[Array, "_ _"], ...],
    units: tuple[Float[Array, "_ _"], ...],
    sizes: tuple[Float[Array, " _"], ...],
) -> Float[Array, " C"]:
    """For each condition the size of its residual over that of its parts."""

    def size(values: Array) -> Array:
        return jnp.sqrt(jnp.mean(values**2, axis=0))

    found = []
    given = zip(residuals, blocks, entries, units, sizes, strict=True)
    for residual, block, own, unit, typical in given:

        def at(point, normal, datum, entry, residual=residual):
            now = residual.with_slopes(point, normal, datum, tuple(entry))
            zero = residual.with_slopes(point, normal, datum, tuple(jnp.zeros_like(entry)))
            return *now, zero[0]

        axes = (0, None if block.normals is None else 0, 0, 0)
        now, slopes, at_zero = jax.vmap(at, in_axes=axes)(
            block.points, block.normals, block.data, own
        )
        # Rows with integrals are sums over points.
        rows = (block.count, block.width)
        now, at_zero = (each.reshape(*rows, -1).sum(axis=1) for each in (now, at_zero))
        slopes = jnp.abs(slopes / unit[:, None, :]).reshape(*rows, *slopes.shape[1:]).sum(axis=1)
        # What is infinite at u = 0 says nothing of how large a residual may be.
        alone = size(jnp.where(jnp.isfinite(at_zero), at_zero, 0.0))
        parts = alone + size(slopes) @ typical
        found.append(jnp.max(size(now) / jnp.maximum(parts, 1e-300)))
    return jnp.stack(found)
