//! Finds files of a crate that import each other in a circle.
//!
//! A file depends on another one if its code names something that is *defined* there: in a `use`, or by a path that
//! begins with `crate`, `self`, `super`, an imported module or a child. Re-exports are followed to the definition, so a
//! parent that declares its children and passes their items on (`mod shape; pub use shape::Shape;`) does not depend on
//! them, and a child that takes `super::Shape` depends on the sibling and not on the parent.
//!
//! A module is a file and the folder with its name. The folder's files are below the module: names from its own folder,
//! at any depth, do not count, and files of the folder may use what the file defines. Only circles between neighbours
//! and between branches of the tree are left. Code that only tests compile does not count either.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Token, tokens, without_tests};

/// One name that a `use` brings into a file.
struct Import {
    path: Vec<String>,
    name: String,
    line: usize,
    /// `pub use`, at any visibility: perhaps the file only passes the name on.
    passed_on: bool,
    /// `use path::*`.
    glob: bool,
}

/// A file that is a module of a crate.
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    imports: Vec<Import>,
    defined: BTreeSet<String>,
    /// The tokens outside every `use`.
    code: Vec<Token>,
}

/// The target of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// The files of a crate, the module tree of its root file.
pub(crate) struct Crate {
    modules: Vec<Module>,
}

/// Why a file depends on another: the line and the name.
type Edges = BTreeMap<(usize, usize), (usize, String)>;

impl Crate {
    /// Follows the declarations `mod name;` from `root`. `files` has the text of each file by its name.
    pub(crate) fn of(root: &str, files: &BTreeMap<String, String>) -> Crate {
        let mut found = Crate { modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        found.add(root, &folder, None, files);
        found
    }

    fn add(&mut self, file: &str, folder: &str, parent: Option<usize>, files: &BTreeMap<String, String>) -> usize {
        let all = without_tests(&tokens(&files[file]));
        let (imports, code) = imports(&all);
        let own = self.modules.len();
        let mut declared = Vec::new();
        for three in code.windows(3).filter(|three| three[0].is("mod") && three[2].is(";")) {
            declared.push(three[1].text.clone());
        }
        let defined = definitions(&code);
        let children = BTreeMap::new();
        self.modules.push(Module { file: file.to_owned(), parent, children, imports, defined, code });
        for name in declared {
            let child = format!("{folder}{name}.rs");
            if files.contains_key(&child) {
                let child = self.add(&child, &format!("{folder}{name}/"), Some(own), files);
                self.modules[own].children.insert(name, child);
            }
        }
        own
    }

    /// The target of `path` from `module`; `None` if it is outside of the crate.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(module, rest, depth),
            "super" => {
                let parent = self.modules[module].parent?;
                match rest.first() {
                    Some(next) if next == "super" => self.resolve(parent, rest, depth),
                    _ => self.descend(parent, rest, depth),
                }
            }
            _ => self.named(module, path, depth),
        }
    }

    /// The target of `path` inside of `module`.
    fn descend(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        if path.is_empty() {
            return Some(Found::Module(module));
        }
        self.named(module, path, depth).or(Some(Found::Item(module)))
    }

    /// The same, and `None` if the file does not define or import the first name.
    fn named(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        // Names that import each other in a circle would not compile; globs may.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let own = &self.modules[module];
        // A function may have the name of the module that it is imported from.
        let is_function = rest.is_empty() && own.imports.iter().any(|import| !import.glob && import.name == *first);
        if let Some(&child) = own.children.get(first)
            && !is_function
        {
            return self.descend(child, rest, depth);
        }
        if let Some(import) = own.imports.iter().find(|import| !import.glob && import.name == *first) {
            return match self.resolve(module, &import.path, depth + 1)? {
                Found::Module(module) => self.descend(module, rest, depth),
                item => Some(item),
            };
        }
        if own.defined.contains(first) {
            return Some(Found::Item(module));
        }
        for import in own.imports.iter().filter(|import| import.glob) {
            if let Some(Found::Module(from)) = self.resolve(module, &import.path, depth + 1)
                && let Some(found) = self.named(from, path, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }

    /// Whether `module` is in the folder of `above`.
    fn is_below(&self, mut module: usize, above: usize) -> bool {
        while let Some(parent) = self.modules[module].parent {
            if parent == above {
                return true;
            }
            module = parent;
        }
        false
    }

    /// Which modules depend on which.
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (own, module) in self.modules.iter().enumerate() {
            let mut add = |found: Option<Found>, line: usize, name: &str| {
                if let Some(Found::Item(other)) = found
                    && other != own
                    && !self.is_below(other, own)
                {
                    edges.entry((own, other)).or_insert_with(|| (line, name.to_owned()));
                }
            };
            for import in module.imports.iter().filter(|import| !import.passed_on) {
                add(self.resolve(own, &import.path, 0), import.line, &import.path.join("::"));
            }
            for (line, path) in paths(&module.code) {
                let found = match path[0].as_str() {
                    "crate" | "self" | "super" => self.resolve(own, &path, 0),
                    // A single name in lower case may be a variable; as an import it has been counted above.
                    name if path.len() == 1 && name.starts_with(|c: char| c.is_lowercase()) => None,
                    _ => self.named(own, &path, 0),
                };
                add(found, line, &path.join("::"));
            }
        }
        edges
    }

    /// The circles of files, each with the dependencies that close it.
    pub(crate) fn cycles(&self) -> Vec<Cycle> {
        let edges = self.edges();
        let count = self.modules.len();
        let mut reach = vec![vec![false; count]; count];
        for (from, reached) in reach.iter_mut().enumerate() {
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                for &(_, next) in edges.range((at, 0)..=(at, usize::MAX)).map(|(edge, _)| edge) {
                    if !reached[next] {
                        reached[next] = true;
                        open.push(next);
                    }
                }
            }
        }
        let mut cycles = Vec::new();
        let mut done = vec![false; count];
        for from in 0..count {
            if done[from] || !reach[from][from] {
                continue;
            }
            let members: Vec<usize> = (0..count).filter(|&to| reach[from][to] && reach[to][from]).collect();
            for &member in &members {
                done[member] = true;
            }
            let inside = |edge: &(usize, usize)| members.contains(&edge.0) && members.contains(&edge.1);
            let because = edges.iter().filter(|(edge, _)| inside(edge)).map(|(&(from, to), (line, name))| {
                let (from, to) = (&self.modules[from].file, &self.modules[to].file);
                format!("{from}:{line}: {name} is in {to}")
            });
            let files = members.iter().map(|&member| self.modules[member].file.clone()).collect();
            cycles.push(Cycle { files, because: because.collect() });
        }
        cycles
    }

    /// How many files the crate has, without those of tests.
    pub(crate) fn len(&self) -> usize {
        self.modules.len()
    }
}

