"""Six families of inverse problems as a user would write them, with known truths.

Truths are drawn from a prior of random lengthscale and size, or are not draws: steps and single
bumps, or rates 2.5 deviations from their medians. They come from quadrature (`line`), finite
volumes on 128 x 128 cells (`darcy`, `source`), a Fourier series (`initial`), and scipy's Radau
(`rates`, `front`): all with errors far below the noise. Drawn initial values have no slope at the
ends, as their problem demands.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.interpolate import CubicSpline, RegularGridInterpolator
from scipy.optimize import least_squares
from scipy.sparse.linalg import spsolve

import kernelpde as kp
from kernelpde.geometry import PointCloud

LINE = kp.Box(x=(0, 1))
SQUARE = kp.Box(x=(0, 1), y=(0, 1))


@dataclass
class Inverse:
    """A problem, its points, the unknown field with its true values, and the unknown numbers."""

    problem: kp.Problem
    points: dict[str, int]
    field: str | None = None
    places: np.ndarray | None = None
    truth: np.ndarray | None = None
    rates: dict[str, float] | None = None


def seen(x, u, y):
    return u.value - y


def zero(x, u):
    return u.value


def noisy(rng: np.random.Generator, values: np.ndarray, relative: float = 0.02):
    """Data and their noise, relative to the root mean square of what is measured."""
    noise = relative * float(np.sqrt(np.mean(values**2)))
    return values + noise * rng.standard_normal(len(values)), noise


def surface(rng: np.random.Generator, drawn: bool, dimension: int, size: float = 0.7) -> Callable:
    """A function of points in the unit cube: drawn from a Gaussian process, or a step or a bump."""
    if drawn:
        length = np.exp(rng.uniform(np.log(0.12), np.log(0.4)))
        size = size * np.exp(0.3 * rng.standard_normal())
        # As many waves as it takes to look like a Gaussian process.
        waves = rng.standard_normal((2000, dimension)) / length
        weights = size * rng.standard_normal((2000, 2)) / np.sqrt(2000)

        def draw(points: np.ndarray) -> np.ndarray:
            phase = points @ waves.T
            return np.cos(phase) @ weights[:, 0] + np.sin(phase) @ weights[:, 1]

        return draw
    center = rng.uniform(0.3, 0.7, dimension)
    if rng.random() < 0.5:
        return lambda points: size * np.where(points[:, 0] < center[0], -1.0, 1.0)
    return lambda points: 2 * size * np.exp(-np.sum((points - center) ** 2, 1) / (2 * 0.12**2))


def line(rng: np.random.Generator, drawn: bool) -> Inverse:
    """-(exp(a) u')' = 1 on a line: a from 25 values of u."""
    a = surface(rng, drawn, 1)
    grid = np.linspace(0, 1, 2001)
    thin = np.exp(-a(grid[:, None]))
    ones, ramp = (cumulative_simpson(f, x=grid, initial=0) for f in (thin, grid * thin))
    u = ramp[-1] / ones[-1] * ones - ramp
    where = rng.random((25, 1))
    data, noise = noisy(rng, np.interp(where[:, 0], grid, u))
    problem = kp.Problem(
        kp.Condition(
            "equation",
            LINE.interior,
            lambda x, u, a: -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - 1.0,
        ),
        kp.Condition("ends", LINE.boundary, zero),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.2)), kp.Field("a", 1.0 * kp.Gaussian(0.2))],
    )
    places = np.linspace(0.02, 0.98, 49)[:, None]
    return Inverse(problem, {"equation": 40, "ends": 2}, "a", places, a(places))


def volumes(conductivity: np.ndarray, load: np.ndarray) -> np.ndarray:
    """-div(k grad u) = f on the unit square, u = 0 around it, at the centers of n x n cells."""
    n = len(conductivity)
    k = np.pad(conductivity, 1, mode="edge")
    number = np.arange(n * n).reshape(n, n)
    diagonal, entries = np.zeros((n, n)), []
    for axis, step in ((0, -1), (0, 1), (1, -1), (1, 1)):
        other = np.roll(k, -step, axis)[1:-1, 1:-1]
        flow = 2 * conductivity * other / (conductivity + other) * n * n
        at_edge = np.zeros((n, n), dtype=bool)
        edge = 0 if step < 0 else n - 1
        at_edge[(edge, slice(None)) if axis == 0 else (slice(None), edge)] = True
        # Half a cell to the boundary.
        diagonal += np.where(at_edge, 2 * conductivity * n * n, flow)
        inner = ~at_edge
        entries.append((number[inner], np.roll(number, -step, axis)[inner], -flow[inner]))
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    matrix = sparse.csr_matrix((values, (rows, columns)), shape=(n * n, n * n))
    whole = (matrix + sparse.diags(diagonal.reshape(-1))).tocsc()
    return np.asarray(spsolve(whole, load.reshape(-1))).reshape(n, n)


def between(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Values at cell centers, and zero around the square, at other points."""
    n = len(values)
    axis = np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [1.0]])
    return RegularGridInterpolator((axis, axis), np.pad(values, 1), method="cubic")(where)


