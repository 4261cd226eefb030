//! Weights packed for matrix products and convolutions, once a process for equal weights in equal layouts.
//!
//! Packing happens when a node is made. Layouts depend on the weights alone, so no change of an input's shape repacks
//! them. Weights that are still in a file are read a piece at a time, so that only the packed weights take fresh
//! memory.
//!
//! Two nodes with tied weights, or two sessions of one model, share one copy. Candidates for sharing are found by a
//! digest of the layout and of a few lines of the packed weights; all of the weights are compared before they are
//! shared, which costs nothing where nothing is shared. The registry holds no copy alive: the last node lets go of it.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, Weak};

use hashbrown::HashMap;
use kiln_fork::{Mutex, stay};
use kiln_kernels::cpu::blockwise::{BlockPanels, BlockSource};
use kiln_kernels::cpu::conv::Weights;
use kiln_kernels::cpu::gemm::{Left, MatmulShape, Panels, Right, Source};
use kiln_kernels::cpu::quantized::{
    self, Form, IntegerSizes, Layout, PackedIntegers, PackedIntegersMut, Steps, WeightSource,
};
use kiln_kernels::cpu::{Elements, Numerics, PackedElement, PackedWeights, PackedWeightsMut};
use kiln_kernels::extent::Foreign;
use kiln_kernels::{Isa, KernelError, Result as KernelResult};
use kiln_tensor::pieces::PIECE;
use kiln_tensor::{Buffer, BufferPool, DType, Pieces, Tensor};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Memory of packed weights, shared: whole 32-bit words.
#[derive(Debug)]
pub struct Packed {
    buffer: Buffer,
    words: usize,
}

/// The memory of all packed weights.
static MEMORY: LazyLock<Arc<BufferPool>> = LazyLock::new(|| BufferPool::of_weights(KEPT));

fn memory() -> &'static Arc<BufferPool> {
    let _stay = stay();
    &MEMORY
}

/// Gives memory of packed weights that no model uses any more back to the system.
pub fn trim() {
    memory().trim();
}

/// Most bytes that are kept while no weights use them.
const KEPT: usize = 8 << 20;

impl Packed {
    /// Memory with arbitrary contents. Raises [`Refused`](kiln_kernels::memory::Refused) where there is none.
    fn new(words: usize) -> Packed {
        let buffer = Buffer::lent_to_keep(memory(), words * 4).unwrap_or_else(|refused| refused.raise());
        Packed { buffer, words }
    }

    /// Words that were packed before, in memory of their own: a packed model's file. `None` if the bytes are not
    /// aligned for packed weights, or are not that many.
    #[must_use]
    pub fn of_foreign(bytes: Foreign, words: usize) -> Option<Packed> {
        let fits = bytes.bytes().len() == words.checked_mul(4)? && bytes.bytes().as_ptr().addr().is_multiple_of(64);
        fits.then(|| Packed { buffer: Buffer::foreign(bytes), words })
    }

    /// The weights, which were packed in these elements.
    #[must_use]
    pub fn weights(&self, elements: Elements) -> PackedWeights<'_> {
        PackedWeights::new(elements, self.words())
    }

    fn words(&self) -> &[u32] {
        bytemuck::cast_slice(self.bytes())
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.words * 4]
    }

    fn words_mut(&mut self) -> &mut [u32] {
        &mut bytemuck::cast_slice_mut(self.buffer.bytes_mut())[..self.words]
    }
}

/// Packed weights of a model that lie ready, or are noted when they are packed: a packed model's file.
pub trait Shelf: Sync {
    /// The packed weights of that place, if the shelf has them in that layout with that many words.
    fn take(&self, place: Place, layout: &str, words: usize) -> Option<Arc<Packed>>;

    /// Whether weights that are missing may be packed and put there.
    fn takes_more(&self) -> bool;

    /// Notes weights that were packed at that place.
    fn put(&self, place: Place, layout: &str, packed: &Arc<Packed>);
}

/// The place of a packing in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The graph, in the order in which graphs are made: the model's first, then the bodies in it.
    pub graph: u32,
    /// The node, by its index in the graph.
    pub node: u32,
    /// The packing among those of the node.
    pub turn: u32,
}

