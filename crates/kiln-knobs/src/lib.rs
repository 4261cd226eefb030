//! Knobs: the environment variables of Kiln, each declared once with its values, its default and its meaning.
//!
//! This is the only file that reads `KILN_*` variables; everything else gets values. A knob is a default for a whole
//! process: a function's argument or a command's flag always wins over it. A test compares docs/knobs.md with the table
//! below. An invalid value is an error that names the variable, the value and the valid values, never a silent default.

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use kiln_kernels::Isa;
use kiln_kernels::cpu::{Numerics, Precision};
use kiln_kernels::extent::Flush;
use kiln_kernels::jit::ProfilerFiles;

/// A variable has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: expected {allowed}")]
pub struct KnobError {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// The valid values.
    pub allowed: &'static str,
}

/// One declared variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub variable: &'static str,
    /// The valid values.
    pub allowed: &'static str,
    /// The value if it is unset or empty, in the same notation; empty if there is none.
    pub default: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// A type of values.
trait Value: Sized {
    /// The valid values, for errors and documents.
    const ALLOWED: &'static str;

    /// The value of a text; of the empty text too, if the variable may have no value.
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! knobs {
    ($($(#[doc = $about:literal])+ $field:ident: $kind:ty = $variable:literal, $default:literal;)+) => {
        /// The values of all variables.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Knobs {
            $($(#[doc = $about])+ pub $field: $kind,)+
        }

        /// Every variable.
        pub const KNOBS: &[Knob] = &[$(Knob {
            variable: $variable,
            allowed: <$kind as Value>::ALLOWED,
            default: $default,
            about: concat!($($about),+),
        }),+];

        impl Knobs {
            /// The values that `get` gives for the variables' names.
            ///
            /// # Errors
            ///
            /// [`KnobError`] for the first variable with an invalid value.
            pub fn read(get: impl Fn(&'static str) -> Option<OsString>) -> Result<Knobs, KnobError> {
                Ok(Knobs { $($field: value($variable, $default, get($variable))?,)+ })
            }
        }
    };
}

// An executor and its key take about a kibibyte, so 16,384 entries take some 16 MiB even where builders charge nothing.
// The bound in bytes is the one that matters; the number of entries only keeps tiny values from piling up. It is
// generous, because a model of 200 computing nodes at 60 shapes makes 12,000 keys, and an LRU that is one entry too
// small for a cyclic trace never hits.
knobs! {
    /// The highest instruction-set level that kernels are emitted for. Instructions that the processor lacks are never
    /// used.
    max_isa: Isa = "KILN_MAX_ISA", "avx512";
    /// How much kernels may round. strict: sums of products only, and denormal weights as they are. precise: also
    /// transforms that are as exact as sums. default: also slightly less exact transforms. invariant: as default, and a
    /// row has the same bits alone and in any batch.
    numerics: Numerics = "KILN_NUMERICS", "default";
    /// The type of the weights of matrix products: f32, or bf16, int8 or int4, which are smaller, faster and less
    /// exact.
    precision: Precision = "KILN_PRECISION", "f32";
    /// How many candidates are measured in the background where there is a choice of kernels: none (off), a few (fast)
    /// or many (full).
    tune: Tune = "KILN_TUNE", "off";
    /// auto: a loaded ONNX file is also written as a packed model beside the records, and later loads take the packed
    /// model.
    pack: Pack = "KILN_PACK", "off";
    /// The number of threads that a session computes with. The default is `OMP_NUM_THREADS`, or else one thread for
    /// each processor that the process may use.
    num_threads: Option<NonZeroUsize> = "KILN_NUM_THREADS", "";
    /// The folder of record files; by default `kiln` in the platform's cache folder.
    cache_dir: Option<PathBuf> = "KILN_CACHE_DIR", "";
    /// The user at a remote store of records, if the store needs one.
    remote_user: Option<String> = "KILN_REMOTE_USER", "";
    /// The password at a remote store of records. Credentials for S3 are read as Amazon's own tools read them.
    remote_password: Option<Secret> = "KILN_REMOTE_PASSWORD", "";
    /// The most executors and code blobs that are kept in memory; 0 keeps none.
    cache_capacity: usize = "KILN_CACHE_CAPACITY", "16384";
    /// The most memory of executors, code blobs and plans together, including evicted ones that are still in use.
    cache_bytes: ByteSize = "KILN_CACHE_BYTES", "256MiB";
    /// The most memory of all sessions of the process together: executors, plans, packed weights, tensors and records.
    /// A session may lower this limit, but not raise it.
    process_bytes: Option<ByteSize> = "KILN_PROCESS_BYTES", "";
    /// Whether a hit of code emits the code again and compares it. Slow; finds keys that do not determine their values.
    cache_check: bool = "KILN_CACHE_CHECK", "0";
    /// How many seconds a session rests before it gives back to the system the memory that its last requests did not
    /// use.
    trim_after: TrimAfter = "KILN_TRIM_AFTER", "5";
    /// Whether every tensor and all scratch memory lies between pages that fault, and touches one at its end (1) or at
    /// its start (start). Slow; finds kernels that read or write outside of their operands.
    guard: Guard = "KILN_GUARD", "0";
    /// Which lines are printed: errors, creations of executors, executions of nodes, and times of nodes.
    verbose: Verbose = "KILN_VERBOSE", "none";
    /// Where emitted code is named for Linux's perf: in /tmp/perf-PID.map, in /tmp/jit-PID.dump for perf inject, or in
    /// both.
    perf: ProfilerFiles = "KILN_PERF", "off";
    /// Folders of NVIDIA's libraries. They are searched before the dynamic loader's own folders.
    cuda_lib_dirs: Folders = "KILN_CUDA_LIB_DIRS", "";
}

fn value<T: Value>(variable: &'static str, default: &str, found: Option<OsString>) -> Result<T, KnobError> {
    let found = found.filter(|found| !found.is_empty());
    let error = |value: String| KnobError { variable, value, allowed: T::ALLOWED };
    let text = match found {
        None => default.to_owned(),
        Some(found) => found.into_string().map_err(|found| error(found.to_string_lossy().into_owned()))?,
    };
    T::parse(text.trim()).ok_or_else(|| error(text))
}

impl Knobs {
    /// The values of the process's environment. An unknown `KILN_*` variable is logged as a warning.
    ///
    /// # Errors
    ///
    /// [`KnobError`] for the first variable with an invalid value.
    pub fn from_env() -> Result<Knobs, KnobError> {
        Knobs::from_env_after(|_| None)
    }

    /// As [`from_env`](Knobs::from_env), but a value that `first` gives for a variable wins over the environment's.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Knobs::from_env).
    #[allow(clippy::disallowed_methods, reason = "the one file that may read the environment")]
    pub fn from_env_after(first: impl Fn(&'static str) -> Option<OsString>) -> Result<Knobs, KnobError> {
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("KILN_") && !KNOBS.iter().any(|knob| knob.variable == name) {
                tracing::warn!(%name, "no such knob; docs/knobs.md lists them");
            }
        }
        let knobs = Knobs::read(|variable| first(variable).or_else(|| std::env::var_os(variable)))?;
        let num_threads =
            knobs.num_threads.or_else(|| std::env::var("OMP_NUM_THREADS").ok().as_deref().and_then(omp_threads));
        Ok(Knobs { num_threads, ..knobs })
    }

    /// The folders of NVIDIA's libraries, and the environment variables that change their results.
    #[cfg(feature = "cuda")]
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one file that may read the environment")]
    pub fn cuda_options(&self) -> kiln_kernels::gpu::cuda::OpenOptions {
        kiln_kernels::gpu::cuda::OpenOptions {
            library_dirs: self.cuda_lib_dirs.0.clone(),
            environment: library_environment(std::env::var_os),
        }
    }
}

impl Value for Isa {
    const ALLOWED: &'static str = "portable, avx2 or avx512";

    fn parse(text: &str) -> Option<Isa> {
        Isa::from_name(text)
    }
}

impl Value for Numerics {
    const ALLOWED: &'static str = "strict, precise, default or invariant";

    fn parse(text: &str) -> Option<Numerics> {
        text.parse().ok()
    }
}

impl Value for Precision {
    const ALLOWED: &'static str = "f32, bf16, int8 or int4";

    fn parse(text: &str) -> Option<Precision> {
        text.parse().ok()
    }
}

impl Value for Tune {
    const ALLOWED: &'static str = "off, fast or full";

    fn parse(text: &str) -> Option<Tune> {
        Tune::ALL.into_iter().find(|tune| tune.name() == text)
    }
}

impl Value for Pack {
    const ALLOWED: &'static str = "off or auto";

    fn parse(text: &str) -> Option<Pack> {
        Pack::ALL.into_iter().find(|pack| pack.name() == text)
    }
}

impl Value for Option<NonZeroUsize> {
    const ALLOWED: &'static str = "a number from 1 to 1024";

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= 1024).map(Some)
    }
}

impl Value for Option<PathBuf> {
    const ALLOWED: &'static str = "a path";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.into()))
    }
}

impl Value for Option<String> {
    const ALLOWED: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_owned()))
    }
}