/// Files that all depend on each other, directly or through others.
pub(crate) struct Cycle {
    pub(crate) files: Vec<String>,
    pub(crate) because: Vec<String>,
}

/// Splits a file into the imports of its `use` items, and all other tokens.
fn imports(tokens: &[Token]) -> (Vec<Import>, Vec<Token>) {
    let (mut imports, mut code, mut at) = (Vec::new(), Vec::<Token>::new(), 0);
    while at < tokens.len() {
        let before = code.last().map_or(";", |token| token.text.as_str());
        if tokens[at].is("use") && [";", "{", "}", "]", ")", "pub"].contains(&before) {
            let passed_on = before == "pub" || before == ")";
            let end = at + tokens[at..].iter().position(|token| token.is(";")).unwrap_or(tokens.len() - at - 1);
            let mut rest = &tokens[at + 1..end];
            tree(&mut rest, &[], passed_on, &mut imports);
            // The next token begins after an item.
            code.push(Token { text: ";".to_owned(), line: tokens[at].line });
            at = end + 1;
        } else {
            code.push(tokens[at].clone());
            at += 1;
        }
    }
    (imports, code)
}

/// Reads one tree of a `use`: `a::b`, `a::b as c`, `a::*` or `a::{b, c::d}`.
fn tree(rest: &mut &[Token], prefix: &[String], passed_on: bool, imports: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    while let Some((token, after)) = rest.split_first() {
        let line = token.line;
        *rest = after;
        match token.text.as_str() {
            "::" => {}
            "*" => imports.push(Import { path: path.clone(), name: "*".to_owned(), line, passed_on, glob: true }),
            "{" => {
                while !rest.is_empty() && !rest[0].is("}") {
                    tree(rest, &path, passed_on, imports);
                    if !rest.is_empty() && rest[0].is(",") {
                        *rest = &rest[1..];
                    }
                }
                *rest = rest.get(1..).unwrap_or_default();
                return;
            }
            name => {
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                if rest.first().is_some_and(|token| token.is("::")) {
                    continue;
                }
                let mut local = path.last().unwrap().clone();
                if rest.first().is_some_and(|token| token.is("as")) {
                    local = rest[1].text.clone();
                    *rest = &rest[2..];
                }
                imports.push(Import { path, name: local, line, passed_on, glob: false });
                return;
            }
        }
        if token.is("*") {
            return;
        }
    }
}

