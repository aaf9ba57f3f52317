"""Table of the tuned constants of the library with their reasons, generated from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "kernelpde"
_EXCLUDED = ("gallery", "reproduce")
"""Packages of examples, whose constants are parameters of problems."""


class Threshold(NamedTuple):
    """A tuned constant: module, name, value and reason."""

    module: str
    name: str
    value: str
    reason: str


def thresholds() -> Iterator[Threshold]:
    """Yield the numeric constants of all modules.

    The reason of a constant is the docstring below it, or an empty string. Consecutive constants
    share the next docstring.
    """
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        if module.parts[0] in _EXCLUDED:
            continue
        body = ast.parse(path.read_text()).body
        for index, node in enumerate(body):
            if isinstance(node, ast.Assign):
                reason = _reason(body[index + 1 :])
                for name, value in _numbers(node):
                    yield Threshold(str(module), name, ast.unparse(value), reason)


def _reason(following: list[ast.stmt]) -> str:
    for node in following:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return " ".join(str(node.value.value).split())
        if not isinstance(node, ast.Assign):
            break
    return ""


def _numbers(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    target = node.targets[0]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    for name, value in zip(names, values, strict=False):
        nodes = list(ast.walk(value))
        is_number = all(isinstance(node, _ARITHMETIC) for node in nodes) and any(
            isinstance(node, ast.Constant) and isinstance(node.value, int | float) for node in nodes
        )
        if (
            isinstance(name, ast.Name)
            and name.id.isupper()
            and is_number
            and "VERSION" not in name.id
        ):
            yield name.id, value


_ARITHMETIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def page() -> str:
    """Return the page."""
    lines = [
        "# Thresholds",
        "",
        "The tuned constants of the library. The reason is the docstring of the constant in the "
        "source. It names the consequences of half and double where they were measured.",
        "",
        "| module | name | value | reason |",
        "|---|---|---|---|",
    ]
    for constant in thresholds():
        reason = constant.reason.replace("|", "\\|")
        lines.append(f"| `{constant.module}` | `{constant.name}` | `{constant.value}` | {reason} |")
    return "\n".join(lines) + "\n"
