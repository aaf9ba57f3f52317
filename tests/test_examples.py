"""The examples of docstrings run, and print what they show."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import kernelpde as kp

API = Path(__file__).parent.parent / "docs" / "api"
PUBLIC = [
    name for name in kp.__all__ if not (name.startswith("_") or inspect.ismodule(getattr(kp, name)))
]


@pytest.fixture(scope="module")
def setting() -> dict:
    """What the first page of the reference says that all examples begin with."""
    (code,) = re.findall(r"```python\n(.*?)```", (API / "index.md").read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(compile(code, "index.md", "exec"), names)
    return names


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_print_what_they_show(name, setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(kp, name)) or ""
    (code,) = re.findall(r"\*\*Example:\*\*\n\n```python\n(.*?)```", text, flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest(code, dict(setting), name, None, None)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
