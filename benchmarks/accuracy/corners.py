"""Problems that are singular at corners, to a given accuracy.

    python -m benchmarks corners [--names square,motz] [--seeds 40:43]

Each is solved by `solve` with an accuracy and nothing else. References are independent: Chebyshev
collocation for the square, singular functions fitted to the boundary for the L-shape (accurate to
the largest error on the boundary, by the maximum principle) and for Motz's problem, a Fourier
series for the jump, and known functions for the other two. `max_exponent` of the corner functions
was chosen on the square, the L-shape and Motz's problem.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record, seeds

SQUARE = kp.Box(x=(0.0, 1.0), y=(0.0, 1.0))


class Case(NamedTuple):
    """A problem, the accuracy, and its solution at points."""

    problem: kp.Problem
    accuracy: float
    reference: Callable[[np.ndarray], np.ndarray]


def _problem(*conditions: kp.Condition) -> kp.Problem:
    return kp.Problem(*conditions, fields=[kp.Field("u", kp.Gaussian(0.5))])


def _zero(x, u):
    return u.value


def _laplace(x, u):
    return u.laplacian


def chebyshev(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """-Δu + u³ = 10 in the unit square, u = 0 on its sides, by n² Chebyshev points and Newton."""
    nodes = np.cos(np.pi * np.arange(n + 1) / n)
    weights = np.r_[0.5, np.ones(n - 1), 0.5] * (-1.0) ** np.arange(n + 1)
    distances = nodes[:, None] - nodes + np.eye(n + 1)
    derivative = weights / weights[:, None] / distances
    np.fill_diagonal(derivative, 0.0)
    np.fill_diagonal(derivative, -derivative.sum(axis=1))
    second = 4.0 * (derivative @ derivative)[1:-1, 1:-1]
    values, vectors = np.linalg.eig(second)
    inverse = np.linalg.inv(vectors)
    u = np.zeros((n - 1, n - 1))
    for _ in range(200):
        # Newton's method with the mean of 3u² in the matrix: linear convergence, cheap steps.
        mean = 1.5 * float(np.max(u**2))
        rhs = 10.0 - u**3 + mean * u
        spectral = inverse @ rhs @ inverse.T
        spectral /= mean - values[:, None] - values
        new = np.real(vectors @ spectral @ vectors.T)
        change, u = np.abs(new - u).max(), new
        if change < 1e-14:
            break
    grid = np.zeros((n + 1, n + 1))
    grid[1:-1, 1:-1] = u

    def interpolate(points: np.ndarray) -> np.ndarray:
        rows = []
        for column in points.T:
            gaps = 2.0 * column[:, None] - 1.0 - nodes
            quotients = weights / np.where(gaps == 0.0, 1e-300, gaps)
            rows.append(quotients / quotients.sum(axis=1, keepdims=True))
        return np.einsum("ni,ij,nj->n", rows[0], grid, rows[1])

    return interpolate


def square() -> Case:
    """The first example of the README, singular like r² log r in four corners."""
    problem = _problem(
        kp.Condition("equation", SQUARE.interior, lambda x, u: -u.laplacian + u.value**3 - 10.0),
        kp.Condition("boundary", SQUARE.boundary, _zero),
    )
    return Case(problem, 1e-6, chebyshev(80))


def torsion() -> Case:
    """-Δu = 1 in an L-shape: r^(2/3) in the inner corner, r² log r in the others."""
    domain = kp.Box(x=(-1.0, 1.0), y=(-1.0, 1.0)) - kp.Box(x=(0.0, 1.1), y=(-1.1, 0.0))
    corners = [(0, 0), (0, -1), (-1, -1), (-1, 1), (1, 1), (1, 0)]
    starts = np.deg2rad([0, 90, 0, -90, 180, 90])
    angles = np.deg2rad([270, 90, 90, 90, 90, 90])

    def basis(points: np.ndarray) -> np.ndarray:
        z = points @ np.array([1.0, 1.0j])
        columns = [f((z / 1.4) ** k) for k in range(25) for f in (np.real, np.imag)]
        for (x, y), start, angle in zip(corners, starts, angles, strict=True):
            local = (z - x - 1j * y) * np.exp(-1j * start)
            local = np.where(np.abs(local) < 1e-15, 1e-15, local)
            theta = np.angle(local * np.exp(-0.5j * angle)) + 0.5 * angle
            log = np.log(np.abs(local)) + 1j * theta
            for k in range(1, 61 if angle > np.pi else 29):
                exponent = k * np.pi / angle
                is_integer = abs(exponent - round(exponent)) < 1e-9
                columns.append(np.imag(np.exp(exponent * log) * (log if is_integer else 1.0)))
        return np.stack(columns, axis=1)

    near = np.logspace(-9, -0.5, 150)
    steps = np.concatenate([np.linspace(0, 1, 150), near, 1 - near])[:, None]
    sides = zip(corners, corners[1:] + corners[:1], strict=True)
    boundary = np.concatenate([a + (np.array(b) - a) * steps for a, b in sides])
    matrix = basis(boundary)
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    rhs = np.sum(boundary**2, axis=1) / 4
    coefficients = np.linalg.lstsq(matrix / scale, rhs, rcond=1e-14)[0] / scale
    problem = _problem(
        kp.Condition("equation", domain.interior, lambda x, u: -u.laplacian - 1.0),
        kp.Condition("boundary", domain.boundary, _zero),
    )
    return Case(problem, 1e-6, lambda p: basis(p) @ coefficients - np.sum(p**2, axis=1) / 4)


def motz() -> Case:
    """Laplace's equation; along a straight side a value is prescribed, then a flux: r^(1/2)."""
    domain = kp.Polygon(
        [(-1, 0), (0, 0), (1, 0), (1, 1), (-1, 1)],
        names=["cold", "insulated", "hot", "insulated", "insulated"],
    )
    exponents = np.arange(46) + 0.5

    def basis(points: np.ndarray, direction: complex | None = None) -> np.ndarray:
        z = (points @ np.array([1.0, 1.0j]))[:, None]
        if direction is None:
            return np.real(z**exponents)
        return np.real(direction * exponents * z ** (exponents - 1))

    s = (np.polynomial.legendre.leggauss(300)[0] + 1) / 2
    one = np.ones_like(s)
    matrix = np.concatenate(
        [
            basis(np.stack([one, s], 1)),
            basis(np.stack([2 * s - 1, one], 1), 1j),
            basis(np.stack([-one, s], 1), -1.0),
        ]
    )
    scale = np.abs(matrix).max(axis=0)
    rhs = np.concatenate([500 * one, 0 * s, 0 * s])
    coefficients = np.linalg.lstsq(matrix / scale, rhs, rcond=1e-15)[0] / scale
    problem = _problem(
        kp.Condition("equation", domain.interior, _laplace),
        kp.Condition("cold", domain["cold"], _zero),
        kp.Condition("hot", domain["hot"], lambda x, u: u.value - 500.0),
        kp.Condition("insulated", domain["insulated"], lambda x, u: u.normal_derivative),
    )
    return Case(problem, 1e-6, lambda p: basis(p) @ coefficients)


