"""The commands, in this process: what they write, what they say, how they leave."""

import io
import json
import logging
import struct
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
