"""How often the truth lies in credible intervals, hyperparameters learned.

    python benchmarks/calibration.py [--families line,darcy] [--seeds 0:40]
    python benchmarks/calibration.py --exact --seeds 0:120
    python benchmarks/calibration.py --page

The second is about `rates` alone, beside the posterior with an ODE solver for the same data. The
last writes tables of `docs/inverse.md` from these results and those of `inverse.py darcy`,
`laws.py`, `outliers.py`, `sampling.py` and `adjoint.py`.

Six families of inverse problems, as a user would write them, each with truths drawn from a prior of
random lengthscale and size (seeds below 30 of each 40), and with truths that are not: steps and
single bumps, or rates 2.5 deviations from where they are expected (the others). Drawn initial
values have no slope at the ends, as their problem demands. For each the share of places where a
field lies in its pointwise 50, 80 and 95% interval, or that of its numbers; and for drawn truths
the probability that the posterior gives to less than the truth at one random place, which should be
uniform over problems. Truths come from quadrature (`line`), finite volumes on 128 x 128 cells
(`darcy`, `source`), a Fourier series (`initial`), and scipy's Radau (`rates`, `front`): all with
errors far below the noise. `best` is the posterior with hyperparameters at their best values. Seeds
from 1000 were used to choose how free states are, those of the results were not.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _report import RESULTS, write
from scipy import sparse, stats
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.interpolate import CubicSpline, RegularGridInterpolator
from scipy.optimize import least_squares
from scipy.sparse.linalg import spsolve

import kernelpde as kp
from kernelpde.geometry import PointCloud

jax.config.update("jax_enable_x64", True)

LEVELS = (0.5, 0.8, 0.95)
DRAWN = 30
"""Of forty seeds so many have truths that are drawn from a prior."""

PAGE, END = RESULTS.parent / "docs" / "inverse.md", "<!-- end -->"

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
            (found - np.asarray(seen.data["y"])) / np.max(seen.noise_level)
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


def scores(case: Inverse, posterior: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Probabilities given to less than the truth, and whether intervals hold it."""
    if case.field is not None:
        view = posterior[case.field]
        inside = []
        for level in LEVELS:
            low, high = (np.asarray(end) for end in view.interval(case.places, level))
            inside.append((low <= case.truth) & (case.truth <= high))
        mean, deviation = (np.asarray(f(case.places)) for f in (view.mean, view.std))
        return stats.norm.cdf((case.truth - mean) / deviation), inside
    assert case.rates is not None
    found = {name: posterior.parameters[name] for name in case.rates}
    inside = [
        np.array(
            [
                e.interval(level)[0] <= case.rates[n] <= e.interval(level)[1]
                for n, e in found.items()
            ]
        )
        for level in LEVELS
    ]
    below = [
        stats.norm.cdf((e.parameter.offset(case.rates[n]) - e.offset) / e.spread)
        for n, e in found.items()
    ]
    return np.array(below), inside


def one(family: str, seed: int) -> dict[str, Any]:
    """One problem: what was learned, and what its posterior says of the truth."""
    rng = np.random.default_rng([seed, sum(map(ord, family)), 21])
    drawn = seed % 40 < DRAWN
    case = FAMILIES[family](rng, drawn)
    found: dict[str, Any] = {"family": family, "seed": seed, "drawn": drawn}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.process_time()
        learned = kp.learn(case.problem, case.points, seed=seed, throw=False)
        found |= {
            "learning": learned.result.name,
            "result": learned.solution.result.name,
            "seconds of learning": time.process_time() - begin,
        }
        if learned.solution.converged:
            begin = time.process_time()
            ways = {"posterior": kp.posterior(learned), "best": kp.posterior(learned.solution)}
            found["seconds of the posterior"] = time.process_time() - begin
            number = int(rng.integers(len(scores(case, ways["best"])[0])))
            for name, posterior in ways.items():
                below, inside = scores(case, posterior)
                found[name] = {
                    "inside": [float(np.mean(each)) for each in inside],
                    "below": float(below[number]),
                }
            found["doubts"] = ways["posterior"].doubts
    found["warnings"] = sorted({str(w.message)[:100] for w in caught})
    found["hyperparameters"] = {
        field: {n: np.asarray(v).tolist() for n, v in values.items()}
        for field, values in learned.problem.hyperparameters.items()
    }
    return found


