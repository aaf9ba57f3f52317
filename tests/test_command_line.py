"""The commands, in this process and as a script uses them: what they write, say and return."""

import io
import json
import logging
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import pyvista
import xarray

import kernelpde as kp
from kernelpde.cli import main
from kernelpde.progress import JSONLines, Logging, TensorBoard, combine

ROD = '''
"""A rod."""
import jax.numpy as jnp
import kernelpde as kp

rod = kp.Box(x=(0, 1))


def heated(x, u):
    return -u.laplacian - jnp.pi**2 * jnp.sin(jnp.pi * x[0])


problem = kp.Problem(
    kp.Condition("equation", rod.interior, heated),
    kp.Condition("ends", rod.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.6))],
)
points = {"equation": 14, "ends": 2}
references = {"u": lambda p: jnp.sin(jnp.pi * p[:, 0])}
'''

WAVES = """
import jax.numpy as jnp
import kernelpde as kp

rod = kp.Box(t=(0, 0.4), x=(0, 1), time="t")
exact = lambda p: jnp.exp(-jnp.pi**2 * p[..., 0]) * jnp.sin(jnp.pi * p[..., 1])
problem = kp.Problem(
    kp.Condition("equation", rod.interior, lambda x, u: u.d("t") - u.d("x", "x")),
    kp.Condition("ends", rod.boundary, lambda x, u: u.value),
    kp.Condition("initial", rod.initial, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian([0.3, 0.5]))],
)
points, windows = {"equation": 60, "ends": 20, "initial": 16}, 2
references = {"u": exact}
"""

DISK = """
import kernelpde as kp

disk = kp.Ball((0.0, 0.0), 1.0, coordinates=("x", "y"))
problem = kp.Problem(
    kp.Condition("equation", disk.interior, lambda x, u: u.laplacian + 4.0),
    kp.Condition("boundary", disk.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(1.0))],
)
points = {"equation": 80, "boundary": 40}
"""