def jump() -> Case:
    """Laplace's equation with u = 1 on one side of a square and 0 on the others."""
    others = kp.union([SQUARE["x=0"], SQUARE["x=1"], SQUARE["y=0"]])
    problem = _problem(
        kp.Condition("equation", SQUARE.interior, _laplace),
        kp.Condition("hot", SQUARE["y=1"], lambda x, u: u.value - 1.0),
        kp.Condition("cold", others, _zero),
    )

    def series(points: np.ndarray) -> np.ndarray:
        n = np.arange(1, 20001, 2)
        values = np.zeros(len(points))
        for i, (x, y) in enumerate(points):
            decay = np.exp(n * np.pi * (y - 1)) * -np.expm1(-2 * n * np.pi * y)
            decay /= -np.expm1(-2 * n * np.pi)
            values[i] = np.sum(4 / (n * np.pi) * np.sin(n * np.pi * x) * decay)
        return values

    return Case(problem, 1e-5, series)


def _known(domain, exact, names: tuple[str, str, str], oblique: bool) -> Case:
    """Laplace's equation with a known harmonic function; a flux on one side, if `oblique`."""

    def prescribed(x, normal, u):
        gradient = jax.grad(exact)(x)
        return u.normal_derivative + u.value - normal @ gradient - exact(x)

    first, arc, second = names
    flux = prescribed if oblique else lambda x, u: u.value - exact(x)
    problem = _problem(
        kp.Condition("equation", domain.interior, _laplace),
        kp.Condition("first", domain[first], flux),
        kp.Condition("arc", domain[arc], lambda x, u: u.value - exact(x)),
        kp.Condition("second", domain[second], lambda x, u: u.value - exact(x)),
    )
    return Case(problem, 1e-5, lambda p: np.asarray(jax.vmap(exact)(jnp.asarray(p))))


def _sector(degrees: float) -> kp.Polygon:
    angles = np.deg2rad(np.linspace(0, degrees, 9))
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1).tolist()
    return kp.Polygon([(0, 0), *rim], names=["first", *["arc"] * 8, "second"])


def _harmonic(degrees: float, exponent: float, function: Callable) -> Callable:
    half = np.deg2rad(degrees) / 2

    def exact(x):
        along, across = (
            x[0] * np.cos(half) + x[1] * np.sin(half),
            x[1] * np.cos(half) - x[0] * np.sin(half),
        )
        theta = half + jnp.arctan2(across, along)
        power = (x[0] ** 2 + x[1] ** 2) ** (exponent / 2)
        return power * function(exponent * theta) + jnp.exp(x[0]) * jnp.sin(x[1])

    return exact


def slit() -> Case:
    """A corner of 350 degrees with values on both sides, almost a crack: r^(18/35)."""
    exact = _harmonic(350, 180 / 350, jnp.sin)
    return _known(_sector(350), exact, ("first", "arc", "second"), oblique=False)


def robin() -> Case:
    """A corner of 300 degrees between a Robin condition and values: r^(3/10)."""
    exact = _harmonic(300, 0.3, jnp.cos)
    return _known(_sector(300), exact, ("first", "arc", "second"), oblique=True)


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case for case in (square, torsion, motz, jump, slit, robin)
}


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--names", default=",".join(CASES))
    options.add_argument("--seeds", type=seeds, default=range(40, 43))
    chosen = options.parse_args(arguments)
    for name in chosen.names.split(","):
        case = CASES[name]()
        interior = case.problem.conditions[0].region
        points = interior.sample(2000, np.random.default_rng(99)).points
        truth = case.reference(points)
        for seed in chosen.seeds:
            start = time.process_time()
            solution = kp.solve(case.problem, accuracy=case.accuracy, seed=seed, throw=False)
            error = np.asarray(solution["u"](points)) - truth
            record(
                "corners",
                {
                    "case": name,
                    "seed": seed,
                    "accuracy": case.accuracy,
                    "claimed": solution.converged,
                    "estimate": solution.error_estimate.largest,
                    "error": float(np.linalg.norm(error) / np.linalg.norm(truth)),
                    "max": float(np.abs(error).max() / np.sqrt(np.mean(truth**2))),
                    "rows": solution.problem.at_points(solution.point_sets).num_rows,
                    "CPU seconds": time.process_time() - start,
                },
            )
