"""Holds the documents against their rules, and the site against broken links.

    links.py            every Markdown file of the repository
    links.py SITE       every page of the site in that folder

Of a Markdown file: each link leads to a file of the repository, each anchor to a heading; lines of prose have at most 120
columns (tables, code and links that cannot be broken are longer); a path of the repository between back quotes exists,
but in CHANGELOG.md, which tells of what was; README.md has at most 80 lines, and its Rust is that of an example, which is
compiled and run; every document of docs/ is in docs/SUMMARY.md. Of the site: each link of a page leads to a file of it,
each fragment to an id. Links to other hosts are not asked for. Prints what is wrong and exits 1.
"""
import html.parser
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

sys.dont_write_bytecode = True  # or a folder of bytecode is left in .ci
import markdown  # noqa: E402

COLUMNS = 120
README_LINES = 80
# A path, perhaps with a part in it that stands for several, which is not looked at.
PATH = re.compile(r"`((?:src|kernels|crates|tests|benches|fuzz|examples|docs|python|\.ci)/[\w./-]*\w)`")
RUST = re.compile(r"^```rust\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def wide(line):
    """Whether a line of prose is too long and could be broken."""
    if len(line) <= COLUMNS or line.lstrip().startswith(("|", "#")):
        return False
    # One word, such as a link, may be longer than a line has room for.
    return max(map(len, line.split())) <= COLUMNS - 20


def stripped(code):
    return "\n".join(line.strip() for line in code.strip().splitlines())


def in_repository(root, files):
    """What is wrong with the Markdown files of a repository, given by their paths in it."""
    texts = {file: (root / file).read_text() for file in files}
    ids = {file: markdown.anchors(text) for file, text in texts.items()}
    problems = []
    for file, text in texts.items():
        for number, line in markdown.prose(text):
            place = f"{file}:{number}"
            if wide(line):
                problems.append(f"{place}: {len(line)} columns, {COLUMNS} are allowed")
            if file != "CHANGELOG.md":
                for found in PATH.finditer(line):
                    if not any((root / name).exists() for name in (found[1], found[1] + ".rs")):
                        problems.append(f"{place}: there is no {found[1]}")
            for _, _, target in markdown.targets(line):
                if not markdown.is_local(target):
                    continue
                path, _, anchor = urllib.parse.unquote(target).partition("#")
                goal = (root / file).parent.joinpath(path).resolve() if path else (root / file).resolve()
                try:
                    name = goal.relative_to(root.resolve()).as_posix()
                except ValueError:
                    problems.append(f"{place}: {target} leads out of the repository")
                    continue
                if not goal.is_file():
                    problems.append(f"{place}: {target} does not exist, or is a folder")
                elif anchor and name in ids and anchor not in ids[name]:
                    problems.append(f"{place}: {name} has no heading #{anchor}")
    if "README.md" in texts and (lines := len(texts["README.md"].splitlines())) > README_LINES:
        problems.append(f"README.md: {lines} lines, {README_LINES} are allowed")
    examples = [stripped(path.read_text()) for path in sorted((root / "examples").rglob("*.rs"))]
    for code in RUST.findall(texts.get("README.md", "")):
        if not any(stripped(code) in example for example in examples):
            problems.append(f"README.md: this is in no example:\n{code}")
    if (summary := texts.get("docs/SUMMARY.md")) is not None:
        listed = {target for _, line in markdown.prose(summary) for _, _, target in markdown.targets(line)}
        for file in files:
            if file.startswith("docs/") and file != "docs/SUMMARY.md" and file.removeprefix("docs/") not in listed:
                problems.append(f"{file}: not in docs/SUMMARY.md")
    return problems


class Page(html.parser.HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value and tag != "base":
                self.links.append(value)


def in_site(folder):
    """What is wrong with the links of a site."""
    # The page of unknown addresses has addresses from the host's top.
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html")) if path.name != "404.html"}
    problems = [] if pages else [f"{folder} has no page"]
    for path, page in pages.items():
        for link in page.links:
            if not markdown.is_local(link) or link.startswith("//"):
                continue
            target, _, fragment = urllib.parse.unquote(link).partition("#")
            target = re.sub(r"\?.*", "", target)
            goal = (path.parent / target).resolve() if target else path.resolve()
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.is_file():
                problems.append(f"{path}: {link} leads to nothing")
            elif fragment and goal in pages and fragment not in pages[goal].ids:
                problems.append(f"{path}: {link}: no such id")
    return problems


def main():
    if len(sys.argv) > 1:
        problems = in_site(Path(sys.argv[1]).resolve())
    else:
        root = Path(__file__).resolve().parent.parent
        asked = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
        files = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
        problems = in_repository(root, [file for file in files if (root / file).is_file()])
    print("\n".join(problems) or "links, anchors and lines of the documents are sound")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
