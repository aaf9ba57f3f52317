"""Learning on random problems with known solutions, and on the same problems in other units.

    python benchmarks/robustness.py problems [--names box2,heat] [--seeds 0:14]
    python benchmarks/robustness.py units [--count 100]
    python benchmarks/robustness.py own-points [--seeds 400:402]

`problems`: 17 kinds of forward problems with random scales (amplitude 1e-6 to 1e6, domain 1e-3 to
1e3), frequencies, point sets and starts. For each the error of what is learned, of the kernel that
learning began with, and of the best of eight lengthscales at the same points.

`units`: coordinates and fields multiplied by factors between 1e-9 and 1e9, drawn for each on its
own (one for all coordinates where a ball is part of the domain), kernels with a lengthscale for
each coordinate: relative errors and result codes in three systems of units.

`own-points`: the same problems with the equation at given points, a `PointCloud`, and at drawn
ones,
each with eight lengthscales: how often a solve is refused for its residual between the points.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _report import write

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

SEEDS = "0:14"
"""Those that limits were chosen on; other seeds are written to a file of their own."""

SETTLED = ("converged", "rounding_level", "not_met_between")

EIGHT = np.geomspace(0.04, 1.5, 8)
"""Lengthscales relative to the domain, the best of which learning is compared with."""


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


class Waves:
    """A Σⱼ aⱼ sin(wⱼ · (x - x₀) / L + φⱼ), and a bump where one is asked for."""

    def __init__(self, rng, size, origin, extents, frequency, bump=None):
        dimension = len(extents)
        self.size, self.origin, self.extents = size, np.array(origin), np.array(extents)
        directions = rng.normal(size=(4, dimension))
        lengths = frequency * rng.uniform(0.3, 1.0, (4, 1))
        directions *= lengths / np.linalg.norm(directions, axis=1, keepdims=True)
        self.waves = directions / self.extents
        self.phases = rng.uniform(0, 2 * np.pi, 4)
        weights = rng.normal(size=4)
        self.weights = weights / np.sqrt(np.sum(weights**2))
        self.bump = bump

    def __call__(self, x):
        value = jnp.sin(self.waves @ (x - self.origin) + self.phases) @ self.weights
        if self.bump is not None:
            center, width = self.bump
            apart = (x - self.origin) / self.extents - center
            value = value + jnp.exp(-jnp.sum(apart**2) / width**2)
        return self.size * value


class Values:
    """What a residual asks of a known function at a point, by the names of a jet."""

    def __init__(self, function, x, normal=None):
        self.value, self.gradient = function(x), jax.grad(function)(x)
        self.hessian = jax.hessian(function)(x)
        self.laplacian = jnp.trace(self.hessian)
        self.normal_derivative = None if normal is None else self.gradient @ normal

    def d(self, *axes):
        return self.hessian[axes] if len(axes) == 2 else self.gradient[axes[0]]


class Rescaled:
    """A jet in other units: u' = σ u, x' = s x."""

    def __init__(self, jet, scales, size, normal: Any = None):
        self._jet, self._scales, self._size, self._normal = jet, scales, size, normal

    @property
    def value(self):
        return self._jet.value / self._size

    def d(self, *axes):
        factor = np.prod([self._scales[axis] for axis in axes])
        return factor / self._size * self._jet.d(*axes)

    @property
    def laplacian(self):
        return sum(self.d(i, i) for i in range(len(self._scales)))

    @property
    def normal_derivative(self):
        return sum(n * self.d(i) for i, n in enumerate(self._normal))


@dataclass
class Case:
    """A random problem in its own units.

    `equation`, `boundary` and `initial` are operators on jets or `Values`: the right-hand side is
    what they give for the exact solution.
    """

    domain: Callable[[np.ndarray], Any]
    exact: dict[str, Callable]
    equation: Callable
    points: dict[str, int]
    extents: np.ndarray
    boundary: Callable = lambda x, *jets: tuple(jet.value for jet in jets)
    initial: bool = False
    own_lengthscales: bool = False
    one_scale: bool = False
    facts: dict[str, Any] = field(default_factory=dict)

    def problem(self, kernels, scales=None, sizes=None) -> kp.Problem:
        """In units of which the original ones are `scales` and `sizes`."""
        dimension = len(self.extents)
        scales = np.ones(dimension) if scales is None else scales
        sizes = np.ones(len(self.exact)) if sizes is None else sizes
        functions = list(self.exact.values())

        def residual(operator):
            def at(x, jets, normal):
                place = x / scales
                known = [Values(f, place, normal) for f in functions]
                mine = [Rescaled(j, scales, s, normal) for j, s in zip(jets, sizes, strict=True)]
                pairs = zip(operator(place, *mine), operator(place, *known), strict=True)
                return tuple(one - other for one, other in pairs)

            if len(functions) == 1:
                return lambda x, u: at(x, [u], None)
            return lambda x, u, v: at(x, [u, v], None)

        def on_boundary(operator):
            if len(functions) == 1 and self.facts.get("normals"):

                def at(x, u, normal):
                    place = x / scales
                    known = Values(functions[0], place, normal)
                    mine = Rescaled(u, scales, sizes[0], normal)
                    return operator(place, mine)[0] - operator(place, known)[0]

                return at
            return residual(operator)

        domain = self.domain(scales)
        conditions = [
            kp.Condition("eq", domain.interior, residual(self.equation)),
            kp.Condition("bd", domain.boundary, on_boundary(self.boundary)),
        ]
        if self.initial:
            conditions.append(kp.Condition("init", domain.initial, residual(self.boundary)))
        fields = [kp.Field(n, kp.Gaussian(k)) for n, k in zip(self.exact, kernels, strict=True)]
        return kp.Problem(*conditions, fields=fields)

    def lengthscales(self, fractions: Sequence[float], each: bool = False) -> list:
        """Fractions of the domain, one number or one for each coordinate."""
        if self.own_lengthscales or each:
            return [self.extents * f for f in fractions]
        return [float(np.exp(np.mean(np.log(self.extents)))) * f for f in fractions]

    def error(self, solution, scales=None, sizes=None) -> float:
        """The largest relative error of a field, in root mean square at 1000 points."""
        scales = np.ones(len(self.extents)) if scales is None else scales
        sizes = np.ones(len(self.exact)) if sizes is None else sizes
        region = self.domain(np.ones(len(self.extents))).interior
        where = region.sample(1000, np.random.default_rng(99), "uniform").points
        errors = []
        for (name, function), size in zip(self.exact.items(), sizes, strict=True):
            got = np.asarray(solution[name](where * scales)) / size
            want = np.asarray(jax.vmap(function)(where))
            errors.append(float(np.linalg.norm(got - want) / np.linalg.norm(want)))
        return max(errors)


def box(lower, upper, **options):
    """A box in any units."""

    def made(scales):
        sides = zip(names, np.array(lower) * scales, np.array(upper) * scales, strict=True)
        return kp.Box(**{name: (a, b) for name, a, b in sides}, **options)

    names = ("t", "x") if "time" in options else ("x", "y", "z")[: len(lower)]
    return made


def ball_and_box(kind: str, size: float):
    """Domains with a ball in them, which have one scale for all coordinates."""

    def made(scales):
        s = size * scales[0]
        square = kp.Box(x=(0, s), y=(0, s))
        if kind == "disc2":
            return kp.Ball([s / 2, s / 2], s / 2)
        if kind == "union2":
            return kp.Box(x=(0, 0.6 * s), y=(0.2 * s, 0.8 * s)) | kp.Ball(
                [0.6 * s, 0.5 * s], 0.4 * s
            )
        if kind == "diff2":
            return square - kp.Ball([0.55 * s, 0.45 * s], 0.25 * s)
        return square - kp.Ball([0.5 * s, 0.5 * s], 0.25 * s)

    return made


def in_the_plane(name: str, rng: np.random.Generator, A: float, S: float) -> Case:
    f = log_uniform(rng, 2, 25)
    aspect = log_uniform(rng, 0.2, 5) if name == "box2" else 1.0
    S = 1.0 if name == "peri2" else S
    L, bump = np.array([S, S * aspect]), None
    if name == "bump2":
        bump, f = (rng.uniform(0.2, 0.8, 2), log_uniform(rng, 0.04, 0.5)), 3.0
    u = Waves(rng, A, [0.0, 0.0], L, f, bump)
    if name == "peri2":
        most = int(max(1, f / 6.3))
        u.waves[:, 0] = 2 * np.pi * rng.integers(-most - 1, most + 2, 4)
    strength = rng.choice([0.0, log_uniform(rng, 0.1, 100)])
    c = strength / (A * np.min(L)) ** 2
    periodic = {"periodic": "x"} if name == "peri2" else {}
    round_ = name in ("disc2", "union2", "diff2")
    return Case(
        ball_and_box(name, S) if round_ else box([0, 0], L, **periodic),
        {"u": u},
        lambda x, u: (-u.laplacian + c * u.value**3,),
        {"eq": 200, "bd": 80},
        L,
        one_scale=round_,
        facts={"frequency": f, "bump": None if bump is None else bump[1]},
    )


def in_time(name: str, rng: np.random.Generator, A: float, S: float) -> Case:
    points = {"eq": 200, "bd": 50, "init": 40}
    if name == "fisher":
        T = S
        r, steep = log_uniform(rng, 1, 10) / T, log_uniform(rng, 3, 60)
        D, x0 = r / 6 * (S / steep) ** 2, rng.uniform(0.2, 0.5) * S

        def front(x):
            phase = np.sqrt(r / (6 * D)) * (x[1] - x0) - 5 / 6 * r * x[0]
            return A / (1 + jnp.exp(jnp.clip(phase, -300, 300))) ** 2

        return Case(
            box([0, 0], [T, S], time="t"),
            {"u": front},
            lambda x, u: (u.d(0) - D * u.d(1, 1) - r * u.value * (1 - u.value / A),),
            points,
            np.array([T, S]),
            initial=True,
            own_lengthscales=True,
            facts={"steep": steep},
        )
    T = S * log_uniform(rng, 1e-2, 1e2) if name == "heat" else 1.0
    f = log_uniform(rng, 2, 20)
    T = S / A if name == "burgers" else T
    L = np.array([T, S])
    u = Waves(rng, A, [0.0, 0.0], L, f)
    D = log_uniform(rng, 0.01, 1) * S**2 / T

    def operator(x, u):
        carried = u.value * u.d(1) if name == "burgers" else 0.0
        return (u.d(0) + carried - D * u.d(1, 1),)

    return Case(
        box([0, 0], L, time="t"),
        {"u": u},
        operator,
        points,
        L,
        initial=True,
        own_lengthscales=True,
        facts={"frequency": f, "T/S": T / S},
    )


def case(name: str, rng: np.random.Generator) -> Case:
    """A random problem of one kind."""
    A, S = log_uniform(rng, 1e-6, 1e6), log_uniform(rng, 1e-3, 1e3)
    square, line, plane = np.array([S, S]), {"eq": 150, "bd": 2}, {"eq": 200, "bd": 80}
    if name in ("box2", "disc2", "union2", "diff2", "peri2", "bump2"):
        return in_the_plane(name, rng, A, S)
    if name in ("heat", "burgers", "fisher"):
        return in_time(name, rng, A, S)
    if name == "ell1d":
        f, offset = log_uniform(rng, 3, 60), rng.choice([0.0, 0.0, 10.0]) * S
        u, c = Waves(rng, A, [offset], [S], f), rng.uniform(0, 10) / S**2
        return Case(
            box([offset], [offset + S]),
            {"u": u},
            lambda x, u: (-u.laplacian + c * u.value,),
            line,
            np.array([S]),
            facts={"frequency": f},
        )
    if name == "ell3d":
        f = log_uniform(rng, 2, 10)
        u, c = Waves(rng, A, [0.0] * 3, [S] * 3, f), rng.uniform(0, 10) / S**2
        return Case(
            box([0] * 3, [S] * 3),
            {"u": u},
            lambda x, u: (-u.laplacian + c * u.value,),
            {"eq": 200, "bd": 150},
            np.array([S] * 3),
            facts={"frequency": f},
        )
    if name == "layer1d":
        peclet = log_uniform(rng, 1, 300)
        eps = S / peclet

        def layer(x):
            end = np.exp(-peclet)
            return A * (jnp.exp((x[0] / S - 1) * peclet) - end) / (1 - end)

        return Case(
            box([0], [S]),
            {"u": layer},
            lambda x, u: (-eps * u.laplacian + u.d(0),),
            line,
            np.array([S]),
            facts={"Peclet": peclet},
        )
    if name == "advdiff2":
        f, peclet = log_uniform(rng, 2, 25), log_uniform(rng, 1, 1e4)
        u, angle = Waves(rng, A, [0.0, 0.0], square, f), rng.uniform(0, 2 * np.pi)
        eps, b = S / peclet, (np.cos(angle), np.sin(angle))
        return Case(
            box([0, 0], square),
            {"u": u},
            lambda x, u: (-eps * u.laplacian + b[0] * u.d(0) + b[1] * u.d(1),),
            plane,
            square,
            facts={"frequency": f, "Peclet": peclet},
        )
    if name == "helm":
        k = rng.uniform(1, 15)
        f = k * log_uniform(rng, 0.5, 1.3)
        u = Waves(rng, A, [0.0, 0.0], square, f)
        return Case(
            box([0, 0], square),
            {"u": u},
            lambda x, u: (u.laplacian + (k / S) ** 2 * u.value,),
            plane,
            square,
            facts={"frequency": f, "k": k},
        )
    if name == "system":
        f = log_uniform(rng, 2, 15)
        other = f * log_uniform(rng, 0.3, 3)
        B = A * log_uniform(rng, 1e-3, 1e3)
        u = Waves(rng, A, [0.0, 0.0], square, f)
        v = Waves(rng, B, [0.0, 0.0], square, other)
        a, b = rng.uniform(0, 5) * A / B / S**2, rng.uniform(0, 5) * B / A / S**2
        c = rng.uniform(0, 5) / A / S**2
        return Case(
            box([0, 0], square),
            {"u": u, "v": v},
            lambda x, u, v: (
                -u.laplacian + a * v.value,
                -v.laplacian - b * u.value + c * u.value * v.value,
            ),
            {"eq": 130, "bd": 50},
            square,
            facts={"frequency": f, "B/A": B / A},
        )
    if name in ("robin2", "robindiff"):
        f = log_uniform(rng, 2, 20)
        u, c = Waves(rng, A, [0.0, 0.0], square, f), rng.uniform(0.5, 5) / S**2
        beta = rng.choice([0.0, log_uniform(rng, 0.1, 10)]) / S
        return Case(
            box([0, 0], square) if name == "robin2" else ball_and_box(name, S),
            {"u": u},
            lambda x, u: (-u.laplacian + c * u.value,),
            plane,
            square,
            boundary=lambda x, u: (u.normal_derivative + beta * u.value,),
            one_scale=name == "robindiff",
            facts={"frequency": f, "normals": True},
        )
    raise SystemExit(f"no kind of problem is called {name!r}; there are {', '.join(NAMES)}")


NAMES = (
    "box2 disc2 union2 diff2 bump2 ell1d layer1d advdiff2 heat burgers fisher helm system robin2 "
    "robindiff ell3d peri2"
).split()


def begun(name: str, seed: int) -> tuple[Case, list, str]:
    """A problem, the lengthscales to begin with, and the sampling."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    found = case(name, rng)
    count, extent = len(found.exact), float(np.exp(np.mean(np.log(found.extents))))
    wild = rng.random() < 0.3
    fractions = [0.3 / extent if wild else log_uniform(rng, 0.02, 3)] * count
    if count == 2 and not wild:
        fractions[1] = log_uniform(rng, 0.02, 3)
    start = found.lengthscales(fractions)
    if found.own_lengthscales and wild:
        start = [np.array([0.3, 0.3])] * count
    return found, start, ("halton", "uniform")[seed % 2]


