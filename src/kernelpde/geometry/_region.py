"""Sets of points that a condition can live on."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kernelpde.checking import instance, shown, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry._graded import graded_parameters, load_of
from kernelpde.geometry._sampling import unit_points
from kernelpde.geometry._sizes import Sizes


class Sample(NamedTuple):
    """Points, outward unit normals where the region has them, and weights (n, q) of averages."""

    points: Float[np.ndarray, "n d"]
    normals: Float[np.ndarray, "n d"] | None
    weights: Float[np.ndarray, "_ _"] | None = None


@dataclass(frozen=True, eq=False)
class Space:
    """The coordinates of a domain.

    **Attributes:**

    - `coordinates`: their names.
    - `time`: which of them is time, if one is.
    - `duration`: where time begins and ends.
    - `periods`: the period of each coordinate, `None` for those that are not periodic; empty if
      none is.
    """

    coordinates: tuple[str, ...]
    time: str | None = None
    duration: tuple[float, float] | None = None
    periods: tuple[float | None, ...] = ()

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(self.coordinates) if name != self.time)

    def agrees_with(self, other: "Space") -> bool:
        """Whether conditions in both spaces can belong to one problem."""
        return (self.coordinates, self.time, self.periods) == (
            other.coordinates,
            other.time,
            other.periods,
        )


class AbstractRegion(abc.ABC):
    """Something that points can be drawn from: an interior, a boundary piece, a cloud."""

    name: str

    @property
    @abc.abstractmethod
    def has_normals(self) -> bool:
        """Whether a condition here may ask for the normal derivative."""

    @abc.abstractmethod
    def sample(
        self, count: int | None, rng: np.random.Generator, method: str = "uniform"
    ) -> Sample:
        """Draw points.

        **Arguments:**

        - `count`: how many; a region that is itself a finite set takes `None`.
        - `rng`: the source of randomness.
        - `method`: see `kernelpde.geometry.METHODS`.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


