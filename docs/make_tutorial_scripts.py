"""Turn the tutorials into scripts with cells, one beside each page: python docs/make_tutorial_scripts.py."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "tutorials"


def script(page: str) -> str:
    """Return a page as a script: text as comments, code as cells, what it prints as a comment after it."""
    page = re.sub(r",? or run the .*?\n*.*?\{download\}`.*?`\.", ".", page)
    page = re.sub(r"\[\]\((?:\.\./)?([\w/-]+)\.md\)", r'"\1"', page)
    lines: list[str] = []
    in_text = False
    for part in re.split(r"^(```\w+\n.*?^```\n)", page, flags=re.MULTILINE | re.DOTALL):
        fenced = re.fullmatch(r"```(\w+)\n(.*?)```\n", part, flags=re.DOTALL)
        if fenced and fenced[1] == "python":
            lines += ["", "# %%", fenced[2].rstrip()]
            in_text = False
        elif part.strip():
            lines += ["#"] if in_text else ["", "# %% [markdown]"]
            text, indent = (fenced[2], "    ") if fenced else (part, "")
            lines += [f"# {indent}{line}".rstrip() for line in text.strip().splitlines()]
            in_text = True
    return "\n".join(lines).lstrip() + "\n"


def main() -> None:
    """Write the script of every tutorial that has code."""
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "```python" not in text:  # a tutorial about pages in a browser
            continue
        target = page.with_name(page.stem.replace("-", "_") + ".py")
        target.write_text(script(text), encoding="utf-8")
        print(f"Written: {target.name}")


if __name__ == "__main__":
    main()
