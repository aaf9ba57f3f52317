"""Coordinates of a domain, and checks of their names and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import Numbers
from kernelpde.checking import format_names, require, to_float_array
from kernelpde.errors import InputError


@dataclass(frozen=True)
class Space:
    """The coordinates of a domain.

    **Attributes:**

    - `coordinates`: coordinate names.
    - `time`: name of the time coordinate, or `None`.
    - `duration`: start and end of time, or `None`.
    - `periods`: period of each coordinate or `None`; empty if no coordinate is periodic.
    """

    coordinates: tuple[str, ...]
    time: str | None = None
    duration: tuple[float, float] | None = None
    periods: tuple[float | None, ...] = ()

    @property
    def spatial(self) -> tuple[int, ...]:
        """Axes of the coordinates other than time."""
        return tuple(i for i, name in enumerate(self.coordinates) if name != self.time)

    @property
    def periodic(self) -> tuple[int, ...]:
        """Axes of the periodic coordinates."""
        return tuple(i for i, period in enumerate(self.periods) if period is not None)

    def agrees_with(self, space: "Space") -> bool:
        """Return whether conditions in both spaces can belong to one problem."""
        return replace(self, duration=None) == replace(space, duration=None)


def make_space(caller: str, coordinates: Sequence[str] | None, dimension: int) -> Space:
    """Return a space with the given coordinate names; by default x, y, z or x0, x1, ..."""
    names = tuple(f"x{i}" for i in range(dimension)) if dimension > 3 else ("x", "y", "z")
    names = names[:dimension] if coordinates is None else tuple(coordinates)
    if not len(names) == len(set(names)) == dimension:
        raise InputError(
            f"{caller}: expected {dimension} different coordinate names; got {format_names(names)}."
        )
    return Space(names)


def check_interval(caller: str, name: str, interval: Numbers) -> Float[np.ndarray, " 2"]:
    """Return the lower and upper end of an interval of positive, finite length."""
    ends = to_float_array(caller, name, interval)
    # The length can overflow even if both ends are finite.
    with np.errstate(over="ignore", invalid="ignore"):
        is_valid = ends.shape == (2,) and 0 < ends[1] - ends[0] < np.inf
    require(bool(is_valid), caller, name, "an interval (low, high) with low < high", interval)
    return ends
