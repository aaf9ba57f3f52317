"""What another process is asked to do, and problems that can be sent to it."""

import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

PLACES = np.linspace(0.1, 0.9, 5)[:, None] * np.ones((1, 2))


def equation(x, u):
    return -u.laplacian + u.value**3 - 5.0 * jnp.exp(x[0])


def vanishes(x, u):
    return u.value


def insulated(x, u):
    return u.normal_derivative


def seen(x, u, y):
    return u.value - y


def unmixed(x, u, v):
    return u.value + v.value - 1.0, u.d("x") - v.value


def rotates(x, h):
    return h.value - 1j * h.d("x") - 1.0


def balance(x, u, k):
    return -k * u.laplacian - 1.0


def wave(x):
    return 0.3 + 0.1 * jnp.sin(x[:1])


def problems() -> dict[str, tuple[kp.Problem, dict[str, int]]]:
    """A problem of every kind, with numbers of points."""
    holed = kp.Box(x=(0, 1), y=(0, 1)) - kp.Ball((0.5, 0.5), 0.2)
    wound = kp.Box(x=(0, 1), y=(0, 1), periodic="x")
    box = kp.Box(x=(0, 1), y=(0, 1))
    line = kp.Box(x=(0, 1))
    cloud = np.random.default_rng(0).random((6, 2))
    half = kp.Gaussian(0.5)
    return {
        "regions": (
            kp.Problem(
                kp.Condition("equation", holed.interior, equation),
                kp.Condition("outside", holed["x=0"], vanishes),
                kp.Condition("hole", holed["sphere"], insulated),
                fields=[kp.Field("u", 2.0 * kp.Matern(4.5, [0.4, 0.5]))],
            ).with_kernels([3.0 * kp.Matern(4.5, [0.6, 0.7])]),
            {"equation": 20, "outside": 5, "hole": 8},
        ),
        "periodic": (
            kp.Problem(
                kp.Condition("equation", wound.interior, equation),
                kp.Condition("sides", kp.union([wound["y=0"], wound["y=1"]]), vanishes),
                fields=[kp.Field("u", kp.freeze(half) + kp.Gaussian([0.3, 0.4]))],
            ),
            {"equation": 12, "sides": 8},
        ),
        "data": (
            kp.Problem(
                kp.Condition(
                    "data", cloud, seen, noise=kp.LearnedNoise(0.1), data={"y": cloud[:, 0]}
                ),
                kp.Condition("means", kp.box_averages(cloud[:3], cloud[:3] + 0.1), vanishes),
                fields=[kp.Field("u", kp.Gibbs(wave))],
            ).with_noises([jnp.asarray(np.log(0.2)), None]),
            {},
        ),
        "mixing": (
            kp.Problem(
                kp.Condition("both", line.interior, unmixed),
                fields=[kp.Field("u", half), kp.Field("v", half)],
                mixing=[[1.0, 0.2], [0.1, 1.0]],
            ),
            {"both": 6},
        ),
        "complex": (
            kp.Problem(
                kp.Condition("turn", line.interior, rotates), fields=[kp.ComplexField("h", half)]
            ),
            {"turn": 6},
        ),
        "number": (
            kp.Problem(
                kp.Condition("equation", box.interior, balance),
                kp.Condition("sides", box.boundary, vanishes),
                kp.Condition("data", cloud, seen, noise=0.01, data={"y": 0.05 * np.ones(6)}),
                fields=[kp.Field("u", half), kp.Parameter("k", 1.0, 0.5, positive=True)],
            ),
            {"equation": 12, "sides": 8},
        ),
    }


def solved(problem: kp.Problem, points: dict[str, int]) -> tuple[kp.Solution, np.ndarray]:
    """A solution, and what it is at some places."""
    solution = kp.solve(problem, points, throw=False)
    return solution, values(solution)


def values(solution: kp.Solution) -> np.ndarray:
    """The first field at some places."""
    problem = solution.problem
    name = problem.complex_fields[0][0] if problem.complex_fields else problem.fields[0].name
    return np.asarray(solution[name](PLACES[:, : len(problem.space.coordinates)]))
