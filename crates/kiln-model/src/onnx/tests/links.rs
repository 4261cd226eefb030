//! Symbolic links among the files beside a model: those that end in the model's folders are followed, and no others,
//! also while another thread changes them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::beside::{Expected, folder, load_in, model_with, problem};
use super::*;

/// Bytes of four numbers from `first` on.
fn numbers(first: f32) -> Vec<u8> {
    (0..4).flat_map(|i| (first + i as f32).to_le_bytes()).collect()
}

/// The first number of the model's tensor.
fn first(graph: &Graph) -> f32 {
    graph.constant_input(&graph.nodes[0], 1).unwrap().as_slice::<f32>().unwrap()[0]
}

#[test]
fn a_hub_cache_loads_by_both_names_of_its_model() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("models--org--name");
    let (blobs, snapshot) = (cache.join("blobs"), cache.join("snapshots/3f1a"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(snapshot.join("onnx")).unwrap();
    fs::write(blobs.join("aa11"), model_with(&[("location", "model.onnx_data")]).encode_to_vec()).unwrap();
    fs::write(blobs.join("bb22"), numbers(7.0)).unwrap();
    for below in ["", "onnx/"] {
        let up = if below.is_empty() { "../.." } else { "../../.." };
        let inside = snapshot.join(below);
        symlink(format!("{up}/blobs/aa11"), inside.join("model.onnx")).unwrap();
        symlink(format!("{up}/blobs/bb22"), inside.join("model.onnx_data")).unwrap();
        let graph = load(&inside.join("model.onnx"), &Limits::default()).unwrap();
        assert_eq!(first(&graph), 7.0, "{below:?}");
    }
    // By the revision's folder under another name, and by the name of the blob, whose folder has no such file.
    symlink("snapshots", cache.join("other")).unwrap();
    assert_eq!(first(&load(&cache.join("other/3f1a/model.onnx"), &Limits::default()).unwrap()), 7.0);
    let missing = problem(load(&blobs.join("aa11"), &Limits::default()));
    assert!(matches!(missing, ExternalProblem::Io { .. }), "{missing}");
    symlink("bb22", blobs.join("model.onnx_data")).unwrap();
    assert_eq!(first(&load(&blobs.join("aa11"), &Limits::default()).unwrap()), 7.0);
    // The folder beside both is not allowed.
    fs::create_dir(cache.join("refs")).unwrap();
    fs::write(cache.join("refs/main"), numbers(9.0)).unwrap();
    fs::remove_file(snapshot.join("model.onnx_data")).unwrap();
    symlink("../../refs/main", snapshot.join("model.onnx_data")).unwrap();
    let outside = problem(load(&snapshot.join("model.onnx"), &Limits::default()));
    assert!(matches!(&outside, ExternalProblem::Outside(location) if location == "\"model.onnx_data\""), "{outside}");
}

#[test]
fn links_are_followed_to_what_is_in_the_folder() {
    let root = folder();
    let inside = root.path().join("model");
    symlink("w.bin", inside.join("plain")).unwrap();
    symlink("./below/../plain", inside.join("chain")).unwrap();
    symlink(inside.join("w.bin"), inside.join("absolute")).unwrap();
    symlink("../model/w.bin", inside.join("out_and_in")).unwrap();
    symlink("below", inside.join("folder")).unwrap();
    symlink("../below/../folder", inside.join("below/again")).unwrap();
    symlink("link8", inside.join("link9")).unwrap();
    for number in 1..9 {
        let target = if number == 1 { "w.bin".to_owned() } else { format!("link{}", number - 1) };
        symlink(target, inside.join(format!("link{number}"))).unwrap();
    }
    for location in ["plain", "chain", "absolute", "out_and_in", "folder/w.bin", "below/again/again/w.bin", "link8"] {
        let graph = load_in(root.path(), &[("location", location), ("offset", "8")]);
        assert_eq!(first(&graph.unwrap_or_else(|error| panic!("{location}: {error}"))), 2.0, "{location}");
    }
    let problem = problem(load_in(root.path(), &[("location", "link9")]));
    assert!(matches!(problem, ExternalProblem::Links { most: 8, .. }), "{problem}");
}

#[test]
fn links_to_anything_else_are_refused() {
    let root = folder();
    let inside = root.path().join("model");
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    fifo(&inside.join("pipe"));
    fifo(&root.path().join("pipe"));
    // A folder whose name begins like the model's.
    fs::create_dir(root.path().join("model2")).unwrap();
    fs::write(root.path().join("model2/w.bin"), numbers(0.0)).unwrap();
    let links = [
        ("passwd", "/etc/passwd"),
        ("device", "/dev/zero"),
        ("standard", "/proc/self/fd/0"),
        ("memory", "/proc/self/mem"),
        ("secret", "../secret"),
        ("beside", "../model2/w.bin"),
        ("outer_pipe", "../pipe"),
        ("inner_pipe", "pipe"),
        ("itself", "itself"),
        ("one", "two"),
        ("two", "one"),
        ("endless", "endless/w.bin"),
        ("dangling", "nothing"),
        ("to_folder", "below"),
        ("to_start", "."),
        ("to_root", "/"),
        ("up", ".."),
        ("through_file", "w.bin/../w.bin"),
    ];
    for (name, target) in links {
        symlink(target, inside.join(name)).unwrap();
    }
    fs::write(inside.join("hard"), numbers(0.0)).unwrap();
    fs::hard_link(inside.join("hard"), inside.join("hard2")).unwrap();
    symlink("hard", inside.join("to_hard")).unwrap();
    let outside: Expected = |p| matches!(p, ExternalProblem::Outside(_));
    let no_file: Expected = |p| matches!(p, ExternalProblem::NotAFile(_));
    let looped: Expected = |p| matches!(p, ExternalProblem::Links { .. });
    let system: Expected = |p| matches!(p, ExternalProblem::Io { .. });
    let cases: [(&str, Expected); 21] = [
        ("passwd", outside),
        ("device", outside),
        ("memory", outside),
        ("secret", outside),
        ("beside", outside),
        ("outer_pipe", outside),
        ("up/secret", outside),
        ("to_root/etc/passwd", outside),
        ("standard", |p| !matches!(p, ExternalProblem::Location(_))),
        ("inner_pipe", no_file),
        ("to_folder", no_file),
        ("to_start", no_file),
        ("to_root", no_file),
        ("up", no_file),
        ("itself", looped),
        ("one", looped),
        ("endless", looped),
        ("endless/w.bin", looped),
        ("dangling", system),
        ("through_file", system),
        ("to_hard", |p| matches!(p, ExternalProblem::HardLink(_))),
    ];
    for (location, expected) in cases {
        let problem = problem(load_in(root.path(), &[("location", location)]));
        assert!(expected(&problem), "{location}: {problem:?}");
        assert!(problem.to_string().contains(&format!("{location:?}")), "{location}: {problem}");
    }
}

/// Ends the thread that changes things, also where a check fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Loads 4,000 times a model whose tensor is in `location`, while a thread changes that location. Each load gives the
/// tensor inside the folder or an error.
fn never_the_secret(location: &str, change: impl Fn(&Path, bool) + Sync) {
    let root = folder();
    let inside = root.path().join("model");
    fs::write(root.path().join("secret"), numbers(666.0)).unwrap();
    fs::create_dir(root.path().join("outer")).unwrap();
    fs::write(root.path().join("outer/w.bin"), numbers(666.0)).unwrap();
    let message = bytes::Bytes::from(model_with(&[("location", location)]).encode_to_vec());
    let done = AtomicBool::new(false);
    let (mut read, mut refused) = (0u32, 0u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut outside = false;
            while !done.load(Ordering::Relaxed) {
                change(root.path(), outside);
                outside = !outside;
            }
            // At the end, the location leads inside.
            change(root.path(), false);
        });
        let _done = Done(&done);
        for _ in 0..4000 {
            match load_bytes(message.clone(), Some(&inside), &Limits::default()) {
                Ok(graph) => {
                    assert_eq!(first(&graph), 0.0, "bytes of a file outside were read");
                    read += 1;
                }
                error => {
                    let problem = problem(error);
                    // A file that was replaced after it was opened has no name any more, and one that is being
                    // written is too short.
                    use ExternalProblem::{HardLink, Io, Outside, Range};
                    assert!(matches!(problem, Outside(_) | Io { .. } | HardLink(_) | Range { .. }), "{problem:?}");
                    refused += 1;
                }
            }
        }
    });
    let graph = load_bytes(message, Some(&inside), &Limits::default()).unwrap();
    assert_eq!((first(&graph), read + refused), (0.0, 4000));
}

