"""Runs show their progress, and a run that is stopped goes on to the same end."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import optax
import pytest
from nbclient import NotebookClient
from problems import LINE, boundary_value, regression

import kernelpde as kp
from kernelpde.gallery import elliptic, layer

TRAINING = {"equation": 60, "boundary": 24}


def test_a_callback_ends_a_solve_and_learning(tmp_path):
    example, path = elliptic(1.0), tmp_path / "run.kpde"
    solution = kp.solve(
        example.problem, TRAINING, throw=False, callback=lambda record: record.step == 2
    )
    assert solution.result is kp.RESULTS.stopped
    assert solution.num_steps == 2
    stopped = learned(path, callback=lambda record: record.factorizations >= 20)
    assert stopped.result is kp.RESULTS.stopped
    assert 10 <= stopped.factorizations < 20
    resumed, undisturbed = learned(path), learned(None)
    assert resumed.factorizations == undisturbed.factorizations
    for one, other in zip(resumed.kernels, undisturbed.kernels, strict=True):
        np.testing.assert_array_equal(one.log_lengthscale, other.log_lengthscale)


class Stop(Exception):
    """Raised to interrupt a run."""


def interrupted(path: Path, after: int, **options) -> None:
    """Learn until `after` evaluations were made, then leave in the middle of a step."""
    seen = []

    def callback(record: kp.LearningRecord) -> None:
        seen.append(record)
        if len(seen) == after:
            raise Stop

    with pytest.raises(Stop):
        learned(path, callback=callback, **options)


def learned(path: Path | None, **options) -> kp.LearningResult:
    example = options.pop("example", elliptic(1.0))
    training = options.pop("training", TRAINING)
    method = kp.learning.Bilevel(tolerance=1e-9, **options.pop("method", {}))
    settings = {"max_steps": 6, "method": method, "throw": False, **options}
    return kp.learn(example.problem, training, checkpoint=path, **settings)


def with_outlier() -> SimpleNamespace:
    """Readings of a sine, one of them wrong: learned once for its noise, and once with it."""
    x = np.linspace(0.0, 1.0, 24)
    readings = np.sin(5 * x) + 1e-2 * np.random.default_rng(0).standard_normal(24)
    readings[7] += 1.0
    noise = kp.StudentT(1e-2)
    return SimpleNamespace(problem=regression(x[:, None], readings, noise, kp.Gaussian(0.3)))


PLANS = {
    "held out": {},
    "batches": {"validation": kp.HeldOut(batch_size=20)},
    "fresh": {"validation": kp.Resampled()},
    "folds": {"validation": kp.KFold(5)},
    "standardized batches": {"validation": kp.HeldOut(batch_size=20, standardized=True)},
    "flow": {"validation": kp.learning.KernelFlow()},
    "adam that remembers": {
        "method": {
            "optimizer": kp.Optax(optax.adam(0.05), max_steps=3, reset_state=False),
            "multistart": False,
        }
    },
    "outliers": {"example": with_outlier(), "training": None},
    "varying lengthscales": {"example": layer(), "training": {"equation": 60, "boundary": 24}},
}


LONG = "varying lengthscales"


@pytest.mark.parametrize(
    "plan", [pytest.param(p, marks=pytest.mark.slow) if p == LONG else p for p in PLANS]
)
def test_interrupted_run_ends_bit_for_bit_like_an_undisturbed_one(tmp_path, plan):
    options = PLANS[plan]
    whole = learned(None, **options)
    evaluations = len(whole.evaluations) + len(whole.history)
    path = tmp_path / "run.kpde"
    for after in (evaluations // 3, evaluations // 3):
        interrupted(path, after, **options)
    rest = learned(path, **options)
    assert len(rest.history) == len(whole.history)
    for ours, theirs in zip(rest.history, whole.history, strict=True):
        np.testing.assert_array_equal(ours.theta, theirs.theta)
        assert (ours.loss, ours.residuals) == (theirs.loss, theirs.residuals)
    assert [r.loss for r in rest.evaluations] == [r.loss for r in whole.evaluations]
    assert rest.factorizations == whole.factorizations
    for ours, theirs in zip(rest.solution.expansion, whole.solution.expansion, strict=True):
        np.testing.assert_array_equal(ours.coefficients, theirs.coefficients)


def test_run_that_ended_at_its_limit_goes_on(tmp_path):
    path = tmp_path / "run.kpde"
    learned(path, max_steps=3)
    np.testing.assert_array_equal(learned(path).history[-1].theta, learned(None).history[-1].theta)


CHILD = """
import sys
import jax; jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.gallery import elliptic
found = kp.learn(elliptic(1.0).problem, {"equation": 200, "boundary": 60}, checkpoint=sys.argv[1],
    max_steps=25, validation=kp.HeldOut(batch_size=50), throw=False, method=kp.learning.Bilevel(
        tolerance=0.0, optimizer=kp.learning.LevenbergMarquardt(max_steps=6)))
