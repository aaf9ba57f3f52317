"""Random problems of 17 kinds with known solutions.

Scales (amplitude 1e-6 to 1e6, domain 1e-3 to 1e3), frequencies and initial lengthscales are random.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp


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


def problem(name: str, seed: int) -> tuple[Case, list, str]:
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
