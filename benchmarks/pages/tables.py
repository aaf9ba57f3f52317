"""Write the tables of documentation pages from `results/`.

    python -m benchmarks tables [PAGE ...] [--check]

`--check` compares them with the pages instead.

Every table stands between `<!-- NAME -->` and `<!-- end -->` on its page. The page on other methods
is written as a whole.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import numpy as np
from scipy import stats

from benchmarks._report import DOCS, by_case, column, load, parser
from benchmarks.pages._accelerators import measured, projected
from benchmarks.pages._peers import peers_page
from benchmarks.pages._scaling import SCALING


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, its head as "first | second"."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


# docs/accuracy.md


def claims() -> str:
    lines = load("estimates", study="accuracy")
    problems = {(line["problem"], line["seed"]) for line in lines}
    rows = []
    for accuracy, runs in by_case(lines, "accuracy").items():
        claimed = [run for run in runs if run["claimed"]]
        errors = column(claimed, "error")
        rows.append(
            (
                f"{accuracy:.0e}",
                f"{len(claimed)} of {len(runs)}",
                f"{np.mean(np.array(errors) <= 2 * accuracy):.1%}",
                f"{max(errors):.1e}",
                f"{median(column(claimed, 'rows')):.0f}",
            )
        )
    head = (
        "target | reported as reached | true error at most twice the target | largest true error | "
        "median rows"
    )
    missed = Counter(
        line["problem"] for line in lines if line["accuracy"] == 1e-3 and not line["claimed"]
    )
    kinds = ", ".join(f"{name} {count}" for name, count in missed.most_common())
    return (
        f"{len(problems)} random problems, none of them used to tune the estimator: boxes, disks, "
        "unions and differences, one to three dimensions, systems, periodic ones, bumps, layers, "
        "fronts and singular corners, in any units (`python -m benchmarks estimates accuracy`).\n\n"
        f"{table(head, rows)}\n\nReported as not reached at 1e-3, by kind of problem: {kinds}."
    )


def effectivity() -> str:
    lines = load("estimates", study="effectivity")
    problems = {(line["problem"], line["seed"]) for line in lines}
    converged = [line for line in lines if line["converged"]]
    ratios = np.array([line["estimate"] / line["error"] for line in converged])
    quantiles = [f"{q:.2f}" for q in np.quantile(ratios, [0, 0.05, 0.5, 0.95])]
    share = np.mean((ratios >= 0.5) & (ratios <= 10))
    head = "smallest | 5% | median | 95% | largest | between 0.5 and 10"
    return (
        f"Ratio of estimated to true error for {len(converged)} converged solutions of "
        f"{len(problems)} such problems, with learned kernels and with four fixed lengthscales "
        "(`python -m benchmarks estimates effectivity`):\n\n"
        + table(head, [(*quantiles, f"{ratios.max():.1f}", f"{share:.1%}")])
    )


def cost() -> str:
    ratios = {
        case.removeprefix("speed: "): median(column(lines, "ratio"))
        for case, lines in by_case(load("estimates", study="speed")).items()
    }
    return (
        "Total CPU time with compiled programs, including learning and estimates, relative to one "
        "solve at the final points with the final kernel, median of five (`python -m benchmarks "
        "estimates speed`): "
        + "; ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
        + "."
    )


def corners() -> str:
    rows = []
    for case, runs in by_case(load("corners")).items():
        spread = [
            f"{min(column(runs, key)):{form}} to {max(column(runs, key)):{form}}"
            for key, form in (("error", ".1e"), ("estimate", ".1e"), ("rows", "d"))
        ]
        claimed = f"{sum(column(runs, 'claimed'))} of {len(runs)}"
        seconds = f"{median(column(runs, 'CPU seconds')):.0f}"
        rows.append((case, f"{runs[0]['accuracy']:.0e}", claimed, *spread, seconds))
    return table("problem | target | reached | true errors | estimated errors | rows | CPU s", rows)


def graded(study: str) -> str:
    by_accuracy = by_case(load("estimates", study=study), "accuracy")
    rows = []
    for accuracy, runs in by_accuracy.items():
        spread = []
        for key, form in (("error", ".1e"), ("estimate", ".1e"), ("rows", "d")):
            values = column(runs, key)
            spread.append(f"{min(values):{form}} to {max(values):{form}}")
        claimed = f"{sum(column(runs, 'claimed'))} of {len(runs)}"
        rows.append((f"{accuracy:.0e}", claimed, *spread))
    accuracy, runs = next(iter(by_accuracy.items()))
    even, converged = column(runs, "error, even points"), column(runs, "converged, even points")
    return (
        f"{table('target | reached | true errors | estimated errors | rows', rows)}\n\n"
        "Uniform points and one learned lengthscale, with the number of rows used for "
        f"{accuracy:.0e}: true errors {min(even):.1e} to {max(even):.1e}, {sum(converged)} of "
        f"{len(even)} marked converged."
    )


# docs/inverse.md


def calibration() -> str:
    rows = []
    for case, lines in by_case(load("calibration")).items():
        if "beside" in case:
            continue
        converged = [line for line in lines if line["converged"]]
        inside = np.mean(column(converged, "in 50, 80, 95%"), axis=0)
        best = np.mean(column(converged, "best values: in 50, 80, 95%"), axis=0)
        p = stats.kstest(column(converged, "below"), "uniform").pvalue
        shares = [f"{share:.1%}" for share in (*inside, best[2])]
        counts = f"{len(lines)}", f"{len(converged)}"
        rows.append((case, *counts, *shares, f"{p:.2g}" if "drawn" in case else ""))
    head = (
        "family, truths | problems | converged | in 50% | in 80% | in 95% | best values only: in "
        "95% | ranks uniform, p"
    )
    (rates,) = load("calibration", case="rates beside an ODE solver, drawn")
    return (
        f"{table(head, rows)}\n\nThe four rates of a problem are strongly correlated, and 30 "
        f"problems are few. In {rates['problems']} drawn problems {rates['in 95%']:.1%} of the "
        "rates lie in their 95% interval. For the same data, the intervals of a posterior with an "
        f"ODE solver contain {rates['exact, in 95%']:.1%} (`python -m benchmarks calibration "
        "--exact --seeds 0:120`)."
    )


def darcy() -> str:
    rows, seeds = [], 0
    for case, lines in by_case(load("inverse")).items():
        if not case.startswith("darcy: "):
            continue
        kernel, data = case.removeprefix("darcy: ").split(", ")
        keys = ("u l2", "a relative", "share of a in its 95% interval", "chi_squared")
        forms = (".1e", ".3f", ".0%", ".2f")
        figures = [
            f"{median(column(lines, key)):{form}}" for key, form in zip(keys, forms, strict=True)
        ]
        rows.append((data.split()[0], kernel, *figures))
        seeds = len(lines)
    head = "data | | rms error of u | relative error of a | a in interval | chi-squared"
    return f"{table(head, rows)}\n\nMedian over {seeds} sets of points and data."


def laws() -> str:
    titles = {
        "conductivity": "k(u) = 1 + u² of rods, 20 temperatures in each of two experiments",
        "reaction": "R(u) = 4 u (1 - u) of a front, two snapshots of 30 values",
    }
    rows = []
    for case, lines in by_case(load("laws")).items():
        errors, covered = column(lines, "error"), column(lines, "covered")
        rows.append(
            (
                titles[case],
                f"{len(errors)} of {len(lines)}",
                f"{median(errors):.1%}, {max(errors):.1%}",
                f"{np.mean(covered):.1%}",
            )
        )
    head = "noise 1% | converged | error, median and largest | in the 95% band"
    return f"{table(head, rows)}\n\n`python -m benchmarks laws`"


def sampling() -> str:
    titles = {
        "rates": "four rates of predator and prey",
        "front": "two rates of a front",
        "enzyme": "two constants of an enzyme",
    }
    rows = [
        (
            f"{titles[line['case']]}, {line['seed']}",
            f"{line['effective part of importance weights']:.0%}",
            "yes" if line["effective part of importance weights"] >= 0.9 else "no",
            f"{max(line['Laplace from draws']):.2f}",
            f"{max(line['Laplace from reference']):.2f}",
            f"{max(line['draws from reference']):.2f}",
            f"{line['R-hat']:.3f}, {line['effective draws']:.0f}",
            f"{line['effective draws per CPU minute']:.0f}",
        )
        for line in load("sampling")
    ]
    head = (
        "problem, seed | remaining weight | Laplace counts as accurate | Laplace to draws | "
        "Laplace to reference | draws to reference | R-hat, effective draws | "
        "effective draws per CPU minute"
    )
    return f"{table(head, rows)}\n\n`python -m benchmarks sampling`"


def outliers() -> str:
    rows = []
    for family, lines in by_case(load("outliers"), "family").items():
        runs = by_case(lines, "data")
        clean = column(runs["clean, Gaussian"], "error")
        for data, own in runs.items():
            errors, covered = column(own, "error"), column(own, "covered")
            ratio = median(a / b for a, b in zip(errors, clean, strict=True))
            rows.append(
                (
                    family,
                    data.replace("spoiled", "contaminated"),
                    f"{len(covered)} of {len(own)}",
                    f"{median(errors):.3f}",
                    f"{ratio:.2f}",
                    f"{np.mean(covered):.0%}" if covered else "",
                )
            )
    head = "5% outliers | data, noise | converged | median error | relative to clean | in 95%"
    return f"{table(head, rows)}\n\n`python -m benchmarks outliers`"


def adjoint() -> str:
    rows = []
    for case, lines in by_case(load("adjoint")).items():
        solved = [line for line in lines if line["converged"]]
        rows.append(
            (
                case,
                f"{len(solved)}",
                f"{len(lines) - len(solved)}",
                f"{median(column(solved, 'relative error')):.3f}",
                f"{np.mean(column(solved, 'inside 95%')):.1%}",
                f"{median(column(solved, 'CPU seconds')):.1f}",
                f"{solved[0]['lines']}",
            )
        )
    head = (
        "| problems | kernelpde without a solution | relative error | in 95% | CPU seconds | lines"
    )
    note = "Medians, and the mean of shares. `python -m benchmarks adjoint`"
    return f"{table(head, rows)}\n\n{note}"


# docs/criteria.md

CRITERIA = (
    "default",
    "held out, plain",
    "plain, at the nugget of the solve",
    "leave-one-out",
    "evidence",
    "kernel flow",
)
"""The order of rows; searches follow."""


def criteria(problem: str) -> str:
    runs = by_case(load("criteria", problem=problem), "criterion")
    medians = {name: median(column(lines, "error")) for name, lines in runs.items()}
    best = min(medians.values())
    rows = []
    for name in sorted(runs, key=[*CRITERIA, *runs].index):
        error = f"{medians[name]:.2g}"
        rows.append(
            (
                name,
                f"**{error}**" if medians[name] == best else error,
                f"{max(column(runs[name], 'error')):.2g}",
                f"{median(column(runs[name], 'factorizations')):.0f}",
                f"{median(column(runs[name], 'CPU seconds')):.1f}",
                f"{sum(not solved for solved in column(runs[name], 'solved'))}",
            )
        )
    count = len(runs["default"])
    head = f"{problem}, {count} seeds | median error | worst | factorizations | CPU s | unsolved"
    return table(head, rows)


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "accuracy": {
        "claims": claims,
        "effectivity": effectivity,
        "cost": cost,
        "corners": corners,
        **{study: lambda study=study: graded(study) for study in ("holes", "plates")},
    },
    "inverse": {f.__name__: f for f in (laws, sampling, outliers, darcy, adjoint, calibration)},
    "criteria": {
        name: lambda name=name: criteria(name)
        for name in ("elliptic", "burgers", "gray-scott", "darcy")
    },
    "accelerators": {"measured": measured, "projected": projected},
    "scaling": SCALING,
}


def page(name: str) -> tuple[Path, str]:
    """Return the file of a page and its text with present tables."""
    path = DOCS / f"{name}.md"
    if name == "peers":
        return path, peers_page()
    text = path.read_text()
    for mark, content in TABLES[name].items():
        pattern = rf"(<!-- {mark} -->\n).*?(\n<!-- end -->)"
        replacement = f"\n{content()}\n"
        text, count = re.subn(
            pattern, lambda m, r=replacement: f"{m[1]}{r}{m[2]}", text, flags=re.DOTALL
        )
        if count != 1:
            sys.exit(f"{path.name} has {count} places for the table {mark!r}.")
    return path, text


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("pages", nargs="*", help=f"of {', '.join([*TABLES, 'peers'])}")
    command.add_argument("--check", action="store_true")
    options = command.parse_args(arguments)
    differ = []
    for name in options.pages or [*TABLES, "peers"]:
        path, text = page(name)
        if path.read_text() != text:
            differ.append(path.name)
            if not options.check:
                path.write_text(text)
    if differ and options.check:
        sys.exit(f"{', '.join(differ)}: run python -m benchmarks tables")