/// The level that a node packs its weights for, and the shelf that may have them.
pub struct Packing<'a> {
    isa: Isa,
    shelf: Option<&'a dyn Shelf>,
    /// Whether denormal weights become zeros.
    flushes: bool,
    /// The place of the next packing.
    next: Cell<Place>,
}

impl<'a> Packing<'a> {
    /// The packing of node `node` of graph `graph`, with that shelf.
    #[must_use]
    pub fn of_node(isa: Isa, shelf: Option<&'a dyn Shelf>, graph: u32, node: u32) -> Packing<'a> {
        Packing { isa, shelf, flushes: false, next: Cell::new(Place { graph, node, turn: 0 }) }
    }

    /// The same packing with zeros in the place of denormal weights, unless `numerics` is strict. Processors of Intel
    /// multiply denormal numbers in microcode, which takes a hundred cycles and more.
    #[must_use]
    pub fn with_numerics(self, numerics: Numerics) -> Packing<'a> {
        Packing { flushes: numerics != Numerics::Strict, ..self }
    }

    /// Puts zeros in the place of denormal weights among `packed` ones, where this packing does so.
    fn flush(&self, elements: Elements, packed: &mut [u32]) {
        if self.flushes {
            flush(elements, packed);
        }
    }

    /// Weights from the shelf, or packed; equal weights in equal layouts are in memory once.
    fn find_or_pack(
        &self,
        layout: &str,
        words: usize,
        pack: impl FnOnce(&mut [u32]) -> KernelResult<()>,
    ) -> KernelResult<Arc<Packed>> {
        if let Some(packed) = self.ready(layout, words) {
            return Ok(packed);
        }
        if self.shelf.is_some_and(|shelf| !shelf.takes_more()) {
            // The missing weights are not made: their size is a claim of the file, and nothing bounds it.
            let reason = format!("the packed model has no weights in the layout '{layout}' at {:?}", self.next.get());
            return Err(KernelError::Unsupported { family: "pack", reason });
        }
        let packed = find_or_pack(layout, words, pack)?;
        if let Some(shelf) = self.shelf {
            shelf.put(self.passed(), layout, &packed);
        }
        Ok(packed)
    }

    /// The weights of the next packing, where they lie ready in that layout; then moves on to the packing after it.
    fn ready(&self, layout: &str, words: usize) -> Option<Arc<Packed>> {
        let packed = self.shelf?.take(self.next.get(), layout, words)?;
        self.passed();
        Some(packed)
    }

    /// The place of the next packing; moves on to the one after it.
    fn passed(&self) -> Place {
        let place = self.next.get();
        self.next.set(Place { turn: place.turn + 1, ..place });
        place
    }
}

impl From<Isa> for Packing<'_> {
    /// A packing without a shelf.
    fn from(isa: Isa) -> Self {
        Packing::of_node(isa, None, 0, 0)
    }
}

/// The right-hand side of a matrix product, packed.
#[derive(Clone, Debug)]
pub struct MatMulWeights {
    /// Length of the reduction.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Matrices, one after another.
    pub count: usize,
    /// Vectors of a panel.
    pub vectors: usize,
    /// The element type of the panels.
    pub elements: Elements,
    /// Words of one packed matrix.
    pub step: usize,
    /// The panels.
    pub packed: Arc<Packed>,
}

impl MatMulWeights {
    /// Whether a product of `rows` rows adds in an order that does not depend on their number.
    #[must_use]
    pub fn adds_in_order(&self, isa: Isa, rows: usize) -> bool {
        let &MatMulWeights { k, n, count, vectors, elements, .. } = self;
        let (left, right) = (Left::Rows { stride: k }, Right::Packed { vectors, elements });
        count == 1 && MatmulShape { m: rows, n, k, batch: SmallVec::new(), left, right }.adds_in_order(isa)
    }
}

impl MatMulWeights {
    /// As kernels read them.
    #[must_use]
    pub fn view(&self) -> PackedWeights<'_> {
        self.packed.weights(self.elements)
    }

    /// One of the matrices, as kernels read it.
    #[must_use]
    pub fn matrix(&self, index: usize) -> PackedWeights<'_> {
        PackedWeights::new(self.elements, &self.packed.words()[index * self.step..][..self.step])
    }
}

/// A digest of a layout and of some packed contents, by which packed weights are looked up.
type Trace = [u8; 32];

