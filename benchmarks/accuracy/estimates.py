"""Estimated errors against true ones, and accuracies on demand.

    python -m benchmarks estimates effectivity [--names box2,corner] [--seeds 500:512]
    python -m benchmarks estimates accuracy [--names ...] [--seeds 600:616]
    python -m benchmarks estimates speed
    python -m benchmarks estimates holes|plates

The random problems of `robustness`, and L-shaped domains with a singularity in their corner. The
estimator was made on seeds 0 to 2 and four lengthscales that were not learned; its bound on what a
change of lengthscale may count for, after bumps of seeds 400 to 406 had been overestimated. The
seeds of the results have not been used for either.

`effectivity`: kernels learned with the points of each problem, and four fixed lengthscales;
estimated and true error.

`accuracy`: solutions to 1e-3, 1e-5 and 1e-7, each within two minutes: claim, true error, rows, CPU
seconds, and those of one solve at the final points with the final kernels.

`speed`: everything compiled, CPU seconds of an accuracy on demand over those of one solve at the
final points with the final kernels.

`holes`: a logarithm outside of a small hole, to 1e-4 and 1e-6; also even points and one learned
lengthscale with as many rows; positions and radii were not used to choose what counts as small.
`plates`: several holes, and a Robin condition on the sides, to 1e-3 and 1e-5; how sizes behave
between holes was chosen on two other plates and a bracket.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from benchmarks._report import Line, parser, record, seeds
from benchmarks.robustness._problems import NAMES, Case, log_uniform
from benchmarks.robustness._problems import problem as random_problem
from kernelpde.adaptive import points_per_condition
from kernelpde.gallery import elliptic

FRACTIONS = (0.05, 0.12, 0.3, 0.8)
ACCURACIES = (1e-3, 1e-5, 1e-7)
SECONDS = 120.0


def corner(seed: int) -> Case:
    """Laplace's equation in an L-shape of any size: r^a sin(a θ), singular in the corner."""
    rng = np.random.default_rng([seed, 11])
    A, S = log_uniform(rng, 1e-3, 1e3), log_uniform(rng, 1e-3, 1e3)
    a = float(rng.uniform(0.6, 0.9))

    def exact(x):
        p, q = x[0] / S - 1.0, x[1] / S - 1.0
        radius = jnp.sqrt(p**2 + q**2 + 1e-300)
        # The jump of the angle lies in the quarter that is cut out.
        angle = jnp.arctan2(-p - q, q - p)
        return A * radius**a * jnp.cos(a * angle)

    def domain(scales):
        s = S * scales[0]
        return kp.Box(x=(0, 2 * s), y=(0, 2 * s)) - kp.Box(x=(s, 3 * s), y=(-s, s))

    return Case(
        domain,
        {"u": exact},
        lambda x, u: (u.laplacian,),
        {"eq": 200, "bd": 100},
        np.array([2 * S, 2 * S]),
        one_scale=True,
        facts={"exponent": a},
    )


def problem_of(name: str, seed: int) -> tuple[Case, list, str]:
    """Return a problem, the initial lengthscales and the sampling."""
    if name != "corner":
        return random_problem(name, seed)
    case = corner(seed)
    return case, case.lengthscales([0.3]), ("halton", "uniform")[seed % 2]


def effectivity(name: str, seed: int) -> list[Line]:
    """Compare estimates of one problem with errors, for good and bad kernels."""
    case, start, sampling = problem_of(name, seed)
    problem = case.problem(start)
    learned = kp.learn(problem, case.points, seed=seed, sampling=sampling, throw=False)
    assert learned.solution is not None
    solutions: dict[Any, kp.Solution] = {"learned": learned.solution}
    for fraction in FRACTIONS:
        kernels = [kp.Gaussian(k) for k in case.lengthscales([fraction] * len(case.exact))]
        options = {"seed": seed, "sampling": sampling, "throw": False}
        solutions[fraction] = kp.solve(problem.with_kernels(kernels), case.points, **options)
    return [
        {
            "case": f"effectivity: {name}, "
            + (kernel if kernel == "learned" else f"lengthscale {kernel:g}"),
            "seed": seed,
            "study": "effectivity",
            "problem": name,
            "kernel": kernel,
            "result": solution.result.name,
            "converged": solution.converged,
            "estimate": solution.error_estimate.largest,
            "error": case.error(solution),
        }
        for kernel, solution in solutions.items()
    ]


