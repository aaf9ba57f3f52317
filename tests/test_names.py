"""Public names: declared once for type checkers and once for the interpreter, and the same."""

import ast
import inspect
import subprocess
import sys

import kernelpde as kp


def test_what_type_checkers_see_is_what_can_be_imported():
    tree = ast.parse(inspect.getsource(kp))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    declared = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        (name,) = node.names
        assert name.name == name.asname
        declared[name.name] = node.module
    assert sorted(["__version__", *declared]) == kp.__all__ == dir(kp)
    for name, module in declared.items():
        found = getattr(kp, name)
        expected = f"{module}.{name}" if module == "kernelpde" else None
        assert expected is None or found.__name__ == expected
        assert expected is not None or getattr(sys.modules[module], name) is found


def test_importing_kernelpde_does_not_import_jax():
    check = "import sys, kernelpde; assert 'jax' not in sys.modules and kernelpde.__version__"
    subprocess.run([sys.executable, "-W", "error", "-c", check], check=True)
