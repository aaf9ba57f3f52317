"""The picture and the tables of the page on large problems, from `results/scaling-*.json`."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from _report import RESULTS
from matplotlib import pyplot as plt

DOCS = Path(__file__).parent.parent / "docs"
NAMES = {
    "dense": "dense, Gaussian",
    "low-rank": "low rank, Gaussian",
    "sparse": "sparse, Matern-7/2",
}
COLOURS = {"dense": "0.45", "low-rank": "#1f6f8b", "sparse": "#c2552d"}


def results(case: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"scaling-{case}.json").read_text())


def curves() -> None:
    """Time, memory and error over the number of rows, and the gain of a second process."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    shown = {
        "seconds": "whole solve, s",
        "gigabytes": "peak memory, GB",
        "l2": "rms error of u",
    }
    for axis, (key, title) in zip(axes, shown.items(), strict=False):
        for case, name in NAMES.items():
            runs = results(case)["runs"]
            rows, values = [r["rows"] for r in runs], [r[key] for r in runs]
            axis.loglog(rows, values, "o-", ms=4, lw=1.5, color=COLOURS[case], label=name)
        axis.set(title=title, xlabel="rows")
    axes[0].legend(fontsize=8)
    axis = axes[-1]
    for name, found in _without_environment(results("processes")):
        counts = [run["processes"] for run in found["runs"]]
        gains = [found["runs"][0]["seconds"] / run["seconds"] for run in found["runs"]]
        color = COLOURS[name.replace(" ", "-")]
        axis.plot(counts, gains, "o-", ms=4, lw=1.5, color=color, label=name)
    axis.plot([1, 2], [1, 2], ":", color="0.5", label="ideal")
    axis.set(title="learning step, speed-up", xlabel="processes of one core", xticks=[1, 2])
    axis.legend(fontsize=8)
    figure.savefig(DOCS / "figures" / "scaling.png")
    plt.close(figure)


def tables() -> None:
    """Write all tables into the page, each after the comment that names it."""
    page = DOCS / "scaling.md"
    text = page.read_text()
    for name, table in (
        ("solves", _solves()),
        ("steps", _steps()),
        ("agreement", _agreement()),
        ("learning", _learning()),
        ("darcy", _darcy()),
    ):
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, count = re.subn(pattern, rf"\g<1>\n{table}\n\g<2>", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{page.name} has {count} places for the table {name!r}.")
    page.write_text(text)


def _without_environment(found: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in found.items() if name != "environment"]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _solves() -> str:
    head = ("solver", "rows", "seconds", "of which a step", "memory", "rms error", "exponent")
    lines = []
    for case, name in NAMES.items():
        found = results(case)
        for run in found["runs"]:
            last = run is found["runs"][-1]
            slope = found.get("exponent of a step")
            lines.append(
                (
                    name,
                    f"{run['rows']:,}",
                    f"{run['seconds']:.0f}",
                    f"{run['seconds of a step, compiled']:.2g}",
                    f"{run['gigabytes']:.1f} GB",
                    f"{run['l2']:.1e}",
                    f"{slope:.2f}" if last and slope is not None else "",
                )
            )
    return _table(head, lines)


def _steps() -> str:
    lines = []
    for run in results("dense")["learning step"]:
        ratio = (
            f"{run['choleskys']:.2f} LAPACK Choleskys of that size, " if "choleskys" in run else ""
        )
        lines.append(("dense", run["rows"], run["seconds"], f"{ratio}{run['gigabytes']:.1f} GB"))
    found = results("step")
    run = found["low rank"]
    lines.append(("low rank", run["rows"], run["seconds"], f"{run['gigabytes']:.1f} GB"))
    run = found["sparse"]
    gap = abs(run["gradient"] / run["by differences"] - 1.0)
    note = f"gradient {run['gradient']:.5e}, by differences {run['by differences']:.5e} ({gap:.0e})"
    lines.append(("sparse", run["rows"], run["seconds"], note))
    for name, both in _without_environment(results("processes")):
        for run in both["runs"]:
            note = ""
            if run["processes"] > 1:
                note = (
                    f"{both['speed-up']:.2f} times faster; loss differs by "
                    f"{both['relative difference of the loss']:.0e}, gradient by "
                    f"{both['relative difference of the gradient']:.0e}"
                )
            plural = "es" if run["processes"] > 1 else ""
            what = f"{name}, {run['processes']} process{plural} of one core"
            lines.append((what, run["rows"], run["seconds"], note))
    return _table(
        ("", "rows", "seconds", ""),
        ((name, f"{rows:,}", f"{seconds:.3g}", note) for name, rows, seconds, note in lines),
    )


def _agreement() -> str:
    found = results("agreement")
    few, sparse = found["low-rank"], found["sparse"]
    return (
        f"At {found['rows']:,} rows and the same points the low-rank solution differs from the "
        f"dense one by {few['rms difference']:.1e} (its error is {few['l2']:.1e}, the dense one's "
        f"{few['l2 dense']:.1e}), and the sparse one by {sparse['rms difference']:.1e} (its error "
        f"is {sparse['l2']:.1e}, the dense one's {sparse['l2 dense']:.1e})."
    )


def _darcy() -> str:
    head = ("rows", "", "minutes", "error of a", "of a within two std", "their seconds")
    return _table(
        head,
        (
            (
                f"{stage['rows']:,}",
                f"learned, {stage['evaluations']} evaluations"
                if stage["evaluations"]
                else "solved with those kernels",
                f"{stage['seconds'] / 60:.1f}",
                f"{stage['relative error of a']:.1%}",
                f"{stage['part of a within two standard deviations']:.1%}",
                f"{stage['seconds for standard deviations']:.0f}",
            )
            for stage in results("darcy")["stages"]
        ),
    )


def _learning() -> str:
    run = results("learning")
    return (
        f"{run['outer steps']} outer steps with the sparse solver at {run['rows']:,} rows bring "
        f"the lengthscale from 0.1 to {run['lengthscale']:.2f} and the error from "
        f"{run['l2 before']:.1e} to {run['l2 after']:.1e}, in {run['seconds'] / 60:.0f} minutes."
    )
