//! Import and export of a session's choices: records to a file, from a file, or one by one as blobs; and its packed
//! model.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use kiln_run::record::{
    self, CacheMode, CodecError, Engine, LoadReport, Record, RecordError, RecordId, RemoteError, SaveReport, Store,
    write_blob,
};

use super::{LoadClock, Session, SessionError};

/// A kind of data to save and load: records of a kind, or the packed model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CacheKind {
    /// All records. The packed model is not a record; it has a file of its own.
    All,
    /// Choices of kernels that run on the processor.
    Cpu,
    /// Choices of cuDNN's algorithms for single operators. A build without cuDNN makes none, and keeps those that it is
    /// given.
    Cudnn,
    /// Choices of cuBLASLt's algorithms; a build without cuBLASLt does the same.
    Cublaslt,
    /// Choices for several operators in one: element-wise chains on the processor and on devices, and convolutions of
    /// cuDNN with epilogues.
    Chains,
    /// No records, but the packed model ([`crate::packed`]): the graph after fusion and the packed weights.
    Fusion,
}

/// Why something was not saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Records.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The packed model.
    #[error(transparent)]
    Packed(#[from] SessionError),
}

/// The name of a kind that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is saved as kind '{kind}': {why}")]
pub struct UnknownKind {
    /// The name.
    pub kind: String,
    /// Why there is no such kind.
    pub why: &'static str,
}

impl CacheKind {
    /// Every kind.
    pub const ALL: [CacheKind; 6] =
        [CacheKind::All, CacheKind::Cpu, CacheKind::Cudnn, CacheKind::Cublaslt, CacheKind::Chains, CacheKind::Fusion];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CacheKind::All => "all",
            CacheKind::Cpu => "cpu",
            CacheKind::Cudnn => "cudnn",
            CacheKind::Cublaslt => "cublaslt",
            CacheKind::Chains => "chains",
            CacheKind::Fusion => "fusion",
        }
    }

    /// Whether records of that family are of this kind.
    #[must_use]
    pub fn holds(self, family: &str) -> bool {
        let own = match family {
            "chain" | "cudnn-fusion" | "nvrtc-kernel" => CacheKind::Chains,
            "cudnn-conv" => CacheKind::Cudnn,
            "cublaslt-matmul" => CacheKind::Cublaslt,
            _ => CacheKind::Cpu,
        };
        self == CacheKind::All || self == own
    }
}

impl FromStr for CacheKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<CacheKind, UnknownKind> {
        CacheKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownKind {
            kind: text.to_owned(),
            why: match text {
                "tensorrt" => {
                    "TensorRT keeps whole compiled engines, which only it can read and no reader can verify; \
                     records hold parameters alone; there are cpu, cudnn, cublaslt, chains, fusion and all"
                }
                _ => "there are cpu, cudnn, cublaslt, chains, fusion and all",
            },
        })
    }
}

/// One choice of a session, for a storage of the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceBlob {
    /// The identifier to store it under.
    pub id: RecordId,
    /// The family of its key.
    pub family: String,
    /// The bytes, which [`Session::load_blob`] takes.
    pub blob: Vec<u8>,
}

impl Session {
    /// Writes the records of that kind to a file of the caller's, merged with its contents; of two records with one
    /// key, the one with better evidence stays. The session's own file is written by [`Session::save_records`].
    ///
    /// [`CacheKind::Fusion`] writes the session's packed model in place of such a file, as [`Session::pack`] does with
    /// the session's options; it counts as one in the report. A session of a packed model copies it.
    ///
    /// # Errors
    ///
    /// [`CacheError`]; the file is unchanged then. A session whose model is not in files, or in files that were changed
    /// since, has nothing to pack.
    pub fn save_cache(&self, path: &Path, kind: CacheKind) -> Result<SaveReport, CacheError> {
        if kind == CacheKind::Fusion {
            let bytes = self.save_packed(path)?;
            return Ok(SaveReport { path: Some(path.to_owned()), written: 1, bytes, ..SaveReport::default() });
        }
        let store = Store::open_file(path, self.engine().fingerprint(), CacheMode::ReadWrite);
        for record in self.build.records.list().iter().filter(|record| kind.holds(&record.family)) {
            store.insert_record(record);
        }
        Ok(store.save()?)
    }

