//! Shelves of packed weights: one adds weights to a file that is being written, the other takes them from a file.

use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;
use kiln_fork::Mutex;
use kiln_run::exec::weights::{Packed, Place, Shelf};

use super::index::{DataRow, PanelRow, PartPanelRow};
use super::{ALIGNMENT, PackedError, PackedFile, Writer};

/// Adds weights to a file when they are packed.
#[derive(Debug)]
pub struct Noting(Mutex<Noted>);

#[derive(Debug)]
struct Noted {
    writer: Writer,
    panels: Panels,
    /// Where weights are that were added, so that shared weights are added once. The weights are kept alive so that
    /// their addresses stay unique.
    known: HashMap<usize, (Arc<Packed>, Location)>,
    failed: Option<PackedError>,
}

/// Packed weights, in the order of places.
#[derive(Debug, Default)]
pub struct Panels {
    /// Those in the data.
    pub data: Vec<PanelRow>,
    /// Those that are parts of other files.
    pub parts: Vec<PartPanelRow>,
}

/// Where packed weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Location {
    /// In the data.
    Data(DataRow),
    /// In another file, as the part of that number.
    Part(u32),
}

impl Noting {
    /// Adds weights by that writer.
    #[must_use]
    pub fn by(writer: Writer) -> Noting {
        Noting(Mutex::new(Noted { writer, panels: Panels::default(), known: HashMap::new(), failed: None }))
    }

    /// The writer, and the rows of added weights.
    ///
    /// # Errors
    ///
    /// The first error of the writer.
    pub fn end(self) -> Result<(Writer, Panels), PackedError> {
        let Noted { writer, mut panels, failed, .. } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        panels.data.sort_unstable_by_key(|row| row.place);
        panels.parts.sort_unstable_by_key(|row| row.place);
        failed.map_or(Ok((writer, panels)), Err)
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
        let known = noted.known.get(&address).map(|(_, location)| *location);
        let location = match known.or_else(|| noted.writer.refer_equal(packed.bytes()).map(Location::Part)) {
            Some(location) => location,
            None => match noted.writer.add(packed.bytes()) {
                Ok(data) => Location::Data(data),
                Err(error) => {
                    noted.failed.get_or_insert(error);
                    return;
                }
            },
        };
        noted.known.entry(address).or_insert_with(|| (packed.clone(), location));
        let layout = layout.to_owned();
        match location {
            Location::Data(data) => noted.panels.data.push(PanelRow { place, layout, data }),
            Location::Part(part) => noted.panels.parts.push(PartPanelRow { place, layout, part }),
        }
    }
}

/// Takes packed weights from a mapped file.
pub struct Ready<'a> {
    file: &'a PackedFile,
    /// The layouts of weights, and where they are.
    rows: HashMap<Place, (&'a str, Location)>,
    /// Weights that were taken: tied weights are shared.
    taken: Mutex<HashMap<Location, Arc<Packed>>>,
}

impl<'a> Ready<'a> {
    /// The weights of the file.
    #[must_use]
    pub fn of(file: &'a PackedFile) -> Ready<'a> {
        let index = file.index();
        let parts = index.sources.panels.iter().map(|row| (row.place, (&*row.layout, Location::Part(row.part))));
        let data = index.panels.iter().map(|row| (row.place, (&*row.layout, Location::Data(row.data))));
        let rows = parts.chain(data).collect();
        Ready { file, rows, taken: Mutex::new(HashMap::new()) }
    }
}

impl Shelf for Ready<'_> {
    fn take(&self, place: Place, layout: &str, words: usize) -> Option<Arc<Packed>> {
        let &(_, location) = self.rows.get(&place).filter(|(known, _)| *known == layout)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(packed) = taken.get(&location).filter(|packed| packed.bytes().len() == words * 4) {
            return Some(packed.clone());
        }
        let bytes = match location {
            Location::Data(data) => self.file.data(data),
            Location::Part(part) => self.file.part(part, ALIGNMENT),
        };
        let packed = Arc::new(Packed::of_foreign(bytes.ok()?, words)?);
        taken.insert(location, packed.clone());
        Some(packed)
    }

    fn takes_more(&self) -> bool {
        false
    }

    /// Never called: this shelf takes no weights.
    fn put(&self, _: Place, _: &str, _: &Arc<Packed>) {}
}
