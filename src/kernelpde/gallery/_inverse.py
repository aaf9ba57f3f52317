"""Inverse problems: unknown coefficients, sources and rates from noisy data."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.functionals import Jet
from kernelpde.gallery._chebyshev import ChebyshevDarcy
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.gallery._gray_scott import gray_scott
from kernelpde.geometry import Box
from kernelpde.kernels import Gaussian
from kernelpde.problem import Condition, Field, Parameter, Problem


def _zero(x: Float[Array, " d"], u: Jet) -> Array:
    return u.value


def _observation(x: Float[Array, " d"], u: Jet, y: Array) -> Array:
    return u.value - y


def _observation_rng(seed: int, problem: int) -> np.random.Generator:
    """Return the generator of observation points and noise."""
    return np.random.default_rng([seed, 99, problem])


def _darcy_coefficient(points: np.ndarray) -> np.ndarray:
    """Return the true a: exp(a) = exp(s) + exp(-s), s = sin 2πx + sin 2πy."""
    s = np.sin(2 * np.pi * points[:, 0]) + np.sin(2 * np.pi * points[:, 1])
    return np.logaddexp(s, -s)


def _darcy_equation(x: Float[Array, " d"], u: Jet, a: Jet) -> Array:
    return -jnp.exp(a.value) * (u.laplacian + a.gradient @ u.gradient) - 1.0


@cache
def _pressure() -> ChebyshevDarcy:
    return ChebyshevDarcy(_darcy_coefficient)


@gallery
def darcy(lengthscale: float = 1.0, seed: int = 0, observations: int = 60) -> Example:
    """-div(exp(a) grad u) = 1 on the unit square, u = 0 on its boundary: a from values of u.

    Sections 4.2 and 5.7 of the paper, with noise 1e-3 and u at most 0.024. Unlike in the published
    scripts, observation points are not collocation points, and the amplitudes of both fields are
    hyperparameters too. The initial amplitude of a is 1. The initial amplitude of u is 10: u is
    determined by a, so its prior should be weakly informative.

    **Arguments:**

    - `lengthscale`: initial lengthscale of both fields.
    - `seed`: seed of the observations.
    - `observations`: number of observations.
    """
    square, noise = Box(x=(0, 1), y=(0, 1)), 1e-3
    rng = _observation_rng(seed, 0)
    locations = rng.random((observations, 2))
    data = _pressure()(locations) + noise * rng.standard_normal(observations)
    problem = Problem(
        Condition("equation", square.interior, _darcy_equation),
        Condition("boundary", square.boundary, _zero),
        Condition("data", locations, _observation, noise=noise, data={"y": data}),
        fields=[Field("u", 100.0 * Gaussian(lengthscale)), Field("a", 1.0 * Gaussian(lengthscale))],
    )
    counts = {"equation": 400, "boundary": 100}
    grid = np.linspace(0, 1, 50)
    return Example(
        {60: "darcy", 180: "darcy-3x"}.get(observations, f"darcy-{observations}"),
        f"log-permeability from {observations} noisy values of the pressure",
        problem,
        counts,
        {"u": _pressure(), "a": _darcy_coefficient},
        product_grid(grid, grid),
        counts,
        nugget=1e-10,
    )


def _poisson_with_source(x: Float[Array, " d"], u: Jet, f: Jet) -> Array:
    return -u.laplacian - f.value


def _source(points: np.ndarray) -> np.ndarray:
    x, y = points.T
    return 2 * np.pi**2 * np.sin(np.pi * x) * np.sin(np.pi * y) + 20 * np.pi**2 * 0.1 * np.sin(
        2 * np.pi * x
    ) * np.sin(4 * np.pi * y)


def _potential(points: np.ndarray) -> np.ndarray:
    x, y = points.T
    return np.sin(np.pi * x) * np.sin(np.pi * y) + 0.1 * np.sin(2 * np.pi * x) * np.sin(
        4 * np.pi * y
    )


@gallery
def source(lengthscale: float = 0.3, seed: int = 0, observations: int = 100) -> Example:
    """-Δu = f on the unit square, u = 0 on its boundary: the source f from noisy values of u.

    Linear: the posterior is exact. u = sin πx sin πy + 0.1 sin 2πx sin 4πy, noise 0.005.

    **Arguments:** as for `darcy`.
    """
    square, noise = Box(x=(0, 1), y=(0, 1)), 5e-3
    rng = _observation_rng(seed, 1)
    locations = rng.random((observations, 2))
    data = _potential(locations) + noise * rng.standard_normal(observations)
    problem = Problem(
        Condition("equation", square.interior, _poisson_with_source),
        Condition("boundary", square.boundary, _zero),
        Condition("data", locations, _observation, noise=noise, data={"y": data}),
        fields=[Field("u", 1.0 * Gaussian(lengthscale)), Field("f", 100.0 * Gaussian(lengthscale))],
    )
    counts = {"equation": 300, "boundary": 80}
    grid = np.linspace(0, 1, 50)
    return Example(
        "source",
        "an unknown source in Poisson's equation, from noisy values of the potential",
        problem,
        counts,
        {"u": _potential, "f": _source},
        product_grid(grid, grid),
        counts,
        nugget=1e-10,
    )


def _string(x: Float[Array, " d"], u: Jet, load: Array) -> Array:
    return -u.laplacian - load


def _deflection(points: np.ndarray) -> np.ndarray:
    return 0.5 * _LOAD * points[:, 0] * (1.0 - points[:, 0])


_LOAD = 1.5


@gallery
def string(lengthscale: float = 0.5, seed: int = 0, observations: int = 20) -> Example:
    """-u″ = q on (0, 1), u = 0 at both ends: the load q from noisy values of u.

    A minimal inverse problem with an unknown parameter. It is linear: the posterior is exact.

    **Arguments:** as for `darcy`.
    """
    line, noise = Box(x=(0, 1)), 1e-2
    rng = _observation_rng(seed, 2)
    locations = rng.random((observations, 1))
    data = _deflection(locations) + noise * rng.standard_normal(observations)
    problem = Problem(
        Condition("equation", line.interior, _string),
        Condition("ends", line.boundary, _zero),
        Condition("data", locations, _observation, noise=noise, data={"y": data}),
        fields=[Field("u", 1.0 * Gaussian(lengthscale)), Parameter("load", 0.0, 5.0)],
    )
    counts = {"equation": 12, "ends": 2}
    return Example(
        "string",
        "the load on a string, from noisy values of its deflection",
        problem,
        counts,
        {"u": _deflection},
        np.linspace(0, 1, 101)[:, None],
        counts,
        parameters={"load": _LOAD},
        nugget=1e-10,
    )


_FEED, _KILL = 0.04, 0.06


def _rates(x: Float[Array, " d"], u: Jet, v: Jet, feed: Array, kill: Array) -> tuple[Array, Array]:
    reaction = u.value * v.value**2
    return (
        u.d("t") - 0.001 * u.d("x", "x") + reaction - feed * (1.0 - u.value),
        v.d("t") - 0.002 * v.d("x", "x") - reaction + (feed + kill) * v.value,
    )


def _observations(x: Float[Array, " d"], u: Jet, v: Jet, y: Array) -> tuple[Array, Array]:
    return u.value - y[0], v.value - y[1]


@gallery
def gray_scott_rates(
    lengthscale: float = 1.0, seed: int = 0, observations: int = 80, noise: float = 0.01
) -> Example:
    """Gray-Scott system with unknown feed and kill rates, from noisy snapshots of both species.

    There are four snapshots, at t = 0.25, 0.5, 0.75 and 1. Initial and boundary conditions are
    prescribed.

    **Arguments:**

    - `lengthscale`: factor on the lengthscales learned for `gray-scott`.
    - `seed`: seed of the observations.
    - `observations`: number of observations of each species.
    - `noise`: standard deviation of the noise.
    """
    forward = gray_scott()
    rng = _observation_rng(seed, 3)
    times = np.repeat([0.25, 0.5, 0.75, 1.0], -(-observations // 4))[:observations]
    locations = np.stack([times, rng.random(observations)], axis=1)
    truth = np.stack([reference(locations) for reference in forward.references.values()], axis=1)
    data = truth + noise * rng.standard_normal(truth.shape)
    _, ends, initial = forward.problem.conditions
    box = Box(t=(0, 1), x=(0, 1), time="t")
    kernel = 1.0 * Gaussian(lengthscale * np.array([0.35, 0.075]))
    problem = Problem(
        Condition("equation", box.interior, _rates),
        ends,
        initial,
        Condition("data", locations, _observations, noise=noise, data={"y": data}),
        fields=[
            Field("u", kernel),
            Field("v", kernel),
            Parameter("feed", 0.05, 0.05),
            Parameter("kill", 0.05, 0.05),
        ],
    )
    counts = {"equation": 300, "ends": 60, "initial": 60}
    return Example(
        "gray-scott-rates",
        "two rates of a reaction, from noisy snapshots of two species",
        problem,
        counts,
        forward.references,
        forward.grid,
        counts,
        "halton",
        parameters={"feed": _FEED, "kill": _KILL},
        nugget=1e-10,
    )
