"""The pages of a repository of packages (PEP 503): `index.py FOLDER`, whose folders are projects that hold wheels.

Each link has the wheel's SHA-256 and the versions of Python that it is for. A page is replaced whole, so that a server
may hand it out meanwhile.
"""

import email
import hashlib
import html
import os
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote


def requires_python(wheel: Path) -> str | None:
    """What the wheel's metadata says of versions of Python."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
        return email.message_from_bytes(archive.read(name)).get("Requires-Python")


def link(wheel: Path) -> str:
    """The link to a wheel beside its page."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    needed = requires_python(wheel)
    versions = f' data-requires-python="{html.escape(needed)}"' if needed else ""
    return f'<a href="{quote(wheel.name)}#sha256={digest}"{versions}>{html.escape(wheel.name)}</a><br>'


def write(folder: Path, title: str, links: list[str]) -> None:
    """Writes a page."""
    head = [
        '<html lang="en"><head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">',
        f"<title>{html.escape(title)}</title></head><body>",
    ]
    lines = ["<!DOCTYPE html>", *head, *links, "</body></html>", ""]
    page = folder / ".index.html"
    page.write_text("\n".join(lines), encoding="utf-8")
    os.replace(page, folder / "index.html")


def main(root: Path) -> None:
    projects = sorted(folder for folder in root.iterdir() if any(folder.glob("*.whl")))
    for folder in projects:
        write(folder, folder.name, [link(wheel) for wheel in sorted(folder.glob("*.whl"))])
    write(root, "packages", [f'<a href="{quote(folder.name)}/">{folder.name}</a><br>' for folder in projects])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