@pytest.fixture
def rod(tmp_path):
    path = tmp_path / "rod.py"
    path.write_text(ROD)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    """A command in this process: its exit code and what it prints."""

    def run(*arguments):
        monkeypatch.setenv("JAX_ENABLE_X64", "1")
        monkeypatch.setattr(sys, "argv", ["kernelpde", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return SimpleNamespace(code=end.value.code, out=out, err=err)

    return run


@pytest.fixture
def report(run):
    """What a command that succeeds prints with --json."""

    def report(*arguments):
        done = run(*arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    return report


def counts(**points) -> list[str]:
    return [word for name, count in points.items() for word in ("--points", f"{name}={count}")]


def separately(*arguments):
    """The same in another process, as a script does it."""
    program = [sys.executable, "-m", "kernelpde", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def test_solve_prints_one_json_object():
    fixed = ("solve", "elliptic", "--no-learn", "--lengthscale", "0.2", "--json")
    done = separately(*fixed, *counts(equation=400, boundary=80))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problem"] == "elliptic"
    assert report["seed"] == 0
    assert report["points"] == {"equation": 400, "boundary": 80}
    assert report["hyperparameters"]["u"]["lengthscale"] == pytest.approx(0.2)
    assert report["errors"]["u"]["l2"] < 2e-4
    assert report["errors"]["u"]["linf"] >= report["errors"]["u"]["l2"]
    assert report["nugget"] == 1e-12
    assert report["converged"] is True
    assert 3 <= report["num_steps"] <= 12
    assert report["seconds"]["compile"] > 0
    assert report["seconds"]["run"] > 0


def test_an_accuracy_from_the_command_line(run, report):
    asked = ("solve", "elliptic", "--accuracy", "1e-3", "--sampling", "halton")
    found = report(*asked)
    assert found["converged"]
    estimated = found["estimated_errors"]["u"]["rms"]
    assert estimated <= 1e-3
    assert 0.5 < estimated / found["errors"]["u"]["relative"] < 10
    assert found["points"]["equation"] >= 100
    assert "--accuracy selects points and kernel" in run(*asked, *counts(boundary=9)).err


def test_an_inverse_problem_comes_with_its_uncertainty(report):
    found = report("solve", "string", "--seed", "3")
    load = found["parameters"]["load"]
    assert load["truth"] == 1.5
    assert abs(load["mean"] - 1.5) < 3 * load["std"]
    assert load["interval"][0] < load["mean"] < load["interval"][1]
    assert 0.3 < found["chi_squared"]["data"] < 2.0
    assert found["errors"]["u"]["l2"] < 3 * found["std"]["u"]
    assert found["nugget"] == 1e-10


def test_a_run_that_does_not_converge_has_its_own_exit_code(run, tmp_path):
    stopped = ("solve", "elliptic", "--no-learn", "--max-steps", "1", "--out", tmp_path)
    done = run(*stopped, *counts(equation=100, boundary=40))
    assert done.code == 1
    assert "NOT converged" in done.out
    # What is made of it later says so too, and slices leave other pictures alone.
    before = {path.name for path in tmp_path.glob("*.png")}
    drawn = run("plot", tmp_path, "--at", "y=0.5", "--resolution", "11")
    assert drawn.code == 0
    assert "This solution has not converged. The maximum number of steps" in drawn.err
    assert {path.name for path in tmp_path.glob("*.png")} - before == {"solution-2.png"}


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("solve", "nonsense"), "InputError", "Unknown problem 'nonsense'; expected one of elli"),
        (
            ("solve", "elliptic", "--no-learn", "--lengthscale", "-1"),
            "InputError",
            "must be positive and finite; got -1.0",
        ),
        (("solve", "elliptic", "--points", "equation"), "InputError", "Expected CONDITION=COUNT"),
        (
            ("solve", "elliptic", "--no-learn", "--points", "edge=3"),
            "InputError",
            "unknown key of points 'edge'",
        ),
        (("solve",), "MissingParameter", "NAME|FILE.py"),
        (("plot", "nowhere"), "InputError", "there is no such file"),
    ],
)
def test_mistakes_get_one_paragraph_or_json_and_no_traceback(run, arguments, kind, message):
    done = run(*arguments)
    assert done.code == 2
    assert message in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err
    done = run(*arguments, "--json")
    error = json.loads(done.out)["error"]
    assert done.code == error["exit_code"] == 2
    assert error["kind"] == kind
    assert message in error["message"]


@pytest.mark.parametrize("arguments", [("--help",), ("solve", "--help"), ("--version",)])
def test_help_does_not_wait_for_jax(arguments):
    check = (
        "import sys; sys.argv = ['kernelpde', *sys.argv[1:]]\n"
        "from kernelpde.cli import main\n"
        "try: main()\n"
        "finally: assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_an_interrupted_run_says_how_it_goes_on(tmp_path):
    # Shells let what they start in the background ignore Ctrl-C, and all that it starts.
    begin = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('kernelpde', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", begin, "solve", "elliptic", "--lengthscale", "1.0"]
    run = subprocess.Popen([*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    for _ in range(1200):
        if (tmp_path / "run.kpde").exists():
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert f"To continue: kernelpde resume {tmp_path}" in said
    assert "Traceback" not in said


def test_learning_from_the_command_line(report):
    points = counts(equation=600, boundary=120)
    found = report("solve", "elliptic", "--lengthscale", "1.0", *points)
    assert found["learning"]["from"] == 1.0
    assert found["learning"]["factorizations"] <= 100
    assert found["hyperparameters"]["u"]["lengthscale"] < 0.3
    assert found["errors"]["u"]["l2"] < 2e-5


@pytest.mark.paper
def test_kernels_are_learned_kept_and_used_again(report, tmp_path):
    few = ("--sampling", "halton", *counts(equation=300, ends=80, initial=60))
    path = str(tmp_path / "kernels.json")
    learned = report("solve", "gray-scott", *few, "--save-kernels", path)
    assert learned["errors"]["v"]["l2"] < 1e-4
    again = report("solve", "gray-scott-b", "--no-learn", *few, "--kernels", path)
    assert again["hyperparameters"] == learned["hyperparameters"]
    assert again["errors"]["u"]["l2"] < 1e-2


def test_a_complex_problem_reports_its_absolute_value(run):
    coarse = ("--max-steps", "3", "--sampling", "halton", *counts(equation=200, initial=40))
    done = run("solve", "schrodinger", "--no-learn", "--json", "--lengthscale", "0.3", *coarse)
    errors = json.loads(done.out)["errors"]
    assert set(errors) == {"h", "abs(h)"}
    assert errors["abs(h)"]["l2"] <= errors["h"]["l2"]


def test_version_is_that_of_the_package(run):
    assert run("--version").out.strip() == f"kernelpde {kp.io.versions()['kernelpde']}"


def test_examples_lists_the_gallery(run, report):
    found = report("examples")
    assert found["burgers"]["points"] == {"equation": 1800, "ends": 150, "initial": 150}
    assert len(found) == len(kp.gallery.EXAMPLES)
    text = run("examples").out
    assert all(name in text for name in found)


def test_a_file_of_ones_own_from_run_to_export(report, run, rod, tmp_path):
    out = tmp_path / "out"
    found = report("solve", rod, "--no-learn", "--out", out)
    assert found["errors"]["u"]["linf"] < 1e-5
    assert json.loads((out / "report.json").read_text()) == found
    page = (Path(__file__).parent.parent / "docs" / "json.md").read_text()
    for key in found:
        assert f"`{key}`" in page, key
    for picture in ("solution.png", "iteration.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert len(records) == found["num_steps"]
    assert records[-1]["residuals"].keys() == {"equation", "ends"}
    assert run("export", out, tmp_path / "u.csv", "--resolution", "5").code == 0
    table = np.loadtxt(tmp_path / "u.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 1], np.sin(np.pi * table[:, 0]), atol=1e-5)
    assert report("plot", out, "--out", tmp_path / "p")
    assert (tmp_path / "p" / "solution.png").exists()
    before = (out / "solution.png").stat().st_mtime_ns
    assert run("plot", out).code == 0
    assert (out / "solution.png").stat().st_mtime_ns == before
    assert (out / "solution-2.png").exists()


def test_exported_files_are_read_back_equal(report, run, tmp_path):
    """By the programs that they are for, on a disk in a grid."""
    (tmp_path / "disk.py").write_text(DISK)
    report("solve", tmp_path / "disk.py", "--no-learn", "--out", tmp_path)
    names: dict = {}
    exec(DISK, names)
    disk = kp.load_solution(tmp_path / "solution.kpde", names["problem"])
    for suffix in (".nc", ".csv", ".npz", ".vtu"):
        path = tmp_path / f"u{suffix}"
        assert run("export", tmp_path, path, "--resolution", "21").code == 0
        points, values = read_exported(path)
        assert len(values) > 250
        np.testing.assert_allclose(values, disk["u"](points), rtol=1e-14, atol=1e-14)
    assert "must end in .nc, .csv" in run("export", tmp_path, tmp_path / "u.xlsx").err


def read_exported(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Points inside of the unit disk and the values there."""
    if path.suffix == ".vtu":
        cells = pyvista.read(path)
        points = np.asarray(cells.points)[:, :2]
        assert np.hypot(*points.T).max() <= 1
        assert cells.area == pytest.approx(np.pi, rel=0.2)
        return points, cells["u"]
    if path.suffix == ".csv":
        frame = pandas.read_csv(path)
        return frame[["x", "y"]].to_numpy(), frame["u"]
    with (
        xarray.open_dataset(path, engine="scipy") if path.suffix == ".nc" else np.load(path) as file
    ):
        x, y, u = (np.asarray(file[name]) for name in ("x", "y", "u"))
    mesh = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    outside = np.hypot(*np.moveaxis(mesh, -1, 0)) > 1 + 1e-6
    assert np.isnan(u[outside]).all()
    return mesh[~np.isnan(u)], u[~np.isnan(u)]


def test_windows_are_kept_resumed_drawn_and_exported(report, run, tmp_path):
    (tmp_path / "rod.py").write_text(WAVES)
    out = tmp_path / "out"
    found = report("solve", tmp_path / "rod.py", "--out", out)
    assert found["windows"] == 2
    assert found["errors"]["u"]["relative"] < 1e-3
    (out / "window-0001.kpde").unlink()
    assert "1 of 2 time windows are stored. Run kernelpde resume" in run("plot", out).err
    again = report("resume", out)
    assert again["errors"]["u"]["l2"] == pytest.approx(found["errors"]["u"]["l2"], rel=1e-6)
    assert run("export", out, tmp_path / "u.csv", "--resolution", "9").code == 0
    table = np.loadtxt(tmp_path / "u.csv", delimiter=",", skiprows=1)
    exact = np.exp(-(np.pi**2) * table[:, 0]) * np.sin(np.pi * table[:, 1])
    np.testing.assert_allclose(table[:, 2], exact, atol=2e-3)
    written = report("plot", out, "--animate", "--resolution", "20")
    assert [name.rpartition("/")[2] for name in written] == ["solution-2.png", "animation.gif"]
    assert (out / "animation.gif").read_bytes().startswith(b"GIF89a")


def test_a_run_that_is_resumed_ends_like_one_that_was_not(report, run, rod, tmp_path):
    short, whole, points = tmp_path / "short", tmp_path / "whole", counts(equation=20)
    report("solve", rod, "--out", short, "--max-steps", "1", *points)
    resumed = report("resume", short, "--max-steps", "4")
    undisturbed = report("solve", rod, "--out", whole, "--max-steps", "4", *points)
    for key in ("hyperparameters", "errors", "learning"):
        assert resumed[key] == undisturbed[key]
    assert (short / "learning.png").exists()


def test_kernels_are_kept_and_used_again(report, rod, tmp_path):
    kept = tmp_path / "kernels.json"
    first = report("solve", rod, "--max-steps", "2", "--save-kernels", kept)
    again = report("solve", rod, "--no-learn", "--kernels", kept)
    assert again["hyperparameters"] == first["hyperparameters"]
    assert again["hyperparameters"]["u"]["lengthscale"] != pytest.approx(0.6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must define `problem`, a kernelpde.Problem; got no such variable"),
        ("problem = 3", "got int"),
        ("a = 1\nb = a / 0\n", "ZeroDivisionError in line 2"),
        ("import numpy as np\nnp.linalg.inv(np.zeros((2, 2)))\n", "LinAlgError in line 2"),
        ("a = 1\nb = (\n", "bad.py: syntax error in line 2: '(' was never closed"),
    ],
)
def test_files_without_a_problem_are_refused(run, tmp_path, content, message):
    path = tmp_path / "bad.py"
    path.write_text(content)
    done = run("solve", path)
    assert done.code == 2
    assert message in done.err


def test_directories_without_a_run_are_refused(run, tmp_path):
    assert "there is no such file" in run("resume", tmp_path).err
    kp.io.write_archive(tmp_path / "run.kpde", "kernelpde checkpoint", 1, {"metadata": {}}, {})
    assert "not written by the kernelpde command" in run("resume", tmp_path).err


def test_doctor_estimates_by_the_cube_and_the_square(report, run):
    facts = report("doctor", "--rows", "3000")
    assert facts["x64"] is True
    assert facts["versions"]["jax"]
    sample, found = facts["cholesky_seconds"], facts["estimate"]
    assert found["gigabytes"]["solve"] == pytest.approx(3.6 * 8 * 3000**2 / 1e9)
    assert found["seconds"]["solve"] == pytest.approx(12 * sample["seconds"] * 8)
    large = run("doctor", "--rows", "1000000")
    assert large.code == 1
    assert "does not fit" in large.out


def test_bench_counts_in_choleskys(report):
    facts = report("bench", "--rows", "200")
    for what in ("step", "evaluation"):
        ratio = facts[what]["seconds"] / facts["cholesky_seconds"]
        assert facts[what]["choleskys"] == pytest.approx(ratio)
    assert facts["solve_cold_seconds"] > facts["step"]["seconds"]


def test_callbacks_tell_files_logs_and_tensorboard(tmp_path, caplog):
    names: dict = {}
    exec(ROD, names)
    board, lines = TensorBoard(tmp_path / "board"), JSONLines(tmp_path / "records.jsonl")
    with caplog.at_level(logging.INFO, logger="kernelpde"):
        callback = combine(Logging(), lines, board)
        found = kp.learn(
            names["problem"], names["points"], max_steps=3, throw=False, callback=callback
        )
    board.close()
    records = [json.loads(line) for line in lines.path.read_text().splitlines()]
    steps = [record for record in records if record["step_length"] is not None]
    assert [record["loss"] for record in steps] == [record.loss for record in found.history]
    messages = [record.message for record in caplog.records]
    assert len(messages) == len(found.history)
    assert f"loss {found.history[0].loss:.2e}" in messages[0]
    scalars = read_events(next((tmp_path / "board").iterdir()))
    lengthscales = [record.hyperparameters["u"]["lengthscale"] for record in found.history]
    np.testing.assert_allclose(scalars["hyperparameters/u.lengthscale"], lengthscales, rtol=1e-6)
    assert len(scalars["loss"]) == len(records)
    assert len(scalars["residuals/ends"]) == len(found.history)


def read_events(path) -> dict[str, list[float]]:
    """A file of TensorBoard: records of a length, a check, the event, and a check."""
    from tensorboardX.proto.event_pb2 import Event

    content, at, found = path.read_bytes(), 0, {}
    while at < len(content):
        (length,) = struct.unpack("<Q", content[at : at + 8])
        event = Event.FromString(content[at + 12 : at + 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(value.simple_value)
        at += length + 16
    return found


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_line_says_where_a_run_is(run, rod, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "110")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("solve", rod, "--max-steps", "3").code == 0
    text = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.getvalue())
    assert "rod: compiling" in text
    assert re.search(r"rod: learning [1-3]/3", text)
    assert re.search(r"loss \S+ .*residuals equation", text)
    assert "at most 0 s left" in text
