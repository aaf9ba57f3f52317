"""The page on other methods: tables, and a picture for each problem."""

from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from benchmarks._report import Line, by_case, column, load

MARKS = "osD^vP*"

INTRO = """# Comparison with other methods

The figures show the relative error against CPU seconds on one core of the same machine, with a
separate process for each run. *Cold* is the first solve, with an empty compilation cache, and
*warm* the second one in the same process. Import time is excluded. Filled marks are warm, hollow
marks cold. Values are medians over seeds where there are several.

**On boxes with smooth solutions, use a classical method.** Chebyshev collocation and Fourier series
need a tenth of a second where `kernelpde` needs ten. With `kernelpde` you derive and discretize
nothing, and the same code works on other domains, with data and with unknown coefficients.

**The first table** lists the methods that reach the error of `kernelpde`, and their times.
`kernelpde` is slow for nonstationary lengthscales (Burgers, eikonal) and for several fields
(Gray-Scott, Schrodinger), and where much has to be compiled. Compiled programs are cached on disk,
which saves most of this time in a second process.

All methods except `classical` and `finite elements` receive the residuals, points and conditions of
`kernelpde`. `kansa` is collocation with Gaussians, `fastlsq` uses random Fourier features. For both
the tables give the number of widths and bandwidths tried and the smallest true error among them; a
finer search may find a smaller one. The network is trained by Gauss-Newton steps in its parameters.
`deepxde` has the CPU time of a cold `kernelpde` run, or ten times this time. Settings are in
`benchmarks/peers`. `python -m benchmarks peers METHOD PROBLEM` runs one method, and `python -m
benchmarks tables peers` writes this page.

Some pages of the gallery prescribe lengthscales, for example for Burgers' equation on a circle.
These were chosen by hand on that problem.

Sketched Gauss-Newton networks are reported to be much more accurate for Burgers' equation on a
circle with viscosity 0.01 ([arXiv:2607.02194](https://arxiv.org/abs/2607.02194)). The published
errors are 3.9e-7 in 16 s on a large GPU, and 1.9e-12 in 144 s and 8.0e-14 in 346 s on an H100. The
gallery may use different initial values.
"""


Cases = dict[tuple[str, str], dict[str, Any]]
"""Medians over seeds by method and setting, or the reason of a failure."""


def problems() -> dict[str, Cases]:
    """Return the cases of each problem, in alphabetical order."""
    by_problem = by_case(load("peers"), "problem")
    return {name: _cases(by_problem[name]) for name in sorted(by_problem)}


def _cases(lines: list[Line]) -> Cases:
    cases: Cases = {}
    for same in by_case(lines).values():
        good = [line for line in same if "failed" not in line]
        key = same[0]["method"], same[0]["setting"]
        if good:
            cases[key] = {k: median(column(good, k)) for k in ("error", "cold", "warm")}
        else:
            cases[key] = {"failed": same[0]["failed"]}
    return cases


def picture(problem: str, cases: Cases, directory: Path) -> None:
    """Draw errors over CPU time."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    methods = sorted({method for method, _ in cases})
    for number, method in enumerate(methods):
        points = [c for (m, _), c in cases.items() if m == method and "error" in c]
        color, mark = f"C{number}", MARKS[number % len(MARKS)]
        for key, face in (("warm", color), ("cold", "none")):
            axis.plot(
                [c[key] for c in points],
                [c["error"] for c in points],
                mark,
                color=color,
                markerfacecolor=face,
                label=method if key == "warm" else None,
            )
    axis.set(
        xscale="log", yscale="log", xlabel="CPU seconds", ylabel="relative error", title=problem
    )
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(directory / f"{problem}.png", dpi=90)


def table(cases: Cases) -> str:
    """Return the setting of each method with the smallest error, and the number of settings."""
    lines = [
        "| method | best setting | relative error | CPU cold | CPU warm |",
        "|---|---|---|---|---|",
    ]
    for method in sorted({m for m, _ in cases}):
        own = {s: c for (m, s), c in cases.items() if m == method}
        good = {s: c for s, c in own.items() if "error" in c}
        if not good:
            reason = next(iter(own.values()))["failed"]
            lines.append(f"| {method} | | {reason} | | |")
            continue
        setting, best = min(good.items(), key=lambda pair: pair[1]["error"])
        of = f" (of {len(own)})" if len(own) > 1 else ""
        lines.append(
            f"| {method} | {setting}{of} | {best['error']:.1e} | {best['cold']:.1f} s | "
            f"{best['warm']:.1f} s |"
        )
    return "\n".join(lines)


def summary(by_problem: dict[str, Cases]) -> str:
    """Compare `kernelpde` with the fastest method of at most its error, or the closest."""
    lines = [
        "| problem | kernelpde: error, CPU cold, warm | fastest method with at most this error |",
        "|---|---|---|",
    ]
    for problem, cases in by_problem.items():
        good = {key: case for key, case in cases.items() if "error" in case}
        ours = good.get(("kernelpde", "default"))
        others = {key: case for key, case in good.items() if key[0] != "kernelpde"}
        if ours is None:
            continue
        comparison = "no other method was run"
        if others:
            accurate = {k: c for k, c in others.items() if c["error"] <= ours["error"]}
            if accurate:
                (method, _), best = min(accurate.items(), key=lambda pair: pair[1]["cold"])
                comparison = f"{method}: {best['error']:.1e} in {best['cold']:.1f} s"
            else:
                (method, _), best = min(others.items(), key=lambda pair: pair[1]["error"])
                comparison = (
                    f"none; smallest error: {method}, {best['error']:.1e} in {best['cold']:.1f} s"
                )
        lines.append(
            f"| [{problem}](#{problem}) | {ours['error']:.1e}, {ours['cold']:.0f} s, "
            f"{ours['warm']:.1f} s | {comparison} |"
        )
    return "\n".join(lines)


def peers_page() -> str:
    """Return the whole page."""
    by_problem = problems()
    texts = [INTRO.rstrip(), summary(by_problem)]
    for problem, cases in by_problem.items():
        image = f"![{problem}: error over CPU time](figures/peers/{problem}.png)"
        texts += [f"## {problem}", table(cases), image]
    return "\n\n".join(texts) + "\n"