def largest(between: dict[str, Any]) -> float | None:
    return max((float(size) for size in between.values() if size is not None), default=None)


def learned(name: str, seed: int) -> dict[str, Any]:
    """Learn one problem and compare."""
    found, start, sampling = begun(name, seed)
    begin = time.perf_counter()
    problem = found.problem(start)
    result = kp.learn(problem, found.points, sampling=sampling, seed=seed, throw=False)
    seconds = time.perf_counter() - begin
    blocks = result.solution.blocks
    first = kp.solve(problem, blocks, throw=False)
    others = []
    for fraction in EIGHT:
        kernels = [kp.Gaussian(k) for k in found.lengthscales([fraction] * len(found.exact))]
        other = kp.solve(problem.with_kernels(kernels), blocks, throw=False)
        others.append((found.error(other), other.result.name, largest(other.between)))
    return {
        "name": name,
        "seed": seed,
        **found.facts,
        "learning": result.result.name,
        "result": result.solution.result.name,
        "converged": result.converged,
        "error": found.error(result.solution),
        "between": largest(result.solution.between),
        "start": found.error(first),
        "start_result": first.result.name,
        "start_between": largest(first.between),
        "others": [(f"{error:.2e}", code, size) for error, code, size in others],
        "best": float(np.nanmin([error for error, *_ in others])),
        "lengthscales": [
            np.asarray(v).tolist()
            for f in result.problem.hyperparameters.values()
            for v in f.values()
        ],
        "extents": found.extents.tolist(),
        "factorizations": result.factorizations,
        "seconds": seconds,
    }


