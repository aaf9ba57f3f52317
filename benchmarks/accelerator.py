"""What one step costs on this device, part by part, and what it should at least cost elsewhere.

    python benchmarks/accelerator.py [--sizes 1000,2000,4000]
    python benchmarks/accelerator.py --page

The first measures Gram matrix, factorization, solve and learning step of the paper's elliptic
problem on the device that JAX finds, and writes `results/accelerator-DEVICE.json`: on a machine
with a GPU, `pip install kernelpde "jax[cuda12]"` and run it. The second writes the tables of
`docs/accelerators.md` from all such files. Operations and bytes of what XLA compiles are counted by
XLA; a factorization of n rows is n³ / 3 operations, a solve reads the triangle twice.
"""

import argparse
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from _losses import published_loss
from _report import RESULTS, SMALLEST, seconds, write

from kernelpde.functionals import gram_of_blocks
from kernelpde.gallery import elliptic
from kernelpde.learning._evaluation import loss_and_normal
from kernelpde.linear_solvers._cholesky import cholesky, solve_with

PAGE = Path(__file__).parent.parent / "docs" / "accelerators.md"
EXPONENTIAL = 20
"""Operations that one exponential in double precision counts for."""

DEVICES = {
    "A100": (9.7e12, 19.5e12, 1.94e12),
    "H100": (33.5e12, 66.9e12, 3.35e12),
    "RTX 4090": (1.29e12, 1.29e12, 1.01e12),
}
"""Operations per second in double precision, those of tensor cores (matrix products), and bytes
per second, by the vendor's data sheets (A100 80 GB PCIe, H100 SXM, GeForce RTX 4090)."""

PROJECTED = (2000, 10_000, 40_000)
PARTS = ("Gram matrix", "factorization", "solve", "learning step")


def parts(size: int) -> dict[str, tuple[Callable[[], Any], float, float]]:
    """Each part as a function, its operations and its bytes."""
    example = elliptic(0.2)
    points = {"equation": 3 * size // 4, "boundary": size // 4}
    loss, matrix = published_loss(example, points)
    rows, theta = len(loss.rows.rhs), jnp.asarray(loss.parameters.vector)
    kernels, batches = loss.parameters.kernels(theta), loss.rows.batches
    on_device, rhs = jnp.asarray(matrix), jnp.ones(rows)
    assemble: Any = eqx.filter_jit(gram_of_blocks)
    step: Any = eqx.filter_jit(loss_and_normal)
    factored, apply = jax.jit(cholesky), jax.jit(solve_with)
    factor = factored(on_device)[0]
    gram, learning = (
        _counted(assemble.lower(kernels, batches)),
        _counted(step.lower(theta, loss)),
    )
    cubic, square = rows**3 / 3, 8.0 * rows**2
    return {
        "Gram matrix": (lambda: assemble(kernels, batches), *gram),
        "factorization": (lambda: factored(on_device), cubic, square),
        "solve": (lambda: apply(factor, rhs), 2.0 * rows**2, square),
        "learning step": (
            lambda: step(theta, loss),
            learning[0] + cubic,
            learning[1] + square,
        ),
    }


def _counted(lowered: Any) -> tuple[float, float]:
    """Operations and bytes of a program, without what it calls."""
    found = lowered.compile().compiled.cost_analysis()
    operations = found.get("flops", 0.0) + EXPONENTIAL * found.get("transcendentals", 0.0)
    return float(operations), float(found.get("bytes accessed", 0.0))


def measured(sizes: list[int]) -> None:
    device = jax.devices()[0]
    report: dict[str, Any] = {"device": device.device_kind, "platform": device.platform}
    for size in sizes:
        found = {}
        for name, (function, operations, moved) in parts(size).items():
            jax.block_until_ready(function())
            times = [seconds(function) for _ in range(1 if SMALLEST else 5)]
            found[name] = {
                "seconds": statistics.median(times),
                "operations": operations,
                "bytes": moved,
            }
        report[str(size)] = found
        write(f"accelerator-{_slug(device.device_kind)}", report, quiet=True)
        print(f"{size} rows:", {name: f"{row['seconds']:.2g} s" for name, row in found.items()})


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def at_least(entries: float, products: float, moved: float, device: str) -> str:
    """Time that a device takes at least, and what it waits for.

    **Arguments:**

    - `entries`: operations of other kinds than those of matrix products.
    - `products`: operations of factorizations, which are matrix products in the end.
    - `moved`: bytes.
    - `device`: its name.
    """
    plain, tensor, bandwidth = DEVICES[device]
    computing, moving = entries / plain + products / tensor, moved / bandwidth
    least = max(computing, moving)
    shown = f"{least:.2g} s" if least >= 1 else f"{1e3 * least:.2g} ms"
    return f"{shown} ({'arithmetic' if computing > moving else 'memory'})"


def page() -> None:
    """The tables between the marks of the page."""
    files = sorted(RESULTS.glob("accelerator-*.json"))
    reports = [json.loads(path.read_text()) for path in files]
    here = next(r for r in reports if r["platform"] == "cpu")
    sizes = sorted(int(key) for key in here if key.isdigit())
    rows = ["| device | rows | " + " | ".join(PARTS) + " |", "|---" * (len(PARTS) + 2) + "|"]
    for report in reports:
        for size in (key for key in report if key.isdigit()):
            cells = [f"{report[size][part]['seconds']:.2g} s" for part in PARTS]
            rows.append(f"| {report['device']} ({report['platform']}) | {int(size):,} | ")
            rows[-1] += " | ".join(cells) + " |"
    last = here[str(sizes[-1])]
    guessed = ["| device | rows | " + " | ".join(PARTS) + " |", "|---" * (len(PARTS) + 2) + "|"]
    for device in DEVICES:
        for size in PROJECTED:
            cells = []
            for part in PARTS:
                scale = (size / sizes[-1]) ** 2
                factored = part in ("factorization", "learning step")
                cubic = sizes[-1] ** 3 / 3 if factored else 0.0
                entries = (last[part]["operations"] - cubic) * scale
                products = size**3 / 3 if factored else 0.0
                cells.append(at_least(entries, products, last[part]["bytes"] * scale, device))
            guessed.append(f"| {device} | {size:,} | " + " | ".join(cells) + " |")
    text = PAGE.read_text()
    for mark, table in (("measured", rows), ("projected", guessed)):
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n" + "\n".join(table) + f"\n\n{end}{rest.split(end)[1]}"
    PAGE.write_text(text)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,2000,4000")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        page()
    else:
        measured([int(size) for size in given.sizes.split(",")])


if __name__ == "__main__":
    main()
