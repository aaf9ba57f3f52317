"""Conjugate gradients of the sparse solver against `lineax.CG`.

Needs lineax. With the same operator, preconditioner, tolerance and at most as many iterations: how
a solve ends, how far its solution is from ours, CPU seconds of a second solve, and of the first,
which compiles.
"""

import importlib
from typing import Any

import jax
import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record
from benchmarks._timing import cpu_seconds as cpu
from kernelpde.gallery import elliptic
from kernelpde.linear_solvers._sparse import PreconditionedOperator

lx: Any = importlib.import_module("lineax")


def by_lineax(system: Any, rhs: jax.Array):
    """What `conjugate_gradients` of the sparse solver gives, found by lineax."""
    like = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
    tag = lx.positive_semidefinite_tag
    solver = system.solver_state.solver
    result = lx.linear_solve(
        lx.FunctionLinearOperator(system.times, like, tag),
        rhs,
        lx.CG(rtol=solver.tolerance, atol=0.0, max_steps=solver.max_iterations),
        options={"preconditioner": lx.FunctionLinearOperator(system.precondition, like, tag)},
        throw=False,
    )
    return result.value, result.result == lx.RESULTS.successful


def conjugate_gradients(count: int) -> None:
    for seed in range(2):
        example = elliptic(kernel=kp.Matern(3.5, 0.2))
        points = {"equation": count, "boundary": 4 * round(count**0.5)}
        reference = None
        ours = PreconditionedOperator.conjugate_gradients
        for name, method in (("ours", ours), ("lineax", by_lineax)):
            # By its name: an assignment would be one of another type.
            setattr(PreconditionedOperator, ours.__name__, method)
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
            record(
                "libraries",
                {
                    "case": f"conjugate gradients: {name}",
                    "seed": seed,
                    "CPU seconds of the first solve": first,
                    "CPU seconds of the second": second,
                    "result": solution.result.name,
                    "steps": solution.steps,
                    "difference": np.abs(values - reference).max(),
                },
            )
        PreconditionedOperator.conjugate_gradients = ours


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    conjugate_gradients(2000)