def accuracy(name: str, seed: int) -> list[Line]:
    """Solve one problem to three accuracies."""
    case, start, _ = problem_of(name, seed)
    lines = []
    for target in ACCURACIES:
        requested = kp.Accuracy(target, max_seconds=SECONDS)
        begin = time.process_time()
        solution = kp.solve(case.problem(start), accuracy=requested, seed=seed, throw=False)
        seconds = time.process_time() - begin
        lines.append(
            {
                "case": f"accuracy {target:.0e}: {name}",
                "seed": seed,
                "study": "accuracy",
                "problem": name,
                "accuracy": target,
                "claimed": solution.converged,
                "result": solution.result.name,
                "estimate": solution.error_estimate.largest,
                "error": case.error(solution),
                "rows": solution.problem.at_points(solution.point_sets).num_rows,
                "CPU seconds": seconds,
                "CPU seconds of one solve": once_more(solution),
            }
        )
    return lines


def once_more(solution: kp.Solution) -> float:
    """Return the CPU seconds of a compiled solve at the points and with the kernels of another."""
    seconds = 0.0
    for _ in range(2):
        begin = time.process_time()
        kp.solve(solution.problem, solution.point_sets, throw=False)
        seconds = time.process_time() - begin
    return seconds


def speed(numbers: Sequence[int]) -> None:
    """Record ratios to one solve; seeds of random problems start at 500."""
    example = elliptic(1.0)
    rms = float(np.sqrt(np.mean(np.asarray(example.references["u"](example.grid)) ** 2)))
    for seed in numbers:
        solution, figures = warm(example.problem, 2.2e-7 / rms, seed)
        error = example.errors(solution)["u"]["l2"]
        figures |= {"case": "speed: elliptic, to 2.2e-7", "seed": seed, "error": error}
        record("estimates", figures)
    for name in ("box2", "burgers", "system"):
        for seed in range(500, 500 + len(numbers)):
            case, start, _ = problem_of(name, seed)
            solution, figures = warm(case.problem(start), 1e-6, seed)
            error = case.error(solution)
            figures |= {"case": f"speed: {name}, to 1e-6", "seed": seed, "error": error}
            record("estimates", figures)


def warm(problem: kp.Problem, target: float, seed: int) -> tuple[kp.Solution, dict[str, Any]]:
    """Solve to an accuracy twice; return the second solution and its cost."""
    kp.solve(problem, accuracy=target, seed=seed, throw=False)
    begin = time.process_time()
    solution = kp.solve(problem, accuracy=target, seed=seed, throw=False)
    seconds = time.process_time() - begin
    once = once_more(solution)
    return solution, {
        "study": "speed",
        "claimed": solution.converged,
        "rows": solution.problem.at_points(solution.point_sets).num_rows,
        "CPU seconds": seconds,
        "CPU seconds of one solve": once,
        "ratio": seconds / once,
    }


Domain = tuple[kp.geometry.AbstractDomain, Callable[[Any], Any], tuple[str, ...]]
"""A domain, a harmonic function there, and the pieces on which a Robin condition gives it."""


def with_hole(seed: int) -> Domain:
    """A square with a small hole anywhere, and a logarithm around its center."""
    rng = np.random.default_rng([seed, 17])
    x, y, radius = rng.uniform(0.25, 0.75), rng.uniform(0.25, 0.75), log_uniform(rng, 0.02, 0.12)
    hole = kp.Ball((x, y), radius, coordinates=("x", "y"))

    def exact(at):
        return jnp.log(jnp.sqrt((at[0] - x) ** 2 + (at[1] - y) ** 2)) + at[0] * at[1]

    return kp.Box(x=(0.0, 1.0), y=(0.0, 1.0)) - hole, exact, ()


