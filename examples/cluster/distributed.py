"""Learn a kernel with several processes that share the rows of a large problem.

Every process runs this program with the same arguments; the first also writes the checkpoint file:

    python examples/cluster/distributed.py --processes 2 --process 0 &
    python examples/cluster/distributed.py --processes 2 --process 1

On a cluster, start one process per task. Under SLURM each reads its number from the environment:

    srun --ntasks 4 python examples/cluster/distributed.py --coordinator $(hostname):12355

If a process dies, the others stop with an error. The same command continues from the checkpoint
file.
"""

import argparse
import json
import os

import jax

import kernelpde as kp
from kernelpde.gallery import elliptic


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn with several processes.")
    parser.add_argument("--processes", type=int, default=int(os.environ.get("SLURM_NTASKS", "1")))
    parser.add_argument("--process", type=int, default=int(os.environ.get("SLURM_PROCID", "0")))
    parser.add_argument("--coordinator", default="127.0.0.1:12355")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--nugget", type=float, default=1e-8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--run", default=None, help="checkpoint file on a shared disk")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    jax.config.update("jax_enable_x64", True)
    if options.processes > 1:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            heartbeat_timeout_seconds=20,
        )
    mesh = jax.make_mesh((jax.device_count(),), ("rows",))
    example = elliptic(0.25)
    learned = kp.learn(
        example.problem,
        {"equation": options.points, "boundary": options.points // 10},
        method=kp.learning.Bilevel(
            multistart=False,
            tolerance=0.0,
            final=kp.learning.FinalSolve(linear_solver=kp.LowRank(mesh=mesh)),
        ),
        validation=kp.HeldOut(points={"equation": 1000, "boundary": 200}),
        linear_solver=kp.LowRank(nugget=options.nugget, mesh=mesh),
        max_steps=options.steps,
        checkpoint=options.run,
        callback=lambda record: print("loss", record.loss, flush=True),
    )
    if jax.process_index() == 0:
        lengthscale = float(learned.problem.hyperparameters["u"]["lengthscale"])
        losses = [record.loss for record in learned.history]
        error = example.errors(learned.solution)["u"]["l2"]
        print(json.dumps({"lengthscale": lengthscale, "losses": losses, "l2": error}))


if __name__ == "__main__":
    main()
