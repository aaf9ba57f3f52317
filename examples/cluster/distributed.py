"""Learn a kernel with several processes that share the rows of one large problem.

Every process runs this program with the same arguments; the first also writes the run file:

    python examples/cluster/distributed.py --processes 2 --process 0 &
    python examples/cluster/distributed.py --processes 2 --process 1

On a cluster one process per task, here under SLURM, which tells each its number:

    srun --ntasks 4 python examples/cluster/distributed.py --coordinator $(hostname):12355

If a process dies the others end with an error, and the same command goes on from the run file.
"""

import argparse
import json
import os

import jax

import kernelpde as kp
from kernelpde.gallery import elliptic


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn with several processes.")
    number = os.environ.get
    parser.add_argument("--processes", type=int, default=int(number("SLURM_NTASKS", "1")))
    parser.add_argument("--process", type=int, default=int(number("SLURM_PROCID", "0")))
    parser.add_argument("--coordinator", default="127.0.0.1:12355")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--nugget", type=float, default=1e-8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--run", default=None, help="a run file on a disk that all processes see")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    jax.config.update("jax_enable_x64", True)
    if given.processes > 1:
        jax.distributed.initialize(
            given.coordinator,
            given.processes,
            given.process,
            heartbeat_timeout_seconds=20,
        )
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    example = elliptic(0.25)
    learned = kp.learn(
        example.problem,
        {"equation": given.points, "boundary": given.points // 10},
        method=kp.learning.Bilevel(
            multistart=False,
            tolerance=0.0,
            final=kp.learning.FinalSolve(linear_solver=kp.LowRank(mesh=mesh)),
        ),
        validation=kp.HeldOut(points={"equation": 1000, "boundary": 200}),
        linear_solver=kp.LowRank(nugget=given.nugget, mesh=mesh),
        max_steps=given.steps,
        checkpoint=given.run,
        callback=lambda record: print("loss", record.loss, flush=True),
    )
    if jax.process_index() == 0:
        lengthscale = float(learned.problem.hyperparameters["u"]["lengthscale"])
        losses = [record.loss for record in learned.history]
        error = example.errors(learned.solution)["u"]["l2"]
        print(json.dumps({"lengthscale": lengthscale, "losses": losses, "l2": error}))


if __name__ == "__main__":
    main()
