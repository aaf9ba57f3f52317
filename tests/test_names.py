"""Public names: every name of the type stub can be imported, and none is imported early."""

import ast
import subprocess
import sys
from pathlib import Path

import kernelpde as kp


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
