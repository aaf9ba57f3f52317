"""Posteriors of unknown numbers: Laplace's approximation, NUTS, and a classical solver.

    python -m benchmarks sampling [--families rates,front,enzyme] [--seeds 0:2]

Four rates of predator and prey and two of a reacting front as in `calibration`; and the two
constants of Michaelis and Menten's law from the first part of a reaction, of which only a
combination is known well: far from Gaussian. Hyperparameters are learned. The reference solves the
differential equation for every value of the numbers: scipy's Radau or DOP853 on a grid of 21 x 21
(`front`) or 41 x 41 values (`enzyme`), or draws with a Runge-Kutta method of fixed steps and free
initial values (`rates`; 8000 draws by blackjax).
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import RectBivariateSpline
from scipy.stats import norm

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks.inverse import _families as problems
from kernelpde.geometry import PointCloud

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
GRID = {"front": 21, "enzyme": 41}
"""Values of each number for the reference; a front takes half a second, and is nearly Gaussian."""


def data_of(problem: kp.Problem, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Places, values and noise of a condition."""
    condition = problem.conditions[problem.condition_index(name)]
    values = np.asarray(condition.data["y"])
    assert isinstance(condition.region, PointCloud)
    return np.asarray(condition.region.points), values, float(np.max(condition.noise_std))


def enzyme(rng: np.random.Generator, drawn: bool) -> problems.Inverse:
    """u' = -V u / (K + u), u(0) = 1, until a third is gone; 15 values with noise 0.02."""
    del drawn
    medians = {"speed": 1.0, "half": 1.0}
    truth = {name: float(np.exp(0.5 * rng.standard_normal())) for name in medians}
    end = 0.7 * (1 + truth["half"]) / truth["speed"]
    times = np.sort(rng.uniform(0, end, 15))
    values = consumed(np.array(list(truth.values())), times) + 0.02 * rng.standard_normal(15)
    problem = kp.Problem(
        kp.Condition(
            "equation",
            kp.Box(t=(0, end)).interior,
            lambda t, u, speed, half: u.d("t") + speed * u.value / (half + u.value),
        ),
        kp.Condition("start", np.zeros((1, 1)), lambda t, u: u.value - 1.0),
        kp.Condition("data", times[:, None], problems.seen, noise=0.02, data={"y": values}),
        fields=[
            kp.Field("u", 1.0 * kp.Gaussian(0.7 * end)),
            *(kp.Parameter(name, m, 0.7, positive=True) for name, m in medians.items()),
        ],
    )
    return problems.Inverse(problem, {"equation": 30}, rates=truth)


def consumed(constants: np.ndarray, times: np.ndarray) -> np.ndarray:
    speed, half = constants
    path = solve_ivp(
        lambda t, u: -speed * u / (half + u),
        (0, times[-1]),
        [1.0],
        method="DOP853",
        t_eval=times,
        rtol=1e-9,
        atol=1e-11,
    )
    return path.y[0]


def enzyme_exact(problem: kp.Problem) -> Callable[[np.ndarray], float]:
    places, values, noise = data_of(problem, "data")

    def density(x: np.ndarray) -> float:
        missed = consumed(np.exp(x), places[:, 0]) - values
        return -0.5 * np.sum(missed**2) / noise**2 - 0.5 * np.sum((x / 0.7) ** 2)

    return density


def front_exact(problem: kp.Problem) -> Callable[[np.ndarray], float]:
    places, values, noise = data_of(problem, "data")
    medians = np.array(list(problems.FRONT.values()))

    def density(x: np.ndarray) -> float:
        missed = problems.front_values(medians * np.exp(x), places) - values
        spread = problems.SPREAD
        return -0.5 * np.sum(missed**2) / noise**2 - 0.5 * np.sum((x / spread) ** 2)

    return density


def on_grid(
    density: Callable[[np.ndarray], float], mode: np.ndarray, spread: np.ndarray, size: int
):
    """Quantiles of both numbers, from a grid in the coordinates of the approximation.

    Their marginal distributions are those of weighted points.
    """
    root = np.linalg.cholesky(spread)
    axis = np.linspace(-5, 5, size)
    scores = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    places = mode + scores @ root.T
    logs = np.array([density(x) for x in places])
    # Between grid points the density is refined by cubic splines of its logarithm.
    fine = np.linspace(-5, 5, 401)
    mass = np.exp(
        RectBivariateSpline(axis, axis, logs.reshape(size, size) - logs.max())(fine, fine)
    )
    edge = max(mass[0].max(), mass[-1].max(), mass[:, 0].max(), mass[:, -1].max()) / mass.max()
    scores = np.stack(np.meshgrid(fine, fine, indexing="ij"), -1).reshape(-1, 2)
    places, weights = mode + scores @ root.T, mass.reshape(-1) / mass.sum()
    quantiles = []
    for column in places.T:
        order = np.argsort(column)
        quantiles.append(np.interp(LEVELS, np.cumsum(weights[order]), column[order]))
    return np.array(quantiles), float(edge)