    /// Puts new records into the remote store now ([`SessionOptions::remote`](super::SessionOptions::remote)), and
    /// waits for it up to `patience`. Without this they are put once they have settled, and at the session's end.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; what could not be put is tried again later.
    pub fn publish(&self, patience: Duration) -> Result<(), RemoteError> {
        self.build.records.publish(patience)
    }

    /// Merges the records of that kind from a file. Executors of this model's earlier requests, as far as the file has
    /// them, are rebuilt at once, within the limits of loading a model; others when a request needs them.
    ///
    /// [`CacheKind::Fusion`] takes a packed model. Later sessions of the same model and options in this process are
    /// loaded from it; so are those of later processes with [`Pack::Auto`](super::Pack), if there is a writable folder
    /// of records. This session does not change. The packed model counts as one in the report.
    ///
    /// # Errors
    ///
    /// [`CacheError`] if the file cannot be read, is refused, or is for another machine, build or model. The session is
    /// unchanged then.
    pub fn load_cache(&self, path: &Path, kind: CacheKind) -> Result<LoadReport, CacheError> {
        if kind == CacheKind::Fusion {
            self.take_packed(path)?;
            return Ok(LoadReport { sound: 1, taken: 1, damaged: 0 });
        }
        let report = self.build.records.load_from(path, self.engine().fingerprint(), |family| kind.holds(family))?;
        if report.taken > 0 {
            self.rehearse(&LoadClock { at: Instant::now(), stop: None, ceiling: self.ceiling.clone() });
        }
        Ok(report)
    }

