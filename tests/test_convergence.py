"""Errors fall with the number of points at the rate that theory gives."""

import jax.numpy as jnp
import numpy as np

import kernelpde as kp

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 30)] * 2, indexing="ij"), axis=-1)


def errors(kernel, sizes):
    """-Δu + u³ = f with u = sin(2x + y) + cos(3y), at even points, largest error over a grid."""

    def exact(p, m=np):
        return m.sin(2 * p[..., 0] + p[..., 1]) + m.cos(3 * p[..., 1])

    def source(p):
        u = exact(p, jnp)
        return 5 * jnp.sin(2 * p[0] + p[1]) + 9 * jnp.cos(3 * p[1]) + u**3

    problem = kp.Problem(
        kp.Condition(
            "equation", SQUARE.interior, lambda p, u: -u.laplacian + u.value**3 - source(p)
        ),
        kp.Condition("boundary", SQUARE.boundary, lambda p, u: u.value - exact(p, jnp)),
        fields=[kp.Field("u", kernel)],
    )
    found = []
    for n in sizes:
        solution = kp.solve(problem, {"equation": n * n, "boundary": 4 * n}, sampling="grid")
        found.append(float(np.sqrt(np.mean((solution["u"](GRID) - exact(GRID)) ** 2))))
    return np.array(found)


def test_matern_converges_at_its_algebraic_rate():
    """Matern-7/2 in 2-D spans H^(9/2). For a second-order equation the error in L2 falls like
    h^(2s-2-2) = h^5 at most (smooth solution) and h^(s-2) = h^2.5 at least; a wrong derivative
    gives no convergence at all."""
    sizes = np.array([8, 16, 32])
    found = errors(kp.Matern(3.5, 1.0), sizes)
    rates = -np.diff(np.log(found)) / np.diff(np.log(sizes))
    assert (rates > 2.5).all(), rates
    assert (rates < 6.0).all(), rates
    assert found[-1] < 1e-5


def test_gaussian_converges_faster_than_any_power():
    sizes = np.array([4, 6, 8])
    found = errors(kp.Gaussian(0.8), sizes)
    rates = -np.diff(np.log(found)) / np.diff(np.log(sizes))
    assert (rates > 6.0).all(), rates
    assert found[-1] < 1e-7