@dataclass(frozen=True, eq=False, repr=False)
class Patch(AbstractRegion):
    """The image of the unit cube under a map, without the points that `keeps` rejects.

    **Attributes:**

    - `parameters`: the dimension of the cube.
    - `chart`: maps points of the cube to points and normals, preserving measure up to a constant.
    - `measure`: length, area or volume before points are rejected; `size` is that of the rest.
    - `keeps`: which points belong to the patch; `None` if all do.
    - `sizes`: local spacing of the points; uniform if `None`.
    - `beyond`: how far points lie outside, relative to the size of the domain; `None` if unknown.
    - `cut`: the part in a time window, if the patch changes with time.
    - `smooth`: whether the map has no kinks inside the cube, so that quadrature is accurate.
    """

    name: str
    space: Space
    parameters: int
    chart: Callable[[np.ndarray], Sample]
    measure: float
    keeps: Callable[[np.ndarray], np.ndarray] | None = None
    beyond: Callable[[np.ndarray], np.ndarray] | None = None
    sizes: Sizes | None = None
    cut: Callable[[float, float], "Patch"] | None = None
    smooth: bool = True

    @property
    def has_normals(self):
        return self.chart(np.full((1, self.parameters), 0.5)).normals is not None

    @property
    def solid(self) -> bool:
        """Whether it is a piece of the domain itself, not of its boundary."""
        return self.parameters == len(self.space.coordinates)

    def corners(self) -> Float[np.ndarray, "n d"]:
        """Images of the corners of the unit cube, whether they are kept or not."""
        return self.chart(np.array(list(product((0.0, 1.0), repeat=self.parameters)))).points

    def fraction(self, points: int = 4096) -> float:
        """Which part of the image is kept, estimated on a given number of fixed points."""
        if self.keeps is None:
            return 1.0
        trial = unit_points(points, self.parameters, "sobol", np.random.default_rng(0))
        return float(np.mean(self.keeps(self.chart(trial).points)))

    @property
    def size(self) -> float:
        """Length, area or volume of what is kept, estimated on 65536 points if something is not.

        The integral of a function over the patch is its mean at evenly drawn points times this.
        """
        return self.measure * self.fraction(65536)

    def sample(self, count, rng, method="uniform"):
        """Draw points: a `Sample` with `points` and, on a boundary, outward unit `normals`.

        **Arguments:**

        - `count`: how many.
        - `rng`: the source of randomness, `np.random.default_rng(0)`.
        - `method`: `"uniform"`, `"halton"`, `"sobol"`, `"poisson"` or `"grid"`.
        """
        count = _counted(self, count)
        _check_rng(self, rng)
        if self.parameters == 0 and count > 1:
            raise InputError(f"The region {self.name!r} is a single point; got {count}.")
        if self.sizes is not None and self.parameters > 0:
            return self.chart(graded_parameters(self, count, rng))
        if self.keeps is None:
            return self.chart(unit_points(count, self.parameters, method, rng))
        fraction = self.fraction()
        if fraction == 0.0:
            raise InputError(
                f"The region {self.name!r} is empty: none of 4096 points tried belongs to it. "
                "Leave it out, or check how the domain was put together."
            )
        if method == "grid":
            raise InputError(
                f"The region {self.name!r} is not an image of a cube; a grid does not fit it. "
                "Use another sampling method."
            )
        drawn = int(1.1 * count / fraction) + 32
        for _ in range(20):
            sample = self.chart(unit_points(drawn, self.parameters, method, rng))
            kept = np.flatnonzero(self.keeps(sample.points))[:count]
            if len(kept) == count:
                normals = None if sample.normals is None else sample.normals[kept]
                return Sample(sample.points[kept], normals)
            drawn *= 2
        raise InputError(f"The region {self.name!r} is too small to draw {count} points from.")

    def __or__(self, other: "Patches | Patch") -> "Patches":
        return united([self, other])

    def restricted(self, keeps: Callable[[np.ndarray], np.ndarray], flip: bool = False) -> "Patch":
        """The part of this patch where `keeps` holds, with normals turned round if `flip`."""
        return Patch(
            self.name,
            self.space,
            self.parameters,
            _Flipped(self.chart) if flip else self.chart,
            self.measure,
            keeps if self.keeps is None else _Both(self.keeps, keeps),
            smooth=self.smooth,
        )

    def during(self, begin: float, end: float) -> "Patch":
        """The part of this patch that lies in a window of time."""
        space = self.space
        if space.time is None or space.duration is None:
            raise InputError(f"The region {self.name!r} has no time coordinate to cut.")
        if self.cut is not None:
            return self.cut(begin, end)
        axis = space.coordinates.index(space.time)
        first, last = space.duration
        rate = (end - begin) / (last - first)
        return Patch(
            self.name,
            replace(space, duration=(begin, end)),
            self.parameters,
            _Cut(self.chart, axis, first, begin, rate),
            rate * self.measure,
            self.keeps,
            smooth=self.smooth,
        )


# Maps and tests are objects and not local functions, so that regions can be pickled.
@dataclass(frozen=True, eq=False)
class _Flipped:
    """A map with its normals turned round."""

    chart: Callable[[np.ndarray], Sample]

    def __call__(self, unit: np.ndarray) -> Sample:
        points, normals, _ = self.chart(unit)
        return Sample(points, None if normals is None else -normals)


@dataclass(frozen=True, eq=False)
class _Both:
    """Points that belong to two sets."""

    first: Callable[[np.ndarray], np.ndarray]
    second: Callable[[np.ndarray], np.ndarray]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self.first(points) & self.second(points)


@dataclass(frozen=True, eq=False)
class _Cut:
    """A map whose image is squeezed into a window of time."""

    chart: Callable[[np.ndarray], Sample]
    axis: int
    first: float
    begin: float
    rate: float

    def __call__(self, unit: np.ndarray) -> Sample:
        points, normals, _ = self.chart(unit)
        points = points.copy()
        points[:, self.axis] = self.begin + self.rate * (points[:, self.axis] - self.first)
        return Sample(points, normals)