CENTERS = np.stack(np.meshgrid(*2 * [(np.arange(128) + 0.5) / 128], indexing="ij"), -1)
PLACES = np.stack(np.meshgrid(*2 * [np.linspace(0.05, 0.95, 10)], indexing="ij"), -1).reshape(-1, 2)


def in_square(
    rng: np.random.Generator,
    u: np.ndarray,
    truth: Callable,
    count: int,
    unknown: kp.Field,
    equation: Callable,
) -> Inverse:
    """A field of the equation from noisy values of u, which vanishes around the square."""
    where = rng.random((count, 2))
    data, noise = noisy(rng, between(u, where))
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, equation),
        kp.Condition("boundary", SQUARE.boundary, zero),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.2)), unknown],
    )
    points = {"equation": 200, "boundary": 60}
    return Inverse(problem, points, unknown.name, PLACES, truth(PLACES))


def darcy(rng: np.random.Generator, drawn: bool) -> Inverse:
    """-div(exp(a) grad u) = 1 on a square: a from 50 values of u."""
    a = surface(rng, drawn, 2)
    u = volumes(np.exp(a(CENTERS.reshape(-1, 2))).reshape(128, 128), np.ones((128, 128)))
    return in_square(
        rng,
        u,
        a,
        50,
        kp.Field("a", 1.0 * kp.Gaussian(0.2)),
        lambda x, u, a: (
            -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x") + a.d("y") * u.d("y")) - 1.0
        ),
    )


def source(rng: np.random.Generator, drawn: bool) -> Inverse:
    """-Δu = f on a square: f from 60 values of u."""
    f = surface(rng, drawn, 2, 1.0)
    u = volumes(np.ones((128, 128)), f(CENTERS.reshape(-1, 2)).reshape(128, 128))
    unknown = kp.Field("f", 1.0 * kp.Gaussian(0.2))
    return in_square(rng, u, f, 60, unknown, lambda x, u, f: -u.laplacian - f.value)


def even(rng: np.random.Generator, size: float = 1.0) -> np.ndarray:
    """The weights of cos(πkx): a draw from the Gaussian process of random lengthscale and size
    whose slopes vanish at both ends, that of `surface` with its reflections added."""
    length = np.exp(rng.uniform(np.log(0.12), np.log(0.4)))
    size = size * np.exp(0.3 * rng.standard_normal())
    numbers = np.arange(200)
    power = np.exp(-0.5 * (np.pi * numbers * length) ** 2) * np.where(numbers > 0, 2.0, 1.0)
    return size * np.sqrt(power / power.sum()) * np.sqrt(2.0) * rng.standard_normal(200)


def initial(rng: np.random.Generator, drawn: bool) -> Inverse:
    """u_t = 0.05 u_xx with insulated ends: u at t = 0 from 50 values at 0.02 < t < 0.3."""
    numbers = np.arange(200)
    if drawn:
        weights = even(rng)
    else:
        cells = (np.arange(1024) + 0.5) / 1024
        waves = np.cos(np.pi * numbers * cells[:, None])
        weights = 2 * surface(rng, drawn, 1, 1.0)(cells[:, None]) @ waves / 1024
        weights[0] /= 2
    where = np.stack([rng.random(50), rng.uniform(0.02, 0.3, 50)], 1)
    decay = np.exp(-0.05 * (np.pi * numbers) ** 2 * where[:, 1:])
    data, noise = noisy(rng, (np.cos(np.pi * numbers * where[:, :1]) * decay) @ weights)
    domain = kp.Box(x=(0, 1), t=(0, 0.3), time="t")
    problem = kp.Problem(
        kp.Condition("equation", domain.interior, lambda x, u: u.d("t") - 0.05 * u.laplacian),
        kp.Condition("ends", domain.boundary, lambda x, u: u.d("x")),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian([0.2, 0.1]))],
    )
    x = np.linspace(0.02, 0.98, 49)
    places = np.stack([x, np.zeros(49)], 1)
    truth = np.cos(np.pi * numbers * x[:, None]) @ weights
    return Inverse(problem, {"equation": 160, "ends": 40}, "u", places, truth)


RATES = {"growth": 1.0, "eaten": 0.6, "death": 0.9, "eating": 0.5}
SPREAD = 0.3


def true_rates(rng: np.random.Generator, drawn: bool, medians: dict[str, float]):
    scores = rng.standard_normal(len(medians))
    if not drawn:
        scores[rng.integers(len(medians))] = 2.5 * rng.choice([-1.0, 1.0])
    return {n: m * np.exp(SPREAD * s) for (n, m), s in zip(medians.items(), scores, strict=True)}


def unknown(medians: dict[str, float]) -> list[kp.Parameter]:
    return [kp.Parameter(name, m, SPREAD, positive=True) for name, m in medians.items()]


