"""Rows of the gates of `gates.py`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks import _gate_figures as figures
from benchmarks._gate_figures import Figure, Row

ROOT = Path(__file__).parent.parent


# Random problems.

PROBLEMS = (
    "box2 1, box2 11, disc2 9, union2 3, diff2 11, bump2 4, ell1d 13, layer1d 12, layer1d 13, "
    "advdiff2 13, heat 3, burgers 0, fisher 0, fisher 2, helm 11, system 5, robin2 1, "
    "robindiff 11, ell3d 3, peri2 13"
)
ACCURACIES = "box2 604, heat 603, burgers 603, system 603, layer1d 607"
EFFECTIVITIES = "disc2 503, advdiff2 502, system 501, bump2 502, burgers 503"
UNITS = "heat 101, diff2 100, system 102"


def pairs(text: str) -> list[tuple[str, int]]:
    split = (item.split() for item in text.split(", "))
    return [(name, int(seed)) for name, seed in split]


def random_problems(quick: bool) -> Iterator[Row]:
    from benchmarks.robustness.robustness import NAMES, learned

    seeds = [*range(14), *range(200, 207), *range(300, 302)]
    chosen = [(name, seed) for name in NAMES for seed in seeds]
    for name, seed in pairs(PROBLEMS) if quick else chosen:
        yield {**learned(name, seed), "name": name}


def requested(quick: bool) -> Iterator[Row]:
    from benchmarks.accuracy.estimates import NAMES, accuracy

    chosen = [(name, seed) for name in [*NAMES, "corner"] for seed in range(600, 616)]
    for name, seed in pairs(ACCURACIES) if quick else chosen:
        yield from ({**row, "name": name} for row in accuracy(name, seed))


def effectivity(quick: bool) -> Iterator[Row]:
    from benchmarks.accuracy.estimates import NAMES, effectivity

    chosen = [(name, seed) for name in [*NAMES, "corner"] for seed in range(500, 512)]
    for name, seed in pairs(EFFECTIVITIES) if quick else chosen:
        yield from ({**row, "name": name} for row in effectivity(name, seed))


def other_units(quick: bool) -> Iterator[Row]:
    from benchmarks.robustness.robustness import NAMES, in_units

    chosen = [(name, seed) for seed in range(100, 200) for name in NAMES][:100]
    order = {name: index for index, name in enumerate(NAMES)}
    chosen.sort(key=lambda pair: order[pair[0]])
    for name, seed in pairs(UNITS) if quick else chosen:
        yield from ({**row, "name": name, "seed": seed} for row in in_units(name, seed))


# Inverse problems: a truth from the prior and another one for each family.

INVERSE = "line 5, line 37, darcy 13, darcy 35, source 8, source 33, initial 23, initial 36, "
INVERSE += "rates 26, rates 36, front 21, front 34"


def inverse(quick: bool) -> Iterator[Row]:
    from benchmarks.inverse.calibration import FAMILIES, run

    chosen = [(family, seed) for family in FAMILIES for seed in range(40)]
    for family, seed in pairs(INVERSE) if quick else chosen:
        yield {**run(family, seed), "name": family}


# Mistakes of users.


def mistakes(quick: bool) -> Iterator[Row]:
    from benchmarks.robustness import mistakes as module

    counts = Counter[str]()
    os.environ.setdefault("MPLBACKEND", "Agg")
    signal.signal(signal.SIGALRM, module.late)
    with tempfile.TemporaryDirectory() as folder:
        names = module.words(folder)
        for group, expression, reason in module.mistakes():
            counts[group] += 1
            if quick and counts[group] % 9 != 5:
                continue
            outcome = module.outcome(expression, dict(names))[0]
            if outcome != "typed":
                outcome = "harmless" if reason else "raw" if outcome == "raw" else "wrong"
            yield {"name": group, "seed": counts[group], "outcome": outcome}


# Learning that is killed, and transformations.


def resume(quick: bool) -> Iterator[Row]:
    sys.path.insert(0, str(ROOT / "tests"))
    killed_many_times = import_module("test_runs_go_on").test_killed_many_times

    kills = 3 if quick else 20
    with tempfile.TemporaryDirectory() as folder:
        try:
            killed_many_times(Path(folder), kills)
        except AssertionError as error:
            print(f"resume: {error}", flush=True)
            kills = 0
    yield {"kills": kills}


def transformations(quick: bool) -> Iterator[Row]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from benchmarks.robustness._transformations import discretized, values

    at, s = values(discretized()), jnp.linspace(1.0, 40.0, 4 if quick else 100)
    loop = np.stack([np.asarray(at(float(value))) for value in s])
    step = 1e-2
    slopes = np.stack([(at(float(v) + step) - at(float(v) - step)) / (2 * step) for v in s[:2]])
    ways = {
        "jit": (jnp.stack([jax.jit(at)(value) for value in s[:2]]), loop[:2]),
        "vmap": (jax.jit(jax.vmap(at))(s), loop),
        "forward derivative": (jnp.stack([jax.jacfwd(at)(v) for v in s[:2]]), slopes),
        "reverse derivative": (
            jax.grad(lambda value: jnp.sum(at(value)))(s[1]),
            np.sum(slopes[1]),
        ),
    }
    for name, (ours, expected) in ways.items():
        gap = float(np.max(np.abs(np.asarray(ours) - expected)) / np.max(np.abs(expected)))
        yield {"name": name, "seed": 0, "gap": gap}


# Rows of the paper's tables.

PAPER = {
    "sensitivity": ("200 points, lengthscale 0.26", "200 points, lengthscale 1"),
    "elliptic": ("default", "Adam as published, from 1.0"),
    "elliptic-additive": ("learned",),
    "schrodinger": ("lengthscales 1.0",),
    "gray-scott": ("lengthscales 1", "case A, lengthscales 1"),
    "burgers": ("learned", "unlearned"),
    "darcy": ("lengthscales 1",),
}


def paper(quick: bool) -> Iterator[Row]:
    from kernelpde.reproduce import PARTS

    for part, contents in PARTS.items():
        cases = PAPER.get(part, ()) if quick else tuple(contents.cases)
        runs: dict[str, list[Row]] = {}
        for seed in range(1 if quick else contents.seeds):
            for case in cases:
                run = contents.cases[case].compute(seed, quick, runs).run
                runs.setdefault(case, []).append(run)
                yield {"name": part, "seed": seed, "case": case, "errors": run["errors"]}


# The first use.

CHILD = """
import json, sys, time
start = time.process_time()
import jax
seconds = {"jax": time.process_time() - start}
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
start = time.process_time()
import kernelpde as kp
square = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition(
        "equation",
        square.interior,
        lambda x, u: -u.laplacian + u.value**3 - 10 * jnp.sin(x[0]) * jnp.cos(x[1]),
    ),
    kp.Condition("boundary", square.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.3))],
)
seconds["problem"] = time.process_time() - start
getattr(kp, sys.argv[1])(problem, {"equation": 200, "boundary": 80}, throw=False)
seconds["answer"] = time.process_time() - start
print(json.dumps(seconds))
"""


def one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def first_use(quick: bool) -> Iterator[Row]:
    one_core()
    for repetition in range(3 if quick else 9):
        for action in ("solve", "learn"):
            with tempfile.TemporaryDirectory() as cache:
                for process in ("first", "second"):
                    done = subprocess.run(
                        [sys.executable, "-c", CHILD, action],
                        env=os.environ | {"JAX_COMPILATION_CACHE_DIR": cache},
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    seconds = json.loads(done.stdout)
                    yield {"name": f"{action}, {process} process", "seed": repetition, **seconds}


@dataclass(frozen=True)
class Gate:
    """Rows of a quick or full run, their figures, and the seeds of both runs."""

    rows: Callable[[bool], Iterator[Row]]
    figures: Callable[[list[Row]], list[Figure]]
    quick_seeds: str
    full_seeds: str
    timing: bool = False


GATES = {
    "problems": Gate(random_problems, figures.problem, PROBLEMS, "0:14, 200:207, 300:302"),
    "accuracy": Gate(requested, figures.requested, ACCURACIES, "600:616"),
    "effectivity": Gate(effectivity, figures.effectivity, EFFECTIVITIES, "500:512"),
    "inverse": Gate(inverse, figures.inverse, INVERSE, "0:40"),
    "units": Gate(other_units, figures.unit, UNITS, "100:106"),
    "mistakes": Gate(mistakes, figures.mistake, "every ninth", "all"),
    "resume": Gate(resume, figures.resume, "0", "0"),
    "transformations": Gate(transformations, figures.transformation, "", ""),
    "paper": Gate(paper, figures.paper, "0", "0:5"),
    "first-use": Gate(first_use, figures.first_use, "", "", timing=True),
}