@dataclass(frozen=True, eq=False, repr=False)
class Patches(AbstractRegion):
    """Several patches taken together, each with its share of the points.

    **Attributes:**

    - `equal`: whether shares are equal, as those of all sides of a box: their measures compare
      lengths along different coordinates, which may have units of their own. Else by measure.
    """

    name: str
    space: Space
    patches: tuple[Patch, ...]
    equal: bool = False

    @property
    def has_normals(self):
        return all(patch.has_normals for patch in self.patches)

    def sample(self, count, rng, method="uniform"):
        count = _counted(self, count)
        _check_rng(self, rng)
        sizes = np.array([self._share(patch) for patch in self.patches])
        if not sizes.any():
            raise InputError(
                f"The region {self.name!r} is empty: none of its pieces has any point."
            )
        if all(patch.parameters == 0 for patch in self.patches):
            if count != len(self.patches):
                raise InputError(
                    f"The region {self.name!r} consists of {len(self.patches)} single points; "
                    f"got a request for {count}."
                )
            shares = np.ones(count, dtype=int)
        else:
            shares = _apportioned(count, sizes / sizes.sum())
        samples = [
            patch.sample(int(share), rng, method)
            for patch, share in zip(self.patches, shares, strict=True)
            if share
        ]
        points = np.concatenate([sample.points for sample in samples])
        normals = [sample.normals for sample in samples if sample.normals is not None]
        return Sample(points, np.concatenate(normals) if len(normals) == len(samples) else None)

    def _share(self, patch: Patch) -> float:
        """How many of the points one piece gets, compared to others."""
        if patch.sizes is not None and patch.parameters > 0:
            return load_of(patch)
        return (1.0 if self.equal else patch.measure) * patch.fraction()

    def __or__(self, other: "Patches | Patch") -> "Patches":
        return united([self, other])

    def during(self, begin: float, end: float) -> "Patches":
        """The part of these patches that lies in a window of time."""
        parts = tuple(patch.during(begin, end) for patch in self.patches)
        return Patches(self.name, parts[0].space, parts, self.equal)


def patches_of(region: AbstractRegion) -> tuple[Patch, ...]:
    """The pieces that a region is put together from; none if it is not made of pieces."""
    if isinstance(region, Patches):
        return region.patches
    return (region,) if isinstance(region, Patch) else ()


def united(regions: Sequence[Patches | Patch]) -> Patches:
    """Several boundary pieces as one region.

    **Example:**

    ```python
    >>> square = kp.Box(x=(0, 1), y=(0, 1))
    >>> walls = kp.united([square["x=0"], square["x=1"]])
    ```
    """
    if isinstance(regions, AbstractRegion) or not isinstance(regions, Sequence) or not regions:
        raise InputError(
            'united: expected a list of boundary pieces, such as [box["x=0"], box["x=1"]]; '
            f"got {shown(regions)}."
        )
    for region in regions:
        instance("united", "every entry", region, (Patch, Patches), 'a piece such as box["x=0"]')
    patches = [patch for region in regions for patch in patches_of(region)]
    name = " | ".join(region.name for region in regions)
    if len({(patch.parameters, patch.space.coordinates) for patch in patches}) > 1:
        raise InputError(
            f"united: {name} have different dimensions or coordinates, and no common measure. Give "
            "each a condition of its own."
        )
    return Patches(name, patches[0].space, tuple(patches))


def _counted(region: AbstractRegion, count: int | None) -> int:
    if count is None:
        raise InputError(f"The region {region.name!r} needs a positive number of points; got None.")
    number = whole_number(f"The region {region.name!r}", "the number of points", count)
    if number < 1:
        raise InputError(
            f"The region {region.name!r} needs a positive number of points; got {count}."
        )
    return number


def _check_rng(region: AbstractRegion, rng: np.random.Generator) -> None:
    expected = "a generator of random numbers, such as np.random.default_rng(0)"
    instance(f"The region {region.name!r}", "rng", rng, np.random.Generator, expected)


def _apportioned(count: int, shares: np.ndarray) -> np.ndarray:
    """Whole numbers in proportion to `shares` that add up to `count`: largest remainders."""
    exact = count * shares
    whole = np.floor(exact).astype(int)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: count - whole.sum()]] += 1
    return whole
