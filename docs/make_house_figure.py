"""Draw docs/_static/house.svg from the import graph: the rooms of the package and which uses which.

A room stands one row below the lowest room that it uses. An arrow leads from a room to one that uses it,
unless the way through a third room says the same.
"""

from __future__ import annotations

from pathlib import Path

import grimp

TARGET = Path(__file__).parent / "_static" / "house.svg"
# What a room makes, in two or three words; rooms without words are helpers of all others and are left out.
MAKES = {
    "files": "tables, documents",
    "datasets": "public data",
    "costs": "virtual costs",
    "privacy": "weights, noise",
    "learning": "a model",
    "statistics": "means, shares",
    "mechanisms": "plans, an Outcome",
    "audit": "verdicts",
    "certificates": "proofs, receipts",
    "ledger": "one account",
    "campaign": "the file desk",
    "market": "the live desk",
    "figures": "drawings",
    "report": "one page",
    "web": "the service",
    "cli": "commands",
}
WIDTH, HEIGHT, GAP_X, GAP_Y, LEFT, TOP = 128, 44, 22, 40, 12, 12
COLOURS = ("#0072b2", "#007a5a", "#a8560a", "#7a4a8a", "#6b6b6b")


def uses() -> dict[str, set[str]]:
    """Return, for every room, the rooms that it imports."""
    graph = grimp.build_graph("dpmarket")
    found: dict[str, set[str]] = {}
    for importer in graph.modules:
        parts = importer.split(".")
        if len(parts) < 2 or parts[1] not in MAKES:
            continue
        rooms = found.setdefault(parts[1], set())
        for imported in graph.find_modules_directly_imported_by(importer):
            other = imported.split(".")
            if len(other) > 1 and other[1] in MAKES and other[1] != parts[1]:
                rooms.add(other[1])
    return found


def rows_of(used: dict[str, set[str]]) -> dict[str, int]:
    """Return each room's row: 0 if it uses no other, else one more than the lowest that it uses."""
    rows: dict[str, int] = {}
    while len(rows) < len(used):
        ready = [room for room in used if room not in rows and used[room] <= rows.keys()]
        assert ready, "rooms use each other in a circle"
        for room in ready:
            rows[room] = max((rows[other] + 1 for other in used[room]), default=0)
    return rows


def ordered(used: dict[str, set[str]], rows: dict[str, int]) -> dict[int, list[str]]:
    """Return the rooms of each row, near the rooms that use them and that they use: fewer arrows cross."""
    found = {row: sorted(room for room in rows if rows[room] == row) for row in sorted(set(rows.values()))}
    pairs = arrows(used)
    for _ in range(20):
        place = {room: (k + 0.5) / len(rooms) for rooms in found.values() for k, room in enumerate(rooms)}
        for rooms in found.values():
            near = {
                room: [place[a] for a, b in pairs if b == room] + [place[b] for a, b in pairs if a == room]
                for room in rooms
            }
            rooms.sort(key=lambda room: (sum(near[room]) / max(len(near[room]), 1), room))
    return found


def arrows(used: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return pairs (used, user) that no longer way says."""

    def reached(room: str) -> set[str]:
        return used[room].union(*(reached(other) for other in used[room]))

    return sorted(
        (other, room)
        for room, others in used.items()
        for other in others
        if not any(other in reached(third) for third in others - {other})
    )


def draw() -> str:
    """Return the drawing as SVG, with colours that do on white and on black paper."""
    used = uses()
    rows = rows_of(used)
    in_row = ordered(used, rows)
    widest = max(len(rooms) for rooms in in_row.values())
    width = 2 * LEFT + widest * (WIDTH + GAP_X) - GAP_X
    height = 2 * TOP + len(in_row) * (HEIGHT + GAP_Y) - GAP_Y

    def corner(room: str) -> tuple[int, int]:
        rooms = in_row[rows[room]]
        free = (widest - len(rooms)) * (WIDTH + GAP_X) // 2
        return LEFT + free + rooms.index(room) * (WIDTH + GAP_X), TOP + rows[room] * (HEIGHT + GAP_Y)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        'aria-label="The rooms of the package and which uses which" font-family="system-ui, sans-serif">',
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
    for room in sorted(rows):
        x, y = corner(room)
        colour = COLOURS[min(rows[room] * len(COLOURS) // len(in_row), len(COLOURS) - 1)]
        parts += [
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}"/>',
            f'<text x="{x + WIDTH // 2}" y="{y + 19}" font-size="14" font-weight="600" text-anchor="middle" '
            f'fill="#fff">{room}</text>',
            f'<text x="{x + WIDTH // 2}" y="{y + 35}" font-size="11.5" text-anchor="middle" '
            f'fill="#fff">{MAKES[room]}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
    print(f"The figure is in {TARGET.name}")
