//! Looking for NVIDIA's libraries has no effect but its result, whatever is in the folders. In a process of its own,
//! because a loaded library stays.
#![cfg(feature = "cuda")]

use std::fs;
use std::path::PathBuf;

use kiln_kernels::KernelError;
use kiln_kernels::gpu::Source;
use kiln_kernels::gpu::cuda::{OpenOptions, compile_for, open, probe};

/// A folder of files with the libraries' names.
fn folder(name: &str, content: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kiln-cuda-probe-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcudnn.so.9"] {
        fs::write(folder.join(name), content).unwrap();
    }
    folder
}

#[test]
fn garbage_is_named_and_never_called() {
    // A library of the system, which loads and has none of the functions.
    let other = fs::read("/proc/self/maps").map(|maps| String::from_utf8_lossy(&maps).into_owned()).unwrap_or_default();
    let other =
        other.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|path| path.contains("libgcc_s")));
    let other = other.and_then(|path| fs::read(path).ok());
    let mut folders = vec![
        folder("empty", b""),
        folder("text", b"this is no library"),
        folder("header", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"),
        PathBuf::from("/nowhere/at/all"),
        PathBuf::new(),
    ];
    folders.extend(other.map(|bytes| folder("other", &bytes)));
    let options = OpenOptions { library_dirs: folders.clone(), environment: Vec::new() };
    let inventory = probe(&options);
    assert_eq!(inventory.libraries.len(), 4);
    for library in &inventory.libraries {
        match &library.found {
            // The machine has NVIDIA's libraries where the loader looks.
            Ok(found) => assert!(found.version > 1000, "{library:?}"),
            Err(reason) if library.name == "cuDNN" => assert!(!reason.is_empty()),
            Err(reason) => {
                assert!(reason.contains("kiln-cuda-probe"), "{} does not name the file: {reason}", library.name)
            }
        }
    }
    if inventory.libraries[0].found.is_err() {
        assert!(inventory.devices.is_err());
        assert!(matches!(open(0, &options), Err(KernelError::Device { call: "CUDA driver", .. })));
    }
    if inventory.libraries[1].found.is_err() {
        let source = Source { entry: "k".to_owned(), text: String::new(), parameters: Vec::new() };
        assert!(matches!(compile_for(&source, [9, 0], &options), Err(KernelError::Device { call: "NVRTC", .. })));
    }
    for folder in folders.iter().filter(|folder| folder.starts_with(std::env::temp_dir())) {
        fs::remove_dir_all(folder).unwrap();
    }
}
