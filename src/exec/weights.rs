//! Weights packed for matrix products and convolutions: once a process for equal weights in equal layout.
//!
//! Packing happens when a node is made. Layouts depend on the weights alone, so no change of an input's shape repacks
//! them. What is packed is found by its contents (BLAKE3 of the bytes and everything that the layout depends on): two
//! nodes with tied weights, or two sessions of one model, share one copy. The registry holds no copy alive: the last
//! node lets go of it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hashbrown::HashMap;
use kiln_kernels::cpu::Elements;
use kiln_kernels::cpu::conv::Weights;
use kiln_kernels::cpu::gemm::{Panels, Source};
use kiln_kernels::cpu::quantized::{self, Form, Layout, Steps, WeightSource};
use kiln_kernels::{Isa, Result as KernelResult};

use crate::tensor::Buffer;

/// Packed weights, shared.
#[derive(Debug)]
pub struct Packed {
    buffer: Buffer,
    len: usize,
}

impl Packed {
    fn new(len: usize) -> Packed {
        Packed { buffer: Buffer::zeroed(len * 4), len }
    }

    /// The elements, as the kernels read them.
    #[must_use]
    pub fn elements(&self) -> &[f32] {
        &bytemuck::cast_slice(self.buffer.bytes())[..self.len]
    }

    /// The same as bytes: whole 32-bit words, of which a packing may leave the last few unused.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.len * 4]
    }

    fn elements_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(self.buffer.bytes_mut())[..self.len]
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
    /// What the panels consist of.
    pub elements: Elements,
    /// Elements, or words that hold two of them, of one packed matrix.
    pub step: usize,
    /// The panels.
    pub packed: Arc<Packed>,
}

/// What packed weights are found by: contents and layout, hashed together.
type WeightId = [u8; 32];

static REGISTRY: Mutex<Option<HashMap<WeightId, Weak<Packed>>>> = Mutex::new(None);

/// Packs `count` matrices of `k` by `n` (`n` by `k` if `transposed`), each element times `scale`, in panels of `elements`.
///
/// # Errors
///
/// Where `weights` does not hold that many elements.
pub fn matmul(
    isa: Isa,
    elements: Elements,
    weights: &[f32],
    [count, k, n]: [usize; 3],
    transposed: bool,
    scale: f32,
) -> KernelResult<MatMulWeights> {
    let vectors = elements.panel_vectors(isa, n);
    let panels = Panels { rows: elements.words(k), columns: n, width: vectors * isa.lanes() };
    // Pairs lie alike however they are multiplied, but for what they are filled up to.
    let pairs = if elements.in_pairs() { " bf16" } else { "" };
    let (width, rows) = (panels.width, panels.rows);
    let layout = format!("matmul {count} {k} {n} {transposed} {} {width} {rows}{pairs}", scale.to_bits());
    let packed = find_or_pack(&layout, bytemuck::cast_slice(weights), count * panels.len(), |out| {
        for index in 0..count {
            let matrix = weights.get(index * k * n..).unwrap_or_default();
            let source = if transposed { Source::column_major(matrix, k, k) } else { Source::row_major(matrix, k, n) };
            let out = &mut out[index * panels.len()..][..panels.len()];
            match elements.in_pairs() {
                true => panels.pack_pairs(&source, scale, out)?,
                false => panels.pack(&source, scale, out)?,
            }
        }
        Ok(())
    })?;
    Ok(MatMulWeights { k, n, count, vectors, elements, step: panels.len(), packed })
}

/// Packs the weights of a convolution in their layout for those elements at that level.
///
/// # Errors
///
/// Where the sizes make no sense, or `weights` does not hold that many elements.
pub fn conv(isa: Isa, elements: Elements, weights: &[f32], sizes: &Weights) -> KernelResult<Arc<Packed>> {
    sizes.validate()?;
    let layout = sizes.layout(isa, elements);
    // Two levels may lay weights out alike, but not under the same names.
    let name = format!("conv {} {sizes:?} {layout:?}", isa.lanes());
    find_or_pack(&name, bytemuck::cast_slice(weights), sizes.packed_len(isa, layout), |out| {
        sizes.pack(isa, layout, weights, out)
    })
}

/// Weights of a quantised product or convolution, packed.
#[derive(Clone, Debug)]
pub struct QuantizedWeights {
    /// How factors are multiplied.
    pub form: Form,
    packed: Arc<Packed>,
    len: usize,
}