impl Value for Option<Secret> {
    const ALLOWED: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| Secret(text.to_owned())))
    }
}

impl Value for usize {
    const ALLOWED: &'static str = "a number";

    fn parse(text: &str) -> Option<usize> {
        text.parse().ok()
    }
}

impl Value for TrimAfter {
    const ALLOWED: &'static str = "off or a number from 1 to 86400";

    fn parse(text: &str) -> Option<TrimAfter> {
        if text == "off" {
            return Some(TrimAfter(None));
        }
        let seconds = text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds));
        seconds.map(|seconds| TrimAfter(Some(Duration::from_secs(seconds))))
    }
}

impl Value for bool {
    const ALLOWED: &'static str = "0 or 1";

    fn parse(text: &str) -> Option<bool> {
        match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }
}

impl Value for Guard {
    const ALLOWED: &'static str = "0, 1 or start";

    fn parse(text: &str) -> Option<Guard> {
        match text {
            "0" => Some(Guard(None)),
            "1" => Some(Guard(Some(Flush::End))),
            "start" => Some(Guard(Some(Flush::Start))),
            _ => None,
        }
    }
}

impl Value for ByteSize {
    const ALLOWED: &'static str = "a number of bytes, KiB, MiB or GiB, as in 256MiB";

    fn parse(text: &str) -> Option<ByteSize> {
        text.parse().ok()
    }
}