def plate(seed: int) -> Domain:
    """A plate with two or three round holes, and a Robin condition on its four sides."""
    rng = np.random.default_rng([seed, 19])
    long, holes = rng.uniform(1.0, 2.5), list[tuple[np.ndarray, float]]()
    wanted = 2 + seed % 2
    while len(holes) < wanted:
        radius = log_uniform(rng, 0.05, 0.15)
        at = rng.uniform([0.25, 0.25], [long - 0.25, 0.75])
        if all(np.linalg.norm(at - other) > radius + r + 0.15 for other, r in holes):
            holes.append((at, radius))
    sources = rng.choice([-1.0, 1.0], wanted) * rng.uniform(0.1, 0.3, wanted)

    def exact(x):
        away = [jnp.log((x[0] - at[0]) ** 2 + (x[1] - at[1]) ** 2) for at, _ in holes]
        return sum(s * a for s, a in zip(sources, away, strict=True)) + 0.3 * x[0] * x[1]

    box = kp.Box(x=(0.0, long), y=(0.0, 1.0))
    domain = box
    for at, radius in holes:
        domain = domain - kp.Ball(at, radius, coordinates=("x", "y"))
    return domain, exact, tuple(box.boundary_patches)


GRADED = {
    "holes": (with_hole, (1e-4, 1e-6)),
    "plates": (plate, (1e-3, 1e-5)),
}
"""Domains where points are graded, and the accuracies that are asked for."""


def graded(study: str, numbers: Sequence[int]) -> None:
    """Record Laplace's equation with graded points, and with even ones and one lengthscale."""
    make, accuracies = GRADED[study]
    for target in accuracies:
        for seed in numbers:
            domain, exact, robin = make(seed)
            problem = _laplace(domain, exact, robin)
            points = domain.interior.sample(4000, np.random.default_rng(99)).points
            truth = np.asarray(jax.vmap(exact)(points))

            def error(solution: kp.Solution, points=points, truth=truth) -> float:
                gap = np.asarray(solution["u"](points)) - truth
                return float(np.linalg.norm(gap) / np.linalg.norm(truth))

            begin = time.process_time()
            solution = kp.solve(problem, accuracy=target, seed=seed, throw=False)
            line = {
                "case": f"{study}: accuracy {target:.0e}",
                "seed": seed,
                "study": study,
                "accuracy": target,
                "claimed": solution.converged,
                "estimate": solution.error_estimate.largest,
                "error": error(solution),
                "rows": solution.problem.at_points(solution.point_sets).num_rows,
                "CPU seconds": time.process_time() - begin,
            }
            if target == accuracies[0]:
                resolution = 1.0
                while 2 * sum(points_per_condition(problem, resolution).values()) < line["rows"]:
                    resolution *= 1.02
                learned = kp.learn(
                    problem, points_per_condition(problem, resolution), seed=seed, throw=False
                )
                assert learned.solution is not None
                line["error, even points"] = error(learned.solution)
                line["converged, even points"] = learned.solution.converged
            record("estimates", line)


def _laplace(
    domain: kp.geometry.AbstractDomain, exact: Callable[[Any], Any], robin: tuple[str, ...]
) -> kp.Problem:
    def given(x, normal, u):
        return u.normal_derivative + u.value - jax.grad(exact)(x) @ normal - exact(x)

    others = kp.union([domain[name] for name in domain.boundary_patches if name not in robin])
    conditions = [
        kp.Condition("equation", domain.interior, lambda x, u: u.laplacian),
        kp.Condition("boundary", others, lambda x, u: u.value - exact(x)),
    ]
    if robin:
        conditions.append(kp.Condition("robin", kp.union([domain[n] for n in robin]), given))
    return kp.Problem(*conditions, fields=[kp.Field("u", kp.Gaussian(0.3))])


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    studies = {"effectivity": effectivity, "accuracy": accuracy}
    command.add_argument("study", choices=(*studies, "speed", *GRADED))
    command.add_argument("--names", default=",".join([*NAMES, "corner"]))
    command.add_argument("--seeds", type=seeds)
    options = command.parse_args(arguments)
    if options.study in studies:
        for name in options.names.split(","):
            for seed in options.seeds or range(500, 512):
                for line in studies[options.study](name, seed):
                    record("estimates", line)
    elif options.study == "speed":
        speed(options.seeds or range(5))
    else:
        graded(options.study, options.seeds or range(5))