print(found.history[-1].theta.tobytes().hex(), len(found.history))
"""


def started(path: Path) -> subprocess.Popen:
    # What is killed while it writes may leave half of a program.
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(path.parent / "cache")}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize(
    "count", [pytest.param(5, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.paper)]
)
def test_killed_many_times(tmp_path, count):
    """SIGKILL at random moments: no half file, and the same hyperparameters to the last bit."""
    begun = time.perf_counter()
    undisturbed = started(tmp_path / "whole.kpde")
    expected, errors = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, errors
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    again = started(tmp_path / "again.kpde")
    assert again.communicate(timeout=300)[0] == expected
    lasts = min(first, time.perf_counter() - begun)
    path, moments = tmp_path / "run.kpde", random.Random(0)
    kills = inside = 0
    while kills < count:
        child = started(path)
        time.sleep(lasts * moments.uniform(0.3, 0.9))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.communicate()
        inside += path.exists()
        if path.exists() and child.returncode == 0:
            path.unlink()  # it was through before the blow: begin anew
    assert inside >= count // 2, "most kills came before the first checkpoint"
    last = started(path)
    found, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors
    assert found == expected


@pytest.fixture(scope="module")
def run_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("run") / "run.kpde"
    learned(path)
    return path.read_bytes()


def mutations(content: bytes, count: int):
    """Truncated, with bytes flipped, repeated, removed, or with other facts or arrays inside."""
    rng = random.Random(1)
    for n in range(count):
        kind, at = n % 5, rng.randrange(len(content))
        if kind == 0:
            yield content[:at]
        elif kind == 1:
            changed = bytearray(content)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            yield bytes(changed)
        elif kind == 2:
            yield content[:at] + content[at : at + rng.randrange(1, 50)] + content[at:]
        elif kind == 3:
            yield content[:at] + content[at + rng.randrange(1, 50) :]
        else:
            yield bytes(rng.randrange(256) for _ in range(rng.randrange(200))) + content[at:]


def test_damaged_files_are_refused_or_read_correctly(tmp_path, run_file):
    path = tmp_path / "run.kpde"
    path.write_bytes(run_file)
    expected = [record.theta for record in learned(path).history]
    refused = 0
    for content in mutations(run_file, 200):
        path.write_bytes(content)
        try:
            found = kp.io.read_archive(path, "kernelpde checkpoint", 1)
        except kp.InputError as error:
            refused += str(path) in str(error)
        else:
            theta = found[1]["0.theta"]
            np.testing.assert_array_equal(theta, expected[-1])
    assert refused > 150


def rewritten(path: Path, change) -> None:
    """The same run with its facts and arrays changed, and written as a proper file."""
    facts, arrays = kp.io.read_archive(path, "kernelpde checkpoint", 1)
    change(facts, arrays)
    kp.io.write_archive(path, "kernelpde checkpoint", 1, facts, arrays)


def moved(arrays, name):
    arrays[name] = arrays[name] + 1e-3


WRONG = {
    "shape of theta": lambda f, a: a.update({"0.theta": np.zeros(7)}),
    "text for theta": lambda f, a: a.update({"0.theta": np.array(["a"])}),
    "no theta": lambda f, a: a.pop("0.theta"),
    "no state": lambda f, a: f.pop("states"),
    "shape of the state": lambda f, a: a.update({"0.inner.0": np.zeros((3, 1))}),
    "other points": lambda f, a: moved(a, "identity.points of 'equation'"),
    "other equation": lambda f, a: moved(a, "identity.equation of 'equation'"),
    "other fields": lambda f, a: f["identity"].update(fields=["v"]),
    "other settings": lambda f, a: f["identity"].update(tolerance="0.1"),
    "unknown result": lambda f, a: f["states"][0].update(result="glorious"),
    "no control": lambda f, a: f["states"][0].update(control={}),
    "records cut short": lambda f, a: a.update({"0.history.loss": a["0.history.loss"][:1]}),
}


@pytest.mark.parametrize("what", WRONG)
def test_foreign_contents_are_refused_with_a_reason(tmp_path, run_file, what):
    path = tmp_path / "run.kpde"
    path.write_bytes(run_file)
    rewritten(path, WRONG[what])
    with pytest.raises(kp.InputError, match=r"run\.kpde"):
        learned(path)


def partly_held(lengthscale: float):
    """A kernel of which one part is learned, and the other held."""
    return elliptic(kernel=kp.freeze(kp.Gaussian(lengthscale)) + kp.Gaussian(0.5))


OTHERS = {
    "another start": ({}, {"example": elliptic(0.9)}),
    "other numbers held": ({"example": partly_held(1.0)}, {"example": partly_held(2.0)}),
    "another regularizer": (
        {"method": {"multistart": False, "regularizer": kp.L2(0.1)}},
        {"method": {"multistart": False, "regularizer": kp.L2(0.2)}},
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_runs_with_other_numbers_are_refused(tmp_path, what):
    alone = {"method": {"multistart": False}}
    first, second = (alone | options for options in OTHERS[what])
    path = tmp_path / "run.kpde"
    interrupted(path, 12, **first)
    with pytest.raises(kp.InputError, match="belongs to another run"):
        learned(path, **second)


def test_other_versions_kinds_and_nothing_are_refused(tmp_path, run_file):
    path = tmp_path / "run.kpde"
    kp.io.write_archive(path, "kernelpde checkpoint", 2, {}, {})
    with pytest.raises(kp.InputError, match=r"version 2; this program reads version 1"):
        learned(path)
    kp.io.write_archive(path, "kernelpde solution", 1, {}, {})
    with pytest.raises(kp.InputError, match="expected a kernelpde checkpoint file"):
        learned(path)
    path.write_text("hello")
    with pytest.raises(kp.InputError, match="not a kernelpde checkpoint file"):
        learned(path)


def test_pickles_are_never_loaded(tmp_path, run_file):
    path, trace = tmp_path / "run.kpde", tmp_path / "trace"

    class Bad:
        def __reduce__(self):
            return (Path.write_text, (trace, "ran"))

    np.save(tmp_path / "bad.npy", np.array([Bad()], dtype=object), allow_pickle=True)
    trace.unlink(missing_ok=True)
    content = (tmp_path / "bad.npy").read_bytes()
    facts = json.dumps(
        {"kind": "kernelpde checkpoint", "version": 1, "facts": {}, "arrays": ["theta"]}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("facts.json", facts)
        archive.writestr("theta.npy", content)
    with pytest.raises(kp.InputError, match="allow_pickle=False"):
        learned(path)
    assert not trace.exists()


PROBLEM = boundary_value(LINE, lambda x, u: -u.laplacian + u.value**3 - 5.0, kp.Gaussian(0.5))
POINTS = {"equation": 20, "ends": 2}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_for_each_step_on_a_terminal_and_none_in_a_file(monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        learned = kp.learn(PROBLEM, POINTS, max_steps=3, throw=False, callback=kp.progress.Live())
        solution = kp.solve(PROBLEM, POINTS, callback=kp.progress.Live())
        lines = stream.getvalue().splitlines()
        if not stream.isatty():
            assert not lines
            continue
        solved = [line for line in lines if " solving " in line]
        assert len(lines) - len(solved) == len(learned.history)
        assert len(solved) >= len(solution.history)
        assert all("residuals equation" in line for line in lines)


BEGIN = """
import os, signal
import jax
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
line = kp.Box(x=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", line.interior, lambda x, u: -u.laplacian + u.value**3 - 5.0),
    kp.Condition("ends", line.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
points = {"equation": 20, "ends": 2}
method = kp.learning.Bilevel(tolerance=1e-9)
live, records = kp.progress.Live(), []

def learn(checkpoint, interrupt=None):
    def callback(record):
        live(record)
        records.append(record)
        if len(records) == interrupt:
            os.kill(os.getpid(), signal.SIGINT)
    return kp.learn(
        problem, points, max_steps=4, method=method, checkpoint=checkpoint, callback=callback,
        throw=False,
    )
"""
SAYS = "print(sorted(learned.problem.hyperparameters['u'].items()), len(learned.history))"


def run(cells: list[str], where: Path) -> list:
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(where)}},
    )
    return [cell.outputs for cell in client.execute().cells]


def printed(outputs: list) -> str:
    return "".join(each.text for each in outputs if each.output_type == "stream")


@pytest.mark.slow
def test_a_notebook_that_was_interrupted_or_restarted_goes_on(tmp_path):
    stopped = run([BEGIN, "learn('run.kpde', 12)", "print('still here')"], tmp_path)
    (shown,) = [each for each in stopped[1] if each.output_type == "display_data"]
    assert "learning" in shown.data["text/plain"]
    assert [e.ename for e in stopped[1] if e.output_type == "error"] == ["KeyboardInterrupt"]
    assert printed(stopped[2]).strip() == "still here"
    again = run(
        [
            BEGIN,
            f"learned = learn('run.kpde')\n{SAYS}\nresumed = len(records)",
            f"learned = learn('whole.kpde', len(records) + 12)\n{SAYS}",
            f"records.clear()\nlearned = learn('whole.kpde')\n{SAYS}",
            f"records.clear()\nlearned = learn(None)\n{SAYS}\nprint(len(records) > resumed)",
        ],
        tmp_path,
    )
    assert [e.ename for e in again[2] if e.output_type == "error"] == ["KeyboardInterrupt"]
    whole, fewer = printed(again[4]).strip().splitlines()
    assert fewer == "True"
    assert printed(again[1]).strip() == whole
    assert printed(again[3]).strip() == whole
