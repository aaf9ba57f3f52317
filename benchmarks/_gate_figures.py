"""Figures of the gates of `gates.py`, computed from the rows of a run."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

TOLERANCE = 0.1
"""Relative change that passes. Learning ends within its own tolerance, so that a harmless change of
the order of operations changes errors by a few percent."""

ROUNDING = 1e-7
"""Relative errors of random problems below this one depend on rounding."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A number, the direction in which it improves, and the cases that it summarizes.

    `better` is "less", "more", or the ideal value of the figure.
    """

    name: str
    value: float | int
    better: str | float
    floor: float = 0.0
    cases: dict[str, float] = field(default_factory=dict)

    def verdict(self, frozen: float | int | None) -> str:
        if frozen is None:
            return "new"
        if not math.isfinite(self.value):
            return "worse"
        now, before = (max(value, self.floor) for value in (self.value, frozen))
        if self.better == "less":
            loss = now - before
        elif self.better == "more":
            loss = before - now
        else:
            loss = abs(now - float(self.better)) - abs(before - float(self.better))
        if now == before:
            return "same"
        slack = 0.0 if isinstance(frozen, int) else TOLERANCE * abs(before)
        return "worse" if loss > slack else "better" if loss < -slack else "within 10%"


def geometric_mean(values: Sequence[float], floor: float) -> float:
    return math.exp(statistics.fmean(math.log(max(value, floor)) for value in values))


def label(row: Row) -> str:
    return f"{row['name']} {row['seed']}"


def problem(rows: list[Row]) -> list[Figure]:
    """Return the figures of the seeds that limits were chosen on, then those of other seeds."""
    figures = []
    for prefix, first, last in (("", 0, 199), ("new seeds: ", 200, 399)):
        group = [row for row in rows if first <= row["seed"] <= last]
        if group:
            figures += [replace(f, name=prefix + f.name) for f in _problem(group)]
    return figures


def _problem(rows: list[Row]) -> list[Figure]:
    compared = [row for row in rows if row["best"] > ROUNDING]
    ratios = {label(row): row["error"] / row["best"] for row in compared}
    errors = {label(row): row["error"] for row in rows}
    return [
        Figure("problems", len(rows), "more"),
        Figure("converged", sum(row["converged"] for row in rows), "more"),
        Figure("false", sum(r["converged"] and r["error"] > 0.1 for r in rows), "less"),
        Figure("beyond ten of the best", sum(r > 10 for r in ratios.values()), "less"),
        Figure("median error over the best", statistics.median(ratios.values()), "less"),
        Figure("mean error", geometric_mean([*errors.values()], ROUNDING), "less", 0.0, errors),
    ]


def requested(rows: list[Row]) -> list[Figure]:
    figures = []
    for accuracy in sorted({row["accuracy"] for row in rows}, reverse=True):
        claimed = [row for row in rows if row["accuracy"] == accuracy and row["claimed"]]
        errors = {label(row): row["error"] for row in claimed}
        wrong = sum(error > 2 * accuracy for error in errors.values())
        size = statistics.median(row["rows"] for row in claimed) if claimed else math.inf
        figures += [
            Figure(f"{accuracy:.0e}: claimed", len(claimed), "more"),
            Figure(f"{accuracy:.0e}: claimed, error beyond twice", wrong, "less", 0.0, errors),
            Figure(f"{accuracy:.0e}: median rows", float(size), "less"),
        ]
    return figures


def effectivity(rows: list[Row]) -> list[Figure]:
    converged = [row for row in rows if row["converged"]]
    ratios = {f"{label(r)} {r['kernel']}": r["estimate"] / r["error"] for r in converged}
    values = sorted(ratios.values())
    inside = statistics.fmean(0.5 <= value <= 10 for value in values)
    return [
        Figure("converged", len(converged), "more"),
        Figure("below 0.1", sum(value < 0.1 for value in values), "less"),
        Figure("share between 0.5 and 10", inside, "more"),
        Figure("smallest", values[0], 1.0),
        Figure("median", statistics.median(values), 1.0, 0.0, ratios),
        Figure("largest", values[-1], 1.0),
    ]


def unit(rows: list[Row]) -> list[Figure]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(label(row), []).append(row)
    agree = {}
    for name, group in groups.items():
        errors = [row["error"] for row in group]
        agree[name] = max(errors) <= max(1.5 * min(errors), min(errors) + 1e-8)
    same = [len({row["result"] for row in group}) == 1 for group in groups.values()]
    return [
        Figure("problems", len(groups), "more"),
        Figure("errors agree", sum(agree.values()), "more"),
        Figure("same result code", sum(same), "more"),
    ]


def inverse(rows: list[Row]) -> list[Figure]:
    done = [row for row in rows if row["converged"]]
    low = [row for row in done if row["in 50, 80, 95%"][2] < 0.6]
    figures = [
        Figure("converged", len(done), "more"),
        Figure("below 60% without a warning", sum(not row["warned"] for row in low), "less"),
    ]
    for family in dict.fromkeys(row["name"] for row in rows):
        for kind, levels in (("drawn", (0.5, 0.95)), ("others", (0.95,))):
            same = [r for r in done if r["case"] == f"{family}, {kind}"]
            for level in levels:
                place = (0.5, 0.8, 0.95).index(level)
                inside = [float(row["in 50, 80, 95%"][place]) for row in same]
                name = f"{family}, {'prior' if kind == 'drawn' else 'other'} truths: in {level:.0%}"
                figures.append(Figure(name, statistics.fmean(inside or [0.0]), level))
    return figures


def mistake(rows: list[Row]) -> list[Figure]:
    counts = Counter(row["outcome"] for row in rows)
    return [
        Figure("typed", counts["typed"], "more"),
        Figure("raw exceptions", counts["raw"], "less"),
        Figure("accepted", counts["wrong"], "less"),
    ]


def resume(rows: list[Row]) -> list[Figure]:
    return [Figure("kills survived, bit for bit", rows[0]["kills"], "more")]


def transformation(rows: list[Row]) -> list[Figure]:
    return [
        Figure(
            f"{row['name']}: relative difference",
            row["gap"],
            "less",
            1e-6 if "derivative" in row["name"] else 1e-9,
        )
        for row in rows
    ]


def paper(rows: list[Row]) -> list[Figure]:
    errors: dict[str, list[float]] = {}
    for row in rows:
        case = "all cases" if row["name"] == "sensitivity" else row["case"]
        for name, norms in row["errors"].items():
            errors.setdefault(f"{row['name']}, {case}: {name}", []).append(norms["l2"])
    return [
        Figure(
            name,
            geometric_mean(values, 1e-12) if "all cases" in name else statistics.median(values),
            "less",
        )
        for name, values in errors.items()
    ]


def first_use(rows: list[Row]) -> list[Figure]:
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault("import and problem", []).append(row["problem"] / row["jax"])
        ratios.setdefault(row["name"], []).append(row["answer"] / row["jax"])
    return [
        Figure(f"{name}, over import jax", statistics.median(values), "less")
        for name, values in ratios.items()
    ]
