"""What is asked of the fields: a residual on a region, with its noise and data."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax.core
import numpy as np

from kernelpde.arrays import Numbers
from kernelpde.checking import finite, function, listed, named, numbers, real_number, shown
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractDomain, AbstractRegion, Averages, PointCloud


@dataclass(frozen=True)
class LearnedNoise:
    """A standard deviation of noise that `learn` finds together with the kernels.

    **Arguments:**

    - `start`: where to begin; also what `solve` uses.

    **Example:**

    ```python
    >>> noise = kp.LearnedNoise(0.1)
    >>> unsure = kp.Condition("data", [[0.5]], lambda x, u: u.value - 0.2, noise=noise)
    ```
    """

    start: float

    def __post_init__(self):
        real_number("LearnedNoise", "start", self.start, above=0)


@dataclass(frozen=True, eq=False)
class StudentT:
    """Noise with outliers: Student's t, Gaussian in the middle, with heavier tails.

    **Arguments:**

    - `scale`: about the standard deviation of data that are not outliers; one number, or one per
      point.
    - `degrees`: of freedom. The fewer, the heavier the tails.

    **Example:**

    ```python
    >>> robust = kp.StudentT(0.01)  # as `noise` of a condition with data, some of which are wrong
    ```
    """

    scale: Numbers
    degrees: float = 4.0

    def __post_init__(self):
        scale = numbers("StudentT", "scale", self.scale)
        if scale.ndim > 1 or not np.isfinite(scale).all() or (scale <= 0).any():
            raise InputError(f"StudentT: the scale must be positive; got {shown(self.scale)}.")
        object.__setattr__(self, "scale", scale)
        real_number("StudentT", "degrees", self.degrees, above=0)


@dataclass(frozen=True, eq=False)
class Condition:
    """F(x, fields) = 0 on a region: an equation, a boundary or initial condition, or data.

    **Arguments:**

    - `name`: different for each condition of a problem.
    - `where`: a region, or an array of points.
    - `residual`: F, a function of the point and, by the names of its further arguments, of fields
      (as jets), data and, on boundary pieces, the outward `normal`. It returns a number, or a tuple
      of numbers for several equations; complex numbers count as two.
    - `noise`: standard deviation of the noise in F = 0: one number, one per point, `LearnedNoise`,
      or `StudentT` for data with outliers. 0 enforces F = 0 exactly; a relaxed condition with
      weight w in the sum of squares has noise w^(-1/2).
    - `data`: arrays with one row per point, or per average, for conditions on given points.

    **Example:**

    ```python
    >>> left = kp.Condition("left", rod["x=0"], lambda x, u: u.normal_derivative - 2.0)
    >>> data = kp.Condition(
    ...     "data", [[0.2], [0.7]], lambda x, u, y: u.value - y, noise=0.01, data={"y": [0.3, 0.4]}
    ... )
    ```
    """

    name: str
    where: AbstractRegion | Numbers
    residual: Callable
    noise: Numbers | LearnedNoise | StudentT = 0.0
    data: Mapping[str, Numbers] = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise InputError(
                f"Condition: the name must be a word such as 'equation'; got {shown(self.name)}. "
                "The order is Condition(name, where, residual)."
            )
        if isinstance(self.where, AbstractDomain | str) or self.where is None:
            raise InputError(
                f"Condition {self.name!r}: expected where it holds, a region or points; got "
                f"{shown(self.where)}. Use box.interior or box.boundary."
            )
        expected = "a function such as lambda x, u: u.laplacian - 1"
        function(f"Condition {self.name!r}", "the residual", self.residual, expected)
        if not isinstance(self.where, AbstractRegion):
            cloud = PointCloud(self.where, name=f"Condition {self.name!r}")
            object.__setattr__(self, "where", cloud)
        region = self.region
        noise = self.noise_level
        if noise.ndim > 1 or not np.isfinite(noise).all() or (noise < 0).any():
            raise InputError(
                f"Condition {self.name!r}: noise must be a standard deviation, not negative; "
                f"got {self.noise}."
            )
        count = len(region.points) if isinstance(region, PointCloud | Averages) else None
        if isinstance(self.noise, StudentT) and count is None:
            raise InputError(
                f"Condition {self.name!r}: StudentT is for data, on points of their own; other "
                "conditions have a standard deviation."
            )
        if (self.data or noise.ndim) and count is None:
            raise InputError(
                f"Condition {self.name!r}: data and noise per point need points of their own; "
                "give an array of points or a PointCloud instead of a region to draw from."
            )
        if noise.ndim and len(noise) != count:
            raise InputError(
                f"Condition {self.name!r}: expected one noise, or one for each of {count} points; "
                f"got {len(noise)}."
            )
        owner = f"Condition {self.name!r}"
        self._check_data(owner)
        arrays = {
            key: v if isinstance(v, jax.core.Tracer) else numbers(owner, f"data {key!r}", v)
            for key, v in self.data.items()
        }
        for key, values in arrays.items():
            if values.shape[:1] != (count,):
                raise InputError(
                    f"Condition {self.name!r}: expected {count} rows in data {key!r}, one per "
                    f"point; got shape {values.shape}."
                )
            if isinstance(values, np.ndarray):
                advice = "Remove missing measurements together with their points."
                finite(owner, f"data {key!r}", values, advice)
        object.__setattr__(self, "data", arrays)

    def _check_data(self, owner: str) -> None:
        """Data that the residual has no argument for would be left out unnoticed."""
        keys = self.data if isinstance(self.data, Mapping) else ()
        named(owner, "data", self.data, keys, None, "Write data={'y': values}.")
        try:
            arguments = inspect.signature(self.residual).parameters
        except (TypeError, ValueError):
            return
        if any(a.kind is a.VAR_KEYWORD for a in arguments.values()):
            return
        for key in self.data:
            if key not in list(arguments)[1:]:
                raise InputError(
                    f"{owner}: data {key!r} is no argument of the residual, which takes "
                    f"{listed(arguments)}. Add it, or leave it out of data."
                )

    @property
    def noise_level(self) -> np.ndarray:
        """The standard deviation of the noise, as it is now."""
        given = self.noise.start if isinstance(self.noise, LearnedNoise) else self.noise
        given = given.scale if isinstance(given, StudentT) else given
        return numbers(f"Condition {self.name!r}", "noise", given)

    @property
    def region(self) -> AbstractRegion:
        """Where the condition holds; points given as an array are a `PointCloud` by now."""
        assert isinstance(self.where, AbstractRegion)
        return self.where