def in_units(name: str, seed: int, systems: int = 3) -> list[dict[str, Any]]:
    """Learn one problem in several systems of units."""
    found, start, sampling = begun(name, seed)
    start = [np.broadcast_to(np.asarray(k), found.extents.shape) for k in start]
    rng, rows = np.random.default_rng([seed, 31]), []
    for _ in range(systems):
        scales = np.exp(rng.uniform(np.log(1e-9), np.log(1e9), len(found.extents)))
        sizes = np.exp(rng.uniform(np.log(1e-9), np.log(1e9), len(found.exact)))
        scales = np.full_like(scales, scales[0]) if found.one_scale else scales
        if name == "robin2":
            # Normals of a square stay what they are only if both sides are stretched alike.
            scales = np.full_like(scales, scales[0])
        problem = found.problem([k * scales for k in start], scales, sizes)
        result = kp.learn(problem, found.points, sampling=sampling, seed=seed, throw=False)
        rows.append(
            {
                "name": name,
                "seed": seed,
                "scales": scales.tolist(),
                "sizes": sizes.tolist(),
                "result": f"{result.result.name}, {result.solution.result.name}",
                "error": found.error(result.solution, scales, sizes),
            }
        )
    return rows


def with_own_points(name: str, seed: int) -> list[dict[str, Any]]:
    """Whether solves are marked converged, the equation at points that are given or drawn."""
    found, start, sampling = begun(name, seed)
    drawn, rows = found.problem(start), []
    first, *others = drawn.conditions
    count = found.points["eq"]
    points = np.asarray(drawn.collocated("eq", count, seed=seed, sampling=sampling).points)
    given = drawn.with_conditions(
        [kp.Condition(first.name, kp.PointCloud(points), first.residual), *others]
    )
    boundary = {key: value for key, value in found.points.items() if key != "eq"}
    for fraction in EIGHT:
        kernels = [kp.Gaussian(k) for k in found.lengthscales([fraction] * len(found.exact))]
        for problem, counts in ((drawn, found.points), (given, boundary)):
            solution = kp.solve(
                problem.with_kernels(kernels), counts, sampling=sampling, seed=seed, throw=False
            )
            rows.append(
                {
                    "name": name,
                    "seed": seed,
                    "points": "given" if problem is given else "drawn",
                    "lengthscale": float(fraction),
                    "result": solution.result.name,
                    "between": solution.between.get("eq"),
                    "error": found.error(solution),
                }
            )
    return rows


