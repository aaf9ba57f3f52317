"""Several devices and processes give what one gives, and programs are lowered for other devices."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.bilevel import Objective, outer_residual
from kernelpde.gallery import burgers, elliptic
from kernelpde.learning import CollocationResidual, LinearizedCollocation, ThetaMap
from kernelpde.linear_solvers import DenseState

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "examples" / "cluster" / "distributed.py"

_EVALUATED = """
import dataclasses
import sys
import jax
jax.config.update("jax_enable_x64", True)
case, coordinator, process, processes, counts = sys.argv[1:]
if processes != "1":
    jax.distributed.initialize(coordinator, int(processes), int(process))
import jax.numpy as jnp
import kernelpde as kp
from kernelpde.bilevel import loss_and_gradient, loss_and_curvature
from test_linear_solvers_agree import GAUSSIAN, MATERN, loss_with
example, solver, rows, evaluations = {
    "low rank": (GAUSSIAN, kp.LowRank(1e-8), 1501, (loss_and_curvature, loss_and_gradient)),
    "sparse": (
        MATERN,
        kp.Sparse(1e-8, radius=3.0, preconditioner_radius=3.0),
        501,
        (loss_and_curvature,),
    ),
}[case]
for count in map(int, counts.split(",")):
    some = jax.devices()[:count]
    mesh = jax.make_mesh((count,), ("rows",), devices=some) if count else None
    there = dataclasses.replace(solver, mesh=mesh)
    loss = loss_with(example, there, {"equation": rows, "boundary": 203})
    theta = jnp.asarray(loss.linearized.theta_map.vector)
    for evaluate in evaluations:
        value, gradient, _, _ = evaluate(theta, loss)
        print("found", float(value), float(gradient[0]))
"""


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def evaluated(case: str, processes: int, devices: int, counts: str) -> np.ndarray:
    """Losses and gradients, by processes with so many devices each."""
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "NPROC": "16",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "tests"),
    }
    address = free_address()
    program = [sys.executable, "-c", _EVALUATED, case, address]
    runs = [
        subprocess.Popen(
            [*program, str(process), str(processes), counts],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for process in range(processes)
    ]
    answers = [run.communicate(timeout=400) for run in runs]
    assert all(run.returncode == 0 for run in runs), answers[0][1]
    lines = [line for line in answers[0][0].splitlines() if line.startswith("found")]
    return np.array([line.split()[1:] for line in lines], dtype=float)


@pytest.mark.parametrize(
    "solver", [pytest.param(s, marks=pytest.mark.slow) for s in ("low rank", "sparse")]
)
def test_devices_and_processes_have_the_loss_and_gradient_of_one(solver):
    found = evaluated(solver, 1, 8, "0,8")
    if solver == "sparse":  # low rank in two processes: below
        found = np.concatenate([found, evaluated(solver, 2, 1, "2")])
    np.testing.assert_allclose(found[:, 0], found[0, 0], rtol=1e-10)
    np.testing.assert_allclose(found[:, 1], found[0, 1], rtol=1e-4)


def start(processes: int, *options: str) -> list[subprocess.Popen]:
    """Start the program of the documentation in real processes."""
    program = [sys.executable, str(PROGRAM), "--processes", str(processes)]
    given = ["--coordinator", free_address(), "--points", "2500", "--nugget", "1e-5", *options]
    return [
        subprocess.Popen(
            [*program, "--process", str(process), *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(processes)
    ]


def finished(runs: list[subprocess.Popen]) -> tuple[list[float], dict]:
    """Every loss that the first process has seen, and its summary."""
    answers = [run.communicate(timeout=300) for run in runs]
    assert all(run.returncode == 0 for run in runs), answers[0][1][-2000:]
    lines = answers[0][0].splitlines()
    losses = [float(line.split()[1]) for line in lines if line.startswith("loss")]
    return losses, json.loads(lines[-1])


@pytest.fixture(scope="module")
def undisturbed():
    return finished(start(2, "--steps", "3"))


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(undisturbed):
    losses, summary = undisturbed
    alone, expected = finished(start(1, "--steps", "1"))
    assert losses[0] == pytest.approx(alone[0], rel=1e-10)
    assert summary["losses"][0] == pytest.approx(expected["losses"][0], rel=1e-5)
    assert summary["l2"] < 1e-4


@pytest.mark.slow
def test_a_killed_process_ends_the_other_and_a_restart_goes_on(undisturbed, tmp_path):
    file = tmp_path / "run.npz"
    runs = start(2, "--steps", "3", "--run", str(file))
    steps = 0
    assert runs[0].stdout is not None
    for line in runs[0].stdout:
        steps += line.startswith("loss")
        if steps >= len(undisturbed[0]) // 2:
            break
    runs[1].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    try:
        runs[0].communicate(timeout=90)
    except subprocess.TimeoutExpired:
        runs[0].kill()
        pytest.fail("the other process did not end within 90 seconds")
    assert runs[0].returncode != 0
    assert time.monotonic() - begun < 90
    runs[1].communicate()
    assert file.exists()
    losses, summary = finished(start(2, "--steps", "3", "--run", str(file)))
    assert len(losses) < len(undisturbed[0])
    assert summary["lengthscale"] == pytest.approx(undisturbed[1]["lengthscale"], rel=1e-6)
    np.testing.assert_allclose(summary["losses"], undisturbed[1]["losses"], rtol=1e-6)


def loss_of(example, counts):
    problem = example.problem

    def rows(seed):
        blocks = problem.collocate(counts, seed=seed)
        state = tuple(
            jnp.ones((block.rows_per_equation, len(residual.nonlinear)))
            for residual, block in zip(problem.residuals, blocks, strict=True)
        )
        return problem.at_points(blocks).linearize(state)

    training, validation = rows(0), rows(1)
    plan = DenseState(kp.Dense(nugget=1e-10, refinement_sweeps=1))
    weights = jnp.ones(len(validation.rhs))
    parameters = ThetaMap.of(problem.prior)
    linearized = LinearizedCollocation(parameters, training, validation, weights, plan)
    return Objective(CollocationResidual(), linearized)


@pytest.mark.parametrize(
    ("example", "counts"),
    [
        (elliptic(0.2), {"equation": 20, "boundary": 8}),
        (burgers(shape=(2, 3)), {"equation": 20, "ends": 6, "initial": 6}),
    ],
    ids=["constant lengthscale", "varying lengthscale"],
)
def test_a_learning_step_is_lowered_for_other_devices(example, counts):
    """Assembly, factorization, refinement and derivatives; nothing of it is the CPU's own."""
    loss = loss_of(example, counts)
    numbers, rest = eqx.partition(loss, eqx.is_array)

    def step(theta, numbers):
        return jax.jvp(
            lambda t: outer_residual(t, eqx.combine(numbers, rest))[0],
            (theta,),
            (jnp.ones_like(theta),),
        )

    theta = jnp.asarray(loss.linearized.theta_map.vector)
    traced = jax.jit(step).trace(theta, numbers)
    assert "lapack_dpotrf" in traced.lower(lowering_platforms=("cpu",)).as_text()
    for platform in ("cuda", "tpu"):
        there = traced.lower(lowering_platforms=(platform,)).as_text()
        assert "lapack" not in there
        assert "cholesky" in there or "potrf" in there