static REGISTRY: Mutex<Option<HashMap<Trace, Vec<Weak<Packed>>>>> = Mutex::new(None);

/// Most different weights of one trace. Further ones are not shared: comparing with many would take long.
const ALIKE: usize = 4;

/// Lines of packed weights that go into their trace.
const TRACED: usize = 16;

/// The element type of a constant matrix's panels, where `asked` is the precision's: a matrix that the model stores as
/// `f16` or `bf16` keeps its type beside `f32` activations, which halves its bytes and loses nothing. A factor on the
/// matrix rules that out: the product could not be kept exactly.
#[must_use]
pub fn elements(asked: Elements, matrix: &Tensor, scale: f32) -> Elements {
    let Some((form, _)) = matrix.compact_form().filter(|_| asked == Elements::F32 && scale == 1.0) else {
        return asked;
    };
    let plain = form.expansion.zero.is_none() && form.expansion.scale.is_none();
    match form.stored.dtype() {
        DType::F16 if plain => Elements::F16,
        DType::BF16 if plain => Elements::Bf16,
        _ => asked,
    }
}

/// Packs `count` matrices of `k` by `n` (`n` by `k` if `transposed`), each element times `scale`, in panels of
/// `elements`.
///
/// # Errors
///
/// Where `weights` does not hold that many elements.
pub fn matmul<'a>(
    packing: &Packing<'_>,
    elements: Elements,
    weights: impl Into<Pieces<'a>>,
    [count, k, n]: [usize; 3],
    transposed: bool,
    scale: f32,
) -> KernelResult<MatMulWeights> {
    let isa = packing.isa;
    let vectors = elements.panel_vectors(isa, n);
    let panels = Panels { rows: elements.words(k), columns: n, width: vectors * isa.lanes() };
    // The layout of bf16 pairs is the same for AMX and for vectors, except for the rows that panels are padded to.
    let element = PackedElement::from(elements);
    let layout = format!("matmul {count} {k} {n} {} {} {element:?}", panels.width, panels.rows);
    let mut weights = weights.into();
    let matrices = MatrixPacking { packing, panels, k, scale, elements };
    let packed = packing.find_or_pack(&layout, count * panels.len(), |out| {
        if panels.is_empty() {
            return Ok(());
        }
        for (index, out) in out.chunks_exact_mut(panels.len()).enumerate() {
            let first = index * k * n;
            match transposed {
                true => matrices.pack_columns(&mut weights, first, out)?,
                false => matrices.pack_rows(&mut weights, first, out)?,
            }
        }
        Ok(())
    })?;
    Ok(MatMulWeights { k, n, count, vectors, elements, step: panels.len(), packed })
}

/// How matrices of one product are packed.
struct MatrixPacking<'a> {
    packing: &'a Packing<'a>,
    panels: Panels,
    /// Length of the reduction.
    k: usize,
    scale: f32,
    elements: Elements,
}

impl MatrixPacking<'_> {
    /// Packs the row-major matrix that starts at element `first`: some rows of all panels at a time.
    fn pack_rows(&self, weights: &mut Pieces<'_>, first: usize, out: &mut [u32]) -> KernelResult<()> {
        let &MatrixPacking { packing, panels, k, scale, elements } = self;
        let (n, each) = (panels.columns, elements.rows_of_a_word());
        let step = (PIECE / size_of::<f32>() / n).next_multiple_of(2).max(2);
        for row in (0..k).step_by(step) {
            let count = step.min(k - row);
            let end = if row + count == k { panels.rows } else { (row + count) / each };
            let rows = row / each..end;
            let piece = piece(weights, first + row * n..first + (row + count) * n)?;
            let source = Source::row_major(piece, count, n);
            panels.pack_rows(rows.clone(), &source, scale, PackedWeightsMut::new(elements, out))?;
            for panel in out.chunks_exact_mut(panels.panel_len()) {
                packing.flush(elements, &mut panel[rows.start * panels.width..rows.end * panels.width]);
            }
        }
        Ok(())
    }

    /// Packs the column-major matrix that starts at element `first`: a panel at a time.
    fn pack_columns(&self, weights: &mut Pieces<'_>, first: usize, out: &mut [u32]) -> KernelResult<()> {
        let &MatrixPacking { packing, panels, k, scale, elements } = self;
        for (index, out) in out.chunks_exact_mut(panels.panel_len()).enumerate() {
            let one = Panels { columns: panels.columns_of(index), ..panels };
            let first = first + index * panels.width * k;
            let source = Source::column_major(piece(weights, first..first + one.columns * k)?, k, k);
            one.pack_as(&source, scale, PackedWeightsMut::new(elements, out))?;
            packing.flush(elements, out);
        }
        Ok(())
    }
}

