"""What is uploaded can be installed by somebody who has nothing, and does what the README says."""

import ast
import inspect
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import kernelpde as kp

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "kernelpde"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    return out


def test_wheel_and_sdist_hold_what_they_should(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "kernelpde/py.typed" in names
    assert not any(name.startswith(("tests", "docs", "results", "benchmarks")) for name in names)
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        inside = {name.split("/", 1)[1] for name in file.getnames() if "/" in name}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "src/kernelpde/__init__.py"):
        assert needed in inside
    assert not any(name.startswith((".ci", "results")) for name in inside)


def _links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_links_of_the_description_are_absolute(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = [n for n in file.namelist() if n.endswith("METADATA")]
        text = file.read(name).decode()
    # Code stays as it is, though an indexed call looks like a link.
    (block,) = re.findall(r"```python\n.*?```", text, flags=re.DOTALL)
    assert block in (ROOT / "README.md").read_text()
    links = _links(text)
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links)
    for link in _links((ROOT / "README.md").read_text()):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_readme_in_a_new_environment(built, tmp_path):
    """From nothing to the first picture, with the wheel and what it asks for."""
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(a) for a in arguments], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    run(*pip, f"kernelpde[cli] @ {wheel.as_uri()}")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    (tmp_path / "readme.py").write_text(block)
    assert "Solution: converged" in run(python, "readme.py")
    assert (tmp_path / "u.png").read_bytes().startswith(b"\x89PNG")
    command = tmp_path / "env" / "bin" / "kernelpde"
    assert "64-bit numbers: on" in run(command, "doctor")
    assert "burgers" in run(command, "examples")


def test_the_house():
    """Besides docstrings no file is longer than 400 lines, and no function than 80."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        tree = ast.parse(text)
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
        docstrings = [ast.get_docstring(node, clean=False) or "" for node in nodes]
        lines = len(text.splitlines()) - sum(len(text.splitlines()) for text in docstrings)
        assert lines <= 400, path
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                explained = len((ast.get_docstring(node, clean=False) or "").splitlines())
                assert (node.end_lineno or 0) - node.lineno + 1 - explained <= 80, node.name


@pytest.mark.parametrize("function", [kp.solve, kp.learn, kp.discretize, kp.march])
def test_functions_take_at_most_twelve_arguments(function):
    assert len(inspect.signature(function).parameters) <= 12