/// Puts a link in the place of another at once.
fn relink(target: &str, link: &Path) {
    let fresh = link.with_extension("fresh");
    let _ = fs::remove_file(&fresh);
    symlink(target, &fresh).unwrap();
    fs::rename(&fresh, link).unwrap();
}

#[test]
fn a_link_that_is_swapped_meanwhile_never_leads_outside() {
    never_the_secret("moving", |root, outside| {
        relink(if outside { "../secret" } else { "w.bin" }, &root.join("model/moving"));
    });
}

#[test]
fn a_file_and_a_link_that_take_turns_never_lead_outside() {
    never_the_secret("moving", |root, outside| {
        let path = root.join("model/moving");
        if outside {
            relink("../secret", &path);
        } else {
            let fresh = path.with_extension("fresh");
            fs::write(&fresh, numbers(0.0)).unwrap();
            fs::rename(&fresh, &path).unwrap();
        }
    });
}

#[test]
fn a_folder_on_the_way_that_is_swapped_meanwhile_never_leads_outside() {
    // A folder and a link take turns under one name.
    never_the_secret("folder/w.bin", |root, outside| {
        let (path, aside) = (root.join("model/folder"), root.join("model/aside"));
        let _ = fs::create_dir(&aside);
        let _ = fs::remove_file(&path);
        if outside {
            let _ = fs::rename(&path, &aside);
            let _ = symlink("../outer", &path);
        } else {
            let _ = fs::write(aside.join("w.bin"), numbers(0.0));
            let _ = fs::rename(&aside, &path);
        }
    });
    // A link to folders.
    never_the_secret("folder/w.bin", |root, outside| {
        relink(if outside { "../outer" } else { "below" }, &root.join("model/folder"));
    });
}