/// Puts zeros in the place of denormal weights, which keep their sign. Words hold one `f32` or two `bf16`; numbers that
/// are denormal in `f16` are normal ones once they are widened, and integers stay as they are.
fn flush(elements: Elements, packed: &mut [u32]) {
    const SIGN: u32 = 1 << 31;
    const EXPONENT: u32 = 0xFF << 23;
    match PackedElement::from(elements) {
        PackedElement::F32 => {
            for word in packed {
                *word = if *word & EXPONENT == 0 { *word & SIGN } else { *word };
            }
        }
        PackedElement::Bf16 => {
            for half in bytemuck::cast_slice_mut::<u32, u16>(packed) {
                let is_small = *half & (EXPONENT >> 16) as u16 == 0;
                *half = if is_small { *half & (SIGN >> 16) as u16 } else { *half };
            }
        }
        PackedElement::F16 | PackedElement::Int16 | PackedElement::Int8 => {}
    }
}

fn piece<'a>(weights: &'a mut Pieces<'_>, range: Range<usize>) -> KernelResult<&'a [f32]> {
    let (have, need) = (weights.len(), range.end);
    weights.get(range).ok_or(KernelError::Bounds { family: "pack", operand: "weights", have, need })
}

/// Packs the weights of a convolution in their layout for those elements at that level.
///
/// # Errors
///
/// Where the sizes make no sense, or `weights` does not hold that many elements.
pub fn conv<'a>(
    packing: &Packing<'_>,
    elements: Elements,
    weights: impl Into<Pieces<'a>>,
    sizes: &Weights,
) -> KernelResult<Arc<Packed>> {
    sizes.validate()?;
    let isa = packing.isa;
    let layout = sizes.layout(isa, elements);
    let mut weights = weights.into();
    if weights.len() != sizes.len() {
        let (have, need) = (weights.len(), sizes.len());
        return Err(KernelError::Bounds { family: "conv", operand: "weights", have, need });
    }
    // Two levels may lay weights out alike, but not under the same names.
    let name = format!("conv {} {sizes:?} {layout:?}", isa.lanes());
    packing.find_or_pack(&name, sizes.packed_len(isa, layout), |out| {
        sizes.parts(isa, layout).into_iter().try_for_each(|part| {
            let plain = piece(&mut weights, part.elements)?;
            let out = &mut out[part.packed];
            part.sizes.pack(isa, layout, plain, PackedWeightsMut::new(layout.elements(), out))?;
            packing.flush(layout.elements(), out);
            Ok(())
        })
    })
}

/// Weights of a quantised product or convolution, packed.
#[derive(Clone, Debug)]
pub struct QuantizedWeights {
    /// How factors are multiplied.
    pub form: Form,
    sizes: IntegerSizes,
    packed: Arc<Packed>,
}

impl QuantizedWeights {
    /// As kernels read them.
    ///
    /// # Errors
    ///
    /// Where their memory is not as long as their sizes say.
    pub fn view(&self) -> KernelResult<PackedIntegers<'_>> {
        PackedIntegers::new(self.sizes, self.packed.words())
    }
}

