"""Problems with shocks, kinks and layers: sections 5.4 and 5.5 of the paper, and a layer."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.errors import InputError
from kernelpde.functionals import Jet
from kernelpde.gallery._example import Example, gallery, product_grid
from kernelpde.gallery._references import ColeHopf, RegularizedDistance
from kernelpde.geometry import Box
from kernelpde.kernels import AbstractKernel, BumpLengthscale, Gibbs, Matern, NetworkLengthscale
from kernelpde.problem import Condition, Field, Problem

_VISCOSITY = 0.02
_REGULARIZATION = 0.01
_DIFFUSION = 0.02


def _zero(x: Float[Array, " d"], u: Jet) -> Array:
    return u.value


def _burgers(x: Float[Array, " d"], u: Jet) -> Array:
    return u.d("t") + u.value * u.d("x") - _VISCOSITY * u.d("x", "x")


def _sine(x: Float[Array, " d"], u: Jet) -> Array:
    return u.value + jnp.sin(jnp.pi * x[1])


def _rough_kernel(
    kind: str,
    lengthscale: tuple[float, ...],
    box: tuple[tuple[float, float], ...],
    shape: tuple[int, int],
    scale: float,
    seed: int,
) -> AbstractKernel:
    """Return a Gibbs kernel with bumps or with the published network, or a Matern kernel."""
    if kind == "bumps":
        return Gibbs(BumpLengthscale(lengthscale, box, shape))
    if kind == "network":
        return Gibbs(NetworkLengthscale(2, len(lengthscale), key=jax.random.key(seed), scale=scale))
    if kind == "matern":
        return Matern(3.5, list(lengthscale))
    raise InputError(f"kernel must be 'bumps', 'network' or 'matern'; got {kind!r}.")


@gallery
def burgers(
    lengthscale: float = 0.3,
    kernel: str = "bumps",
    shape: tuple[int, int] = (4, 15),
    seed: int = 0,
) -> Example:
    """uₜ + u uₓ = 0.02 uₓₓ on 0 < t < 1, -1 < x < 1, u(0, x) = -sin πx, u = 0 at both ends.

    A shock forms at x = 0.

    **Arguments:**

    - `lengthscale`: initial lengthscale in time; it is half as large in space.
    - `kernel`: "bumps" or "network" for the lengthscales of a Gibbs kernel, one for each
      coordinate; "matern" for a stationary kernel.
    - `shape`: shape of the grid of bumps.
    - `seed`: seed of the network weights.
    """
    box = Box(t=(0, 1), x=(-1, 1), time="t")
    sides = ((0.0, 1.0), (-1.0, 1.0))
    lengths = (lengthscale, 0.5 * lengthscale)
    problem = Problem(
        Condition("equation", box.interior, _burgers),
        Condition("ends", box.boundary, _zero),
        Condition("initial", box.initial, _sine),
        fields=[Field("u", _rough_kernel(kernel, lengths, sides, shape, 0.25, seed))],
    )
    return Example(
        "burgers",
        "Burgers' equation with a shock",
        problem,
        {"equation": 1800, "ends": 150, "initial": 150},
        {"u": ColeHopf(_VISCOSITY)},
        product_grid(np.linspace(0, 1, 60), np.linspace(-1, 1, 60)),
        {"equation": 900, "ends": 150, "initial": 150},
        sampling="halton",
        nugget=1e-10 if kernel == "matern" else 1e-12,
    )


def _eikonal(x: Float[Array, " d"], u: Jet) -> Array:
    return u.gradient @ u.gradient - 1.0 - _REGULARIZATION * u.laplacian


@gallery
def eikonal(
    lengthscale: float = 0.1,
    kernel: str = "bumps",
    shape: tuple[int, int] = (7, 7),
    seed: int = 0,
) -> Example:
    """|∇u|² = 1 + 0.01 Δu on the unit square, u = 0 on its boundary: a smoothed distance to it.

    **Arguments:**

    - `lengthscale`: initial lengthscale of both coordinates.
    - `kernel`, `shape`, `seed`: as for `burgers`.
    """
    square = Box(x=(0, 1), y=(0, 1))
    sides = ((0.0, 1.0), (0.0, 1.0))
    problem = Problem(
        Condition("equation", square.interior, _eikonal),
        Condition("boundary", square.boundary, _zero),
        fields=[Field("u", _rough_kernel(kernel, (lengthscale,), sides, shape, 1 / 3, seed))],
    )
    grid = np.linspace(0, 1, 100)
    return Example(
        "eikonal",
        "a regularized eikonal equation, with kinks along the diagonals",
        problem,
        {"equation": 1800, "boundary": 300},
        {"u": RegularizedDistance(_REGULARIZATION)},
        product_grid(grid, grid),
        {"equation": 900, "boundary": 300},
        sampling="halton",
        nugget=1e-9,
    )


def _advection(x: Float[Array, " d"], u: Jet) -> Array:
    return u.d("x") - _DIFFUSION * u.laplacian - _layer_source(x)


def _layer(x: Float[Array, " d"]) -> Float[Array, ""]:
    """(x - (e^{(x-1)/ε} - e^{-1/ε}) / (1 - e^{-1/ε})) sin πy, zero on all sides."""
    depth = (jnp.exp((x[0] - 1) / _DIFFUSION) - jnp.exp(-1 / _DIFFUSION)) / -jnp.expm1(
        -1 / _DIFFUSION
    )
    return (x[0] - depth) * jnp.sin(jnp.pi * x[1])


def _layer_source(x: Float[Array, " d"]) -> Float[Array, ""]:
    """uₓ - ε Δu of `_layer`, whose exponential is in the null space of ∂ₓ - ε ∂ₓₓ."""
    return jnp.sin(jnp.pi * x[1]) + _DIFFUSION * jnp.pi**2 * _layer(x)


@gallery
def layer(
    lengthscale: float = 0.1,
    kernel: str = "bumps",
    shape: tuple[int, int] = (10, 3),
    seed: int = 0,
) -> Example:
    """uₓ - 0.02 Δu = f on the unit square, u = 0 on its boundary: a boundary layer at x = 1.

    **Arguments:** as for `eikonal`, with one lengthscale for each coordinate.
    """
    square = Box(x=(0, 1), y=(0, 1))
    sides = ((0.0, 1.0), (0.0, 1.0))
    lengths = (lengthscale, 2 * lengthscale)
    problem = Problem(
        Condition("equation", square.interior, _advection),
        Condition("boundary", square.boundary, _zero),
        fields=[Field("u", _rough_kernel(kernel, lengths, sides, shape, 0.25, seed))],
    )
    grid = np.linspace(0, 1, 60)
    exact = jax.vmap(_layer)
    return Example(
        "layer",
        "advection against diffusion, with a boundary layer",
        problem,
        {"equation": 1200, "boundary": 300},
        {"u": lambda points: np.asarray(exact(jnp.asarray(points)))},
        product_grid(grid, grid),
        {"equation": 600, "boundary": 200},
        sampling="halton",
    )
