"""What links.py finds, and what it leaves alone. `python3 .ci/links_test.py`."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import links  # noqa: E402
import markdown  # noqa: E402


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
            return links.in_repository(root, documents)

    def test_links_to_documents_headings_and_sources_are_sound(self):
        a = "# A\n[b](docs/b.md#one-two), [self](#a), [code](src/c.rs), [away](https://example.org/x)\n"
        self.assertEqual(self.problems(A=a, docs__b="# B\n## One `two`\n", src__c_rs="//! c"), [])

    def test_a_missing_file_a_missing_heading_and_a_folder_are_found(self):
        found = self.problems(A="[x](gone.md) [y](docs/b.md#three) [z](docs)\n", docs__b="# B\n")
        self.assertEqual(len(found), 3, found)
        self.assertIn("gone.md", found[0])
        self.assertIn("#three", found[1])
        self.assertIn("docs does not exist, or is a folder", found[2])

    def test_a_link_out_of_the_repository_is_found(self):
        self.assertIn("out of the repository", self.problems(A="[x](../../etc/hosts)\n")[0])

    def test_reference_definitions_are_links(self):
        self.assertIn("gone.md", self.problems(A="[x]\n\n[x]: gone.md\n")[0])

    def test_code_holds_no_links(self):
        self.assertEqual(self.problems(A="`[x](gone.md)`\n\n```text\n[x](gone.md)\n```\n\n    [x](gone.md)\n"), [])

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


class Anchors(unittest.TestCase):
    def test_they_are_those_of_the_site(self):
        text = "# A B, `c` & d\n## It's 3x3/2\n## Same\n## Same\n### [Link](x.md) *here*\n```\n# no heading\n```\n"
        self.assertEqual(markdown.anchors(text), {"a-b-c--d", "its-3x32", "same", "same-1", "link-here"})


class Site(unittest.TestCase):
    def problems(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                (Path(folder) / f"{name}.html").write_text(text)
            return links.in_site(Path(folder).resolve())

    def test_sound_pages(self):
        a = '<a href="b.html#x">b</a><a href="#y" id="y">y</a><a href="https://example.org">e</a>'
        self.assertEqual(self.problems(a=a, b='<h1 id="x">X</h1>'), [])

    def test_dead_links_and_fragments_are_found(self):
        found = self.problems(a='<a href="c.html">c</a><img src="i.png"><a href="b.html#z">b</a>', b="")
        self.assertEqual(len(found), 3, found)

    def test_no_page_is_a_problem(self):
        self.assertEqual(len(self.problems()), 1)


unittest.main()
