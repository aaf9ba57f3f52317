"""Kernel regression by cross-validation, beside evidence (tinygp) and grid search (scikit-learn).

    pip install -r benchmarks/learning/requirements.txt
    python -m benchmarks regression [--seeds 0:5] [--data diabetes co2 friedman]

All methods have the same covariance function and hyperparameters. For diabetes and Friedman 1
these are a lengthscale per input and the noise, with a random fifth of the data held out. For CO2
they are the lengthscales of a trend and of the change of seasons, two amplitudes and the noise,
with two gaps of two years held out. `bilevel` minimizes the predictive density of leave-one-out
or, for CO2, also of folds of two years. The grid search has 8 factors of all lengthscales, 8
values of the noise and 5 folds. Errors are relative to the standard deviation of the targets.
Seconds are CPU time, first with and then without compilation.
"""

# The requirements are installed separately.
# pyright: reportMissingImports=false

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from benchmarks._report import Line, parser, record, seeds
from kernelpde import bilevel
from kernelpde.bilevel.problems import CrossValidation, KernelRegression


class Data(NamedTuple):
    """Training and test data, covariance function, initial θ with log noise, folds if special."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    kernel: Callable
    theta: np.ndarray
    folds: tuple[tuple[int, ...], ...] | None = None


def gaussian(theta: Any, left: Any, right: Any) -> Any:
    difference = (left[:, None] - right[None]) * jnp.exp(-theta)
    return jnp.exp(-0.5 * jnp.sum(difference**2, axis=-1))


def seasonal(theta: Any, left: Any, right: Any) -> Any:
    """A slow trend, seasons that change slowly, and fluctuations of months; times in years."""
    trend, decay, amplitude, fluctuation = jnp.exp(theta)
    t = left[:, None, 0] - right[None, :, 0]
    seasons = jnp.exp(-0.5 * (t / decay) ** 2 - 2.0 * jnp.sin(jnp.pi * t) ** 2)
    months = (1.0 + 0.5 * t**2) ** -1.0
    return jnp.exp(-0.5 * (t / trend) ** 2) + amplitude * seasons + fluctuation * months


def split(x: np.ndarray, y: np.ndarray, held_out: np.ndarray) -> tuple[Any, Any]:
    """Return standardized training and test data."""
    mean, scale = y[~held_out].mean(), y[~held_out].std()
    y = (y - mean) / scale
    return (x[~held_out], y[~held_out]), (x[held_out], y[held_out])


def at_random(x: np.ndarray, y: np.ndarray, seed: int) -> Data:
    held_out = np.zeros(len(y), dtype=bool)
    held_out[np.random.default_rng([seed, 5]).permutation(len(y))[: len(y) // 5]] = True
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    theta = np.log(np.r_[np.full(x.shape[1], np.sqrt(x.shape[1])), 0.3])
    train, test = split(x, y, held_out)
    return Data(train, test, gaussian, theta)


def diabetes(seed: int) -> Data:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return at_random(x, y, seed)


def friedman(seed: int) -> Data:
    """250 data of 10 sin(π x₁ x₂) + 20 (x₃ - ½)² + 10 x₄ + 5 x₅ in ten dimensions, noise 1."""
    rng = np.random.default_rng(seed)
    x = rng.random((250, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return at_random(x, y + 10 * x[:, 3] + 5 * x[:, 4] + rng.standard_normal(250), seed)


def co2(seed: int) -> Data:
    """Monthly means at Mauna Loa from 1958 to 2001; two gaps of two years are held out."""
    from statsmodels.datasets import co2 as source

    monthly = source.load_pandas().data["co2"].resample("MS").mean().dropna()
    years = (monthly.index.year + (monthly.index.month - 0.5) / 12).to_numpy()
    starts = np.random.default_rng([seed, 6]).choice(np.arange(1962, 1998, 4), 2, replace=False)
    held_out = np.any([(years >= s) & (years < s + 2) for s in starts], axis=0)
    theta = np.log(np.array([30.0, 30.0, 0.1, 0.01, 0.03]))
    train, test = split(years[:, None], monthly.to_numpy(), held_out)
    folds = tuple(map(tuple, np.array_split(np.arange(len(train[1])), len(train[1]) // 24)))
    return Data(train, test, seasonal, theta, folds)


DATA = {"diabetes": diabetes, "co2": co2, "friedman": friedman}


def scored(mean: Any, std: Any, data: Data) -> Line:
    target, mean = data.test[1], np.asarray(mean)
    return {
        "error": float(np.sqrt(np.mean((mean - target) ** 2))),
        "log density": float(norm.logpdf(target, mean, np.asarray(std)).mean()),
    }


def by_bilevel(data: Data, criterion: CrossValidation) -> Line:
    inner = KernelRegression(*data.train, kernel=data.kernel)
    learned = bilevel.minimize(criterion, inner, data.theta)
    figures = scored(*inner.predict(learned.theta, data.test[0]), data)
    return figures | {"factorizations": learned.factorizations, "converged": learned.converged}


def by_evidence(data: Data, start: np.ndarray | None = None) -> Line:
    """Maximize the evidence by tinygp and L-BFGS-B, with the amplitude as a further parameter."""
    import tinygp

    class Kernel(tinygp.kernels.Kernel):
        theta: Any
        log_amplitude: Any

        def evaluate(self, X1: Any, X2: Any) -> Any:
            value = data.kernel(self.theta, X1[None], X2[None])[0, 0]
            return jnp.exp(2 * self.log_amplitude) * value

    x, y = map(jnp.asarray, data.train)

    def process(theta: Any) -> Any:
        noise = jnp.exp(2 * (theta[-2] + theta[-1]))
        return tinygp.GaussianProcess(Kernel(theta[:-2], theta[-1]), x, diag=noise)

    loss = jax.jit(jax.value_and_grad(lambda theta: -process(theta).log_probability(y)))
    calls = 0

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        calls += 1
        value, gradient = loss(jnp.asarray(theta))
        finite = np.isfinite(value) and np.isfinite(gradient).all()
        return (float(value), np.asarray(gradient)) if finite else (1e10, np.zeros_like(theta))

    start = np.append(data.theta, 0.0) if start is None else start
    bounds = [(t - 7.0, t + 7.0) for t in start]
    best = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds)
    conditioned = process(jnp.asarray(best.x)).condition(y, jnp.asarray(data.test[0])).gp
    std = jnp.sqrt(conditioned.variance + jnp.exp(2 * (best.x[-2] + best.x[-1])))
    figures = scored(conditioned.loc, std, data)
    return figures | {"factorizations": calls, "converged": bool(best.success)}


def by_grid(data: Data) -> Line:
    """Search common factors of the lengthscales and the noise by scikit-learn, 5 folds."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        RBF,
        ConstantKernel,
        ExpSineSquared,
        RationalQuadratic,
    )
    from sklearn.model_selection import GridSearchCV, KFold

    scale = np.exp(data.theta)

    def kernel(factor: float) -> Any:
        if data.kernel is gaussian:
            return RBF(factor * scale[0])
        seasons = ConstantKernel(scale[2]) * RBF(factor * scale[1]) * ExpSineSquared(1.0, 1.0)
        months = ConstantKernel(scale[3]) * RationalQuadratic(1.0, 1.0)
        return RBF(factor * scale[0]) + seasons + months

    grid = {
        "kernel": [kernel(factor) for factor in np.geomspace(0.1, 10, 8)],
        "alpha": list(np.geomspace(1e-5, 1.0, 8)),
    }
    folds = KFold(5, shuffle=True, random_state=0)
    regressor = GaussianProcessRegressor(optimizer=None)
    search = GridSearchCV(regressor, grid, scoring="neg_mean_squared_error", cv=folds)
    best = search.fit(*data.train).best_estimator_
    mean, std = best.predict(data.test[0], return_std=True)
    # The amplitude that maximizes the evidence.
    amplitude = np.mean(data.train[1] * best.alpha_)
    figures = scored(mean, np.sqrt(amplitude * (std**2 + best.alpha)), data)
    return figures | {"factorizations": 5 * 64 + 1, "converged": True}


METHODS: dict[str, Callable[[Data], Line]] = {
    "bilevel, leave-one-out": lambda data: by_bilevel(data, CrossValidation()),
    "bilevel, folds": lambda data: by_bilevel(data, CrossValidation(data.folds)),
    "tinygp, evidence": by_evidence,
    "scikit-learn, grid search": by_grid,
}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:5")
    command.add_argument("--data", nargs="*", choices=list(DATA), default=list(DATA))
    options = command.parse_args(arguments)
    for name in options.data:
        for seed in options.seeds:
            data = DATA[name](seed)
            for method, run in METHODS.items():
                if method == "bilevel, folds" and data.folds is None:
                    continue
                times, figures = [], {}
                for _ in range(2):
                    start = time.process_time()
                    figures = run(data)
                    times.append(time.process_time() - start)
                line = {"case": f"{name}: {method}", "seed": seed, "rows": len(data.train[1])}
                record(
                    "regression", line | figures | {"first seconds": times[0], "seconds": times[1]}
                )
