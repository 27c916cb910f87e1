"""Draw docs/_static/packages.svg: the packages of dpmarket, their lines of code, and which imports which.

A package is drawn one row below the lowest package that it imports. An arrow leads from a package to its
importer; arrows that follow from two others are left out.
"""

from __future__ import annotations

from pathlib import Path

import grimp

TARGET = Path(__file__).parent / "_static" / "packages.svg"
SOURCE = Path(__file__).parents[1] / "src" / "dpmarket"
# What each package makes, in two or three words; helper modules that all packages share are left out.
MAKES = {
    "files": "tables, documents",
    "datasets": "public data",
    "costs": "virtual costs",
    "privacy": "a release",
    "learning": "a model",
    "statistics": "means, shares",
    "mechanisms": "plans, an Outcome",
    "audit": "findings",
    "certificates": "proofs, receipts",
    "campaign": "one purchase",
    "distributed": "many machines",
    "report": "one page, figures",
    "web": "the service",
    "cli": "commands",
}
WIDTH, HEIGHT, GAP_X, GAP_Y, LEFT, TOP = 128, 58, 22, 40, 12, 12
COLOURS = ("#0072b2", "#007a5a", "#a8560a", "#7a4a8a", "#6b6b6b")


def uses() -> dict[str, set[str]]:
    """Return, for every package, the packages that it imports."""
    graph = grimp.build_graph("dpmarket")
    found: dict[str, set[str]] = {}
    for importer in graph.modules:
        parts = importer.split(".")
        if len(parts) < 2 or parts[1] not in MAKES:
            continue
        packages = found.setdefault(parts[1], set())
        for imported in graph.find_modules_directly_imported_by(importer):
            other = imported.split(".")
            if len(other) > 1 and other[1] in MAKES and other[1] != parts[1]:
                packages.add(other[1])
    return found


def size(package: str) -> int:
    """Return how many lines a package has, docstrings included, in hundreds."""
    lines = sum(len(path.read_text().splitlines()) for path in (SOURCE / package).rglob("*.py"))
    return round(lines, -2)


def rows_of(used: dict[str, set[str]]) -> dict[str, int]:
    """Return each package's row: 0 if it imports no other, else one more than the lowest that it imports."""
    rows: dict[str, int] = {}
    while len(rows) < len(used):
        ready = [package for package in used if package not in rows and used[package] <= rows.keys()]
        assert ready, "packages import each other in a circle"
        for package in ready:
            rows[package] = max((rows[other] + 1 for other in used[package]), default=0)
    return rows


def ordered(used: dict[str, set[str]], rows: dict[str, int]) -> dict[int, list[str]]:
    """Return the packages of each row, ordered so that few arrows cross."""
    found = {
        row: sorted(package for package in rows if rows[package] == row) for row in sorted(set(rows.values()))
    }
    pairs = arrows(used)
    for _ in range(20):
        place = {
            package: (k + 0.5) / len(packages)
            for packages in found.values()
            for k, package in enumerate(packages)
        }
        for packages in found.values():
            near = {
                package: [place[a] for a, b in pairs if b == package]
                + [place[b] for a, b in pairs if a == package]
                for package in packages
            }
            packages.sort(key=lambda package: (sum(near[package]) / max(len(near[package]), 1), package))
    return found


def arrows(used: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return pairs (imported, importer) that follow from no two others."""

    def reached(package: str) -> set[str]:
        return used[package].union(*(reached(other) for other in used[package]))

    return sorted(
        (other, package)
        for package, others in used.items()
        for other in others
        if not any(other in reached(third) for third in others - {other})
    )


def draw() -> str:
    """Return the drawing as SVG, with colours that are legible on a light and on a dark page."""
    used = uses()
    rows = rows_of(used)
    in_row = ordered(used, rows)
    widest = max(len(packages) for packages in in_row.values())
    width = 2 * LEFT + widest * (WIDTH + GAP_X) - GAP_X
    height = 2 * TOP + len(in_row) * (HEIGHT + GAP_Y) - GAP_Y

    def corner(package: str) -> tuple[int, int]:
        packages = in_row[rows[package]]
        free = (widest - len(packages)) * (WIDTH + GAP_X) // 2
        return LEFT + free + packages.index(package) * (WIDTH + GAP_X), TOP + rows[package] * (HEIGHT + GAP_Y)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        'aria-label="The packages of dpmarket and which imports which" font-family="system-ui, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#8a8a8a"/></marker></defs>',
    ]
    for start, end in arrows(used):
        (x1, y1), (x2, y2) = corner(start), corner(end)
        x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
        bend = max(GAP_Y, (y2 - y1) // 2)
        parts.append(
            f'<path d="M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}" fill="none" '
            'stroke="#8a8a8a" stroke-width="1.4" marker-end="url(#tip)"/>'
        )
    for package in sorted(rows):
        x, y = corner(package)
        colour = COLOURS[min(rows[package] * len(COLOURS) // len(in_row), len(COLOURS) - 1)]
        parts += [
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}"/>',
            f'<text x="{x + WIDTH // 2}" y="{y + 19}" font-size="14" font-weight="600" text-anchor="middle" '
            f'fill="#fff">{package}</text>',
            f'<text x="{x + WIDTH // 2}" y="{y + 35}" font-size="11.5" text-anchor="middle" '
            f'fill="#fff">{MAKES[package]}</text>',
            f'<text x="{x + WIDTH // 2}" y="{y + 50}" font-size="11.5" text-anchor="middle" '
            f'fill="#fff">{size(package):,} lines</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
    print(f"The figure is in {TARGET.name}")
