//! The record of the memory that a session's requests need: read at load, updated as it grows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_kernels::Parallel;
use kiln_run::exec::BuildCx;
use kiln_run::exec::footprint::FootprintKey;
use kiln_run::record::Store;
use kiln_tensor::{BufferPool, installed_bytes};

use super::LoadClock;
use super::rehearsal::bounded;
use super::structure::Digest;

/// The record, and its value when it was read.
pub(super) struct Footprint {
    pub(super) key: FootprintKey,
    noted: AtomicUsize,
}

/// At load, at most this part of the machine's memory is made present, whatever the record says.
const MOST_SHARE: usize = 8;

/// Pages are made present for as long as loading took before, or for this long if that was shorter: the record may be
/// wrong.
const PATIENCE: Duration = Duration::from_millis(50);

impl Footprint {
    /// Makes the recorded amount of memory present, if there is a record and `prepares` is set, within the time that
    /// follows from `begun`.
    pub(super) fn prepare(
        model: &Digest,
        build: &BuildCx,
        prepares: bool,
        buffers: &BufferPool,
        parallel: &dyn Parallel,
        begun: &LoadClock,
    ) -> Footprint {
        let key = FootprintKey { model: model.number(), threads: build.threads as u32 };
        let known = key.recall(&build.records);
        let wanted = if prepares { known.min(installed_bytes() / MOST_SHARE) } else { 0 };
        let patience = bounded(begun.stop.as_ref(), PATIENCE.max(begun.at.elapsed()));
        let began = Instant::now();
        buffers.prepare(wanted, parallel, &|| began.elapsed() < patience);
        Footprint { key, noted: AtomicUsize::new(known) }
    }

    /// Updates the record if requests so far have needed an eighth more bytes than recorded: smaller differences come
    /// from concurrent requests.
    pub(super) fn note(&self, needed: usize, records: &Store) {
        let noted = self.noted.load(Ordering::Relaxed);
        if needed > noted + noted / 8 && self.noted.fetch_max(needed, Ordering::Relaxed) < needed {
            self.key.note(needed, records);
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::{Graph, GraphBuilder};
    use kiln_tensor::{DType, Tensor, TensorSpec};

    use crate::session::{Session, SessionOptions};

    /// A chain whose values take megabytes.
    fn wide() -> Graph {
        let mut build = GraphBuilder::new("wide", 20);
        let x = build.input("x", DType::F32, ["n".into(), 64.into()]);
        let weights = Tensor::zeros(TensorSpec::new(DType::F32, [64, 512])).unwrap();
        let weights = build.constant(weights);
        let hidden = build.op("MatMul", &[x, weights], &[]);
        let soft = build.op("Softmax", &[hidden], &[]);
        build.output("y", soft);
        build.finish()
    }

    #[test]
    fn memory_is_present_at_load_but_not_for_a_session_beside_another_one_of_its_packed_file() {
        let folder = tempfile::tempdir().unwrap();
        let options = SessionOptions {
            threads: 1,
            cache_dir: Some(folder.path().into()),
            rehearse: false,
            ..SessionOptions::default()
        };
        let path = folder.path().join("wide.kpk");
        Session::pack_graph(wide(), &path, &options).unwrap();
        let load = || Session::load(&path, &options).unwrap();
        let free = |session: &Session| session.kept.buffers.free_bytes();
        let first = load();
        assert_eq!(free(&first), 0, "nothing is known of its requests");
        let request = || Tensor::zeros(TensorSpec::new(DType::F32, [4000, 64])).unwrap();
        first.run(&[("x", request())]).unwrap();
        first.save_records().unwrap();
        drop(first);

        for _ in 0..2 {
            let (one, beside) = (load(), load());
            assert!(free(&one) >= 4000 * 512 * 4, "{}", free(&one));
            assert_eq!(free(&beside), 0);
            let outputs = beside.run(&[("x", request())]).unwrap();
            assert!(outputs[0].1.same(&one.run(&[("x", request())]).unwrap()[0].1));
            assert!(free(&beside) > 0, "it has memory once it has run");
        }
        let unpacked = || Session::from_graph(wide(), &options).unwrap();
        let pair = [unpacked(), unpacked()];
        assert!(pair.iter().all(|session| free(session) > 0), "a model that is not packed is a session's own");
    }
}
