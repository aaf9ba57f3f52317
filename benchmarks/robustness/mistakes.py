"""Mistakes of users: clear errors, raw exceptions, and accepted ones.

    python -m benchmarks mistakes [GROUP ...]

tries every expression of `mistakes.txt`, or those of some groups, and counts for each group how
many are

- `typed`: rejected with an error of kernelpde, whose message says what was got and expected;
- `raw`: ended by an exception of Python, numpy or JAX;
- `harmless`: accepted, or ended by an exception that is the user's own, for the reason noted;
- `wrong`: accepted, though nothing sensible can be meant; or not rejected in time.

Messages of those that are raw or wrong are in the line of their group. Takes about ten minutes.
"""

import math
import os
import re
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import kernelpde as kp
from benchmarks._report import parser, record
from kernelpde import gallery, progress
from kernelpde.gallery import EXAMPLES
from kernelpde.reproduce import reproduce

SECONDS = 90
NAN = float("nan")


class Late(BaseException):
    """An expression that is still at work."""


# The words that the expressions are written in.


def eq(x, u):
    return -u.laplacian + u.value**3 - 5.0


def bd(x, u):
    return u.value


def heat(x, u):
    return u.d("t") - 0.1 * u.d("x", "x")


def data_r(x, u, y):
    return u.value - y


def norm_r(x, u):
    return u.normal_derivative


def raising(x, u):
    raise ValueError("my own mistake")


def resid_if(x, u):
    return u.laplacian - 1 if u.value > 0 else u.laplacian


def arr32(x, u):
    return (-u.laplacian - 5).astype(jnp.float32)


def randomly(x, u):
    return -u.laplacian - np.random.default_rng().random()


CONSTANTS = {"c": 5.0}


def with_global(x, u):
    return -u.laplacian - CONSTANTS["c"]


def words(folder: str) -> dict[str, Any]:
    """Names that expressions may use."""
    line, sq = kp.Box(x=(0, 1)), kp.Box(x=(0, 1), y=(0, 1))
    st, later = (kp.Box(t=(0, 1), x=ends, time="t") for ends in ((0, 1), (5, 6)))
    pts5 = np.linspace(0, 1, 5)[:, None]
    few, few2, few3 = {"eq": 14, "bd": 2}, {"eq": 40, "bd": 20}, {"eq": 9, "bd": 6, "initial": 4}
    field = kp.Field("u", kp.Gaussian(0.3))

    def problem(k=None, e=eq, b=bd, dom: Any = line, **options) -> kp.Problem:
        conditions = kp.Condition("eq", dom.interior, e), kp.Condition("bd", dom.boundary, b)
        kernel = kp.Gaussian(0.3) if k is None else k
        return kp.Problem(*conditions, fields=[kp.Field("u", kernel)], **options)

    def show(found: Any) -> str:
        solution = found.solution if isinstance(found, kp.LearningResult) else found
        middle = np.full((1, len(solution.problem.space.coordinates)), 0.5)
        value = np.asarray(solution[solution.problem.fields[0].name](middle))[0]
        return f"{found.result.name}, u = {value:.4g} in the middle"

    def solved(p, points=few, **options) -> str:
        return show(kp.solve(p, points, **options))

    def learned(p=None, points=few, **options) -> str:
        return show(kp.learn(problem() if p is None else p, points, **options))

    def in_32_bits(run: Callable[[], Any]) -> Any:
        jax.config.update("jax_enable_x64", False)
        try:
            return run()
        finally:
            jax.config.update("jax_enable_x64", True)

    def after_a_changed_global() -> str:
        CONSTANTS["c"] = 5.0
        solved(problem(e=with_global))
        CONSTANTS["c"] = 50.0
        value = float(kp.solve(problem(e=with_global), few)["u"]([[0.5]])[0])
        if abs(value - 6.25) < 1e-3:
            raise kp.InputError("not accepted: the new value was seen")
        return f"u = {value:.4g} with the old value"

    def edited(name: str, number: str) -> str:
        text = (Path(folder) / name).read_text()
        begin = text.index('log_lengthscale": ') + 18
        changed = text[:begin] + number + text[text.index("\n", begin) :]
        (Path(folder) / "edited.json").write_text(changed)
        return f"{folder}/edited.json"

    def other_run() -> str:
        kp.learn(problem(), few, checkpoint=f"{folder}/run", max_steps=1)
        return learned(points={"eq": 13, "bd": 2}, checkpoint=f"{folder}/run")

    def other_eq() -> str:
        other = problem(e=lambda x, u: -u.laplacian + u.value**3 - 6.0)
        return learned(other, checkpoint=f"{folder}/run")

    sol = kp.solve(problem(), few)
    (Path(folder) / "junk").write_bytes(b"junk" * 100)
    (Path(folder) / "empty").touch()
    kp.save_solution(f"{folder}/s.kpde", sol)
    kp.save_kernels(f"{folder}/k.json", problem())
    evolving = kp.Condition("eq", st.interior, heat), kp.Condition("bd", st.boundary, bd)
    noisy = kp.Condition("d", pts5, data_r, noise=0.1, data={"y": np.sin(pts5[:, 0])})
    return {
        "kp": kp,
        "np": np,
        "jnp": jnp,
        "jax": jax,
        "math": math,
        "optax": optax,
        "gallery": gallery,
        "progress": progress,
        "reproduce": reproduce,
        "EXAMPLES": EXAMPLES,
        "nan": NAN,
        "inf": math.inf,
        "rng": np.random.default_rng(0),
        "key": jax.random.key(0),
        "line": line,
        "sq": sq,
        "st": st,
        "G": kp.Gaussian,
        "C": kp.Condition,
        "F": field,
        "eq": eq,
        "bd": bd,
        "heat": heat,
        "data_r": data_r,
        "norm_r": norm_r,
        "raising": raising,
        "resid_if": resid_if,
        "arr32": arr32,
        "randomly": randomly,
        "P": problem,
        "S": solved,
        "L": learned,
        "show": show,
        "PT": few,
        "PT2": few2,
        "pts5": pts5,
        "xs20": np.linspace(0.05, 0.95, 12)[:, None],
        "PT3": few3,
        "sol": sol,
        "sol2": kp.solve(problem(dom=sq), few2),
        "tmp": folder,
        "edited": edited,
        "in_32_bits": in_32_bits,
        "first": problem(),
        "other_run": other_run,
        "after_a_changed_global": after_a_changed_global,
        "other_eq": other_eq,
        "other_settings": lambda: learned(
            checkpoint=f"{folder}/run", method=kp.learning.Bilevel(tolerance=1e-2)
        ),
        "dat": kp.Problem(noisy, fields=[field]),
        "heat_problem": kp.Problem(
            *evolving, kp.Condition("initial", st.initial, bd), fields=[field]
        ),
        "late": kp.Problem(
            kp.Condition("eq", later.interior, heat),
            kp.Condition("initial", later.initial, bd),
            fields=[field],
        ),
    }


