"""Bilevel optimization of a small network for -u'' + u³ = f, beside Adam and L-BFGS on all weights.

    python -m benchmarks networks [--seeds 0:5] [--seconds 5]

u(x) = Σⱼ cⱼ x (1 - x) tanh(wⱼ x + bⱼ) at 100 training points. `bilevel` learns the first layer with
the last one as the inner variable, by residuals at 99 validation points. The others minimize the
mean square residual at all 199 points over both layers, from the same first layer with its best
linearized last layer (`warm`) or a random one (`random`). Every method has the same CPU seconds,
compilation excluded, and stops earlier if it converges. The error is the relative rms on 1001
points. Run it on one core:

    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python -m benchmarks networks
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize

import kernelpde as kp
from benchmarks._report import Line, parser, record, seeds
from kernelpde import bilevel
from kernelpde.bilevel.problems import HeldOutResidual, Network

WIDTH = 40
GRID = np.linspace(0.0, 1.0, 1001)


def solution(x: Any) -> Any:
    """sin 6πx², whose wavelength falls from 0.6 to 0.1."""
    return jnp.sin(6 * jnp.pi * x**2)


def source(x: Any) -> Any:
    return -jax.grad(jax.grad(solution))(x) + solution(x) ** 3


def error_of(values: Any) -> float:
    exact = np.asarray(solution(GRID))
    return float(np.sqrt(np.mean((np.asarray(values) - exact) ** 2) / np.mean(exact**2)))


class OutOfTime(Exception):
    """Raised when the CPU time of a method is used up."""


class Clock:
    """CPU seconds since the start."""

    def __init__(self, limit: float):
        self.limit, self.start = limit, time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self.start

    def check(self, *_: Any) -> None:
        if self.seconds > self.limit:
            raise OutOfTime


def by_bilevel(network: Network, theta: np.ndarray, optimizer: Any, limit: float) -> Line:
    """Minimize the validation residual over the first layer until the time is used up."""
    clock, last = Clock(limit), [theta]

    def callback(found: bilevel.Record) -> None:
        if found.is_step:
            last[0] = found.theta
        clock.check()

    settings = {"max_steps": 100_000, "tolerance": 1e-5}
    result, factorizations = "out of time", 0
    try:
        learned = bilevel.minimize(
            HeldOutResidual(),
            network,
            theta,
            optimizer=optimizer,
            callback=callback,
            settings=settings,
        )
        last[0], result = learned.theta, learned.result.name
        factorizations = learned.factorizations
    except OutOfTime:
        pass
    seconds = clock.seconds
    theta, state = last[0], network.init()
    solve = eqx.filter_jit(lambda state: network.linearize(theta, state).solve(jnp.asarray(theta)))
    for _ in range(20):
        state = solve(state).values
    error = error_of(network.evaluate(theta, state, GRID))
    return {"error": error, "seconds": seconds, "result": result, "factorizations": factorizations}


def on_all_weights(network: Network, theta: np.ndarray, last_layer: np.ndarray) -> Any:
    """Return the weights of both layers, the mean square residual as their function, and u."""
    points = jnp.asarray(np.sort(network.points))
    right = jax.vmap(source)(points)
    width = len(last_layer)

    def u(weights: Any, x: Any) -> Any:
        slopes, offsets, last = weights[:width], weights[width : 2 * width], weights[2 * width :]
        return x * (1 - x) * (jnp.tanh(slopes * x + offsets) @ last)

    def loss(weights: Any) -> Any:
        def residual(x: Any, f: Any) -> Any:
            def along(x: Any) -> Any:
                return u(weights, x)

            return -jax.grad(jax.grad(along))(x) + along(x) ** 3 - f

        return 0.5 * jnp.mean(jax.vmap(residual)(points, right) ** 2)

    weights = np.concatenate([theta, last_layer])
    return weights, jax.jit(jax.value_and_grad(loss)), lambda w: jax.vmap(lambda x: u(w, x))(GRID)


def by_adam(weights: Any, value_and_grad: Callable, u: Callable, limit: float) -> Line:
    """Run Adam with a rate that decays from 1e-2 to 1e-5 over the time, in chunks of 1000 steps."""

    @jax.jit
    def chunk(weights: Any, state: Any, rate: Any) -> Any:
        def one(_: int, carry: Any) -> Any:
            weights, state = carry
            updates, state = adam.update(value_and_grad(weights)[1], state)
            return weights - rate * updates, state

        return jax.lax.fori_loop(0, 1000, one, (weights, state))

    adam = optax.scale_by_adam()
    weights, steps = jnp.asarray(weights), 0
    state = adam.init(weights)
    jax.block_until_ready(chunk(weights, state, 0.0))
    clock = Clock(limit)
    while clock.seconds < limit:
        rate = 10 ** (-2 - 3 * clock.seconds / limit)
        weights, state = jax.block_until_ready(chunk(weights, state, rate))
        steps += 1000
    return {"error": error_of(u(weights)), "seconds": clock.seconds, "steps": steps}


def by_lbfgs(weights: np.ndarray, value_and_grad: Callable, u: Callable, limit: float) -> Line:
    """Run scipy's L-BFGS-B until the time is used up or it converges; restart it if it stops."""
    value_and_grad(jnp.asarray(weights))
    clock, best, evaluations = Clock(limit), [np.inf, weights], 0

    def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations
        clock.check()
        evaluations += 1
        value, gradient = value_and_grad(jnp.asarray(weights))
        if value < best[0]:
            best[:] = [float(value), weights.copy()]
        return float(value), np.asarray(gradient)

    options = {"maxiter": 10**7, "maxfun": 10**8, "maxcor": 50, "ftol": 0.0, "gtol": 0.0}
    try:
        previous = None
        while previous is None or best[0] < 0.999 * previous:
            previous = best[0]
            minimize(evaluate, best[1], jac=True, method="L-BFGS-B", options=options)
    except OutOfTime:
        pass
    figures = {"seconds": clock.seconds, "evaluations": evaluations}
    return {"error": error_of(u(jnp.asarray(best[1])))} | figures