impl Value for Option<ByteSize> {
    const ALLOWED: &'static str = ByteSize::ALLOWED;

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
    }
}

impl Value for ProfilerFiles {
    const ALLOWED: &'static str = "off, map, jitdump or both";

    fn parse(text: &str) -> Option<ProfilerFiles> {
        let (map, dump) = match text {
            "off" => (false, false),
            "map" => (true, false),
            "jitdump" => (false, true),
            "both" => (true, true),
            _ => return None,
        };
        Some(ProfilerFiles { map, dump })
    }
}

impl Value for Verbose {
    const ALLOWED: &'static str = "none, all, or a list of error, create, exec and profile, as in create,exec";

    fn parse(text: &str) -> Option<Verbose> {
        text.parse().ok()
    }
}

impl Value for Folders {
    const ALLOWED: &'static str = "paths, separated by colons";

    fn parse(text: &str) -> Option<Folders> {
        Some(Folders(text.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect()))
    }
}

/// The number of threads in OpenMP's variable, for the outermost level of a list. `None` where it is invalid: a
/// variable of other programs is never an error.
fn omp_threads(text: &str) -> Option<NonZeroUsize> {
    let first = text.split(',').next().unwrap_or_default();
    <Option<NonZeroUsize> as Value>::parse(first.trim()).flatten()
}

/// How long a session rests before it gives memory back; `None` is for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimAfter(pub Option<Duration>);

/// At which end memory of tensors touches a page that faults, if at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard(pub Option<Flush>);

