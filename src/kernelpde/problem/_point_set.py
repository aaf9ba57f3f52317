"""Point sets: the collocation points of a condition."""

import zlib
from collections.abc import Mapping
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from kernelpde.arrays import Numbers, concrete_array, is_tracer, to_array
from kernelpde.checking import check_integer, check_points
from kernelpde.errors import InputError
from kernelpde.geometry import Patch, PointCloud, RegionSample
from kernelpde.memory import require_bytes
from kernelpde.problem._condition import Condition

_OUTSIDE_TOLERANCE = 1e-3
"""Distance from a domain, relative to its size, up to which user-supplied points are accepted. The
tolerance covers rounding and approximate boundaries."""

_BYTES_PER_POINT = 200
"""Lower bound of the memory for drawing a point. It rejects numbers of points that no machine
stores, so that half and double change nothing."""


class PointSet(eqx.Module):
    """Collocation points of one condition.

    **Attributes:**

    - `points`: points, one per row. The points of one average are consecutive.
    - `normals`: outward normals at the points, on boundaries.
    - `data`: data by name, with one row per point.
    - `noise`: standard deviation of the noise, one per row of each equation.
    - `quadrature`: weights of the points of each average.
    """

    points: Float[Array, "L d"]
    normals: Float[Array, "L d"] | None
    data: dict[str, Array]
    noise: Float[Array, " N"]
    quadrature: Float[Array, "N Q"] | None = None

    @property
    def rows_per_equation(self) -> int:
        """Number of rows per equation."""
        return self.noise.shape[0]

    @property
    def num_nodes(self) -> int:
        """Number of points per row."""
        return 1 if self.quadrature is None else self.quadrature.shape[1]

    def select_rows(self, rows: Int[np.ndarray, " n"]) -> "PointSet":
        """Return a subset of the rows, with all points of each."""
        point_indices = self.point_indices(rows)

        def select(tree: PyTree, indices: np.ndarray) -> PyTree:
            return jax.tree.map(lambda values: to_array(np.asarray(values)[indices]), tree)

        return PointSet(
            select(self.points, point_indices),
            select(self.normals, point_indices),
            select(self.data, point_indices),
            select(self.noise, rows),
            select(self.quadrature, rows),
        )

    def padded(self, rows_per_equation: int) -> "PointSet":
        """Append padding rows, which are zero for every u and have a noise of 1.

        Their points are repeated and have zero weight.
        """
        count = self.rows_per_equation
        padded = self.select_rows(np.resize(np.arange(count), rows_per_equation))
        noise = np.array(padded.noise)
        weights = (
            np.ones((rows_per_equation, 1))
            if padded.quadrature is None
            else np.array(padded.quadrature)
        )
        weights[count:], noise[count:] = 0.0, 1.0
        return replace(padded, noise=to_array(noise), quadrature=to_array(weights))

    @property
    def active_rows_per_equation(self) -> int | Int[Array, ""]:
        """Number of rows per equation without padding."""
        if self.quadrature is None:
            return self.rows_per_equation
        return jnp.sum(jnp.any(self.quadrature != 0, axis=1))

    @property
    def has_noise(self) -> bool:
        """True if some row has noise, or the noise is traced."""
        return is_tracer(self.noise) or bool(np.any(np.asarray(self.noise) > 0))

    def point_indices(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Return the indices of the points of some rows."""
        return (rows[:, None] * self.num_nodes + np.arange(self.num_nodes)).reshape(-1)

    def weight_by_quadrature(self, local: Float[Array, " L *_"]) -> Float[Array, " L *_"]:
        """Multiply values at the points by their quadrature weights."""
        if self.quadrature is None:
            return local
        return self.quadrature.reshape(-1, *(1,) * (local.ndim - 1)) * local

    def reduce_to_rows(self, local: Float[Array, "L R"]) -> Float[Array, " RN"]:
        """Sum values at the points with their weights, in the order of the rows."""
        grouped = self.weight_by_quadrature(local).reshape(
            self.rows_per_equation, self.num_nodes, local.shape[1]
        )
        return grouped.sum(1).T.reshape(-1)


def draw_point_set(
    condition: Condition,
    dimension: int,
    points: Mapping[str, int | Numbers],
    seed: int,
    sampling: str,
) -> PointSet:
    """Draw the points of a condition from its random stream, or use user-supplied points."""
    caller = f"Condition {condition.name!r}"
    sample = _sample(condition, dimension, points.get(condition.name), seed, sampling)
    if sample.points.shape[1] != dimension:
        raise InputError(
            f"{caller}: expected points with {dimension} coordinates; got {sample.points.shape[1]}."
        )
    weights = sample.weights
    num_nodes = 1 if weights is None else weights.shape[1]
    noise = np.broadcast_to(condition.noise_std, len(sample.points) // num_nodes)
    if weights is None:
        _check_duplicates(caller, sample.points[noise == 0])
    return PointSet(
        concrete_array(sample.points),
        None if sample.normals is None else concrete_array(sample.normals),
        {name: concrete_array(_repeat(data, num_nodes)) for name, data in condition.data.items()},
        concrete_array(noise),
        None if weights is None else concrete_array(weights),
    )


def _sample(
    condition: Condition, dimension: int, points: int | Numbers | None, seed: int, sampling: str
) -> RegionSample:
    caller, region = f"Condition {condition.name!r}", condition.region
    rng = np.random.default_rng([seed, zlib.crc32(condition.name.encode())])
    if points is None:
        if condition.num_points is None:
            raise InputError(
                f"{caller}: no number of points given. Expected "
                f"points={{{condition.name!r}: 300, ...}}."
            )
        return region.sample(None, rng, sampling)
    if np.ndim(points) == 0:
        count = check_integer(caller, "the number of points", points)
        require_bytes(f"{caller}: {count} points", _BYTES_PER_POINT * count, "Use fewer points.")
        return region.sample(count, rng, sampling)
    if region.has_normals or condition.data:
        raise InputError(
            f"{caller}: points passed as an array have no normals and no data. Define the "
            "condition on a PointCloud instead."
        )
    array = check_points(caller, points, dimension)
    _check_inside(caller, region, array)
    return PointCloud(array, name=caller).sample(None, rng, sampling)


def _repeat(values: PyTree, num_nodes: int) -> PyTree:
    if is_tracer(values):
        return jnp.repeat(values, num_nodes, axis=0)
    return np.repeat(values, num_nodes, axis=0)


def _check_inside(caller: str, region: object, points: np.ndarray) -> None:
    if not isinstance(region, Patch) or region.outside_distance is None:
        return
    outside = np.flatnonzero(region.outside_distance(points) > _OUTSIDE_TOLERANCE)
    if len(outside):
        raise InputError(
            f"{caller}: {len(outside)} of its {len(points)} points lie outside the domain, for "
            f"example {points[outside[0]].tolist()}. The order of the coordinates is "
            f"{region.space.coordinates}."
        )


def _check_duplicates(caller: str, points: np.ndarray) -> None:
    """Check that points are distinct, since duplicates without noise make the system singular."""
    _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        duplicate = points[first[np.argmax(counts)]]
        raise InputError(
            f"{caller}: {int((counts - 1).sum())} of its {len(points)} points are duplicates, for "
            f"example {duplicate.tolist()}. Remove them, or set a noise if these are repeated "
            "measurements."
        )