/// Packs quantised weights in the fastest form that they fit at that level. `source` lays out the bytes of `data`,
/// which are not read where packed ones lie ready.
///
/// # Errors
///
/// Where the sizes make no sense, or the source does not fit them.
pub fn quantized<'a>(
    packing: &Packing<'_>,
    source: impl Fn(&'a [u8]) -> WeightSource<'a>,
    data: impl FnOnce() -> &'a [u8],
    sizes: &Weights,
    steps: Steps,
) -> KernelResult<QuantizedWeights> {
    sizes.validate()?;
    let isa = packing.isa;
    let of_bytes = Form::of_bytes(isa, sizes);
    let lay = |form: Form, source: &WeightSource<'_>| {
        let layout = Layout::of(isa, sizes, steps, form);
        let WeightSource { data: _, signed, zeros, filter, channel, tap } = source;
        let lanes = isa.lanes();
        let name = format!("quantized {lanes} {sizes:?} {layout:?} {signed} {zeros:?} {filter} {channel} {tap}");
        (layout, layout.packed(isa, sizes), name)
    };
    // Whether weights fit bytes depends on all of them, and was decided when they were packed.
    let unseen = source(&[]);
    let is_addressable = sizes.len() <= isize::MAX as usize >> 12;
    let may_lie_ready = packing.shelf.is_some() && is_addressable;
    let ready = [of_bytes, Form::Words].into_iter().filter(|_| may_lie_ready).find_map(|form| {
        let (_, sizes, name) = lay(form, &unseen);
        packing.ready(&name, sizes.words()).map(|packed| QuantizedWeights { form, sizes, packed })
    });
    if let Some(ready) = ready {
        return Ok(ready);
    }
    let source = source(data());
    let form = if source.fits_bytes(sizes)? { of_bytes } else { Form::Words };
    let (layout, packed_sizes, name) = lay(form, &source);
    let packed = packing.find_or_pack(&name, packed_sizes.words(), |out| {
        quantized::weights::pack(isa, sizes, layout, &source, PackedIntegersMut::new(packed_sizes, out)?)
    })?;
    Ok(QuantizedWeights { form, sizes: packed_sizes, packed })
}

/// Block-quantised weights of a product, packed.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    packed: Arc<Packed>,
}

impl BlockWeights {
    /// The packed bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.packed.bytes()
    }
}

/// Packs block-quantised weights of a product in panels.
///
/// # Errors
///
/// Where the source does not fit the panels, or these cannot be addressed.
pub fn blockwise(packing: &Packing<'_>, panels: &BlockPanels, source: &BlockSource<'_>) -> KernelResult<BlockWeights> {
    if !panels.is_addressable() {
        let reason = format!("weights of {panels:?}");
        return Err(KernelError::Unsupported { family: "pack", reason });
    }
    let name = blockwise_layout(panels, source.signed);
    let packed =
        packing.find_or_pack(&name, panels.bytes() / 4, |out| panels.pack(source, bytemuck::cast_slice_mut(out)))?;
    Ok(BlockWeights { packed })
}

/// Block-quantised weights that lie ready in those panels, packed from signed or unsigned codes.
#[must_use]
pub fn blockwise_ready(packing: &Packing<'_>, panels: &BlockPanels, signed: bool) -> Option<BlockWeights> {
    if packing.shelf.is_none() || !panels.is_addressable() {
        return None;
    }
    let packed = packing.ready(&blockwise_layout(panels, signed), panels.bytes() / 4)?;
    Some(BlockWeights { packed })
}

fn blockwise_layout(panels: &BlockPanels, signed: bool) -> String {
    format!("blockwise {panels:?} {signed}")
}

/// Packs weights, and drops them where equal ones in that layout exist already.
fn find_or_pack(
    layout: &str,
    words: usize,
    pack: impl FnOnce(&mut [u32]) -> KernelResult<()>,
) -> KernelResult<Arc<Packed>> {
    let mut fresh = Packed::new(words);
    pack(fresh.words_mut())?;
    let trace = trace(layout, fresh.bytes());
    let fresh = Arc::new(fresh);
    let mut differ: Vec<Arc<Packed>> = Vec::new();
    // Compared outside of the lock, because it takes long; other threads may register weights meanwhile.
    while let Some(other) = register(trace, &fresh, &differ) {
        if other.bytes() == fresh.bytes() {
            return Ok(other);
        }
        differ.push(other);
    }
    Ok(fresh)
}

/// Registered weights that may be equal and are not in `differ`; if there are none, `fresh` is registered.
fn register(trace: Trace, fresh: &Arc<Packed>, differ: &[Arc<Packed>]) -> Option<Arc<Packed>> {
    let mut known = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let mut alike = known.get(&trace).into_iter().flatten().filter_map(Weak::upgrade);
    if let Some(other) = alike.find(|other| !differ.iter().any(|seen| Arc::ptr_eq(seen, other))) {
        return Some(other);
    }
    drop(alike);
    if differ.len() < ALIKE {
        known.retain(|_, alike| {
            alike.retain(|packed| packed.strong_count() > 0);
            !alike.is_empty()
        });
        known.entry(trace).or_default().push(Arc::downgrade(fresh));
    }
    None
}

