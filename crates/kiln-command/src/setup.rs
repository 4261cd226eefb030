//! Loads sessions by the flags that several commands share. Depends on no command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use kiln::packed::Verify;
use kiln::session::{Numerics, Pack, PackReport, Precision, Session, SessionError, SessionOptions, Tune};
use kiln::{ChoiceError, DecoderError};
use kiln_knobs::{ByteSize, Knobs};
use kiln_model::onnx::{ModelError, TensorProblem};
use kiln_run::record::{CacheMode, Credentials, RemotePolicy};
use kiln_run::{NodeError, RunError};

use crate::device::DeviceArgs;
use crate::failure::{Code, Failure, Outcome, WithCode};
use crate::progress::Progress;

/// Flags of every command that runs models.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SessionArgs {
    /// Threads that a request may use; 0 for all that this process has
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024), help_heading = "Session")]
    threads: u16,
    /// Folder of the records, which carry choices from one process to the next
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    cache_dir: Option<PathBuf>,
    /// What is kept: nothing (off), executors in this process (memory), or also records, which are only read (read) or
    /// read and written (read-write)
    #[arg(long, value_name = "MODE", help_heading = "Session")]
    cache_mode: Option<Mode>,
    /// A store of records that many machines share, in addition to that folder: redis://HOST[:PORT][/PREFIX],
    /// rediss://, or s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]; credentials come from the environment
    #[arg(long, value_name = "URL", help_heading = "Session")]
    remote_cache: Option<String>,
    /// Read from the shared store and never write to it
    #[arg(long, requires = "remote_cache", help_heading = "Session")]
    remote_read_only: bool,
    /// Use a record file for this model alone, named by its structure, instead of the file that all models share
    #[arg(long, help_heading = "Session")]
    cache_per_model: bool,
    /// Fail if an executor has no record, instead of choosing how to build it: for deployments that must not tune
    #[arg(long, help_heading = "Session")]
    error_on_cache_miss: bool,
    /// Do not record the shapes of requests; at load, do not plan recorded shapes or run one of them on zeros
    #[arg(long, help_heading = "Session")]
    no_rehearsal: bool,
    /// How much kernels may round
    #[arg(long, value_name = "POLICY", help_heading = "Session")]
    numerics: Option<Policy>,
    /// The type of the weights of matrix products; bf16, int8 and int4 are smaller, faster and less exact than f32
    #[arg(long, value_name = "TYPE", help_heading = "Session")]
    precision: Option<Weights>,
    /// How many candidates are measured where there is a choice of kernels, while no request runs
    #[arg(long, value_name = "EFFORT", help_heading = "Session")]
    tune: Option<Effort>,
    /// Whether a loaded ONNX file is also written as a packed model beside the records, for later loads
    #[arg(long, value_name = "WHEN", help_heading = "Session")]
    pack: Option<Packing>,
    /// When the data of a packed model is compared with its digests
    #[arg(long, value_name = "WHEN", help_heading = "Session")]
    pack_verify: Option<Verifying>,
    /// Most bytes of packed models that are kept beside the records
    #[arg(long, value_name = "BYTES", help_heading = "Session")]
    pack_bytes: Option<u64>,
    /// Most memory of the process for models and requests, as in 512MiB: executors, plans, packed weights that are not
    /// mapped, tensors and records
    #[arg(long, value_name = "BYTES", help_heading = "Session")]
    process_bytes: Option<ByteSize>,
    /// Most time of a request, in milliseconds; a longer request fails before its next node
    #[arg(long, value_name = "MS", help_heading = "Session")]
    time_limit: Option<u64>,
    /// Most time of loading a model, in milliseconds
    #[arg(long, value_name = "MS", help_heading = "Session")]
    load_time_limit: Option<u64>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Leave out this graph pass, or `all` passes; may be given several times (`kiln inspect` shows the names)
    #[arg(long = "without-pass", value_name = "NAME", help_heading = "Session")]
    without_passes: Vec<String>,
}

/// The tuning policies by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Effort {
    /// Nothing: cost models choose, and existing measured records are used
    Off,
    /// A few candidates of each key
    Fast,
    /// Many candidates of each key, with more samples of each
    Full,
}

impl From<Effort> for Tune {
    fn from(effort: Effort) -> Tune {
        match effort {
            Effort::Off => Tune::Off,
            Effort::Fast => Tune::Fast,
            Effort::Full => Tune::Full,
        }
    }
}

