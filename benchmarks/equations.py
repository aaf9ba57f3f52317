"""What a new equation costs: compilations, memory, memory maps and time.

    python benchmarks/equations.py constants   # 1,000 lambdas that differ in a constant
    python benchmarks/equations.py structures  # 300 equations that differ in what they do
    python benchmarks/equations.py times       # a new constant against the same lambda again

Each writes `results/equations-NAME.json`.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _report import write

import kernelpde as kp
from kernelpde import compiling

jax.config.update("jax_enable_x64", True)

LINE = kp.Box(x=(0.0, 1.0))


def memory() -> float:
    """Megabytes in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def maps() -> int:
    """Memory maps of this process."""
    return len(Path("/proc/self/maps").read_text().splitlines())


def on_line(equation, kernel) -> kp.Problem:
    return kp.Problem(
        kp.Condition("equation", LINE.interior, equation),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kernel)],
    )


def constants(count: int = 1000) -> dict:
    """-c u'' = 1: a new lambda for every c, against the exact solution x (1 - x) / 2c.

    The kernel's functions are polynomials, so that the exact solution is among them.
    """
    errors, sizes, programs = [], [], []
    where = np.linspace(0.1, 0.9, 9)[:, None]
    for number in range(count):
        c = 0.5 + 0.01 * number
        problem = on_line(lambda x, u, c=c: -c * u.d("x", "x") - 1.0, kp.Polynomial(3))
        solution = kp.solve(problem, {"equation": 2, "ends": 2})
        exact = where[:, 0] * (1.0 - where[:, 0]) / (2.0 * c)
        errors.append(float(np.max(np.abs(np.asarray(solution["u"](where)) / exact - 1.0))))
        sizes.append(memory())
        programs.append(sum(compiling._programs.made.values()))
    return {
        "solves": count,
        "compiled in the first": programs[0],
        "compiled in all others": programs[-1] - programs[0],
        "programs": dict(compiling._programs.made),
        "largest relative error": max(errors),
        "memory after the tenth, MB": sizes[9],
        "memory at the end, MB": sizes[-1],
        "growth after the tenth, MB": max(sizes[9:]) - sizes[9],
    }


def structures(count: int = 300) -> dict:
    """Equations no two of which do the same, in one process."""
    most, results = 0, []
    for number in range(count):
        bits = [int(bit) for bit in np.binary_repr(number + 1)]

        def equation(x, u, bits=bits):
            residual = -u.d("x", "x") - 1.0
            for bit in bits:
                residual += 0.01 * (jnp.sin(u.value) if bit else jnp.cos(residual))
            return residual

        solution = kp.solve(on_line(equation, kp.Gaussian(0.3)), {"equation": 20, "ends": 2})
        results.append(solution.converged)
        most = max(most, maps())
    return {
        "solves": count,
        "converged": sum(results),
        "most memory maps": most,
        "programs kept": len(compiling._programs),
        "programs compiled": sum(compiling._programs.made.values()),
        "memory at the end, MB": memory(),
    }


def timed(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def times(repeats: int = 7) -> dict:
    """CPU seconds of a call with a new constant over one with the same lambda again."""
    square = kp.Box(x=(0, 1), y=(0, 1))
    points = {"equation": 200, "boundary": 80}

    def problem(strength):
        return kp.Problem(
            kp.Condition(
                "equation",
                square.interior,
                lambda x, u: -u.laplacian + strength * u.value**3 - 10.0,
            ),
            kp.Condition("boundary", square.boundary, lambda x, u: u.value),
            fields=[kp.Field("u", kp.Gaussian(0.2))],
        )

    def measured(call) -> dict[str, float]:
        known = problem(1.0)
        first = timed(lambda: call(known, points))
        again = [timed(lambda: call(known, points)) for _ in range(repeats)]
        new = [timed(lambda n=n: call(problem(1.0 + 1e-3 * n), points)) for n in range(repeats)]
        ratio = float(np.median(new) / np.median(again))
        return {
            "first": first,
            "again": float(np.median(again)),
            "new constant": float(np.median(new)),
            "ratio": ratio,
        }

    return {"solve": measured(kp.solve), "learn": measured(kp.learn)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a new equation costs.")
    parser.add_argument("case", choices=("constants", "structures", "times"))
    case = parser.parse_args().case
    cases = {"constants": constants, "structures": structures, "times": times}
    write(f"equations-{case}", cases[case]())