def beside_exact(seeds: range) -> None:
    """Coverage of rates beside that of the posterior with an ODE solver, for the same data."""
    ours, theirs, drawn, report = [], [], [], {}
    for seed in seeds:
        rng = np.random.default_rng([seed, sum(map(ord, "rates")), 21])
        theirs.append(np.abs(exact_rates(rates(rng, seed % 40 < DRAWN))) < stats.norm.ppf(0.975))
        ours.append(one("rates", seed).get("posterior", {}).get("inside", [None] * 3)[2])
        drawn.append(seed % 40 < DRAWN)
        print(seed, ours[-1], float(np.mean(theirs[-1])), flush=True)
        report = {}
        for name, chosen in (("drawn", True), ("others", False)):
            own = [n for n, each in enumerate(drawn) if each is chosen]
            held = [ours[n] for n in own if ours[n] is not None]
            report[name] = {
                "problems": len(own),
                "converged": len(held),
                "in the 95% interval": float(np.mean(held)) if held else None,
                "exact, in the 95% interval": float(np.mean([theirs[n] for n in own] or [0.0])),
            }
        write("inverse-rates", {"seeds": [seeds.start, seeds.stop], "summary": report}, quiet=True)
    print(report)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For each family, and for drawn and other truths, how much lies in intervals."""
    found = {}
    for family in dict.fromkeys(row["family"] for row in rows):
        for drawn in (True, False):
            own = [r for r in rows if r["family"] == family and r["drawn"] == drawn]
            done = [r for r in own if "posterior" in r]
            if not done:
                continue
            silent = [r for r in done if r["posterior"]["inside"][2] < 0.6 and not r["doubts"]]
            about: dict[str, Any] = {"problems": len(own), "converged": len(done)}
            for way in ("posterior", "best"):
                inside = np.array([r[way]["inside"] for r in done])
                about[f"{way}: in 50, 80, 95%"] = np.mean(inside, 0).round(4).tolist()
            if drawn:
                below = [r["posterior"]["below"] for r in done]
                about["p-value of uniform ranks"] = float(stats.kstest(below, "uniform").pvalue)
            about["below 60% without a doubt"] = [r["seed"] for r in silent]
            about["median CPU seconds"] = float(
                np.median([r["seconds of learning"] + r["seconds of the posterior"] for r in done])
            )
            found[f"{family}, {'drawn' if drawn else 'others'}"] = about
    return found


def darcy_table() -> str:
    """Of the paper's Darcy problem, from the results of `inverse.py darcy`."""
    cases = json.loads((RESULTS / "inverse-darcy.json").read_text())["cases"]
    lines = [
        "| data | | rms error of u | relative error of a | a in interval | chi-squared |",
        "|---|---|---|---|---|---|",
    ]
    for case, about in cases.items():
        what, data = case.split(", ")
        lines.append(
            f"| {data.split()[0]} | {what} | {about['median l2 of u']:.1e} | "
            f"{about['median relative of a']:.3f} | "
            f"{about['median share of a in its 95% interval']:.0%} | "
            f"{about['median chi_squared']:.2f} |"
        )
    seeds = min(about["seeds"] for about in cases.values())
    return "\n".join([*lines, "", f"Median over {seeds} sets of points and data."])


