"""What prose.py finds, and what it leaves alone: `python3 tests/docs/prose_test.py`."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import prose  # noqa: E402


class Documents(unittest.TestCase):
    def problems(self, **files):
        """Each is a document, by its path with `__` for a slash; `_rs` at the end makes it a source file."""
        with tempfile.TemporaryDirectory() as folder:
            root, documents = Path(folder), []
            for name, text in files.items():
                name = name.replace("__", "/")
                path = root / (name.removesuffix("_rs") + ".rs" if name.endswith("_rs") else name + ".md")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                if path.suffix == ".md":
                    documents.append(path.relative_to(root).as_posix())
            return prose.in_repository(root, documents)

    def test_long_prose_is_found_and_long_tables_and_code_are_not(self):
        long = "word " * 30
        found = self.problems(A=f"{long}\n\n| {long} |\n|---|\n\n```text\n{long}\n```\n")
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("A.md:1:"))

    def test_the_readme_has_at_most_80_lines(self):
        self.assertEqual(self.problems(README="x\n" * 80), [])
        self.assertIn("81 lines", self.problems(README="x\n" * 81)[0])

    def test_paths_between_back_quotes_exist(self):
        a = "`src/c.rs`, `src/c`, `src/<family>.rs`, `src/c.rs:7`, `other/x`\n"
        self.assertEqual(self.problems(A=a, src__c_rs="//! c"), [])
        self.assertEqual(self.problems(A="`src/d.rs`\n", src__c_rs=""), ["A.md:1: there is no src/d.rs"])
        self.assertEqual(self.problems(CHANGELOG="`src/d.rs`\n"), [])

    def test_the_readmes_code_is_that_of_an_example(self):
        readme, example = "```rust\nlet a = 1;\nlet b = 2;\n```\n", "fn main() {\n    let a = 1;\n    let b = 2;\n}\n"
        self.assertEqual(self.problems(README=readme, examples__x_rs=example), [])
        self.assertEqual(len(self.problems(README=readme, examples__x_rs=example.replace("2", "3"))), 1)

    def test_every_document_is_in_the_summary(self):
        found = self.problems(docs__SUMMARY="- [A](a.md)\n", docs__a="# A\n", docs__b="# B\n")
        self.assertEqual(found, ["docs/b.md: not in docs/SUMMARY.md"])


unittest.main()