def rates(rng: np.random.Generator, drawn: bool) -> Inverse:
    """Predator and prey, four rates, from 25 values of both."""
    truth = true_rates(rng, drawn, RATES)
    growth, eaten, death, eating = truth.values()

    def slope(t, y):
        return [growth * y[0] - eaten * y[0] * y[1], -death * y[1] + eating * y[0] * y[1]]

    path = solve_ivp(
        slope, (0, 8), [2.0, 1.0], method="Radau", rtol=1e-9, atol=1e-11, dense_output=True
    )
    where = np.sort(rng.uniform(0, 8, (25, 1)), 0)
    both = path.sol(where[:, 0])
    data, noise = zip(*(noisy(rng, values) for values in both), strict=True)
    time_axis = kp.Box(t=(0, 8))
    problem = kp.Problem(
        kp.Condition(
            "equation",
            time_axis.interior,
            lambda t, u, v, growth, eaten, death, eating: (
                u.d("t") - growth * u.value + eaten * u.value * v.value,
                v.d("t") + death * v.value - eating * u.value * v.value,
            ),
        ),
        kp.Condition("prey", where, seen, noise=noise[0], data={"y": data[0]}),
        kp.Condition(
            "predators", where, lambda t, v, y: v.value - y, noise=noise[1], data={"y": data[1]}
        ),
        fields=[
            kp.Field("u", 1.0 * kp.Gaussian(1.0)),
            kp.Field("v", 1.0 * kp.Gaussian(1.0)),
            *unknown(RATES),
        ],
    )
    return Inverse(problem, {"equation": 60}, rates=truth)


def exact_rates(case: Inverse) -> np.ndarray:
    """How far the true rates are from their most likely values, in standard deviations, with the
    differential equation solved for each value of rates and initial values."""
    assert case.rates is not None
    medians = np.array(list(RATES.values()))
    truth = np.log(np.array(list(case.rates.values())) / medians)
    prey, predators = case.problem.conditions[1:]
    assert isinstance(prey.region, PointCloud)
    times = np.asarray(prey.region.points)[:, 0]

    def misses(x):
        growth, eaten, death, eating = medians * np.exp(x[:4])

        def slope(t, y):
            return [growth * y[0] - eaten * y[0] * y[1], -death * y[1] + eating * y[0] * y[1]]

        path = solve_ivp(slope, (0, 8), np.exp(x[4:]), t_eval=times, rtol=1e-9, atol=1e-11)
        missed = [
            (found - np.asarray(seen.data["y"])) / np.max(seen.noise_std)
            for found, seen in zip(path.y, (prey, predators), strict=True)
        ]
        return np.concatenate([*missed, x[:4] / SPREAD])

    best = least_squares(misses, [*truth, np.log(2.0), 0.0], x_scale=0.01)
    covariance = np.linalg.inv(best.jac.T @ best.jac)
    return (truth - best.x[:4]) / np.sqrt(np.diag(covariance)[:4])


FRONT = {"diffusion": 0.01, "reaction": 3.0}


def front_values(rates: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The front at places and times, by finite volumes."""
    diffusion, reaction = rates
    n = 256
    cells = (np.arange(n) + 0.5) / n

    def slope(t, u):
        padded = np.pad(u, 1, mode="edge")
        spread = diffusion * n * n * (padded[2:] - 2 * u + padded[:-2])
        return spread + reaction * u * (1 - u)

    begin = 0.8 * np.exp(-((cells - 0.3) ** 2) / 0.02)
    band = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    path = solve_ivp(
        slope,
        (0, 1),
        begin,
        method="Radau",
        rtol=1e-8,
        atol=1e-10,
        dense_output=True,
        jac_sparsity=sparse.csc_matrix(band),
    )
    return np.array([CubicSpline(cells, path.sol(t))(x) for x, t in where])


def front(rng: np.random.Generator, drawn: bool) -> Inverse:
    """u_t = D u_xx + r u (1 - u) with insulated ends: both rates from 40 values."""
    truth = true_rates(rng, drawn, FRONT)
    where = np.stack([rng.uniform(0.05, 0.95, 40), rng.random(40)], 1)
    values = front_values(np.array(list(truth.values())), where)
    data, noise = noisy(rng, values)
    domain = kp.Box(x=(0, 1), t=(0, 1), time="t")
    problem = kp.Problem(
        kp.Condition(
            "equation",
            domain.interior,
            lambda x, u, diffusion, reaction: (
                u.d("t") - diffusion * u.laplacian - reaction * u.value * (1 - u.value)
            ),
        ),
        kp.Condition("ends", domain.boundary, lambda x, u: u.d("x")),
        kp.Condition(
            "initial",
            domain.initial,
            lambda x, u: u.value - 0.8 * jnp.exp(-((x[0] - 0.3) ** 2) / 0.02),
        ),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian([0.2, 0.3])), *unknown(FRONT)],
    )
    return Inverse(problem, {"equation": 160, "ends": 40, "initial": 30}, rates=truth)


FAMILIES = {f.__name__: f for f in (line, darcy, source, initial, rates, front)}