/// Whether packed models are made and looked for, by the name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Packing {
    /// Write no packed model and look for none
    Off,
    /// Write packed models, and load them
    Auto,
}

impl From<Packing> for Pack {
    fn from(packing: Packing) -> Pack {
        match packing {
            Packing::Off => Pack::Off,
            Packing::Auto => Pack::Auto,
        }
    }
}

/// When packed models are verified, by the name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verifying {
    /// At each load
    Each,
    /// At the first load after the file was written or changed
    Once,
    /// Not at all
    Never,
}

impl From<Verifying> for Verify {
    fn from(verifying: Verifying) -> Verify {
        match verifying {
            Verifying::Each => Verify::Each,
            Verifying::Once => Verify::Once,
            Verifying::Never => Verify::Never,
        }
    }
}

/// The numerics policies by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Sums of products only
    Strict,
    /// Also transforms whose error is no larger
    Precise,
    /// Also transforms that lose one to two bits more
    Default,
    /// As default, and a row has the same bits alone and in any batch
    Invariant,
}

impl From<Policy> for Numerics {
    fn from(policy: Policy) -> Numerics {
        match policy {
            Policy::Strict => Numerics::Strict,
            Policy::Precise => Numerics::Precise,
            Policy::Default => Numerics::Default,
            Policy::Invariant => Numerics::Invariant,
        }
    }
}

/// The precisions by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Weights {
    /// Everything in f32
    F32,
    /// Weights in bf16
    Bf16,
    /// Weights of products as integers of 8 bits, in blocks of 32
    Int8,
    /// Weights of products as integers of 4 bits, in blocks of 32
    Int4,
}

impl From<Weights> for Precision {
    fn from(weights: Weights) -> Precision {
        match weights {
            Weights::F32 => Precision::F32,
            Weights::Bf16 => Precision::Bf16,
            Weights::Int8 => Precision::Int8,
            Weights::Int4 => Precision::Int4,
        }
    }
}

/// The cache modes by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Keep nothing: build everything for every request whose shapes change
    Off,
    /// Keep executors in this process
    Memory,
    /// Also load records
    Read,
    /// Also load records and save new ones
    ReadWrite,
}

impl From<Mode> for CacheMode {
    fn from(mode: Mode) -> CacheMode {
        match mode {
            Mode::Off => CacheMode::Off,
            Mode::Memory => CacheMode::Memory,
            Mode::Read => CacheMode::Read,
            Mode::ReadWrite => CacheMode::ReadWrite,
        }
    }
}

/// Where a command keeps records without flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultCacheMode {
    /// Records in the platform's cache folder: the next process starts warm.
    Records,
    /// This process only, so that measurements and checks do not depend on earlier ones.
    Memory,
}

impl SessionArgs {
    /// The flags for records of that folder, read and written.
    pub(crate) fn with_records(threads: u16, folder: &Path) -> SessionArgs {
        SessionArgs {
            threads,
            cache_dir: Some(folder.to_owned()),
            cache_mode: Some(Mode::ReadWrite),
            ..SessionArgs::default()
        }
    }

