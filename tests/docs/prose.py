"""Holds the Markdown files of the repository against its rules.

Lines of prose have at most 120 columns (tables, code and links that cannot be broken are longer); a path of the
repository between back quotes exists, but in CHANGELOG.md, which tells of what was; README.md has at most 80 lines, and
its Rust is that of an example, which is compiled and run; every document of docs/ is in docs/SUMMARY.md. Prints what is
wrong and exits 1. lychee looks at links.
"""
import re
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # or a folder of bytecode is left here
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


def main():
    root = Path(__file__).resolve().parents[2]
    asked = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    files = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    problems = in_repository(root, [file for file in files if (root / file).is_file()])
    print("\n".join(problems) or "lines and paths of the documents are sound")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
