"""Every number that decides something, with its reason: read off the source, for a page."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "kernelpde"
_NOT = ("gallery", "reproduce")
"""Parameters of examples decide nothing."""


class Threshold(NamedTuple):
    where: str
    name: str
    value: str
    reason: str


def thresholds() -> Iterator[Threshold]:
    """The numbers at the top of modules; what stands below one is its reason, "" if nothing does.

    Names that follow each other share the next reason.
    """
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] in _NOT:
            continue
        body = ast.parse(path.read_text()).body
        for number, node in enumerate(body):
            if isinstance(node, ast.Assign):
                reason = _reason(body[number + 1 :])
                for name, value in _numbers(node):
                    yield Threshold(str(place), name, ast.unparse(value), reason)


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
        parts = list(ast.walk(value))
        number = all(isinstance(part, _ARITHMETIC) for part in parts) and any(
            isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in parts
        )
        if isinstance(name, ast.Name) and name.id.isupper() and number and "VERSION" not in name.id:
            yield name.id, value


_ARITHMETIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def page() -> str:
    """A table of them."""
    lines = [
        "# Thresholds",
        "",
        "Numbers that decide something, and what goes wrong without them, as they stand in the "
        "source.",
        "",
        "| room | name | value | reason |",
        "|---|---|---|---|",
    ]
    for found in thresholds():
        reason = found.reason.replace("|", "\\|")
        lines.append(f"| `{found.where}` | `{found.name}` | `{found.value}` | {reason} |")
    return "\n".join(lines) + "\n"
