//! Shelves of packed weights: one adds weights to a file that is being written, the other takes them from a file.

use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;
use kiln_fork::Mutex;
use kiln_run::exec::weights::{Packed, Place, Shelf};

use super::index::{DataRow, PanelRow};
use super::{PackedError, PackedFile, Writer};

/// Adds weights to a file when they are packed.
#[derive(Debug)]
pub struct Noting(Mutex<Noted>);

#[derive(Debug)]
struct Noted {
    writer: Writer,
    rows: Vec<PanelRow>,
    /// The rows of weights that were added, so that shared weights are added once. The weights are kept alive so that
    /// their addresses stay unique.
    known: HashMap<usize, (Arc<Packed>, DataRow)>,
    failed: Option<PackedError>,
}

impl Noting {
    /// Adds weights by that writer.
    #[must_use]
    pub fn by(writer: Writer) -> Noting {
        Noting(Mutex::new(Noted { writer, rows: Vec::new(), known: HashMap::new(), failed: None }))
    }

    /// The writer, and the rows of added weights, in the order of places.
    ///
    /// # Errors
    ///
    /// The first error of the writer.
    pub fn end(self) -> Result<(Writer, Vec<PanelRow>), PackedError> {
        let Noted { writer, mut rows, failed, .. } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows.sort_unstable_by_key(|row| row.place);
        failed.map_or(Ok((writer, rows)), Err)
    }
}

impl Shelf for Noting {
    fn take(&self, _: Place, _: &str, _: usize) -> Option<Arc<Packed>> {
        None
    }

    fn takes_more(&self) -> bool {
        true
    }

    fn put(&self, place: Place, layout: &str, packed: &Arc<Packed>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(packed).addr();
        let data = match noted.known.get(&address) {
            Some((_, data)) => *data,
            None => match noted.writer.add(packed.bytes()) {
                Ok(data) => {
                    noted.known.insert(address, (packed.clone(), data));
                    data
                }
                Err(error) => {
                    noted.failed.get_or_insert(error);
                    return;
                }
            },
        };
        noted.rows.push(PanelRow { place, layout: layout.to_owned(), data });
    }
}

/// Takes packed weights from a mapped file.
pub struct Ready<'a> {
    file: &'a PackedFile,
    rows: HashMap<Place, &'a PanelRow>,
    /// Weights that were taken, by their place in the file: tied weights are shared.
    taken: Mutex<HashMap<u64, Arc<Packed>>>,
}

impl<'a> Ready<'a> {
    /// The weights of the file.
    #[must_use]
    pub fn of(file: &'a PackedFile) -> Ready<'a> {
        let rows = file.index().panels.iter().map(|row| (row.place, row)).collect();
        Ready { file, rows, taken: Mutex::new(HashMap::new()) }
    }
}

impl Shelf for Ready<'_> {
    fn take(&self, place: Place, layout: &str, words: usize) -> Option<Arc<Packed>> {
        let row = self.rows.get(&place).filter(|row| row.layout == layout)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = taken.get(&row.data.offset).filter(|packed| packed.bytes().len() == words * 4) {
            return Some(packed.clone());
        }
        let packed = Arc::new(Packed::of_foreign(self.file.data(row.data).ok()?, words)?);
        taken.insert(row.data.offset, packed.clone());
        Some(packed)
    }

    fn takes_more(&self) -> bool {
        false
    }

    /// Never called: this shelf takes no weights.
    fn put(&self, _: Place, _: &str, _: &Arc<Packed>) {}
}