/// The value of `KILN_GUARD`, read once: memory belongs to the process, and not to a session. An invalid value guards
/// nothing, and [`Knobs::from_env`] reports it.
#[allow(clippy::disallowed_methods, reason = "the one file that may read the environment")]
pub fn guard() -> Option<Flush> {
    static GUARD: LazyLock<Guard> = LazyLock::new(|| {
        let found = std::env::var_os("KILN_GUARD");
        value("KILN_GUARD", "0", found).unwrap_or_default()
    });
    GUARD.0
}

/// The value of `KILN_PROCESS_BYTES`, read once: the ceiling belongs to the process, not to a session. An invalid value
/// sets no ceiling, and [`Knobs::from_env`] reports it.
#[allow(clippy::disallowed_methods, reason = "the one file that may read the environment")]
pub fn process_bytes() -> Option<usize> {
    static BYTES: LazyLock<Option<ByteSize>> = LazyLock::new(|| {
        let found = std::env::var_os("KILN_PROCESS_BYTES");
        value("KILN_PROCESS_BYTES", "", found).unwrap_or_default()
    });
    BYTES.map(|size| size.0)
}

/// Folders, in order of precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(pub Vec<PathBuf>);

/// Variables of NVIDIA's that change results or choices of its libraries.
const LIBRARY_VARIABLES: [&str; 2] = ["NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"];

/// The variable that names a file of engines that cuDNN must not choose.
const ERRATA: &str = "CUDNN_ERRATA_JSON_FILE";

/// The environment of NVIDIA's libraries, as facts about a device that its records depend on: variables that are set,
/// with their values, and the digest of a file.
#[must_use]
pub fn library_environment(get: impl Fn(&'static str) -> Option<OsString>) -> Vec<(String, String)> {
    let set = |name| get(name).filter(|value| !value.is_empty());
    let mut facts: Vec<(String, String)> = LIBRARY_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), set(name)?.to_string_lossy().into_owned())))
        .collect();
    if let Some(path) = set(ERRATA) {
        let digest = std::fs::read(path).map(|bytes| blake3::hash(&bytes).to_hex().to_string());
        facts.push((ERRATA.to_owned(), digest.unwrap_or_else(|_| "unreadable".to_owned())));
    }
    facts
}

pub use kiln_records::Secret;

/// Whether packed models are made and looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pack {
    /// Neither: a packed model is loaded where its path is given.
    #[default]
    Off,
    /// Both, in the folder `packed` beside the records. Where records are read-only, packed models are too.
    Auto,
}

impl Pack {
    /// Both.
    pub const ALL: [Pack; 2] = [Pack::Off, Pack::Auto];

    /// Its name in options and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pack::Off => "off",
            Pack::Auto => "auto",
        }
    }
}

/// How much is measured to choose between kernels. The first use of a key never waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tune {
    /// Nothing is measured: cost models choose, and earlier measurements in records count.
    #[default]
    Off,
    /// A few candidates of each key, some milliseconds each, while no request runs.
    Fast,
    /// Many candidates, and more samples of each.
    Full,
}

impl Tune {
    /// Every policy, the least effort first.
    pub const ALL: [Tune; 3] = [Tune::Off, Tune::Fast, Tune::Full];

    /// Its name in variables and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tune::Off => "off",
            Tune::Fast => "fast",
            Tune::Full => "full",
        }
    }
}

/// A number of bytes, written as `4096`, `64KiB`, `256MiB` or `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub usize);

/// A text that is not a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of bytes, KiB, MiB or GiB, as in 256MiB")]
pub struct ByteSizeError;

/// The units, largest first.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<ByteSize, ByteSizeError> {
        let (number, unit) =
            UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).ok_or(ByteSizeError)?;
        let number: usize = number.trim_end().parse().map_err(|_| ByteSizeError)?;
        number.checked_mul(*unit).map(ByteSize).ok_or(ByteSizeError)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, unit): &&(&str, usize)| self.0 > 0 && self.0.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().find(whole).unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / unit)
    }
}

