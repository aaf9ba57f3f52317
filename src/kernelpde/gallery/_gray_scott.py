"""The Gray-Scott system of sections 3 and 5.3 of the paper.

    uₜ = D_u uₓₓ - u v² + F (1 - u),    vₜ = D_v vₓₓ + u v² - (F + k) v

for 0 < t, x < 1, with uₓ = vₓ = 0 at both ends.
"""

from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import check_choice
from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.gallery._references import CosineSeries
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian
from kernelpde.problem import Condition, Field, Problem

_DU, _DV, _FEED, _KILL = 0.001, 0.002, 0.04, 0.06

# (sign, k) of ±cos kπx for u and v at time 0; the sines of the paper are cosines.
_MODES = {
    "gray-scott": ((-1, 3), (1, 2)),
    "gray-scott-a": ((1, 7), (-1, 2)),
    "gray-scott-b": ((-1, 4), (1, 5)),
    "gray-scott-c": ((1, 8), (1, 5)),
}


def _equation(x: Float[Array, " d"], u: Jet, v: Jet) -> tuple[Array, Array]:
    reaction = u.value * v.value**2
    return (
        u.d("t") - _DU * u.d("x", "x") + reaction - _FEED * (1.0 - u.value),
        v.d("t") - _DV * v.d("x", "x") - reaction + (_FEED + _KILL) * v.value,
    )


def _insulated(x: Float[Array, " d"], u: Jet, v: Jet) -> tuple[Array, Array]:
    return u.normal_derivative, v.normal_derivative


class _Initial:
    """Initial condition for u and v. Instances with equal modes share compiled programs."""

    def __init__(self, modes: tuple[tuple[int, int], tuple[int, int]]):
        self.modes = modes

    def __call__(self, x: Float[Array, " d"], u: Jet, v: Jet) -> tuple[Array, Array]:
        (su, ku), (sv, kv) = self.modes
        return (
            u.value - su * jnp.cos(ku * jnp.pi * x[1]),
            v.value - sv * jnp.cos(kv * jnp.pi * x[1]),
        )

    def __hash__(self) -> int:
        return hash(self.modes)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, _Initial) and self.modes == value.modes


def _reaction(values: np.ndarray) -> np.ndarray:
    u, v = values
    rate = u * v**2
    return np.stack([-rate + _FEED * (1.0 - u), rate - (_FEED + _KILL) * v])


def _cosine(mode: tuple[int, int], x: np.ndarray) -> np.ndarray:
    return mode[0] * np.cos(mode[1] * np.pi * x)


@dataclass(frozen=True)
class _Species:
    """Reference solution of one species."""

    series: CosineSeries
    index: int

    def __call__(self, points: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        return self.series(points)[self.index]


@gallery
def gray_scott(lengthscale: float = 1.0, case: str = "gray-scott") -> Example:
    """Gray-Scott system with one Gaussian kernel per species.

    **Arguments:**

    - `lengthscale`: initial value ℓ of all four hyperparameters in the paper, for the kernel
      exp(-(t - t')² / ℓ² - (x - x')² / ℓ²): here ℓ / √2.
    - `case`: initial condition, `"gray-scott"` or with `-a`, `-b`, `-c`.
    """
    check_choice("gray_scott", "case", case, _MODES)
    box = Box(t=(0, 1), x=(0, 1), time="t")
    modes = _MODES[case]
    kernel = Gaussian([lengthscale / np.sqrt(2)] * 2)
    problem = Problem(
        Condition("equation", box.interior, _equation),
        Condition("ends", box.boundary, _insulated),
        Condition("initial", box.initial, _Initial(modes)),
        fields=[Field("u", kernel), Field("v", kernel)],
    )
    first, second = (partial(_cosine, mode) for mode in modes)
    series = CosineSeries((first, second), (_DU, _DV), _reaction)
    counts = {"equation": 600, "ends": 267, "initial": 133}
    return Example(
        case,
        "two species that diffuse and react, insulated ends",
        problem,
        counts,
        {"u": _Species(series, 0), "v": _Species(series, 1)},
        product_grid(np.linspace(0, 1, 101), np.linspace(0, 1, 201)),
        counts,
    )
