"""Draw docs/_static/house.svg, the rooms of the package and what flows between them."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).parent / "_static" / "house.svg"
WIDTH, HEIGHT = 150, 46
# Room: column, row, what it makes.
ROOMS = {
    "costs": (0, 0, "virtual costs"),
    "allocation": (1, 0, "promises"),
    "payments": (2, 0, "payments"),
    "mechanisms": (3, 0, "Outcome"),
    "datasets": (0, 1, "PublicData"),
    "privacy": (1, 1, "weights, noise"),
    "learning": (2, 1, "model"),
    "planning": (3, 1, "Plan, tables"),
    "audit": (0, 2, "verdicts, certificates"),
    "campaign": (1, 2, "ledger, files"),
    "experiments": (2, 2, "claims judged"),
    "report": (3, 2, "one page"),
    "files": (0, 3, "the disk"),
    "figures": (1, 3, "drawings"),
    "cli": (2, 3, "commands"),
}
ARROWS = [
    ("costs", "allocation"),
    ("allocation", "payments"),
    ("payments", "mechanisms"),
    ("datasets", "privacy"),
    ("privacy", "learning"),
    ("mechanisms", "planning"),
    ("learning", "planning"),
]
STEP_X, STEP_Y, LEFT, TOP = 190, 86, 10, 34
ROWS = ("reported costs become promises and payments", "records and promises become a model",
        "what people do with it", "at the edge")  # fmt: skip


def _corner(room: str) -> tuple[int, int]:
    column, row, _ = ROOMS[room]
    return LEFT + column * STEP_X, TOP + row * STEP_Y


def draw() -> str:
    """Return the drawing as SVG, with colours that do on white and on black paper."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {TOP + 4 * STEP_Y - 20}" role="img" '
        'aria-label="The rooms of the package and what flows between them" '
        'font-family="system-ui, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#7a7a7a"/></marker></defs>',
    ]
    for row, text in enumerate(ROWS):
        parts.append(
            f'<text x="{LEFT}" y="{TOP + row * STEP_Y - 8}" font-size="12" fill="#7a7a7a">{text}</text>'
        )
    for start, end in ARROWS:
        (x1, y1), (x2, y2) = _corner(start), _corner(end)
        if y1 == y2:
            ends = (x1 + WIDTH, y1 + HEIGHT // 2, x2, y2 + HEIGHT // 2)
        else:
            ends = (x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2, y2)
        line = 'x1="{}" y1="{}" x2="{}" y2="{}"'.format(*ends)
        parts.append(f'<line {line} stroke="#7a7a7a" stroke-width="1.6" marker-end="url(#tip)"/>')
    for room, (_, row, makes) in ROOMS.items():
        x, y = _corner(room)
        colour = ("#0072b2", "#007a5a", "#a8560a", "#6b6b6b")[row]
        parts += [
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}"/>',
            f'<text x="{x + WIDTH // 2}" y="{y + 20}" font-size="14" font-weight="600" text-anchor="middle" '
            f'fill="#fff">{room}</text>',
            f'<text x="{x + WIDTH // 2}" y="{y + 37}" font-size="11.5" text-anchor="middle" '
            f'fill="#fff">{makes}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
    print(f"The figure is in {TARGET.name}")