/// Which verbose lines are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbose {
    /// Errors that were worked around.
    pub error: bool,
    /// Each creation of an executor: hit, miss, record or wait.
    pub create: bool,
    /// Each execution of a node.
    pub exec: bool,
    /// Times of nodes at the end.
    pub profile: bool,
}

/// A text that names no verbose lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: expected none, all, error, create, exec or profile")]
pub struct VerboseError(String);

impl Verbose {
    /// No lines.
    pub const NONE: Verbose = Verbose { error: false, create: false, exec: false, profile: false };
    /// All lines.
    pub const ALL: Verbose = Verbose { error: true, create: true, exec: true, profile: true };
}

impl FromStr for Verbose {
    type Err = VerboseError;

    fn from_str(text: &str) -> Result<Verbose, VerboseError> {
        text.split(',').map(str::trim).try_fold(Verbose::NONE, |verbose, word| match word {
            "none" => Ok(verbose),
            "all" => Ok(Verbose::ALL),
            "error" => Ok(Verbose { error: true, ..verbose }),
            "create" => Ok(Verbose { create: true, ..verbose }),
            "exec" => Ok(Verbose { exec: true, ..verbose }),
            "profile" => Ok(Verbose { profile: true, ..verbose }),
            other => Err(VerboseError(other.to_owned())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the knobs of an environment with one variable.
    fn with(variable: &str, value: &str) -> Result<Knobs, KnobError> {
        Knobs::read(|asked| (asked == variable).then(|| value.into()))
    }

    #[test]
    fn defaults_hold_where_nothing_is_set_or_what_is_set_is_empty() {
        let defaults = Knobs::read(|_| None).unwrap();
        assert_eq!(Knobs::read(|_| Some("".into())).unwrap(), defaults);
        assert_eq!((defaults.max_isa, defaults.num_threads, defaults.cache_dir), (Isa::Avx512, None, None));
        assert_eq!((defaults.cache_capacity, defaults.cache_bytes), (16384, ByteSize(256 << 20)));
        assert_eq!((defaults.cache_check, defaults.verbose), (false, Verbose::NONE));
    }

    #[test]
    fn each_variable_sets_its_own_knob() {
        let verbose = Verbose { create: true, profile: true, ..Verbose::NONE };
        assert_eq!(with("KILN_MAX_ISA", "avx2").unwrap().max_isa, Isa::Avx2);
        assert_eq!(with("KILN_NUMERICS", "strict").unwrap().numerics, Numerics::Strict);
        assert_eq!(with("KILN_PRECISION", "bf16").unwrap().precision, Precision::Bf16);
        assert_eq!(with("KILN_TUNE", "full").unwrap().tune, Tune::Full);
        assert_eq!(with("KILN_PACK", "auto").unwrap().pack, Pack::Auto);
        assert_eq!(with("KILN_NUM_THREADS", "3").unwrap().num_threads, NonZeroUsize::new(3));
        assert_eq!(with("KILN_CACHE_DIR", "/a b/c").unwrap().cache_dir, Some("/a b/c".into()));
        assert_eq!(with("KILN_REMOTE_USER", "kiln").unwrap().remote_user, Some("kiln".to_owned()));
        let secret = with("KILN_REMOTE_PASSWORD", "opensesame").unwrap();
        assert_eq!(secret.remote_password, Some(Secret("opensesame".to_owned())));
        assert!(!format!("{secret:?}").contains("opensesame"));
        assert_eq!(with("KILN_CACHE_CAPACITY", "0").unwrap().cache_capacity, 0);
        assert_eq!(with("KILN_CACHE_BYTES", "1 GiB").unwrap().cache_bytes, ByteSize(1 << 30));
        assert_eq!(with("KILN_PROCESS_BYTES", "2GiB").unwrap().process_bytes, Some(ByteSize(2 << 30)));
        assert_eq!(with("KILN_PROCESS_BYTES", "").unwrap().process_bytes, None);
        assert!(with("KILN_CACHE_CHECK", "1").unwrap().cache_check);
        assert_eq!(with("KILN_TRIM_AFTER", "60").unwrap().trim_after, TrimAfter(Some(Duration::from_secs(60))));
        assert_eq!(with("KILN_TRIM_AFTER", "off").unwrap().trim_after, TrimAfter(None));
        assert_eq!(with("KILN_VERBOSE", "create, profile").unwrap().verbose, verbose);
        assert_eq!(with("KILN_VERBOSE", "all").unwrap().verbose, Verbose::ALL);
        let folders = with("KILN_CUDA_LIB_DIRS", "/a b/c::/d").unwrap().cuda_lib_dirs;
        assert_eq!(folders, Folders(vec!["/a b/c".into(), "/d".into()]));
    }

    #[test]
    fn openmp_says_how_many_threads_or_nothing() {
        let threads = |text: &str| omp_threads(text).map(NonZeroUsize::get);
        assert_eq!([threads("3"), threads(" 4 , 2"), threads("1024")], [Some(3), Some(4), Some(1024)]);
        assert_eq!([threads(""), threads("0"), threads("many"), threads("-1"), threads("1025")], [None; 5]);
    }

    #[test]
    fn what_changes_the_libraries_is_told_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let path = file.path().as_os_str().to_owned();
        let facts = library_environment(|name| match name {
            "NVIDIA_TF32_OVERRIDE" => Some("0".into()),
            "CUBLAS_WORKSPACE_CONFIG" => Some("".into()),
            "CUDNN_ERRATA_JSON_FILE" => Some(path.clone()),
            other => panic!("{other} is none of them"),
        });
        let names: Vec<&str> = facts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["NVIDIA_TF32_OVERRIDE", "CUDNN_ERRATA_JSON_FILE"]);
        assert_eq!((facts[0].1.as_str(), facts[1].1.as_str()), ("0", blake3::hash(b"{}").to_hex().as_str()));
        let nowhere = library_environment(|name| (name == ERRATA).then(|| "/nowhere".into()));
        assert_eq!(nowhere, [(ERRATA.to_owned(), "unreadable".to_owned())]);
    }

    #[test]
    fn an_error_names_the_variable_the_value_and_what_is_allowed() {
        for (variable, value) in [
            ("KILN_MAX_ISA", "sse9"),
            ("KILN_NUMERICS", "exact"),
            ("KILN_PRECISION", "f16"),
            ("KILN_TUNE", "slow"),
            ("KILN_PACK", "always"),
            ("KILN_NUM_THREADS", "0"),
            ("KILN_NUM_THREADS", "1025"),
            ("KILN_NUM_THREADS", "many"),
            ("KILN_CACHE_CAPACITY", "-1"),
            ("KILN_CACHE_BYTES", "12 potatoes"),
            ("KILN_CACHE_BYTES", "99999999999999GiB"),
            ("KILN_PROCESS_BYTES", "most of it"),
            ("KILN_CACHE_CHECK", "yes"),
            ("KILN_TRIM_AFTER", "0"),
            ("KILN_TRIM_AFTER", "never"),
            ("KILN_VERBOSE", "create,everything"),
        ] {
            let error = with(variable, value).unwrap_err();
            let knob = KNOBS.iter().find(|knob| knob.variable == variable).unwrap();
            assert_eq!(error.to_string(), format!("{variable}={value}: expected {}", knob.allowed));
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("4KiB", 4096), ("256MiB", 256 << 20), ("3GiB", 3 << 30)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
        for text in ["", "MiB", "-1", "1.5GiB", "1gib", "1 2"] {
            assert_eq!(text.parse::<ByteSize>(), Err(ByteSizeError), "{text}");
        }
    }

    #[test]
    fn the_document_lists_every_knob() {
        let document = include_str!("../../../docs/knobs.md");
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| `KILN_")).collect();
        let expected: Vec<String> = KNOBS
            .iter()
            .map(|knob| {
                let default = if knob.default.is_empty() { "unset".to_owned() } else { format!("`{}`", knob.default) };
                format!("| `{}` | {} | {default} | {} |", knob.variable, knob.allowed, knob.about.trim())
            })
            .collect();
        assert_eq!(rows, expected, "the table should be:\n{}", expected.join("\n"));
    }
}