    /// The options of a session: the environment's, overridden by flags.
    pub(crate) fn options(&self, default_mode: DefaultCacheMode) -> Outcome<SessionOptions> {
        let knobs = Knobs::from_env().usage(|| "environment")?;
        let mut options = SessionOptions::from_knobs(&knobs);
        options.profile = knobs.verbose.profile;
        if self.threads > 0 {
            options.threads = usize::from(self.threads);
        }
        if let Some(policy) = self.numerics {
            options.numerics = policy.into();
        }
        if let Some(precision) = self.precision {
            options.precision = precision.into();
        }
        if let Some(pack) = self.pack {
            options.pack = pack.into();
        }
        if let Some(verify) = self.pack_verify {
            options.pack_verify = verify.into();
        }
        options.pack_bytes = self.pack_bytes.unwrap_or(options.pack_bytes);
        if let Some(size) = self.process_bytes {
            options.process_bytes = Some(size.0);
        }
        options.cache_per_model = self.cache_per_model;
        options.error_on_cache_miss = self.error_on_cache_miss;
        options.rehearse = !self.no_rehearsal;
        if let Some(effort) = self.tune {
            options.tune = effort.into();
        }
        options.time_limit = self.time_limit.map(Duration::from_millis);
        options.load_time_limit = self.load_time_limit.map(Duration::from_millis);
        let passes = kiln_model::passes::names();
        for name in &self.without_passes {
            if name == "all" {
                options.passes = kiln_model::passes::PassOptions::none();
                continue;
            }
            if !passes.contains(&name.as_str()) {
                return Err(Failure::usage(format!("no pass is named '{name}'; there are {}", passes.join(", "))));
            }
            options.passes = options.passes.without(name);
        }
        let keeps_records = |mode| matches!(mode, Mode::Read | Mode::ReadWrite);
        match (&self.cache_dir, self.cache_mode) {
            (Some(_), Some(mode)) if !keeps_records(mode) => {
                let mode = mode.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
                return Err(Failure::usage(format!("--cache-dir has no use with --cache-mode {mode}")));
            }
            (Some(dir), mode) => {
                options.cache_dir = Some(dir.clone());
                options.cache_mode = mode.unwrap_or(Mode::ReadWrite).into();
            }
            (None, Some(mode)) => options.cache_mode = mode.into(),
            (None, None) if default_mode == DefaultCacheMode::Memory => options.cache_mode = CacheMode::Memory,
            (None, None) => options.cache_mode = CacheMode::ReadWrite,
        }
        self.device.apply(&mut options, &knobs)?;
        if let Some(url) = &self.remote_cache {
            let files = matches!(options.cache_mode, CacheMode::Read | CacheMode::ReadWrite);
            if !files || options.cache_dir.is_none() {
                return Err(Failure::usage("--remote-cache needs records in a folder, as --cache-dir gives them"));
            }
            let credentials = Credentials { user: knobs.remote_user, password: knobs.remote_password };
            let remote = kiln_run::record::connect(url, &credentials).usage(|| "--remote-cache")?;
            let policy = RemotePolicy { read_only: self.remote_read_only, ..RemotePolicy::default() };
            options.remote = Some((remote, policy));
        }
        Ok(options)
    }
}

/// Loads a model, with a spinner meanwhile.
pub(crate) fn load(model: &Path, options: &SessionOptions) -> Outcome<Session> {
    let spinner = Progress::spinner(format!("loading {}", model.display()));
    let session = Session::load(model, options);
    drop(spinner);
    session.map_err(|error| Failure::from(error).context(format!("{}", model.display())))
}

/// Packs a model into a file.
pub(crate) fn pack(model: &Path, to: &Path, options: &SessionOptions) -> Outcome<PackReport> {
    let spinner = Progress::spinner(format!("packing {}", model.display()));
    let report = Session::pack(model, to, options);
    drop(spinner);
    report.map_err(|error| Failure::from(error).context(format!("{}", model.display())))
}

/// The exit code depends on the cause of a decoder's error.
impl From<DecoderError> for Failure {
    fn from(error: DecoderError) -> Failure {
        let code = match error {
            DecoderError::Session(error) => return Failure::from(error),
            DecoderError::Model(_) => Code::Unsupported,
            DecoderError::Tokens(_) | DecoderError::Choice(ChoiceError::Setting { .. }) => Code::Usage,
            _ => Code::Failed,
        };
        Failure::new(code, error)
    }
}

/// The exit code depends on the cause of a session's error.
impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let code = match &error {
            SessionError::Unsupported(_) => Code::Unsupported,
            SessionError::Run(RunError { error: NodeError::Unsupported(_), .. }) => Code::Unsupported,
            SessionError::Model(ModelError::Unsupported { .. } | ModelError::Opset { .. }) => Code::Unsupported,
            SessionError::Model(ModelError::Tensor { problem: TensorProblem::Type(_), .. }) => Code::Unsupported,
            SessionError::Model(_) | SessionError::InvalidNode { .. } | SessionError::Packed(_) => Code::Usage,
            SessionError::Input { .. } | SessionError::Dimension { .. } => Code::Usage,
            _ => Code::Failed,
        };
        Failure::new(code, error)
    }
}

/// Saves new choices, if the mode says so. An error does not fail the command: it is printed.
pub(crate) fn save(session: &Session, screen: &mut dyn Write) -> Outcome {
    if let Err(error) = session.save_records() {
        writeln!(screen, "notice: records were not saved: {error}")?;
    }
    Ok(())
}