impl QuantizedWeights {
    /// The packed bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.packed.bytes()[..self.len]
    }
}

/// Packs quantised weights in the fastest form that they fit at that level.
///
/// # Errors
///
/// Where the sizes make no sense, or the source does not fit them.
pub fn quantized(isa: Isa, source: &WeightSource<'_>, sizes: &Weights, steps: Steps) -> KernelResult<QuantizedWeights> {
    sizes.validate()?;
    let form = match source.fits_bytes(sizes)? {
        true if Form::Bytes.usable(isa) => Form::Bytes,
        true => Form::Widened,
        false => Form::Words,
    };
    let layout = Layout::of(isa, sizes, steps, form);
    let len = quantized::weights::packed_bytes(isa, sizes, layout);
    let WeightSource { data, signed, zeros, filter, channel, tap } = source;
    let name = format!("quantized {} {sizes:?} {layout:?} {signed} {zeros:?} {filter} {channel} {tap}", isa.lanes());
    let packed = find_or_pack(&name, data, len.div_ceil(4), |out| {
        let out: &mut [u8] = bytemuck::cast_slice_mut(out);
        quantized::weights::pack(isa, sizes, layout, source, &mut out[..len])
    })?;
    Ok(QuantizedWeights { form, packed, len })
}

fn find_or_pack(
    layout: &str,
    weights: &[u8],
    len: usize,
    pack: impl FnOnce(&mut [f32]) -> KernelResult<()>,
) -> KernelResult<Arc<Packed>> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(layout.as_bytes()).update(&[0]).update(weights);
    let id: WeightId = hasher.finalize().into();
    let known = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(packed) = known.as_ref().and_then(|known| known.get(&id)).and_then(Weak::upgrade) {
        return Ok(packed);
    }
    drop(known);
    // Packed outside of the lock: two threads may do it at once, and the first to finish is shared.
    let mut fresh = Packed::new(len);
    pack(fresh.elements_mut())?;
    let fresh = Arc::new(fresh);
    let mut known = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(packed) = known.get(&id).and_then(Weak::upgrade) {
        return Ok(packed);
    }
    known.retain(|_, packed| packed.strong_count() > 0);
    known.insert(id, Arc::downgrade(&fresh));
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_in_equal_layout_are_packed_once_and_freed_with_the_last_holder() {
        let weights: Vec<f32> = (0..6 * 20).map(|i| i as f32 + 0.125).collect();
        let first = matmul(Isa::Portable, Elements::F32, &weights, [1, 6, 20], false, 1.0).unwrap();
        let second = matmul(Isa::Portable, Elements::F32, &weights.clone(), [1, 6, 20], false, 1.0).unwrap();
        assert!(Arc::ptr_eq(&first.packed, &second.packed));
        for other in [
            matmul(Isa::Portable, Elements::F32, &weights, [1, 20, 6], false, 1.0).unwrap(),
            matmul(Isa::Portable, Elements::F32, &weights, [1, 6, 20], true, 1.0).unwrap(),
            matmul(Isa::Portable, Elements::F32, &weights, [1, 6, 20], false, 2.0).unwrap(),
            matmul(Isa::Avx512, Elements::F32, &weights, [1, 6, 20], false, 1.0).unwrap(),
            matmul(Isa::Portable, Elements::Bf16, &weights, [1, 6, 20], false, 1.0).unwrap(),
        ] {
            assert!(!Arc::ptr_eq(&first.packed, &other.packed));
        }
        let held = Arc::downgrade(&first.packed);
        drop((first, second));
        assert!(held.upgrade().is_none());
    }

    #[test]
    fn matrices_of_a_stack_follow_each_other() {
        let weights: Vec<f32> = (0..2 * 3 * 4).map(|i| i as f32).collect();
        let stack = matmul(Isa::Portable, Elements::F32, &weights, [2, 3, 4], false, 1.0).unwrap();
        let second = matmul(Isa::Portable, Elements::F32, &weights[12..], [1, 3, 4], false, 1.0).unwrap();
        assert_eq!(stack.packed.elements()[stack.step..], *second.packed.elements());
        assert!(matmul(Isa::Portable, Elements::F32, &weights, [3, 3, 4], false, 1.0).is_err(), "too few elements");
    }
}