    /// The device that this session's executors are for: an id that tells machines apart, and a blob that describes it.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.build.engine()
    }

    /// Every choice of this session, each as a blob.
    ///
    /// # Errors
    ///
    /// [`CodecError`] for a record that is too long for a file, which the store does not keep.
    pub fn choices(&self) -> Result<Vec<ChoiceBlob>, CodecError> {
        let engine = self.engine();
        let blob = |record: Record| {
            let blob = write_blob(std::slice::from_ref(&record), engine.fingerprint())?;
            Ok(ChoiceBlob { id: RecordId::of(&record), family: record.family, blob })
        };
        self.build.records.list().into_iter().map(blob).collect()
    }

    /// Merges the records of a blob, and returns their number. As with a file, a choice is validated before its use.
    ///
    /// # Errors
    ///
    /// [`record::BlobError`] for anything but a sound blob for this machine and build.
    pub fn load_blob(&self, blob: &[u8]) -> Result<usize, record::BlobError> {
        let records = record::read_blob(blob, self.engine().fingerprint())?;
        for record in &records {
            self.build.records.insert_record(record);
        }
        Ok(records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_those_that_do_not_exist_have_reasons() {
        for kind in CacheKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "tensorrt".parse::<CacheKind>().unwrap_err();
        assert!(error.to_string().contains("'tensorrt'") && error.why.contains("compiled engines"), "{error}");
        assert!("CPU".parse::<CacheKind>().unwrap_err().why.contains("cpu, cudnn"));
    }

    #[test]
    fn every_family_is_of_one_kind_and_of_all() {
        for family in kiln_run::exec::FAMILIES {
            let kinds: Vec<&str> =
                CacheKind::ALL.iter().filter(|kind| kind.holds(family.name)).map(|kind| kind.name()).collect();
            assert_eq!(kinds.len(), 2, "{}: {kinds:?}", family.name);
        }
        assert!(CacheKind::Chains.holds("chain") && CacheKind::Cudnn.holds("cudnn-conv"));
        assert!(kiln_run::exec::FAMILIES.iter().all(|family| !CacheKind::Fusion.holds(family.name)));
        assert!(!CacheKind::Cudnn.holds("conv") && !CacheKind::Cudnn.holds("cudnn-fusion"));
        assert!(CacheKind::Chains.holds("cudnn-fusion") && CacheKind::Cublaslt.holds("cublaslt-matmul"));
    }

    /// On devices, whose libraries' choices are records too.
    mod devices {
        use std::sync::Arc;

        use kiln_cache::Outcome;
        use kiln_kernels::gpu::emulated::{Emulated, Script};
        use kiln_kernels::gpu::source::KernelCode;
        use kiln_kernels::gpu::{Arena, ConvProblem, Epilogue, MatMulProblem, Policy, Problem};
        use kiln_model::GraphBuilder;
        use kiln_run::exec::{BuildCx, GpuCx};
        use kiln_tensor::DType;

        use super::*;
        use crate::session::SessionOptions;

        /// A session, and a context for builders with a device, which sessions of this build only open where there is
        /// one.
        fn with_device() -> (Session, BuildCx) {
            let mut builder = GraphBuilder::new("kinds", 17);
            let x = builder.input("x", DType::F32, [2.into(), 3.into()]);
            let y = builder.op("Softmax", &[x], &[]);
            builder.output("y", y);
            let options = SessionOptions { threads: 1, ..SessionOptions::default() };
            let session = Session::from_graph(builder.finish(), &options).unwrap();
            let arena = Arena::new(Emulated::open(Script::default()), 1 << 28);
            let gpu = Some(Arc::new(GpuCx::new(arena, Policy::default())));
            let cx = BuildCx { gpu, ..session.build_cx().clone() };
            (session, cx)
        }

        #[test]
        fn records_of_a_devices_libraries_go_into_files_of_their_kinds_and_out_of_them() {
            let conv = ConvProblem {
                batch: 1,
                channels: 3,
                filters: 4,
                groups: 1,
                input: [1, 8, 8],
                kernel: [1, 3, 3],
                strides: [1; 3],
                dilations: [1; 3],
                pads: [0, 1, 1],
                output: [1, 8, 8],
                transposed: false,
                epilogue: Epilogue::NONE,
            };
            let fused = ConvProblem { epilogue: Epilogue { bias: true, ..Epilogue::NONE }, ..conv };
            let product = MatMulProblem {
                batch: 1,
                m: 2,
                n: 3,
                k: 4,
                trans_left: false,
                trans_right: false,
                one_left: false,
                one_right: false,
                scale: 1f32.to_bits(),
                epilogue: Epilogue::NONE,
            };
            let problems = [Problem::Conv(conv), Problem::Conv(fused), Problem::MatMul(product)];
            let (session, cx) = with_device();
            problems.iter().for_each(|problem| assert_eq!(cx.solver(problem).unwrap().1, Outcome::Miss));
            assert_eq!(cx.module(&KernelCode::Fill).unwrap().1, Outcome::Miss);
            let folder = tempfile::tempdir().unwrap();
            let kinds = [(CacheKind::Cudnn, 1), (CacheKind::Cublaslt, 1), (CacheKind::Chains, 2), (CacheKind::All, 4)];
            for (kind, count) in kinds {
                let path = folder.path().join(format!("{}.kiln", kind.name()));
                assert_eq!(session.save_cache(&path, kind).unwrap().written, count, "{kind:?}");
                let (other, cx) = with_device();
                assert_eq!(other.load_cache(&path, kind).unwrap().taken, count);
                let replayed = problems.iter().filter(|problem| cx.solver(problem).unwrap().1 == Outcome::RecordHit);
                let compiled = u64::from(cx.module(&KernelCode::Fill).unwrap().1 == Outcome::RecordHit);
                assert_eq!(replayed.count() as u64 + compiled, count, "{kind:?}");
            }
        }
    }
}
