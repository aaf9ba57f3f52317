"""Mistakes of new users, of users of other libraries and of tired ones get advice in words.

`python -m benchmarks mistakes` tries many more. Annotations are not enforced here, as they are not
for a user: what is checked is what the library says itself.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import boundary_value

import kernelpde as kp
from kernelpde import gallery, progress

MODULES = {"jnp": jnp, "optax": optax, "gallery": gallery, "progress": progress}
LINE, SQUARE = kp.Box(x=(0, 1)), kp.Box(x=(0, 1), y=(0, 1))
FIVE = np.linspace(0, 1, 5)[:, None]
FIELD = kp.Field("u", kp.Gaussian(0.3))
POINTS = {"eq": 6, "bd": 2}


def equation(x, u):
    return -u.laplacian + u.value**3 - 5.0


def zero(x, u):
    return u.value


def heat(x, u):
    return u.d("t") - u.d("x", "x")


def seen(x, u, y):
    return u.value - y


def problem(kernel=None) -> kp.Problem:
    return kp.Problem(
        kp.Condition("eq", LINE.interior, equation),
        kp.Condition("bd", LINE.boundary, zero),
        fields=[FIELD if kernel is None else kp.Field("u", kernel)],
    )


def data(**options) -> kp.Condition:
    return kp.Condition("d", FIVE, seen, **{"data": {"y": np.zeros(5)}, **options})


def solve(points=POINTS, **options):
    return kp.solve(problem(), points, **options)


def learn(points=POINTS, **options):
    return kp.learn(problem(), points, **options)


def march(*arguments, **options):
    box = kp.Box(t=(0, 1), x=(0, 1), time="t")
    conditions = [
        kp.Condition("eq", box.interior, heat),
        kp.Condition("bd", box.boundary, zero),
        kp.Condition("initial", box.initial, zero),
    ]
    return kp.march(kp.Problem(*conditions, fields=[FIELD]), *arguments, **options)


@pytest.fixture(autouse=True, scope="module")
def annotations_off():
    from jaxtyping import config

    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def solution() -> kp.Solution:
    return solve({"eq": 14, "bd": 2})


KEY, NAN = jax.random.key(0), float("nan")
WINDOWS = {"eq": 9, "bd": 6, "initial": 4}

MISTAKES = {
    # Domains and regions.
    'kp.Box(x="ab")': "Box: x must hold numbers; got 'ab'",
    'kp.Box(x=("0", "1"))': "Box: x must hold numbers",
    "kp.Box(x=(0, 1j))": "must hold real numbers; got complex ones",
    "kp.Box((0, 1), (0, 1))": "must be named by its coordinate, as in Box(x=(0, 1)",
    "kp.Box(x=(0, 1), periodic=3)": 'such as "x" or ("x", "y"); got 3',
    "kp.Box(x=(0, 1), time=3)": "unknown time coordinate 3; expected 'x'",
    "kp.Box(x=(-1e308, 1e308))": "with low < high",
    'kp.Ball("ab", 1)': "Ball: center must hold numbers",
    "kp.Ball([[0, 0], [1, 1]], 1)": "one finite number per coordinate",
    'kp.Ball([0, 0], "one")': "Ball: radius must be a number; got 'one'",
    'kp.Ball([0, 0], 1, ("x", "x"))': "expected 2 different coordinate names",
    "SQUARE | 3": "The union: the second operand must be a domain such as a Box or a Ball; got 3",
    "SQUARE + SQUARE": "Write the union of domains as a | b",
    'SQUARE["X=0"]': "Did you mean 'x=0'?",
    "SQUARE[0]": "unknown boundary piece 0",
    'SQUARE.side(x="a")': "Box.side: x must be a number; got 'a'",
    "SQUARE.interior.sample(2.5, np.random.default_rng(0))": "must be a whole number; got 2.5",
    "SQUARE.interior.sample(10, 0)": "such as np.random.default_rng(0); got 0",
    'SQUARE.interior.sample(10, np.random.default_rng(0), "Sobol")': "Did you mean 'sobol'?",
    "kp.union([])": "expected a list of regions",
    "kp.union([SQUARE])": 'a region such as box["x=0"]',
    'kp.union([SQUARE.interior, SQUARE["x=0"]])': "Write a separate condition for each",
    'kp.PointCloud([["a"], ["b"]])': "points must hold numbers",
    "kp.PointCloud([[1.0], [2.0, 3.0]])": "points must hold rows of one length",
    "kp.PointCloud(np.zeros((3, 0)))": "points must be of shape (n, d)",
    "kp.PointCloud([[0.0, 0.0]], normals=[[0.0, 2.0]])": "normals must have length 1; got 2",
    "kp.Averages(np.zeros((0, 3, 1)), np.zeros((0, 3)))": "and not empty",
    "kp.line_integrals([[0.0, 0.0]], [[0.0, 0.0]])": "line 0 has length 0",
    "kp.line_integrals([[0.0]], [[1.0]], nodes=2.5)": "nodes must be a whole number; got 2.5",
    "kp.region_averages([])": "such as [ball.interior]; got []",
    "kp.region_averages([SQUARE])": "a region such as ball.interior",
    # Kernels.
    'kp.Gaussian("a")': "Gaussian: lengthscale must hold numbers; got 'a'",
    "kp.Gaussian([])": "one number per coordinate; got an array of shape (0,)",
    "kp.Gaussian(1j)": "must hold real numbers",
    "kp.Gaussian(True)": "must hold numbers; got True",
    "kp.Gaussian(lambda x: 0.1)": "lengthscale must hold numbers",
    'kp.Matern("a", 0.5)': "It comes before the lengthscale: Matern(4.5, 0.2)",
    "kp.Matern(0.3, 2.5)": "It comes before the lengthscale",
    "kp.RationalQuadratic(0.3, [1, 2])": "alpha must be one number",
    'kp.Periodic(0.3, "a")': "Periodic: period must hold numbers",
    'kp.Polynomial("a")': "degree must be a whole number",
    '"a" * kp.Gaussian(0.3)': "variance must hold numbers; got 'a'",
    "np.array([1.0, 2.0]) * kp.Gaussian(0.3)": "variance must be one number",
    "kp.Gaussian(0.3) + 1": "Write a constant as Constant(1.0)",
    "sum([kp.Gaussian(0.1), kp.Gaussian(0.2)])": "without sum()",
    'kp.Gaussian(0.3).on(["x", "y"])': "one argument each, as in .on('x', 'y')",
    "kp.Gaussian(0.3)(0.1, 0.2)": "expected two points of shape (d,)",
    "kp.FunctionKernel(3)": "the kernel must be a function of two points; got 3",
    "problem(kp.FunctionKernel(lambda x, y: jnp.exp(-jnp.sum(jnp.abs(x - y)))))": "jump at x = y",
    "problem(kp.FunctionKernel(lambda x, y: jnp.exp(-jnp.linalg.norm(x - y))))": "jump at x = y",
    "kp.Gibbs(3)": "a constant one is Gaussian(0.2); got 3",
    "kp.Gibbs(kp.BumpLengthscale)": "got the class BumpLengthscale",
    "kp.Warped(kp.Gaussian(0.3), None)": "the warp must be a function of a point",
    "kp.freeze(3)": "a kernel such as Gaussian(0.2); got 3",
    "kp.freeze(kp.Gaussian)": "Call it: Gaussian(...)",
    "kp.freeze(kp.Gaussian(0.3), lambda k: k.lengthscales)": "the kernel is Gaussian(",
    "kp.NetworkLengthscale(0, 0, key=KEY)": "inputs must be at least 1; got 0",
    "kp.NetworkLengthscale(2, 1, key=0)": "such as jax.random.key(0); got 0",
    "kp.BumpLengthscale(0.3, [(1, 0)], [3])": "(low, high) with low < high",
    "kp.BumpLengthscale(0.3, [(0, 1)], 3)": "one number of bumps per coordinate; got 3",
    "kp.Gibbs(kp.BumpLengthscale(0.3, [(0, 1)] * 2, [3, 3])).local_parameters(jnp.ones(1))": (
        "it has 2 coordinates"
    ),
    # Problems.
    "kp.Field(3, kp.Gaussian(0.3))": "usable as an argument of a residual; got 3",
    'kp.Field("lambda", kp.Gaussian(0.3))': "usable as an argument",
    'kp.Field("normal", kp.Gaussian(0.3))': "Choose another name",
    'kp.Field("u", 0.2)': "a kernel such as Gaussian(0.2); got 0.2",
    'kp.Field("u", kp.Gaussian)': "Call it: Gaussian(...)",
    'kp.ComplexField("h", kp.Gaussian(0.3), 3)': "ComplexField 'h': the kernel must be",
    'kp.Parameter("k", "a", 1)': "the mean must be a number; got 'a'",
    'kp.Parameter("k", 1, -1)': "the standard deviation must be positive and finite",
    'kp.LearnedNoise("a")': "LearnedNoise: initial must be a number; got 'a'",
    "kp.Condition(3, LINE.interior, equation)": "The order is Condition(name, region, residual)",
    'kp.Condition("eq", LINE, equation)': "Use box.interior or box.boundary",
    'kp.Condition("eq", "interior", equation)': "Use box.interior or box.boundary",
    'kp.Condition("eq", LINE.interior, None)': "a function such as lambda x, u",
    'kp.Condition("eq", LINE.interior, equation, noise="a")': "noise must hold numbers; got 'a'",
    "data(noise=[0.1, 0.2])": "one for each of 5 points; got 2",
    'data(data={"y": ["a"] * 5})': "data 'y' must hold numbers",
    'data(data={"y": 1j * np.ones(5)})': "Pass real and imaginary parts separately",
    "data(data=[1, 2, 3])": "data must be a dictionary; got [1, 2, 3]. Write data=",
    'data(data={"y": np.zeros(5), "z": np.zeros(5)})': "data 'z' is no argument of the residual",
    'kp.Problem(kp.Condition("d", FIVE, zero, data={"u": np.zeros(5)}), fields=[FIELD])': (
        "has the name of a field"
    ),
    "kp.Problem(data(), fields=FIELD)": "fields must be a list",
    'kp.Problem(data(), fields=["u"])': "such as Field('u', Gaussian(0.2))",
    'kp.Problem(data(), fields={"u": kp.Gaussian(0.3)})': "fields must be a list",
    'kp.Problem(("eq", LINE.interior, equation), fields=[FIELD])': "must be a Condition",
    "kp.Problem([data()], fields=[FIELD])": "Problem(*conditions, fields=...)",
    'kp.Problem(data(), fields=[FIELD, kp.Field("v", kp.Gaussian(0.3))])': "Remove it, or add",
    'kp.Problem(data(), fields=[FIELD], mixing="a")': "mixing must hold numbers",
    "problem().with_kernels(kp.Gaussian(0.1))": "a list of 1 kernels, one for each of 'u'",
    "problem().with_kernels([3])": "a kernel such as Gaussian(0.2); got 3",
    "problem().with_conditions([])": "conditions must be a list of conditions; got []",
    "problem().collocate(100)": "must be a dictionary; got 100. Write points={'eq': 300}",
    # Solving.
    "kp.solve(3, POINTS)": "solve: the first argument must be a Problem",
    "kp.solve(None)": "must be a Problem, of conditions and fields; got None",
    "solve([12, 2])": "points must be a dictionary; got [12, 2]. Write points={'eq': 300}",
    'solve({"eq": 12.5, "bd": 2})': "the number of points must be a whole number; got 12.5",
    'solve({"eq": "12", "bd": 2})': "must be a whole number; got '12'",
    'solve({"eq": True, "bd": 2})': "must be a whole number; got True",
    'solve({"eq": NAN, "bd": 2})': "must be a whole number; got nan",
    'solve({"eq": 10**15, "bd": 2})': "points need about 2e+08 GB",
    'solve({"Eq": 12, "bd": 2})': "Did you mean 'eq'?",
    'solve({"eq": FIVE + 100.0, "bd": 2})': "5 of its 5 points lie outside the domain",
    "solve(seed=-1)": "the seed must be at least 0; got -1",
    "solve(seed=1.5)": "the seed must be a whole number; got 1.5",
    'solve(sampling="Halton")': "Did you mean 'halton'?",
    'solve(max_steps="a")': "solve: max_steps must be a whole number; got 'a'",
    "solve(max_steps=2.5)": "max_steps must be a whole number; got 2.5",
    "solve(solver=kp.LevenbergMarquardt(tolerance=-1))": "at least 0 and at most 1; got -1.0",
    'solve(solver=kp.GaussNewton(tolerance="a"))': "tolerance must be a number; got 'a'",
    'solve(linear_solver="dense")': "Automatic(), Dense(), LowRank() or Sparse(); got 'dense'",
    "solve(linear_solver=kp.Dense)": "got the class Dense. Call it: Dense(...)",
    'solve(solver="newton")': "GaussNewton() or LevenbergMarquardt(); got 'newton'",
    "solve(solver=kp.LevenbergMarquardt(initial_damping=0.0))": "initial_damping must be positive",
    'kp.Automatic(mesh="a")': "a mesh such as jax.make_mesh",
    'solve(start="zero")': "or 2 arrays, one per condition",
    "solve(start=(jnp.zeros((3, 1)), jnp.zeros((2, 0))))": "must have shape (6, 1)",
    "solve(callback=3)": "callback must be a function of a record; got 3",
    'solve(throw="yes")': "throw must be True or False; got 'yes'",
    "solve(None, accuracy=2.0)": "Accuracy: relative must be positive and finite and at most 1",
    'solve(None, accuracy="a")': "Accuracy: relative must be a number; got 'a'",
    "solve(accuracy=1e-3)": "points, or an accuracy for which they are chosen; got both",
    "solve(None, accuracy=1e-3, start=())": "start must be a solution or functions of a point",
    "kp.Accuracy(1e-3, max_rows=0)": "max_rows must be at least 1; got 0",
    "kp.solve(3, accuracy=1e-3)": "the first argument must be a Problem",
    "solve((1, 2))": "or the tuple of 2 that problem.collocate returns; got 2: (1, 2)",
    "learn(points=())": "or the tuple of 2 that problem.collocate returns; got 0: ()",
    'kp.Dense(nugget="a")': "Dense: nugget must be a number; got 'a'",
    "kp.Dense(refinement_sweeps=1.5)": "refinement_sweeps must be a whole number; got 1.5",
    "kp.Dense(max_nugget=-1)": "max_nugget must be finite and at least 0",
    'kp.Automatic(nugget="a")': "Automatic: nugget must be a number",
    "kp.LowRank(tolerance=-1)": "tolerance must be positive and finite; got -1",
    "kp.Sparse(max_iterations=0)": "max_iterations must be at least 1; got 0",
    # Learning.
    "kp.learn(3)": "learn: the first argument must be a Problem",
    'learn(validation="heldout")': "KFold(), LeaveOneOutPredictive() or learning.Evidence()",
    "learn(validation=kp.HeldOut)": "Call it: HeldOut(...)",
    'learn(validation=kp.HeldOut(points={"Eq": 3}))': "Did you mean 'eq'?",
    "kp.HeldOut(points=50)": "points must be a dictionary; got 50",
    "kp.HeldOut(batch_size=0)": "batch_size must be at least 1; got 0",
    'kp.HeldOut(weights={"eq": "a"})': "weights['eq'] must be a number; got 'a'",
    "kp.KFold(2.5)": "KFold: num_folds must be a whole number; got 2.5",
    'kp.LeaveOneOutPredictive(data="eq")': "as in data=('sensors',)",
    'kp.learning.Bilevel(optimizer="adam")': "LBFGS() or Optax(...); got 'adam'",
    "kp.learning.Bilevel(optimizer=optax.adam(1e-2))": "Wrap it: Optax(optax.adam(1e-2))",
    "kp.Optax(None)": "such as optax.adam(1e-2); got None",
    "kp.learning.LevenbergMarquardt(max_steps=0)": "max_steps must be at least 1; got 0",
    "kp.learning.LevenbergMarquardt(initial_damping=-1.0)": (
        "initial_damping must be positive and finite"
    ),
    "kp.LBFGS(memory_size=0)": "memory_size must be at least 1",
    "kp.learning.Bilevel(regularizer=3)": "L2(1e-3), L1(1e-3) or LogNormal(0.2, 1.0); got 3",
    "kp.L2(-1.0)": "weight must be finite and at least 0; got -1.0",
    'kp.learning.Bilevel(multistart="no")': "multistart must be True or False; got 'no'",
    "kp.learning.FinalSolve(5)": "points must be a dictionary; got 5",
    'learn(method=kp.learning.Bilevel(final=kp.learning.FinalSolve({"Eq": 5})))': "mean 'eq'?",
    "kp.learning.Bilevel(final=5)": "such as FinalSolve({'equation': 600}); got 5",
    'learn(method="adam")': "learning.Bilevel(...); got 'adam'",
    "learn(max_steps=2.5)": "learn: max_steps must be a whole number",
    "kp.learning.Bilevel(tolerance=NAN)": "tolerance must be finite and at least 0; got nan",
    "learn(checkpoint=3)": "the name of a file, such as 'run.kpde'; got 3",
    'kp.learning.CheckpointFile("a", {"f": len})': "metadata must be JSON-serializable",
    # What follows a solution.
    "kp.posterior(3)": "a Solution, from solve or learn(...).solution; got 3",
    'kp.posterior(solution, amplitude="a")': "amplitude must be a number",
    'kp.posterior(solution)["u"].mean([[NAN]])': "points hold a NaN or infinite entry in row 0",
    'kp.posterior(solution)["u"].sample([[0.5]], 0, 3)': "such as jax.random.key(0)",
    "kp.next_measurement(3, 3, 0.1, 3)": "from kp.posterior(solution); got 3",
    'kp.refine(problem(), POINTS, condition="eq", target_count=20, indicator="foo")': (
        "'residual', 'std'"
    ),
    'kp.refine(problem(), POINTS, condition="eq", target_count=20, candidates=3)': (
        "Increase candidates"
    ),
    "march(2.5, WINDOWS)": "march: windows must be a whole number; got 2.5",
    'march(2, {"eq": 9, "initial": 4})': "no number of points given for 'bd'",
    'march(2, WINDOWS, learning={"max_step": 1})': "Did you mean 'max_steps'?",
    "solution.plot(resolution=0)": "at least 2 for each of",
    'solution.plot(references={"zz": np.sin})': "unknown key of references 'zz'; expected 'u'",
    'solution.plot(references={"u": lambda x: np.zeros(3)})': "must be of shape (401,)",
    "solution.to_xarray(resolution=2.5)": "resolution must be a whole number; got 2.5",
    "solution.to_xarray(points=[[NAN]])": "NaN or infinite entry in row 0",
    'solution.to_xarray(extra={"e": lambda x: x[:2]})': "must return one number for each",
    'gallery.EXAMPLES["burger"]': "Did you mean 'burgers'?",
    'gallery.burgers(lengthscale="a")': "burgers: lengthscale must be a number",
    'gallery.gray_scott(case="d")': "case must be one of 'gray-scott'",
    "progress.JSONLines(3)": "Expected the name of a file",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_refused_with_advice(mistake, solution):
    with pytest.raises(kp.InputError) as refusal:
        eval(mistake, {**globals(), **MODULES, "solution": solution})
    assert MISTAKES[mistake] in str(refusal.value)


U = kp.Field("u", kp.Gaussian(0.2))
BOUNDARY = kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value)
CLOUD = np.random.default_rng(0).random((5, 2))


def value_only(x, u):
    return u.value


def with_data(values, points=CLOUD):
    return kp.Condition("data", points, lambda x, u, y: u.value - y, data={"y": values})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kp.Gaussian(-0.2), r"lengthscale must be positive and finite; got -0.2"),
        (lambda: kp.Gaussian([0.1, 0.0]), r"positive and finite; got \[0.1, 0.0\]"),
        (lambda: kp.Gaussian(np.nan), "positive and finite; got nan"),
        (lambda: kp.Gaussian([[0.1]]), "one number per coordinate; got an array of shape"),
        (lambda: -1.0 * kp.Gaussian(0.1), "variance must be positive"),
        (lambda: kp.Matern(2.0, 0.1), "half-integer 0.5, 1.5, 2.5, ...; got 2.0"),
        (lambda: kp.Polynomial(0), "degree must be a positive integer; got 0"),
        (lambda: kp.Periodic(1.0, -2.0), "period must be positive and finite; got -2.0"),
        (lambda: kp.Gaussian(0.1).on(), "non-empty list"),
        (lambda: kp.Gaussian(0.1).on("x")([0.0], [1.0]), "by name needs a domain"),
        (lambda: kp.Gaussian(0.1).on(2)([0.0], [1.0]), "the points have 1 coordinates"),
        (lambda: kp.Gaussian([0.1, 0.2])([0.0], [1.0]), "has 2 entries.*points have 1 coordinates"),
        (lambda: kp.Field("u v", kp.Gaussian(0.1)), "usable as an argument"),
        (lambda: kp.Problem(fields=[U]), "at least one condition and one field"),
        (
            lambda: kp.Problem(BOUNDARY, BOUNDARY, fields=[U]),
            "every condition must have a different name",
        ),
        (lambda: kp.Problem(BOUNDARY, fields=[U, U]), "every field must have a different name"),
        (
            lambda: kp.Problem(
                BOUNDARY,
                kp.Condition("b", kp.Box(a=(0, 1), b=(0, 1)).boundary, value_only),
                fields=[U],
            ),
            "have different coordinates",
        ),
        (
            lambda: kp.Problem(
                BOUNDARY, kp.Condition("c", np.zeros((1, 3)), value_only), fields=[U]
            ),
            r"expected points with 2 coordinates \('x', 'y'\); got 3",
        ),
        (
            lambda: kp.Problem(BOUNDARY, fields=[kp.Field("u", kp.Gaussian(0.1).on("z"))]),
            "Unknown coordinate 'z' in a kernel's restriction; the domain has 'x', 'y'",
        ),
        (lambda: with_data([1, 2, np.nan, 4, 5]), "'y' hold a NaN or infinite entry in row 2"),
        (
            lambda: with_data([1, 2]),
            r"expected 5 rows in data 'y', one per point; got shape \(2,\)",
        ),
        (lambda: with_data([1.0], SQUARE.interior), "requires user-supplied points"),
        (
            lambda: kp.Condition("n", CLOUD, value_only, noise=-1.0),
            "nonnegative standard deviation; got -1.0",
        ),
    ],
)
def test_refused_when_described(make, message):
    with pytest.raises(kp.InputError, match=message):
        make()


def solved_with(condition, points=None, kernel=None, **options):
    field = U if kernel is None else kp.Field("u", kernel)
    return kp.solve(kp.Problem(condition, fields=[field]), points, **options)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: solved_with(BOUNDARY),
            r"no number of points given. Expected points=\{'boundary': 300",
        ),
        (
            lambda: solved_with(BOUNDARY, {"edge": 3}),
            "unknown key of points 'edge'; expected 'boundary'",
        ),
        (
            lambda: solved_with(BOUNDARY, {"boundary": -3}),
            "number of points must be at least 1; got -3",
        ),
        (
            lambda: solved_with(BOUNDARY, {"boundary": 5}, max_steps=0),
            "max_steps must be at least 1",
        ),
        (
            lambda: solved_with(
                kp.Condition("c", np.array([[0.5, 0.5], [0.2, 0.1], [0.5, 0.5]]), value_only)
            ),
            r"1 of its 3 points are duplicates, for example \[0.5, 0.5\]",
        ),
        (
            lambda: solved_with(
                kp.Condition("hole", (SQUARE - kp.Ball((3, 3), 1.0))["sphere"], value_only),
                {"hole": 10},
            ),
            "region 'sphere' is empty",
        ),
        (
            lambda: solved_with(
                kp.Condition("e", SQUARE.interior, lambda x, u: u.laplacian),
                {"e": 5},
                kp.Matern(1.5, 0.2),
            ),
            "nu = 1.5 allows derivatives up to order 2.*order 4 is needed.*2.5 or higher",
        ),
        (
            lambda: solved_with(
                kp.Condition("e", SQUARE.interior, lambda x, u: u.laplacian - x[0].value), {"e": 5}
            ),
            r"are numbers, without \.value or derivatives: write q, not q\.value",
        ),
        (
            lambda: solved_with(BOUNDARY, {"boundary": 5}, kp.FunctionKernel(lambda x, y: x - y)),
            "a kernel must return one number",
        ),
    ],
)
def test_refused_when_solved(run, message):
    with pytest.raises(kp.InputError, match=message):
        run()


def test_repeated_measurements_are_fine_if_noisy():
    points = np.array([[0.5, 0.5], [0.5, 0.5]])
    condition = kp.Condition(
        "data", points, lambda x, u, y: u.value - y, noise=0.1, data={"y": [1.0, 3.0]}
    )
    solution = solved_with(condition)
    # Two measurements of variance 0.01 and prior variance 1: mean 2 / (1 + 0.005).
    assert solution["u"](points[0]) == pytest.approx(2 / 1.005, rel=1e-9)


def test_thirty_two_bit_mode_is_refused():
    program = "import kernelpde as kp; kp.Gaussian(0.2)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={}
    )
    assert run.returncode != 0
    assert "PrecisionError: kernelpde needs 64-bit floats" in run.stderr
    assert 'jax.config.update("jax_enable_x64", True)' in run.stderr


def test_importing_flips_no_flags():
    program = (
        "import jax; before = dict(jax.config.values); import kernelpde; "
        "assert dict(jax.config.values) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env={})


def test_systems_that_cannot_fit_are_refused_before_they_begin(monkeypatch):
    monkeypatch.setattr("kernelpde.memory.physical_bytes", lambda: 1e6)
    problem = boundary_value(LINE, lambda x, u: u.laplacian - 1.0, kp.Gaussian(0.5))
    points = {"equation": 298, "ends": 2}
    with pytest.raises(kp.InputError, match=r"solve: 300 rows need about 0\.00259 GB.*at most 176"):
        kp.solve(problem, points)
    with pytest.raises(kp.InputError, match=r"learn: 300 rows need about 0\.00389 GB"):
        kp.learn(problem, points)
