//! Tests of this back end on machines without a GPU.
//!
//! Tests that need libraries take their folders from `KILN_TEST_CUDA_LIB_DIRS`, separated by colons, and say when they
//! are skipped. Nothing here needs a device.

use super::library::{Libraries, Library};
use super::module::{Kind, check_args};
use super::{OpenOptions, compile_for, open, probe};
use crate::error::KernelError;
use crate::gpu::{Arg, Source};

/// Where NVIDIA's libraries are, for tests that need some.
#[allow(clippy::disallowed_methods, reason = "a test's own variable, no knob of the product")]
pub(super) fn options() -> OpenOptions {
    let dirs = std::env::var_os("KILN_TEST_CUDA_LIB_DIRS").unwrap_or_default();
    OpenOptions { library_dirs: std::env::split_paths(&dirs).collect(), environment: Vec::new() }
}

/// The folders, where a library that a test needs is found; otherwise says that the test is skipped.
pub(super) fn options_with(
    test: &str,
    library: impl Fn(&Libraries) -> &Result<super::Found, String>,
) -> Option<OpenOptions> {
    let options = options();
    match library(&Libraries::find(&options)) {
        Ok(_) => Some(options),
        Err(reason) => {
            #[allow(clippy::print_stderr, reason = "a skipped test says so")]
            {
                eprintln!("skipped {test}: {reason}");
            }
            None
        }
    }
}

#[test]
fn every_function_that_is_called_is_looked_for_first() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gpu");
    let mut files = vec![folder.join("cuda.rs")];
    let mut folders = vec![folder.join("cuda")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    assert!(files.len() > 8, "the walk found only {} files", files.len());
    let mut called = std::collections::BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices("sys::") {
            let letter = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let name: String = text[at + 5..].chars().take_while(letter).collect();
            if ["cu", "nvrtc"].iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("_t") {
                called.insert(name);
            }
        }
    }
    // NVRTC's types that are named like its functions.
    called.retain(|name| !["nvrtcProgram", "nvrtcResult"].contains(&name.as_str()));
    let known: std::collections::BTreeSet<String> =
        [Library::Driver, Library::Nvrtc, Library::CublasLt, Library::Cudnn]
            .iter()
            .flat_map(|library| library.functions())
            .map(|name| (*name).to_owned())
            .collect();
    assert_eq!(called, known);
}

#[test]
fn what_was_found_is_told_with_versions_and_files_and_what_was_not_with_reasons() {
    let inventory = probe(&options());
    assert_eq!(inventory.libraries.len(), 4);
    for library in &inventory.libraries {
        match &library.found {
            Ok(found) => {
                assert!(found.version > 1000, "{library:?}");
                assert!(found.path.as_ref().is_some_and(|path| path.is_file()), "{library:?}");
            }
            Err(reason) => assert!(!reason.is_empty(), "{library:?}"),
        }
    }
    match &inventory.devices {
        Ok(devices) => {
            for (ordinal, device) in devices.iter().enumerate() {
                assert_eq!(device.ordinal as usize, ordinal);
                assert!(device.compute[0] > 0 && device.multiprocessors > 0 && device.memory_bytes > 0, "{device:?}");
            }
        }
        Err(reason) => {
            assert!(!reason.is_empty());
            assert!(matches!(open(0, &options()), Err(KernelError::Device { .. })));
        }
    }
    assert!(open(u32::MAX, &options()).is_err());
}

#[test]
fn arguments_are_held_against_the_declared_parameters() {
    let declared = ["const float *", "float*", "int", "long long", "float", "struct Shape"];
    let mut kinds: Vec<Kind> = declared.iter().map(|declared| Kind::of(declared)).collect();
    assert_eq!(
        kinds,
        [Kind::Memory, Kind::Memory, Kind::I32, Kind::I64, Kind::F32, Kind::Bytes(0)],
        "a structure's size is the compiled kernel's to tell"
    );
    assert_eq!(
        [Kind::of("const int"), Kind::of(" float "), Kind::of("const float *__restrict__ x")],
        [Kind::I32, Kind::F32, Kind::Memory]
    );
    kinds[5] = Kind::Bytes(3);
    let good = [Arg::Memory(None), Arg::Memory(None), Arg::I32(1), Arg::I64(2), Arg::F32(3.0), Arg::Bytes(&[0; 3])];
    check_args("k", &kinds, &good).unwrap();
    for at in 0..good.len() {
        for wrong in [Arg::Memory(None), Arg::I32(0), Arg::I64(0), Arg::F32(0.0), Arg::Bytes(&[0; 4])] {
            let mut args = good;
            args[at] = wrong;
            let same = std::mem::discriminant(&wrong) == std::mem::discriminant(&good[at]) && at != 5;
            let checked = check_args("k", &kinds, &args);
            assert_eq!(checked.is_ok(), same, "{wrong:?} at {at}");
            assert!(same || matches!(checked, Err(KernelError::Unsupported { .. })));
        }
    }
    assert!(check_args("k", &kinds, &good[1..]).is_err());
}

#[test]
fn a_kernel_is_compiled_to_machine_code_where_there_is_no_device() {
    let Some(options) = options_with("compiling", |libraries| &libraries.nvrtc) else { return };
    let source = Source {
        entry: "add".to_owned(),
        text: "extern \"C\" __global__ void add(const float *x, float *y, int n) {\n    \
               int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] += expf(x[i]);\n}\n"
            .to_owned(),
        parameters: ["const float *", "float *", "int"].map(str::to_owned).to_vec(),
    };
    let image = compile_for(&source, [9, 0], &options).unwrap();
    assert!(image.starts_with(b"\x7fELF"), "a CUBIN is an ELF file");
    assert!(image.windows(3).any(|bytes| bytes == b"add"));
    let portable = compile_for(&source, [999, 0], &options).unwrap();
    assert!(String::from_utf8_lossy(&portable).contains(".entry add"), "PTX for what it does not know");
    assert_eq!(portable.last(), Some(&0));
    assert!(matches!(compile_for(&source, [2, 0], &options), Err(KernelError::Unsupported { .. })));
    let broken = Source { text: source.text.replace("expf(x[i])", "nonsense(x)"), ..source.clone() };
    let error = compile_for(&broken, [9, 0], &options).unwrap_err().to_string();
    assert!(error.contains("NVRTC_ERROR_COMPILATION of add") && error.contains("nonsense"), "{error}");
    let cut = Source { text: "extern \"C\" __global__ void add(\0".to_owned(), ..source };
    assert!(compile_for(&cut, [9, 0], &options).is_err());
}

#[test]
fn every_kernel_of_kilns_own_is_compiled_to_machine_code() {
    let Some(options) = options_with("compiling every kernel", |libraries| &libraries.nvrtc) else { return };
    let codes = crate::gpu::source::tests::every_code();
    assert!(codes.len() > 60, "{} codes", codes.len());
    for code in codes {
        let source = code.source().unwrap();
        let image = compile_for(&source, [9, 0], &options);
        assert!(image.as_ref().is_ok_and(|image| image.starts_with(b"\x7fELF")), "{code:?}: {image:?}");
        let kinds: Vec<Kind> = source.parameters.iter().map(|declared| Kind::of(declared)).collect();
        assert!(kinds.contains(&Kind::Memory), "{code:?}: {:?}", source.parameters);
    }
}