/// A digest of the layout and of a few cache lines of the packed weights, far apart from each other.
fn trace(layout: &str, packed: &[u8]) -> Trace {
    const LINE: usize = 64;
    let mut hasher = blake3::Hasher::new();
    hasher.update(layout.as_bytes()).update(&[0]);
    for place in 0..TRACED {
        let start = (packed.len().saturating_sub(LINE)) / (TRACED - 1) * place;
        hasher.update(&packed[start..packed.len().min(start + LINE)]);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use kiln_tensor::TensorSpec;

    use super::*;

    #[test]
    fn equal_weights_in_equal_layout_are_packed_once_and_freed_with_the_last_holder() {
        let weights: Vec<f32> = (0..6 * 20).map(|i| i as f32 + 0.125).collect();
        let first = matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [1, 6, 20], false, 1.0).unwrap();
        let second =
            matmul(&Isa::Portable.into(), Elements::F32, &weights.clone()[..], [1, 6, 20], false, 1.0).unwrap();
        assert!(Arc::ptr_eq(&first.packed, &second.packed));
        for other in [
            matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [1, 20, 6], false, 1.0).unwrap(),
            matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [1, 6, 20], true, 1.0).unwrap(),
            matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [1, 6, 20], false, 2.0).unwrap(),
            matmul(&Isa::Avx512.into(), Elements::F32, &weights[..], [1, 6, 20], false, 1.0).unwrap(),
            matmul(&Isa::Portable.into(), Elements::Bf16, &weights[..], [1, 6, 20], false, 1.0).unwrap(),
        ] {
            assert!(!Arc::ptr_eq(&first.packed, &other.packed));
        }
        let held = Arc::downgrade(&first.packed);
        drop((first, second));
        assert!(held.upgrade().is_none());
    }

    #[test]
    fn denormal_weights_are_packed_as_zeros_unless_numerics_are_strict() {
        let smallest = f32::MIN_POSITIVE;
        let kinds = [smallest, smallest / 2.0, f32::from_bits(1), 1.0, f32::INFINITY, 0.0];
        let mixed: Vec<f32> = (0..72 * 18).map(|at| kinds[at % 6] * [1.0, -1.0][at / 6 % 2]).collect();
        let zeros: Vec<f32> = mixed.iter().map(|w| if w.is_subnormal() { 0.0 * w } else { *w }).collect();
        let sizes = Weights { channels: 8, filters: 18, groups: 1, kernel: [1, 3, 3], transposed: None };
        let depthwise = Weights { channels: 144, filters: 144, groups: 144, ..sizes };
        let isa = Isa::Avx2;
        for (numerics, flushes) in [(Numerics::Default, true), (Numerics::Invariant, true), (Numerics::Strict, false)] {
            let packing = Packing::from(isa).with_numerics(numerics);
            for elements in [Elements::F32, Elements::Bf16] {
                for transposed in [false, true] {
                    let packed = |packing: &Packing<'_>, weights: &[f32]| {
                        matmul(packing, elements, weights, [1, 72, 18], transposed, 1.0).unwrap().packed
                    };
                    let [plain, expected] = [&mixed, &zeros].map(|weights| packed(&isa.into(), weights));
                    assert!(!Arc::ptr_eq(&plain, &expected));
                    let expected = if flushes { expected } else { plain };
                    assert_eq!(packed(&packing, &mixed).bytes(), expected.bytes(), "{numerics} {elements:?}");
                }
            }
            for sizes in [sizes, depthwise] {
                let packed =
                    |packing: &Packing<'_>, weights: &[f32]| conv(packing, Elements::F32, weights, &sizes).unwrap();
                let [plain, expected] = [&mixed, &zeros].map(|weights| packed(&isa.into(), weights));
                let expected = if flushes { expected } else { plain };
                assert_eq!(packed(&packing, &mixed).bytes(), expected.bytes(), "{numerics} {sizes:?}");
            }
        }
    }

    #[test]
    fn weights_that_differ_where_nobody_looks_first_are_not_shared() {
        let mut different = Vec::new();
        for odd in 0..2 * ALIKE {
            let mut weights = vec![0.0; 200 * 64];
            weights[64 * 3 + odd] = 1.0;
            let packed = |weights: &[f32]| {
                matmul(&Isa::Portable.into(), Elements::F32, weights, [1, 200, 64], false, 1.0).unwrap().packed
            };
            let first = packed(&weights);
            assert!(different.iter().all(|other| !Arc::ptr_eq(other, &first)));
            assert_eq!(Arc::ptr_eq(&packed(&weights), &first), odd < ALIKE, "a few of one trace are remembered");
            different.push(first);
        }
    }

    #[test]
    fn weights_from_a_file_are_packed_as_those_in_memory_and_never_read_whole() {
        use std::io::Write;
        let numbers: Vec<f32> = (0..1500 * 75).map(|number| number as f32 * 0.37).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytemuck::cast_slice(&numbers)).unwrap();
        let backing = kiln_tensor::Backing::new(file.path(), file.reopen().unwrap());
        let len = numbers.len() * 4;
        let buffer = Arc::new(Buffer::deferred(backing, 0, len));
        let spec = kiln_tensor::TensorSpec::new(kiln_tensor::DType::F32, [numbers.len()]);
        let tensor = kiln_tensor::Tensor::from_buffer(spec, buffer, len).unwrap();
        for elements in [Elements::F32, Elements::Bf16] {
            for (transposed, count) in [(false, 1), (true, 1), (false, 5), (true, 5)] {
                let sizes = [count, 1500 / count, 75];
                let stored =
                    matmul(&Isa::Avx2.into(), elements, tensor.pieces().unwrap(), sizes, transposed, 0.5).unwrap();
                let memory = matmul(&Isa::Avx2.into(), elements, &numbers[..], sizes, transposed, 0.5).unwrap();
                assert!(Arc::ptr_eq(&stored.packed, &memory.packed), "{elements:?} {transposed} {count}");
            }
        }
        let sizes = Weights { channels: 25, filters: 500, groups: 1, kernel: [1, 3, 3], transposed: None };
        let stored = conv(&Isa::Avx2.into(), Elements::F32, tensor.pieces().unwrap(), &sizes).unwrap();
        assert!(Arc::ptr_eq(&stored, &conv(&Isa::Avx2.into(), Elements::F32, &numbers[..], &sizes).unwrap()));
        assert!(tensor.pieces().unwrap().is_stored());
        assert!(matmul(&Isa::Avx2.into(), Elements::F32, tensor.pieces().unwrap(), [1, 1501, 75], true, 1.0).is_err());
    }

    #[test]
    fn weights_in_compact_form_are_packed_as_their_numbers_which_are_never_all_made() {
        use std::io::Write;

        use kiln_tensor::{DType, Expansion, Factors, Grain, Tensor, TensorSpec};
        let bytes: Vec<u8> = (0..1500 * 75).map(|at| (at * 37 % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let backing = kiln_tensor::Backing::new(file.path(), file.reopen().unwrap());
        let buffer = Arc::new(Buffer::deferred(backing, 0, bytes.len()));
        let in_file = Tensor::from_buffer(TensorSpec::new(DType::U8, [1500, 75]), buffer, bytes.len()).unwrap();
        let in_memory = Tensor::from_slice([1500, 75], &bytes).unwrap();
        let scales: Vec<f32> = (0..75).map(|at| 0.01 + at as f32).collect();
        let numbers: Vec<f32> = bytes.iter().enumerate().map(|(at, &byte)| f32::from(byte) * scales[at % 75]).collect();
        for stored in [in_file.clone(), in_memory] {
            let scale = Factors::new(scales.clone(), Grain::Axis { size: 75, inner: 1 }, numbers.len());
            let tensor = Tensor::compact(stored, Expansion { zero: None, scale }).unwrap();
            for (transposed, count) in [(false, 1), (true, 1), (false, 5)] {
                let sizes = [count, 1500 / count, 75];
                let pieces = || tensor.pieces().unwrap();
                let packed = matmul(&Isa::Avx2.into(), Elements::F32, pieces(), sizes, transposed, 0.5).unwrap();
                let plain = matmul(&Isa::Avx2.into(), Elements::F32, &numbers[..], sizes, transposed, 0.5).unwrap();
                assert!(Arc::ptr_eq(&packed.packed, &plain.packed), "{transposed} {count}");
            }
            let sizes = Weights { channels: 25, filters: 500, groups: 1, kernel: [1, 3, 3], transposed: None };
            let packed = conv(&Isa::Avx2.into(), Elements::F32, tensor.pieces().unwrap(), &sizes).unwrap();
            assert!(Arc::ptr_eq(&packed, &conv(&Isa::Avx2.into(), Elements::F32, &numbers[..], &sizes).unwrap()));
            assert!(tensor.compact_form().is_some() && tensor.pieces().unwrap().is_stored());
        }
        assert!(in_file.is_in_file(), "the bytes were read a piece at a time, too");
    }

    #[test]
    fn a_matrix_that_is_stored_in_16_bits_keeps_its_type_where_nothing_is_lost() {
        use kiln_tensor::{Expansion, Factors, Grain};
        let stored = |dtype: DType| Tensor::from_bytes(TensorSpec::new(dtype, [8, 3]), &[0; 48]).unwrap();
        let compact = |dtype, expansion: Expansion| Tensor::compact(stored(dtype), expansion).unwrap();
        let plain = |dtype| compact(dtype, Expansion::default());
        for (dtype, kept) in [(DType::F16, Elements::F16), (DType::BF16, Elements::Bf16), (DType::I16, Elements::F32)] {
            assert_eq!(elements(Elements::F32, &plain(dtype), 1.0), kept);
        }
        assert_eq!(elements(Elements::F32, &plain(DType::F16), 0.5), Elements::F32, "a factor");
        assert_eq!(elements(Elements::Bf16Dot, &plain(DType::F16), 1.0), Elements::Bf16Dot, "asked for");
        let scale = Factors::new(vec![0.1; 3], Grain::Axis { size: 3, inner: 1 }, 24);
        let scaled = compact(DType::F16, Expansion { zero: None, scale });
        assert_eq!(elements(Elements::F32, &scaled, 1.0), Elements::F32, "numbers of their own");
        let numbers = Tensor::from_vec([8, 3], vec![0f32; 24]).unwrap();
        assert_eq!(elements(Elements::F32, &numbers, 1.0), Elements::F32);
    }

    #[test]
    fn halves_are_packed_as_they_were_from_any_source() {
        let numbers: Vec<f32> = (0..301 * 75).map(|at| (at % 4001) as f32 * 0.25 - 500.0).collect();
        let halves: Vec<half::f16> = numbers.iter().map(|&number| half::f16::from_f32(number)).collect();
        let stored = Tensor::from_vec([301, 75], halves).unwrap();
        let tensor = Tensor::compact(stored, kiln_tensor::Expansion::default()).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512] {
            for (transposed, [k, n]) in [(false, [301, 75]), (true, [75, 301])] {
                let packed =
                    matmul(&isa.into(), Elements::F16, tensor.pieces().unwrap(), [1, k, n], transposed, 1.0).unwrap();
                let PackedWeights::F16(found) = packed.view() else { panic!("halves") };
                let panels = Panels { rows: k.next_multiple_of(2), columns: n, width: packed.vectors * isa.lanes() };
                for (at, &bits) in found.iter().enumerate() {
                    let (panel, row) = (at / panels.panel_len(), at % panels.panel_len() / panels.width);
                    let column = panel * panels.width + at % panels.width;
                    let from = if transposed { column * k + row } else { row * n + column };
                    let wanted = if row < k && column < n { numbers[from] } else { 0.0 };
                    assert_eq!(half::f16::from_bits(bits).to_f32(), wanted, "{isa} {transposed} {row} {column}");
                }
            }
        }
    }

    #[test]
    fn matrices_of_a_stack_follow_each_other() {
        let weights: Vec<f32> = (0..2 * 3 * 4).map(|i| i as f32).collect();
        let stack = matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [2, 3, 4], false, 1.0).unwrap();
        let second = matmul(&Isa::Portable.into(), Elements::F32, &weights[12..], [1, 3, 4], false, 1.0).unwrap();
        assert_eq!(stack.packed.bytes()[stack.step * 4..], *second.packed.bytes());
        assert!(
            matmul(&Isa::Portable.into(), Elements::F32, &weights[..], [3, 3, 4], false, 1.0).is_err(),
            "too few elements"
        );
    }
}