def compare(seed: int, limit: float) -> dict[str, Line]:
    """Run all methods from one first layer."""
    network = Network(source)
    theta = network.first_layer(WIDTH, seed)
    solve = eqx.filter_jit(lambda state: network.linearize(theta, state).solve(jnp.asarray(theta)))
    last_layers = {
        "warm": np.asarray(solve(network.init()).coefficients),
        "random": np.random.default_rng([seed, 1]).standard_normal(WIDTH) / WIDTH,
    }
    state = network.init()
    for _ in range(20):
        state = solve(state).values
    done = {"first layer not learned": {"error": error_of(network.evaluate(theta, state, GRID))}}
    optimizers = {
        "Gauss-Newton CG": kp.learning.GaussNewtonCG(max_steps=10),
        "L-BFGS": kp.LBFGS(max_steps=40),
    }
    for name, optimizer in optimizers.items():
        by_bilevel(network, theta, optimizer, 2.0)  # Compiles.
        done[f"bilevel, {name}"] = by_bilevel(network, theta, optimizer, limit)
    for start, last_layer in last_layers.items():
        weights, loss, u = on_all_weights(network, theta, last_layer)
        done[f"Adam, {start}"] = by_adam(weights, loss, u, limit)
        done[f"L-BFGS, {start}"] = by_lbfgs(weights, loss, u, limit)
    return done


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:5")
    command.add_argument("--seconds", type=float, default=5.0)
    options = command.parse_args(arguments)
    for seed in options.seeds:
        for case, figures in compare(seed, options.seconds).items():
            record("networks", {"case": case, "seed": seed, "limit": options.seconds} | figures)