def rates_drawn(problem: kp.Problem, mode: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Quantiles of the logarithms of four rates, initial values unknown: draws with Runge-Kutta."""
    places, prey, first = data_of(problem, "prey")
    _, predators, second = data_of(problem, "predators")
    times = jnp.concatenate([jnp.zeros(1), jnp.asarray(places[:, 0])])
    medians = jnp.asarray(list(problems.RATES.values()))

    def path(rates, begin):
        def slope(y):
            return jnp.stack(
                [
                    rates[0] * y[0] - rates[1] * y[0] * y[1],
                    -rates[2] * y[1] + rates[3] * y[0] * y[1],
                ]
            )

        def until(y, length):
            h = length / 24

            def step(_, y):
                a = slope(y)
                b = slope(y + 0.5 * h * a)
                c = slope(y + 0.5 * h * b)
                return y + h / 6 * (a + 2 * b + 2 * c + slope(y + h * c))

            y = jax.lax.fori_loop(0, 24, step, y)
            return y, y

        return jax.lax.scan(until, begin, jnp.diff(times))[1]

    def density(x):
        y = path(medians * jnp.exp(x[:4]), jnp.exp(x[4:]))
        missed = jnp.concatenate([(y[:, 0] - prey) / first, (y[:, 1] - predators) / second])
        return -0.5 * jnp.sum(missed**2) - 0.5 * jnp.sum((x[:4] / problems.SPREAD) ** 2)

    begin = jnp.concatenate([jnp.asarray(mode), jnp.log(jnp.asarray([2.0, 1.0]))])
    chains = []
    for chain in range(4):
        warm, go = jax.random.split(jax.random.key(1000 * seed + chain))
        adaptation: Any = blackjax.window_adaptation(
            blackjax.nuts, density, is_mass_matrix_diagonal=False
        )
        (state, settings), _ = adaptation.run(warm, begin, 1000)
        kernel: Any = blackjax.nuts(density, **settings)

        def one(state, key, kernel=kernel):
            state, _ = kernel.step(key, state)
            return state, state.position

        chains.append(jax.lax.scan(one, state, jax.random.split(go, 2000))[1])
    drawn = np.stack(chains)
    worst = max(float(blackjax.diagnostics.rhat(drawn[..., k])) for k in range(4))
    return np.quantile(drawn[..., :4].reshape(-1, 4), LEVELS, axis=0).T, worst


FAMILIES = {"rates": problems.rates, "front": problems.front, "enzyme": enzyme}


def compare(family: str, seed: int, draws: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, sum(map(ord, family)), 22])
    case = FAMILIES[family](rng, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = kp.learn(case.problem, case.points, seed=seed)
        checked = kp.posterior(learned.solution, check_key=jax.random.key(seed))
    assert checked.importance is not None
    density = kp.log_density(learned)
    mode, spread = np.asarray(density.mode), np.asarray(density.covariance)
    kp.sample(density, jax.random.key(seed), draws=10, warmup=20, chains=2)
    start = time.process_time()
    samples = kp.sample(density, jax.random.key(seed + 1), draws=draws, warmup=100)
    minutes = (time.process_time() - start) / 60
    x = np.asarray(samples.positions).reshape(-1, len(mode))
    if family == "rates":
        exact, quality = rates_drawn(learned.problem, mode, seed)
    else:
        function = (front_exact if family == "front" else enzyme_exact)(learned.problem)
        exact, quality = on_grid(function, mode, spread, GRID[family])
    deviation = np.sqrt(np.diag(spread))[:, None]
    ours = np.quantile(x, LEVELS, axis=0).T
    laplace = mode[:, None] + deviation * norm.ppf(LEVELS)
    return {
        "rows": int(
            density.discretization.problem.at_points(density.discretization.point_sets).num_rows
        ),
        "effective part of importance weights": checked.importance.effective_sample_size,
        "posterior warns": "not Gaussian" in checked.warnings,
        "R-hat": max(samples.r_hat.values()),
        "effective draws": min(samples.effective_sample_size.values()),
        "divergences": samples.divergences,
        "gradients": samples.evaluations,
        "CPU minutes": minutes,
        "effective draws per CPU minute": min(samples.effective_sample_size.values()) / minutes,
        "samples warn": "Not Gaussian" in samples.warnings,
        "R-hat of the reference, or mass at the edge of its grid": quality,
        "draws from reference": np.max(np.abs(ours - exact) / deviation, axis=1),
        "Laplace from reference": np.max(np.abs(laplace - exact) / deviation, axis=1),
        "Laplace from draws": np.max(np.abs(laplace - ours) / deviation, axis=1),
    }


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--families", default="rates,front,enzyme")
    command.add_argument("--seeds", type=seeds, default="0:2")
    command.add_argument("--draws", type=int, default=250)
    options = command.parse_args(arguments)
    for family in options.families.split(","):
        for seed in options.seeds:
            record(
                "sampling", {"case": family, "seed": seed, **compare(family, seed, options.draws)}
            )