def table() -> str:
    """How often truths lie in intervals, by family."""
    found = json.loads((RESULTS / "inverse-calibration.json").read_text())["summary"]
    lines = [
        "| family, truths | problems | converged | in 50% | in 80% | in 95% | "
        "best values only: in 95% | ranks uniform, p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, about in found.items():
        inside = " | ".join(f"{share:.1%}" for share in about["posterior: in 50, 80, 95%"])
        p = about.get("p-value of uniform ranks")
        lines.append(
            f"| {name} | {about['problems']} | {about['converged']} | {inside} | "
            f"{about['best: in 50, 80, 95%'][2]:.1%} | {'' if p is None else f'{p:.2g}'} |"
        )
    return "\n".join(lines)


def laws_table() -> str:
    found = json.loads((RESULTS / "inverse-laws.json").read_text())["summary"]
    titles = {
        "conductivity": "k(u) = 1 + u² of rods, 20 temperatures in each of two experiments",
        "reaction": "R(u) = 4 u (1 - u) of a front, two snapshots of 30 values",
    }
    rows = [
        f"| {titles[name]} | {one['converged']} of {one['repetitions']} | "
        f"{one['median relative error']:.1%}, {one['largest']:.1%} | {one['in the 95% band']:.1%} |"
        for name, one in found.items()
    ]
    head = "| noise 1% | converged | error, median and largest | in the 95% band |"
    return "\n".join(["", head, "|---|---|---|---|", *rows, "", "`python benchmarks/laws.py`", ""])


def rates_line() -> str:
    found = json.loads((RESULTS / "inverse-rates.json").read_text())["summary"]["drawn"]
    return (
        "The four rates of a problem are nearly one number, and 30 problems are few. Of "
        f"{found['problems']} drawn ones {found['in the 95% interval']:.1%} lie in their 95% "
        f"interval; for the same data {found['exact, in the 95% interval']:.1%} in that of a "
        "posterior with an ODE solver (`python benchmarks/calibration.py --exact --seeds 0:120`).\n"
    )


def sampling_table() -> str:
    found = json.loads((RESULTS / "inverse-sampling.json").read_text())["families"]
    titles = {
        "rates": "four rates of predator and prey",
        "front": "two rates of a front",
        "enzyme": "two constants of an enzyme",
    }
    rows = [
        f"| {titles[name]}, {one['seed']} | {one['effective part of importance weights']:.0%} | "
        f"{'yes' if one['effective part of importance weights'] >= 0.9 else 'no'} | "
        f"{max(one['Laplace from draws']):.2f} | "
        f"{max(one['Laplace from reference']):.2f} | {max(one['draws from reference']):.2f} | "
        f"{one['R-hat']:.3f}, {one['effective draws']:.0f} | "
        f"{one['effective draws per CPU minute']:.0f} |"
        for name, several in found.items()
        for one in several
    ]
    head = (
        "| problem, seed | weight left | Laplace claims to hold | Laplace to draws | Laplace to "
        "reference | draws to reference | R-hat, effective draws | effective draws per CPU minute |"
    )
    command = "`python benchmarks/sampling.py`"
    return "\n".join(["", head, "|---" * 8 + "|", *rows, "", command, ""])


def outliers_table() -> str:
    found = json.loads((RESULTS / "inverse-outliers.json").read_text())["summary"]
    rows = []
    for family, one in found.items():
        for name in ("clean, Gaussian", "clean, Student", "spoiled, Gaussian", "spoiled, Student"):
            row, covered = one[name], one[name]["in the 95% interval"]
            ratio = row["median of error over that of clean data"]
            rows.append(
                f"| {family} | {name} | {row['converged']} of {one['problems']} | "
                f"{row['median error']:.3f} | {ratio:.2f} | "
                f"{'' if covered is None else f'{covered:.0%}'} |"
            )
    head = "| 5% wrong | data, noise | converged | median error | over clean | in 95% |"
    lines = [head, "|---|---|---|---|---|---|", *rows, "", "`python benchmarks/outliers.py`"]
    return "\n".join(["", *lines, ""])


def adjoint_table() -> str:
    """That of `adjoint.py`."""
    found = json.loads((RESULTS / "inverse-adjoint.json").read_text())["summary"]
    lines = [
        "| | problems | ours without a solution | relative error | in 95% | CPU seconds | lines |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, about in found.items():
        lines.append(
            f"| {name} | {about['problems']} | {about['without a solution']} | "
            f"{about['median relative error']:.3f} | "
            f"{about['inside 95%']:.1%} | {about['median CPU seconds']:.1f} | {about['lines']} |"
        )
    note = "Medians, and the mean of shares. `python benchmarks/adjoint.py`"
    return "\n".join([*lines, "", note, ""])


def page() -> None:
    """Write the tables of the page."""
    text = PAGE.read_text()
    for mark, content in (
        ("laws", laws_table()),
        ("sampling", sampling_table()),
        ("outliers", outliers_table()),
        ("darcy", darcy_table()),
        ("adjoint", adjoint_table()),
        ("calibration", f"{table()}\n\n{rates_line()}"),
    ):
        begin = f"<!-- {mark}, written by benchmarks/calibration.py -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{content}\n{END}{rest.split(END, 1)[1]}"
    PAGE.write_text(text)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--seeds", default="0:40")
    given = parser.parse_args(arguments)
    if given.page:
        page()
        return
    begin, end = map(int, given.seeds.split(":"))
    if given.exact:
        beside_exact(range(begin, end))
        return
    rows = []
    for family in given.families.split(","):
        for seed in range(begin, end):
            rows.append(one(family, seed))
            row = rows[-1]
            inside = row.get("posterior", {}).get("inside")
            print(family, seed, row["learning"], row["result"], inside, flush=True)
    report = summary(rows)
    print(json.dumps(report, indent=2))
    write("inverse-calibration", {"summary": report, "runs": rows}, quiet=True)


if __name__ == "__main__":
    main(sys.argv[1:])
