"""A preprocessor of mdBook: makes pages of what lies outside of docs/, and has all links point to pages.

docs/SUMMARY.md lists documents at the top of the repository by `../NAME.md`; README.md is the first page, the others
are below project/. A source file that a document links to becomes a page below source/. A link to a document that the
summary lacks, to a folder, out of the repository or to nothing ends the build.
"""
import json
import os
import posixpath
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # or a folder of bytecode is left here
import markdown  # noqa: E402

SOURCES = {".rs": "rust", ".py": "python", ".toml": "toml", ".sh": "bash"}


def page_of(file):
    """Where the page of a document of the repository lies in the book."""
    folder, name = posixpath.split(file)
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if name == "README.md":
        name = "index.md"
    return posixpath.join(folder, name) if folder or name == "index.md" else f"project/{name.lower()}"


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "supports":
        sys.exit(sys.argv[2] != "html")
    context, book = json.load(sys.stdin)
    root = Path(context["root"])
    documents = {}
    for chapter in chapters(book["items"]):
        if chapter["source_path"]:
            file = posixpath.normpath("docs/" + chapter["source_path"])
            documents[file] = chapter
            chapter["path"] = page_of(file)
    sources, problems = {}, []

    def rewritten(file, page, target):
        """The target of a link in a document, as the page that it becomes has to write it."""
        path, mark, anchor = target.partition("#")
        if not path or not markdown.is_local(target):
            return target
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if goal.startswith(("../", "/")):
            problems.append(f"{file}: {target}: out of the repository")
            return target
        if goal in documents:
            there = page_of(goal)
        elif (root / goal).is_file() and not goal.endswith(".md"):
            there = f"source/{goal}.md"
            sources[goal] = there
        else:
            problems.append(f"{file}: {target}: not in docs/SUMMARY.md and no source file")
            return target
        return posixpath.relpath(there, posixpath.dirname(page) or ".") + mark + anchor

    for file, chapter in documents.items():
        lines = chapter["content"].splitlines()
        for number, line in markdown.prose(chapter["content"]):
            for start, end, target in sorted(markdown.targets(line), reverse=True):
                line = line[:start] + rewritten(file, chapter["path"], target) + line[end:]
            lines[number - 1] = line
        chapter["content"] = "\n".join(lines) + "\n"
    if problems:
        sys.exit("\n".join(problems))
    if sources:
        book["items"].append({"PartTitle": "Source files that these pages name"})
    for file, page in sorted(sources.items()):
        language = SOURCES.get(os.path.splitext(file)[1], "text")
        text = (root / file).read_text()
        content = f"# {file}\n\n``````{language},ignore\n{text.rstrip()}\n``````\n"
        chapter = dict(name=file, content=content, path=page, source_path=None)
        chapter |= dict(number=None, sub_items=[], parent_names=[])
        book["items"].append({"Chapter": chapter})
    json.dump(book, sys.stdout)


main()
