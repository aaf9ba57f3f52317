"""Long work shows itself, and can be interrupted, in notebooks too."""

import io
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import kernelpde as kp

LINE = kp.Box(x=(0, 1))
PROBLEM = kp.Problem(
    kp.Condition("equation", LINE.interior, lambda x, u: -u.laplacian + u.value**3 - 5.0),
    kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
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
