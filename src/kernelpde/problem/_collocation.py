"""The points of a condition, drawn."""

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kernelpde.arrays import Numbers, array, known
from kernelpde.checking import points as checked_points
from kernelpde.checking import whole_number
from kernelpde.errors import InputError
from kernelpde.geometry import Averages, Patch, PointCloud
from kernelpde.memory import require_bytes
from kernelpde.problem._condition import Condition

_FAR = 1e-3
"""Points outside a domain by more than this part of its size do not belong to it."""

_BYTES = 200.0
"""What drawing a point takes at least."""


class Collocation(eqx.Module):
    """The points of one condition, with everything that comes per point.

    **Attributes:**

    - `points`, `normals`, `data`: one row per point.
    - `noise`: standard deviation, one per row of each equation.
    - `quadrature`: for averages, what the points of each are weighted with; points of one average
      follow each other.
    """

    points: Float[Array, "L d"]
    normals: Float[Array, "L d"] | None
    data: dict[str, Array]
    noise: Float[Array, " N"]
    quadrature: Float[Array, "N Q"] | None = None

    @property
    def count(self) -> int:
        """Rows per equation."""
        return self.noise.shape[0]

    @property
    def width(self) -> int:
        """Points per row."""
        return 1 if self.quadrature is None else self.quadrature.shape[1]

    def take(self, rows: Int[np.ndarray, " n"]) -> "Collocation":
        """Some of the rows, with all points of each."""
        local = self.points_of(rows)

        def some(values: Array | None, which: np.ndarray) -> Array | None:
            return None if values is None else array(np.asarray(values)[which])

        return Collocation(
            array(np.asarray(self.points)[local]),
            some(self.normals, local),
            {key: array(np.asarray(values)[local]) for key, values in self.data.items()},
            array(np.asarray(self.noise)[rows]),
            some(self.quadrature, rows),
        )

    def padded(self, count: int) -> "Collocation":
        """With rows added that are zero whatever u is, and have a noise of 1.

        They have points of the others, and a weight of 0 in an average.
        """
        more = np.resize(np.arange(self.count), count - self.count)
        whole = self.take(np.concatenate([np.arange(self.count), more]))
        weights = np.ones((count, 1)) if whole.quadrature is None else np.array(whole.quadrature)
        noise = np.array(whole.noise)
        weights[self.count :], noise[self.count :] = 0.0, 1.0
        return replace(whole, noise=array(noise), quadrature=array(weights))

    @property
    def active(self) -> int | Int[Array, ""]:
        """How many rows per equation are not there to fill up."""
        if self.quadrature is None:
            return self.count
        return jnp.sum(jnp.any(self.quadrature != 0, axis=1))

    @property
    def noisy(self) -> bool:
        """Whether there is noise, as far as that is known."""
        return isinstance(self.noise, jax.core.Tracer) or bool(np.any(np.asarray(self.noise) > 0))

    def points_of(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """The numbers of the points of some rows."""
        return (rows[:, None] * self.width + np.arange(self.width)).reshape(-1)

    def weighted(self, local: Float[Array, " L *_"]) -> Float[Array, " L *_"]:
        """Values at the points times their weights in an average."""
        if self.quadrature is None:
            return local
        return self.quadrature.reshape(-1, *(1,) * (local.ndim - 1)) * local

    def by_rows(self, local: Float[Array, "L R"]) -> Float[Array, " RN"]:
        """Values at the points, weighted and added up, in the order of the rows."""
        grouped = self.weighted(local).reshape(self.count, self.width, local.shape[1])
        return grouped.sum(1).T.reshape(-1)


def collocated(
    condition: Condition,
    dimension: int,
    points: Mapping[str, int | Numbers],
    seed: int,
    sampling: str,
) -> Collocation:
    """Draw the points of a condition, by its own random stream."""
    name, region = condition.name, condition.region
    asked = points.get(name)
    if asked is not None and np.ndim(asked):
        if region.has_normals or condition.data:
            raise InputError(
                f"Condition {name!r}: points given as an array have no normals and no data. "
                "Describe the condition on a PointCloud instead."
            )
        given = checked_points(f"Condition {name!r}", asked, dimension)
        _refuse_outside(name, region, given)
        region, asked = PointCloud(given, name=f"Condition {name!r}"), None
    if asked is None and not isinstance(region, PointCloud | Averages):
        raise InputError(
            f"Condition {name!r}: no number of points given. "
            f"Expected points={{{name!r}: 300, ...}}."
        )
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if asked is not None:
        asked = whole_number(f"Condition {name!r}", "the number of points", asked)
        advice = "Take fewer points."
        require_bytes(f"Condition {name!r}: {asked} points", _BYTES * asked, advice)
    sample = region.sample(asked, rng, sampling)
    if sample.points.shape[1] != dimension:
        raise InputError(
            f"Condition {name!r}: expected points with {dimension} coordinates; "
            f"got {sample.points.shape[1]}."
        )
    weights = sample.weights
    width = 1 if weights is None else weights.shape[1]
    noise = np.broadcast_to(condition.noise_level, len(sample.points) // width)
    if weights is None:
        _refuse_duplicates(name, sample.points[noise == 0])
    return Collocation(
        known(sample.points),
        None if sample.normals is None else known(sample.normals),
        {key: known(_repeated(values, width)) for key, values in condition.data.items()},
        known(noise),
        None if weights is None else known(weights),
    )


def _repeated(values: Any, width: int) -> Any:
    if isinstance(values, jax.core.Tracer):
        return jnp.repeat(values, width, axis=0)
    return np.repeat(values, width, axis=0)


def _refuse_outside(name: str, region: object, points: np.ndarray) -> None:
    if not isinstance(region, Patch) or region.beyond is None:
        return
    far = np.flatnonzero(region.beyond(points) > _FAR)
    if len(far):
        raise InputError(
            f"Condition {name!r}: {len(far)} of its {len(points)} points lie outside the domain, "
            f"for example {points[far[0]].tolist()}. Coordinates come in the order "
            f"{region.space.coordinates}."
        )


def _refuse_duplicates(name: str, points: np.ndarray) -> None:
    """The same condition twice at one point makes the system singular, unless it is noisy."""
    _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        where = points[first[np.argmax(counts)]]
        raise InputError(
            f"Condition {name!r}: {int((counts - 1).sum())} of its {len(points)} points are "
            f"duplicates, for example {where.tolist()}. Remove them, or give the condition a noise "
            "if these are repeated measurements."
        )
