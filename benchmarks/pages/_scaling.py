"""Tables of the page on large problems."""

import numpy as np

from benchmarks._report import Line, load

NAMES = {
    "dense": "dense, Gaussian",
    "low rank": "low rank, Gaussian",
    "sparse": "sparse, Matern-7/2",
}


def solves(solver: str) -> list[Line]:
    """Return the nonlinear solves with one solver, by size."""
    return [line for line in load("scaling", solver=solver) if "step seconds" in line]


def case(name: str) -> Line:
    (line,) = load("scaling", case=name)
    return line


def solves_table() -> str:
    head = ("solver", "rows", "seconds", "of which a step", "memory", "rms error", "exponent")
    rows = []
    for solver, name in NAMES.items():
        lines = solves(solver)
        for line in lines:
            last = line is lines[-1] and solver != "dense"
            rows.append(
                (
                    name,
                    f"{line['rows']:,}",
                    f"{line['seconds']:.0f}",
                    f"{line['step seconds']:.2g}",
                    f"{line['gigabytes']:.1f} GB",
                    f"{line['l2']:.1e}",
                    f"{exponent(lines):.2f}" if last else "",
                )
            )
    return _table(head, rows)


def exponent(lines: list[Line]) -> float:
    """Return the growth of the time of a step from the smallest to the largest size."""
    times, rows = ([lines[i][key] for i in (0, -1)] for key in ("step seconds", "rows"))
    return float(np.log(times[1] / times[0]) / np.log(rows[1] / rows[0]))


def steps_table() -> str:
    lines = []
    for rows in (10_000, 20_000):
        line = case(f"learning step: dense, {rows:,} rows")
        note = f"{line['gigabytes']:.1f} GB"
        if "choleskys" in line:
            note = f"{line['choleskys']:.2f} LAPACK Choleskys of that size, {note}"
        lines.append(("dense", line, note))
    line = case("learning step: low rank, 100,000 rows")
    lines.append(("low rank", line, f"{line['gigabytes']:.1f} GB"))
    line = case("learning step: sparse, 4,000 rows")
    gap = abs(line["gradient"] / line["by differences"] - 1.0)
    note = f"gradient {line['gradient']:.5e}, by differences {line['by differences']:.5e}"
    lines.append(("sparse", line, f"{note} ({gap:.0e})"))
    for solver in ("low rank", "sparse"):
        one, two = (case(f"processes: {solver}, {count}") for count in (1, 2))
        loss, gradient = (abs(two[key] / one[key] - 1.0) for key in ("loss", "gradient"))
        note = (
            f"{one['seconds'] / two['seconds']:.2f} times faster; loss differs by {loss:.0e}, "
            f"gradient by {gradient:.0e}"
        )
        lines.append((f"{solver}, 1 process of one core", one, ""))
        lines.append((f"{solver}, 2 processes of one core", two, note))
    return _table(
        ("", "rows", "seconds", ""),
        [(name, f"{line['rows']:,}", f"{line['seconds']:.3g}", note) for name, line, note in lines],
    )


def agreement() -> str:
    low_rank, sparse = case("agreement: low rank"), case("agreement: sparse")
    return (
        f"At {sparse['rows']:,} rows and the same points the low-rank solution differs from the "
        f"dense one by {low_rank['rms difference']:.1e} (its error is {low_rank['l2']:.1e}, the "
        f"dense one's {low_rank['l2 dense']:.1e}), and the sparse one by "
        f"{sparse['rms difference']:.1e} (its error is {sparse['l2']:.1e}, the dense one's "
        f"{sparse['l2 dense']:.1e})."
    )


def darcy() -> str:
    head = ("rows", "", "minutes", "error of a", "of a within two std", "their seconds")
    rows = [
        (
            f"{line['rows']:,}",
            f"learned, {line['evaluations']} evaluations"
            if line["evaluations"]
            else "solved with those kernels",
            f"{line['seconds'] / 60:.1f}",
            f"{line['relative error of a']:.1%}",
            f"{line['share of a within two standard deviations']:.1%}",
            f"{line['seconds for standard deviations']:.0f}",
        )
        for line in (case("darcy: learned"), case("darcy: solved"))
    ]
    return _table(head, rows)


def learning() -> str:
    line = case("learning: sparse")
    return (
        f"{line['outer steps']} outer steps with the sparse solver at {line['rows']:,} rows bring "
        f"the lengthscale from 0.1 to {line['lengthscale']:.2f} and the error from "
        f"{line['l2 before']:.1e} to {line['l2 after']:.1e}, in {line['seconds'] / 60:.0f} minutes."
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ("---",) * len(head), *rows])


SCALING = {
    "solves": solves_table,
    "steps": steps_table,
    "agreement": agreement,
    "learning": learning,
    "darcy": darcy,
}
