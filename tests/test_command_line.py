"""The commands, in this process and as a script uses them: what they write, say and return."""

import io
import json
import logging
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import kernelpde as kp
from kernelpde.cli import app
from kernelpde.cli._live import ProgressDisplay
from kernelpde.progress import JSONLines, Logging, TensorBoard, combine, format_record

MINE = '''
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


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "rod.py"
    path.write_text(MINE)
    return path


def command(*arguments, code=0) -> str:
    found = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.stdout


def test_version_is_that_of_the_package():
    assert command("--version").strip() == f"kernelpde {kp.io.versions()['kernelpde']}"


def test_examples_lists_the_gallery():
    found = json.loads(command("examples", "--json"))
    assert found["burgers"]["points"] == {"equation": 1800, "ends": 150, "initial": 150}
    assert len(found) == len(kp.gallery.EXAMPLES)
    text = command("examples")
    assert all(name in text for name in found)


def test_a_file_of_ones_own_from_run_to_export(mine, tmp_path):
    out = tmp_path / "out"
    report = json.loads(command("solve", mine, "--no-learn", "--out", out, "--json"))
    assert report["errors"]["u"]["linf"] < 1e-5
    assert json.loads((out / "report.json").read_text()) == report
    page = (Path(__file__).parent.parent / "docs" / "json.md").read_text()
    for key in report:
        assert f"`{key}`" in page, key
    for picture in ("solution.png", "iteration.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert len(records) == report["num_steps"]
    assert records[-1]["residuals"].keys() == {"equation", "ends"}
    command("export", out, tmp_path / "u.csv", "--resolution", "5")
    table = np.loadtxt(tmp_path / "u.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 1], np.sin(np.pi * table[:, 0]), atol=1e-5)
    assert json.loads(command("plot", out, "--out", tmp_path / "p", "--json"))
    assert (tmp_path / "p" / "solution.png").exists()
    before = (out / "solution.png").stat().st_mtime_ns
    command("plot", out)
    assert (out / "solution.png").stat().st_mtime_ns == before
    assert (out / "solution-2.png").exists()


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


def test_windows_are_kept_resumed_drawn_and_exported(tmp_path):
    (tmp_path / "rod.py").write_text(WAVES)
    out = tmp_path / "out"
    report = json.loads(command("solve", tmp_path / "rod.py", "--out", out, "--json"))
    assert report["windows"] == 2
    assert report["errors"]["u"]["relative"] < 1e-3
    (out / "window-0001.kpde").unlink()
    with pytest.raises(
        kp.InputError, match=r"1 of 2 time windows are stored. Run kernelpde resume"
    ):
        command("plot", out)
    again = json.loads(command("resume", out, "--json"))
    assert again["errors"]["u"]["l2"] == pytest.approx(report["errors"]["u"]["l2"], rel=1e-6)
    command("export", out, tmp_path / "u.csv", "--resolution", "9")
    table = np.loadtxt(tmp_path / "u.csv", delimiter=",", skiprows=1)
    exact = np.exp(-(np.pi**2) * table[:, 0]) * np.sin(np.pi * table[:, 1])
    np.testing.assert_allclose(table[:, 2], exact, atol=2e-3)
    written = json.loads(command("plot", out, "--animate", "--resolution", "20", "--json"))
    assert [name.rpartition("/")[2] for name in written] == ["solution-2.png", "animation.gif"]
    assert (out / "animation.gif").read_bytes().startswith(b"GIF89a")


def test_a_run_that_is_resumed_ends_like_one_that_was_not(mine, tmp_path):
    options = ("--json", "--points", "equation=20")
    short, whole = tmp_path / "short", tmp_path / "whole"
    command("solve", mine, "--out", short, "--max-steps", "1", *options)
    resumed = json.loads(command("resume", short, "--max-steps", "4", "--json"))
    undisturbed = json.loads(command("solve", mine, "--out", whole, "--max-steps", "4", *options))
    assert resumed["hyperparameters"] == undisturbed["hyperparameters"]
    assert resumed["errors"] == undisturbed["errors"]
    assert resumed["learning"] == undisturbed["learning"]
    assert (short / "learning.png").exists()


def test_kernels_are_kept_and_used_again(mine, tmp_path):
    kept = tmp_path / "kernels.json"
    first = json.loads(command("solve", mine, "--max-steps", "2", "--save-kernels", kept, "--json"))
    again = json.loads(command("solve", mine, "--no-learn", "--kernels", kept, "--json"))
    assert again["hyperparameters"] == first["hyperparameters"]
    assert again["hyperparameters"]["u"]["lengthscale"] != pytest.approx(0.6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must define `problem`, a kernelpde.Problem; got no such variable"),
        ("problem = 3", "got int"),
        ("a = 1\nb = a / 0\n", "ZeroDivisionError in line 2"),
        ("import numpy as np\nnp.linalg.inv(np.zeros((2, 2)))\n", "LinAlgError in line 2"),
        ("a = 1\nb = (\n", r"bad.py: syntax error in line 2: .*never closed"),
    ],
)
def test_files_without_a_problem_are_refused(tmp_path, content, message):
    path = tmp_path / "bad.py"
    path.write_text(content)
    with pytest.raises(kp.InputError, match=message):
        command("solve", path)


def test_directories_without_a_run_are_refused(tmp_path):
    with pytest.raises(kp.InputError, match="there is no such file"):
        command("resume", tmp_path)
    kp.io.write_archive(tmp_path / "run.kpde", "kernelpde checkpoint", 1, {"metadata": {}}, {})
    with pytest.raises(kp.InputError, match="not written by the kernelpde command"):
        command("resume", tmp_path)


def test_doctor_estimates_by_the_cube_and_the_square():
    facts = json.loads(command("doctor", "--rows", "3000", "--json"))
    assert facts["x64"] is True
    assert facts["versions"]["jax"]
    sample = facts["cholesky_seconds"]
    found = facts["estimate"]
    assert found["gigabytes"]["solve"] == pytest.approx(2.2 * 8 * 3000**2 / 1e9)
    assert found["seconds"]["solve"] == pytest.approx(12 * sample["seconds"] * 8)
    assert "does not fit" in command("doctor", "--rows", "1000000", code=1)


def test_bench_counts_in_choleskys():
    facts = json.loads(command("bench", "--rows", "200", "--json"))
    for what in ("step", "evaluation"):
        ratio = facts[what]["seconds"] / facts["cholesky_seconds"]
        assert facts[what]["choleskys"] == pytest.approx(ratio)
    assert facts["solve_cold_seconds"] > facts["step"]["seconds"]


def learned(callback):
    rod = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("equation", rod.interior, lambda x, u: -u.laplacian + u.value**3 - 1.0),
        kp.Condition("ends", rod.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.6))],
    )
    points = {"equation": 14, "ends": 2}
    return kp.learn(problem, points, max_steps=3, throw=False, callback=callback)


def test_callbacks_tell_files_logs_and_tensorboard(tmp_path, caplog):
    board = TensorBoard(tmp_path / "board")
    lines = JSONLines(tmp_path / "records.jsonl")
    with caplog.at_level(logging.INFO, logger="kernelpde"):
        found = learned(combine(Logging(), lines, board))
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


def test_the_live_line_says_where_a_run_is():
    line = ProgressDisplay("rod", 3)
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(line)
    found = learned(line)
    console.print(line)
    text = console.export_text()
    last = found.history[-1]
    assert "rod: compiling" in text
    assert f"rod: learning {last.step}/3" in text
    assert " ".join(format_record(last).split()) in " ".join(text.split())
    assert "at most 0 s left" in text


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What one command has compiled serves the next."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", cache)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def kernelpde(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kernelpde", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_solve_prints_one_json_object():
    run = kernelpde(
        "solve", "elliptic", "--no-learn", "--lengthscale", "0.2", "--json",
        "--points", "equation=400", "--points", "boundary=80",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
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


def test_an_accuracy_from_the_command_line():
    asked = ("solve", "elliptic", "--accuracy", "1e-3", "--sampling", "halton")
    report = json.loads(kernelpde(*asked, "--json").stdout)
    assert report["converged"]
    estimated = report["estimated_errors"]["u"]["rms"]
    assert estimated <= 1e-3
    assert 0.5 < estimated / report["errors"]["u"]["relative"] < 10
    assert report["points"]["equation"] >= 100
    ended = kernelpde(*asked, "--points", "boundary=9")
    assert "--accuracy selects points and kernel" in ended.stderr


def test_an_inverse_problem_comes_with_its_uncertainty():
    run = kernelpde("solve", "string", "--seed", "3", "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    load = report["parameters"]["load"]
    assert load["truth"] == 1.5
    assert abs(load["mean"] - 1.5) < 3 * load["std"]
    assert load["interval"][0] < load["mean"] < load["interval"][1]
    assert 0.3 < report["chi_squared"]["data"] < 2.0
    assert report["errors"]["u"]["l2"] < 3 * report["std"]["u"]
    assert report["nugget"] == 1e-10


def test_a_run_that_does_not_converge_has_its_own_exit_code(tmp_path):
    run = kernelpde(
        "solve", "elliptic", "--no-learn", "--max-steps", "1",
        "--points", "equation=100", "--points", "boundary=40", "--out", tmp_path,
    )  # fmt: skip
    assert run.returncode == 1
    assert "NOT converged" in run.stdout
    # What is made of it later says so too, and slices leave other pictures alone.
    before = {path.name for path in tmp_path.glob("*.png")}
    drawn = kernelpde("plot", tmp_path, "--at", "y=0.5", "--resolution", "11")
    assert drawn.returncode == 0
    assert "This solution has not converged. The maximum number of steps" in drawn.stderr
    assert {path.name for path in tmp_path.glob("*.png")} - before == {"solution-2.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "nonsense"), "Unknown problem 'nonsense'; expected one of elliptic"),
        (
            ("solve", "elliptic", "--no-learn", "--lengthscale", "-1"),
            "must be positive and finite; got -1.0",
        ),
        (("solve", "elliptic", "--points", "equation"), "Expected CONDITION=COUNT"),
        (
            ("solve", "elliptic", "--no-learn", "--points", "edge=3"),
            "unknown key of points 'edge'",
        ),
    ],
)
def test_mistakes_get_one_paragraph_and_no_traceback(arguments, message):
    run = kernelpde(*arguments)
    assert run.returncode not in (0, 1) or "kernelpde:" in run.stderr
    text = " ".join(run.stderr.replace("│", " ").split())
    assert message in text
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("solve", "nonsense"), "InputError", "Unknown problem"),
        (("solve",), "MissingParameter", "NAME|FILE.py"),
        (("plot", "nowhere"), "InputError", "there is no such file"),
    ],
)
def test_errors_are_json_if_that_is_asked_for(arguments, kind, message):
    run = kernelpde(*arguments, "--json")
    error = json.loads(run.stdout)["error"]
    assert run.returncode == error["exit_code"] == 2
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


def test_learning_from_the_command_line():
    run = kernelpde(
        "solve", "elliptic", "--lengthscale", "1.0", "--json",
        "--points", "equation=600", "--points", "boundary=120",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["learning"]["from"] == 1.0
    assert report["learning"]["factorizations"] <= 100
    assert report["hyperparameters"]["u"]["lengthscale"] < 0.3
    assert report["errors"]["u"]["l2"] < 2e-5


@pytest.mark.paper
def test_kernels_are_learned_kept_and_used_again(tmp_path):
    few = ("--points", "equation=300", "--points", "ends=80", "--points", "initial=60")
    path = str(tmp_path / "kernels.json")
    first = kernelpde(
        "solve", "gray-scott", "--json", "--sampling", "halton", *few,
        "--save-kernels", path,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    learned = json.loads(first.stdout)
    assert learned["errors"]["v"]["l2"] < 1e-4
    again = kernelpde(
        "solve",
        "gray-scott-b",
        "--no-learn",
        "--json",
        "--sampling",
        "halton",
        *few,
        "--kernels",
        path,
    )
    report = json.loads(again.stdout)
    assert report["hyperparameters"] == learned["hyperparameters"]
    assert report["errors"]["u"]["l2"] < 1e-2


def test_a_complex_problem_reports_its_absolute_value():
    run = kernelpde(
        "solve", "schrodinger", "--no-learn", "--json", "--lengthscale", "0.3",
        "--sampling", "halton",
        "--points", "equation=200", "--points", "initial=40", "--max-steps", "3",
    )  # fmt: skip
    report = json.loads(run.stdout)
    assert set(report["errors"]) == {"h", "abs(h)"}
    assert report["errors"]["abs(h)"]["l2"] <= report["errors"]["h"]["l2"]
