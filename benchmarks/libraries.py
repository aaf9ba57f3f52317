"""Three pieces of our own against the libraries that could take their place.

    python benchmarks/libraries.py

Needs lineax and meshio. Conjugate gradients of the sparse solver against `lineax.CG`, with the same
operator, preconditioner, tolerance and at most as many iterations: how a solve ends, how far its
solution is from ours, CPU seconds of a second solve, and of the first, which compiles. The
direction of `LBFGS` against `optax.scale_by_lbfgs`: largest difference and CPU seconds. The VTU
writer against `meshio`: the same grid, CPU seconds, bytes, and whether meshio reads the same
numbers from both.
"""

import importlib
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import meshio
import numpy as np
import optax
from _report import write

import kernelpde as kp
from kernelpde.gallery import elliptic
from kernelpde.learning._optimizers import _two_loop
from kernelpde.linear_solvers import _sparse

jax.config.update("jax_enable_x64", True)

lx: Any = importlib.import_module("lineax")


def cpu(function: Callable[[], Any]) -> float:
    begin = time.process_time()
    jax.block_until_ready(function())
    return time.process_time() - begin


def by_lineax(system: Any, rhs: jax.Array):
    """What `conjugate_gradients` of the sparse solver gives, found by lineax."""
    like = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
    tag = lx.positive_semidefinite_tag
    solver = system.plan.solver
    found = lx.linear_solve(
        lx.FunctionLinearOperator(system.times, like, tag),
        rhs,
        lx.CG(rtol=solver.tolerance, atol=0.0, max_steps=solver.max_iterations),
        options={"preconditioner": lx.FunctionLinearOperator(system._preconditioned, like, tag)},
        throw=False,
    )
    return found.value, found.stats["num_steps"], found.result == lx.RESULTS.successful


def conjugate_gradients(count: int) -> dict[str, Any]:
    report = {}
    for seed in range(2):
        example = elliptic(kernel=kp.Matern(3.5, 0.2))
        points = {"equation": count, "boundary": 4 * round(count**0.5)}
        reference = None
        ours = _sparse._System.conjugate_gradients
        for name, method in (("ours", ours), ("lineax", by_lineax)):
            # By its name: an assignment would be one of another type.
            setattr(_sparse._System, ours.__name__, method)
            jax.clear_caches()
            solved = []

            def once(keep=solved, problem=example.problem, seed=seed, points=points):
                keep.append(
                    kp.solve(problem, points, seed=seed, linear_solver=kp.Sparse(), throw=False)
                )
                return keep[-1]["u"](np.zeros((1, 2)))

            first, second = cpu(once), cpu(once)
            solution = solved[-1]
            where = np.random.default_rng(0).uniform(0, 1, (500, 2))
            values = np.asarray(solution["u"](where))
            reference = values if reference is None else reference
            report[f"{name}, seed {seed}"] = {
                "first": first,
                "second": second,
                "result": solution.result.name,
                "steps": solution.steps,
                "difference": float(np.abs(values - reference).max()),
            }
        _sparse._System.conjugate_gradients = ours
    return report


def directions(parameters: int, pairs: int = 10) -> dict[str, float]:
    rng = np.random.default_rng(parameters)
    roots = rng.normal(size=(parameters, parameters))
    matrix = roots @ roots.T / parameters + np.eye(parameters)
    path = [rng.normal(size=parameters)]
    for _ in range(pairs):
        path.append(path[-1] - 0.1 * matrix @ path[-1])
    history = [(b - a, matrix @ (b - a)) for a, b in itertools.pairwise(path)]
    method = optax.scale_by_lbfgs(memory_size=pairs)
    update = jax.jit(method.update)
    state = method.init(jnp.asarray(path[0]))
    for place in path[:-1]:
        _, state = update(jnp.asarray(matrix @ place), state, jnp.asarray(place))
    last = jnp.asarray(path[-1])
    gradient = jnp.asarray(matrix @ path[-1])
    theirs = np.asarray(update(gradient, state, last)[0])
    ours = -_two_loop(np.asarray(gradient), history)
    times = [
        min(cpu(one) for _ in range(20))
        for one in (
            lambda: _two_loop(np.asarray(gradient), history),
            lambda: update(gradient, state, last)[0],
        )
    ]
    fresh = jax.jit(lambda *given: method.update(*given))
    compiling = cpu(lambda: fresh(gradient, state, last)[0])
    return {
        "parameters": parameters,
        "difference": float(np.abs(ours - theirs).max() / np.abs(ours).max()),
        "ours": times[0],
        "optax": times[1],
        "optax, first": compiling,
    }


def grids(size: int) -> dict[str, Any]:
    example = elliptic()
    solution = kp.solve(example.problem, {"equation": 200, "boundary": 60}, throw=False)
    axis = np.linspace(0, 1, size)
    where = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.asarray(solution["u"](where))
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours.vtu", Path(folder) / "theirs.vtu"
        kp.export(solution, ours, resolution=size)
        mesh = meshio.read(ours)
        taken = cpu(lambda: kp.export(solution, ours, resolution=size))
        evaluated = cpu(lambda: solution["u"](where))
        written = cpu(lambda: mesh.write(theirs))
        same = all(
            np.array_equal(mesh.point_data[name], meshio.read(theirs).point_data[name])
            for name in mesh.point_data
        )
        return {
            "points": len(values),
            "ours, with evaluation": taken,
            "evaluation alone": evaluated,
            "meshio": written,
            "bytes": [ours.stat().st_size, theirs.stat().st_size],
            "same numbers": same,
        }


def imports(module: str, after: str = "numpy") -> float:
    """CPU seconds of an import after others, in a process of its own."""
    code = (
        f"import {after}, time; t = time.process_time(); "
        f"import {module}; print(time.process_time() - t)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return float(found.stdout)


if __name__ == "__main__":
    write(
        "libraries",
        {
            "conjugate gradients": conjugate_gradients(2000),
            "directions": [directions(p) for p in (20, 300)],
            "vtu": grids(200),
            "import meshio": imports("meshio"),
            "import lineax after jax": imports("lineax", after="jax, equinox"),
        },
    )
