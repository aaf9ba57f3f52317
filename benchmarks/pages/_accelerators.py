"""Tables of the page on accelerators: measured seconds, and lower bounds for other devices."""

from benchmarks._report import by_case, load

DEVICES = {
    "A100": (9.7e12, 19.5e12, 1.94e12),
    "H100": (33.5e12, 66.9e12, 3.35e12),
    "RTX 4090": (1.29e12, 1.29e12, 1.01e12),
}
"""Operations per second in double precision, those of tensor cores (matrix products), and bytes
per second, by the vendor's data sheets (A100 80 GB PCIe, H100 SXM, GeForce RTX 4090)."""

PROJECTED = (2000, 10_000, 40_000)
PARTS = ("Gram matrix", "factorization", "solve", "learning step")
HEAD = f"| device | rows | {' | '.join(PARTS)} |\n{'|---' * (len(PARTS) + 2)}|"


def measured() -> str:
    lines = [HEAD]
    for device, runs in by_case(load("accelerator"), "device").items():
        for rows, parts in by_case(runs, "rows").items():
            seconds = {line["part"]: line["seconds"] for line in parts}
            cells = " | ".join(f"{seconds[part]:.2g} s" for part in PARTS)
            lines.append(f"| {device} ({parts[0]['platform']}) | {rows:,} | {cells} |")
    return "\n".join(lines)


def projected() -> str:
    runs = load("accelerator", platform="cpu")
    size = max(line["rows"] for line in runs)
    counts = {line["part"]: line for line in runs if line["rows"] == size}
    lines = [HEAD]
    for device in DEVICES:
        for rows in PROJECTED:
            cells, scale = [], (rows / size) ** 2
            for part in PARTS:
                factors = part in ("factorization", "learning step")
                entries = counts[part]["operations"] - (size**3 / 3 if factors else 0.0)
                products = rows**3 / 3 if factors else 0.0
                moved = counts[part]["bytes"] * scale
                cells.append(lower_bound(entries * scale, products, moved, device))
            lines.append(f"| {device} | {rows:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def lower_bound(entries: float, products: float, moved: float, device: str) -> str:
    """Return the least time on a device, and the resource that limits it.

    **Arguments:**

    - `entries`: operations other than those of matrix products.
    - `products`: operations of factorizations, which are mostly matrix products.
    - `moved`: bytes.
    - `device`: its name.
    """
    plain, tensor, bandwidth = DEVICES[device]
    computing, moving = entries / plain + products / tensor, moved / bandwidth
    least = max(computing, moving)
    shown = f"{least:.2g} s" if least >= 1 else f"{1e3 * least:.2g} ms"
    return f"{shown} ({'arithmetic' if computing > moving else 'memory'})"
