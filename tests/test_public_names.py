"""Public names can be imported, are explained, and their examples print what they show."""

import ast
import doctest
import enum
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernelpde as kp

DOCS = Path(__file__).parent.parent / "docs"
PUBLIC = {
    name: getattr(kp, name)
    for name in kp.__all__
    if not name.startswith("_") and not inspect.ismodule(getattr(kp, name))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_a_docstring(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value) or ""
    inherited = any(text == inspect.getdoc(base) for base in getattr(value, "__bases__", ()))
    assert len(text) > 25, name
    assert not inherited, name
    if inspect.isclass(value) and not issubclass(value, enum.Enum | Exception):
        for member, function in vars(value).items():
            if inspect.isfunction(function) and not member.startswith("_"):
                assert inspect.getdoc(getattr(value, member)), f"{name}.{member}"


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if inspect.isfunction(v)])
def test_every_argument_of_a_public_function_is_explained(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    parameters = [p for p in inspect.signature(PUBLIC[name]).parameters if not p.startswith("_")]
    if len(parameters) > 2:
        for parameter in parameters:
            assert f"`{parameter}`" in text, f"{name}({parameter})"


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: kernelpde\.(?:\w+\.)?(\w+)$", pages, flags=re.MULTILINE))
    errors = {n for n, v in PUBLIC.items() if inspect.isclass(v) and issubclass(v, Exception)}
    assert set(PUBLIC) - errors <= shown


def test_every_page_is_in_the_navigation():
    navigation = (DOCS.parent / "mkdocs.yml").read_text()
    made = {"contributing.md", "changelog.md", "reproduced.md"}
    for page in DOCS.rglob("*.md"):
        if page.name not in made:
            assert str(page.relative_to(DOCS)) in navigation, page


def test_every_threshold_has_its_reason(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from thresholds import thresholds

    constants = list(thresholds())
    assert len(constants) > 50
    assert not [(c.module, c.name) for c in constants if len(c.reason) < 15]


def test_figures_that_are_typed_do_not_become_more(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from numbers_of_pages import numbers

    typed = [number for number in numbers() if number.source == "typed"]
    assert len(typed) <= 24, "python docs/numbers_of_pages.py --typed"


API = Path(__file__).parent.parent / "docs" / "api"


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


def test_every_name_of_the_type_stub_can_be_imported():
    stub = ast.parse(Path(kp.__file__).with_suffix(".pyi").read_text())
    modules = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            (alias,) = node.names
            assert alias.name == alias.asname
            modules[alias.name] = node.module
    assert sorted(["__version__", *modules]) == kp.__all__ == dir(kp)
    for name, module in modules.items():
        value = getattr(kp, name)
        if module == "kernelpde":
            assert value.__name__ == f"kernelpde.{name}"
        else:
            assert value is getattr(sys.modules[module], name)


def test_importing_kernelpde_does_not_import_jax():
    check = "import sys, kernelpde; assert 'jax' not in sys.modules and kernelpde.__version__"
    subprocess.run([sys.executable, "-W", "error", "-c", check], check=True)