def summary_of_own_points(rows: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for points in ("drawn", "given"):
        some = [row for row in rows if row["points"] == points]
        settled = [r for r in some if r["result"] in SETTLED]
        wrong = [r for r in settled if r["error"] > 0.1]
        right = [r for r in settled if r["error"] < 0.01]
        summary[points] = {
            "settled, error above 10%": len(wrong),
            "of these converged": sum(r["result"] != "not_met_between" for r in wrong),
            "settled, error below 1%": len(right),
            "of these refused": sum(r["result"] == "not_met_between" for r in right),
        }
    return summary


def summary_of_problems(rows: list[dict[str, Any]]) -> dict[str, Any]:
    compared = [row for row in rows if row["best"] > 1e-7]
    ratios = np.array([row["error"] / row["best"] for row in compared])
    wrong = [row for row in rows if row["converged"] and row["error"] > 0.1]
    worse = [r for r in rows if r["error"] > 1e-6 and r["error"] > 1.5 * r["start"]]

    bad = [r for r in rows if r["error"] > 0.1]
    good = [r for r in rows if r["error"] < 0.01]

    def named(some):
        return [f"{row['name']} {row['seed']}" for row in some]

    return {
        "problems": len(rows),
        "converged": sum(row["converged"] for row in rows),
        "converged with an error above 10%": named(wrong),
        "error above 10%, not converged": len(bad) - len(wrong),
        "error below 1%, not met between points": named(
            r for r in good if r["result"] == "not_met_between"
        ),
        "compared with the best of eight": len(compared),
        "median ratio": float(np.median(ratios)),
        "within 3": float(np.mean(ratios <= 3)),
        "within 10": float(np.mean(ratios <= 10)),
        "above 10": named(row for row in compared if row["error"] > 10 * row["best"]),
        "worse than 1.5 times the start": named(worse),
    }


def summary_of_units(rows: list[dict[str, Any]]) -> dict[str, Any]:
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault((row["name"], row["seed"]), []).append(row)
    agree, codes = [], []
    for key, some in groups.items():
        errors = np.array([row["error"] for row in some])
        if errors.max() <= 1.5 * errors.min() or errors.max() - errors.min() <= 1e-8:
            agree.append(key)
        if len({row["result"] for row in some}) == 1:
            codes.append(key)
    return {
        "problems": len(groups),
        "errors agree": len(agree),
        "same result": len(codes),
        "do not agree": [f"{name} {seed}" for name, seed in groups if (name, seed) not in agree],
        "other result": [f"{name} {seed}" for name, seed in groups if (name, seed) not in codes],
    }


TASKS: dict[str, Callable[[str, int], list[dict[str, Any]]]] = {
    "problems": lambda name, seed: [learned(name, seed)],
    "units": in_units,
    "own-points": with_own_points,
}
SUMMARIES = {
    "problems": summary_of_problems,
    "units": summary_of_units,
    "own-points": summary_of_own_points,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Learning on random problems.")
    parser.add_argument("what", choices=("problems", "units", "own-points"))
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--seeds", default=SEEDS)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    low, high = map(int, options.seeds.split(":"))
    names, rows = options.names.split(","), []
    if options.what != "units":
        chosen = [(name, seed) for name in names for seed in range(low, high)]
    else:
        # Kind by kind, so that programs are compiled once for each.
        pairs = [(name, seed) for seed in range(100, 200) for name in names]
        chosen = sorted(pairs[: options.count], key=lambda pair: names.index(pair[0]))
    for name, seed in chosen:
        found = TASKS[options.what](name, seed)
        rows += found
        for row in found:
            shown = f"error {row['error']:.1e}"
            if "best" in row:
                shown += f", start {row['start']:.1e}, best of eight {row['best']:.1e}"
            print(name, seed, row["result"], shown, flush=True)
    summary = SUMMARIES[options.what](rows)
    others = "" if options.seeds == SEEDS else f"-{options.seeds.replace(':', '-')}"
    write(f"robustness-{options.what}{others}", {"summary": summary, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())