/// The names of the items that stand in a file, methods among them.
fn definitions(code: &[Token]) -> BTreeSet<String> {
    let words = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];
    let mut found: BTreeSet<String> = code
        .windows(2)
        .filter(|pair| words.contains(&pair[0].text.as_str()) && pair[1].is_name())
        .map(|pair| pair[1].text.clone())
        .collect();
    found.extend(code.windows(3).filter(|three| three[0].is("macro_rules")).map(|three| three[2].text.clone()));
    found
}

/// The paths of a file's code: all names between `::`. A field or a method is no path.
fn paths(code: &[Token]) -> Vec<(usize, Vec<String>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < code.len() {
        let before = if at == 0 { ";" } else { code[at - 1].text.as_str() };
        if !code[at].is_name() || [".", "::", "fn", "mod"].contains(&before) {
            at += 1;
            continue;
        }
        let (line, mut path) = (code[at].line, vec![code[at].text.clone()]);
        at += 1;
        while at + 1 < code.len() && code[at].is("::") && code[at + 1].is_name() {
            path.push(code[at + 1].text.clone());
            at += 2;
        }
        found.push((line, path));
    }
    found
}

#[cfg(test)]
fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Crate::of("lib.rs", &files).cycles().into_iter().map(|cycle| cycle.files).collect()
}

#[test]
fn re_exports_are_looked_through() {
    let files = [
        ("lib.rs", "mod a; pub use a::{Shape, run};"),
        ("a.rs", "mod shape; mod run; pub use shape::Shape; pub(crate) use run::run; #[cfg(test)] mod tests;"),
        ("a/shape.rs", "pub struct Shape;"),
        ("a/run.rs", "use super::Shape; pub fn run(shape: Shape) { crate::a::shape::Shape; }"),
        ("a/tests.rs", "use super::{Shape, run};"),
    ];
    assert!(cycles_of(&files).is_empty());
    let back =
        [files[0], files[1], ("a/shape.rs", "pub struct Shape; fn f() { super::run(Shape) }"), files[3], files[4]];
    assert_eq!(cycles_of(&back), [["a/shape.rs", "a/run.rs"]]);
}

#[test]
fn a_module_may_use_what_is_below_it() {
    let files = [
        ("lib.rs", "mod a; mod c;"),
        ("a.rs", "mod b; pub use b::B; pub struct A(B);"),
        ("a/b.rs", "pub struct B(super::A);"),
        ("c.rs", "use crate::a::{A, B};"),
    ];
    assert!(cycles_of(&files).is_empty());
    let back = [files[0], files[1], ("a/b.rs", "pub struct B(super::A, crate::c::C);"), files[3]];
    assert_eq!(cycles_of(&back), [["a/b.rs", "c.rs"]]);
}

#[test]
fn circles_are_found_through_every_kind_of_path() {
    let through_modules =
        [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::{self}; struct B(a::A);")];
    assert_eq!(cycles_of(&through_modules), [["a.rs", "b.rs"]]);
    let through_globs = [
        ("lib.rs", "mod a; mod b; pub use b::*;"),
        ("a.rs", "pub fn a(b: crate::B) {}"),
        ("b.rs", "use crate::a::*; struct B; fn c() { let x = Y::from::<A>(a); } use crate::a::a as z;"),
    ];
    assert_eq!(cycles_of(&through_globs), [["a.rs", "b.rs"]]);
    let module_alone =
        [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b; fn a(b: u8) {}"), ("b.rs", "use crate::a::a;")];
    assert!(cycles_of(&module_alone).is_empty(), "a.rs imports the module b and takes nothing of it");
    let in_tests = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; #[cfg(test)] mod tests;"),
        ("b.rs", "#[cfg(test)] use crate::a; pub struct B; #[cfg(test)] mod tests { fn f() { crate::a::g() } }"),
    ];
    assert!(cycles_of(&in_tests).is_empty());
}
