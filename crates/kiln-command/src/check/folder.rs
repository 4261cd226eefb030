//! Finding cases: folders with a model.onnx, at any depth. Runs nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::failure::{Outcome, WithCode};

/// One case on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// The folder's path relative to the folder that was named on the command line, with slashes.
    pub(super) name: String,
    /// The group of its total: the first part of the name, or the folder on the command line if that has cases itself.
    pub(super) suite: String,
    /// The folder.
    pub(super) folder: PathBuf,
}

/// The deepest nesting. Suites have two levels; a bound ends a loop of mounts.
const DEEPEST: usize = 16;

/// All cases in these folders, sorted by name within each.
pub(super) fn find(folders: &[PathBuf]) -> Outcome<Vec<Case>> {
    let mut cases = Vec::new();
    let mut names = BTreeSet::new();
    for root in folders {
        let mut found = Vec::new();
        walk(root, DEEPEST, &mut found).usage(|| format!("cannot read {}", root.display()))?;
        let own = own_name(root);
        for folder in found {
            let relative = folder.strip_prefix(root).unwrap_or(&folder);
            let parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            let mut name = if parts.is_empty() { own.clone() } else { parts.join("/") };
            let suite = if parts.len() > 1 { parts[0].clone() } else { own.clone() };
            // Two folders on the command line may have cases of the same name; their results must not collide.
            if names.contains(&name) {
                name = format!("{}/{name}", root.display());
            }
            names.insert(name.clone());
            cases.push(Case { name, suite, folder });
        }
    }
    Ok(cases)
}

fn own_name(root: &Path) -> String {
    let full = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    full.file_name().map_or_else(|| root.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Folders with a model, in order of their names. Links to folders are not followed, so that each is found once.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut inner = Vec::new();
    let mut has_model = false;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            inner.push(entry.path());
        }
        has_model |= entry.file_name() == "model.onnx";
    }
    if has_model {
        found.push(folder.to_owned());
    }
    inner.sort();
    if depth > 0 {
        inner.iter().try_for_each(|folder| walk(folder, depth - 1, found))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_at_any_depth_and_named_from_the_folder_given() {
        let root = tempfile::tempdir().unwrap();
        for case in ["node/test_b", "node/test_a", "light/deep/net", "alone"] {
            let folder = root.path().join(case);
            std::fs::create_dir_all(folder.join("test_data_set_0")).unwrap();
            std::fs::write(folder.join("model.onnx"), "").unwrap();
        }
        std::fs::create_dir(root.path().join("empty")).unwrap();
        let own = own_name(root.path());
        let names = |folders: &[PathBuf]| -> Vec<(String, String)> {
            find(folders).unwrap().into_iter().map(|case| (case.name, case.suite)).collect()
        };
        let pair = |name: &str, suite: &str| (name.to_owned(), suite.to_owned());
        let all = [
            pair("alone", &own),
            pair("light/deep/net", "light"),
            pair("node/test_a", "node"),
            pair("node/test_b", "node"),
        ];
        assert_eq!(names(&[root.path().to_owned()]), all);
        let node = root.path().join("node");
        assert_eq!(names(std::slice::from_ref(&node)), [pair("test_a", "node"), pair("test_b", "node")]);
        assert_eq!(names(&[node.join("test_a")]), [pair("test_a", "test_a")]);
        let twice = names(&[node.clone(), node]);
        assert_eq!(twice.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), 4);
        assert!(find(&[root.path().join("missing")]).is_err());
    }
}
