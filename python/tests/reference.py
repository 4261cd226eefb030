"""The reference of the package as a page: `python python/tests/reference.py` prints docs/python-api.md.

Names and signatures are those of the stubs and of the sources, texts and examples those of the docstrings, so it needs
the package installed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import kiln
import kiln.onnxruntime

PACKAGE = Path(kiln.__file__).parent

HEAD = """\
# Python: reference

<!-- Written by `python python/tests/reference.py`; a test compares this page with what it writes. -->

[The tutorial](python.md) begins at the beginning. In the examples, which are tests, `model` is y = relu(x) for x of n
by 3, `language_model` and the folder `translator` know 13 tokens, `np` is numpy, and `ort` is `kiln.onnxruntime`.
"""


def declarations(path: Path) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a source file or of a stub."""
    found = ast.parse(path.read_text()).body
    return {node.name: node for node in found if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def paragraphs(text: str) -> Iterator[str]:
    """A docstring as Markdown: its examples are fenced."""
    for block in inspect.cleandoc(text).split("\n\n"):
        lines = block.splitlines()
        # An example has no empty line within it, and what comes before it in a block is text.
        start = next((at for at, line in enumerate(lines) if line.startswith(">>>")), len(lines))
        said = "\n".join(lines[:start])
        said = re.sub(r":(?:class|func|meth|mod):`(?:~)?([^`]+)`", r"`\1`", said).replace("``", "`")
        if said:
            yield said
        if start < len(lines):
            yield "```python\n" + "\n".join(lines[start:]) + "\n```"


def signature(name: str, node: ast.FunctionDef) -> str:
    """How a function is called; long ones have a line for each argument."""
    arguments = ast.unparse(node.args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = re.sub(r"^(self|cls)(, )?(/, )?", "", arguments)
    line = f"{name}({arguments}){returns}"
    if len(line) <= 100:
        return line
    parts = re.split(r", (?=\w+:|\*,|\*$|\*\*)", arguments)
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def class_page(name: str, node: ast.ClassDef, thing: type) -> Iterator[str]:
    """A class: how it is made, what it is, and its methods and attributes."""
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    made = next((part for part in methods if part.name in ("__new__", "__init__")), None)
    bases = [ast.unparse(base) for base in node.bases]
    yield f"### {name}"
    if made is not None:
        made.returns = None
        yield "```python\n" + signature(name, made) + "\n```"
    elif bases:
        yield f"A kind of {' and '.join(f'`{base}`' for base in bases)}."
    yield from paragraphs(inspect.getdoc(thing) or "")
    for part in methods:
        if part.name.startswith("_"):
            continue
        marks = {ast.unparse(mark) for mark in part.decorator_list}
        if any(mark.endswith(".setter") for mark in marks):
            continue
        returns = f": {ast.unparse(part.returns)}" if part.returns else ""
        said = f"{part.name}{returns}" if "property" in marks else signature(part.name, part)
        yield f"```python\n{name}.{said}\n```"
        member = inspect.getattr_static(thing, part.name)
        # Before Python 3.12 a static method of native code has the text of staticmethod itself.
        text = member.__func__ if isinstance(member, staticmethod) else member
        yield from paragraphs(inspect.getdoc(text) or "")


def module_page(module: ModuleType, sources: list[Path]) -> Iterator[str]:
    """The public names of a module, classes before functions."""
    known: dict[str, ast.ClassDef | ast.FunctionDef] = {}
    for source in sources:
        known.update(declarations(source))
    yield f"## {module.__name__}"
    yield from paragraphs(inspect.getdoc(module) or "")
    names = [name for name in module.__all__ if name in known]
    missing = set(module.__all__) - set(names) - {"__version__", "SessionIOBinding"}
    assert not missing, missing
    for node in known.values():
        # The page shows members of a private base class as the class's own.
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            if isinstance(base, ast.Name) and base.id.startswith("_") and isinstance(known.get(base.id), ast.ClassDef):
                node.body[:0] = known[base.id].body
    for name in sorted(names, key=lambda name: (isinstance(known[name], ast.FunctionDef), name)):
        node = known[name]
        if isinstance(node, ast.ClassDef):
            yield from class_page(name, node, getattr(module, name))
        else:
            yield f"### {name}"
            yield "```python\n" + signature(name, node) + "\n```"
            yield from paragraphs(inspect.getdoc(getattr(module, name)) or "")


def page() -> str:
    """The whole page."""
    ours = [PACKAGE / "_kiln.pyi", PACKAGE / "_errors.py", PACKAGE / "_generator.py"]
    theirs = sorted((PACKAGE / "onnxruntime").glob("_*.py"))
    blocks = [*module_page(kiln, ours), *module_page(kiln.onnxruntime, theirs)]
    return HEAD + "\n" + "\n\n".join(textwrap.dedent(block) for block in blocks) + "\n"


if __name__ == "__main__":
    print(page(), end="")