def mistakes() -> Iterator[tuple[str, str, str]]:
    """Group, expression, and why it may be accepted."""
    group = ""
    for line in (Path(__file__).parent / "mistakes.txt").read_text().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            group = header[1]
        elif line and not line.startswith("#"):
            expression, _, reason = line.partition("  ## ")
            yield group, expression, reason


def outcome(expression: str, names: dict[str, Any]) -> tuple[str, str]:
    """What an expression ends in: `typed`, `raw`, `accepted` or `late`, and in what words."""
    signal.alarm(SECONDS)
    try:
        return "accepted", repr(eval(expression, names))
    except kp.KernelPDEError as error:
        return "typed", f"{type(error).__name__}: {error}"
    except Late:
        return "late", f"more than {SECONDS} s"
    except Exception as error:
        return "raw", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def late(*_: Any) -> None:
    raise Late


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("groups", nargs="*")
    groups = command.parse_args(arguments).groups
    warnings.simplefilter("ignore")
    os.environ.setdefault("MPLBACKEND", "Agg")
    signal.signal(signal.SIGALRM, late)
    counts: dict[str, Counter[str]] = {}
    left: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        names = words(folder)
        for group, expression, reason in mistakes():
            if groups and group not in groups:
                continue
            kind, message = outcome(expression, dict(names))
            if kind != "typed":
                kind = "harmless" if reason else "raw" if kind == "raw" else "wrong"
            counts.setdefault(group, Counter())[kind] += 1
            if kind in ("raw", "wrong"):
                message = message.replace(folder, "FOLDER").splitlines()[0][:200]
                left.setdefault(group, {})[expression] = f"{kind}: {message}"
    for group, count in counts.items():
        kinds = {kind: count[kind] for kind in ("typed", "raw", "harmless", "wrong")}
        line = {"case": group, "mistakes": count.total(), **kinds, "left": left.get(group, {})}
        record("mistakes", line)
