//! Products of one row by block-quantised weights that lie in memory, with and without prefetches.
//!
//! A decoder's token is made of such products, and memory bounds them.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::reads::flush;
use crate::cpu::EmitEach;
use crate::cpu::blockwise::{
    Ahead, BlockFormat, BlockProduct, BlockProductBlocks, BlockProductShape, Codes, LeftElements, ZeroPoints,
};
use crate::cpu::peak::least_seconds;
use crate::extent::Extent;
use crate::isa::{Extensions, Isa};
use crate::parallel::{Parallel, for_each_chunk};

/// Length of the reduction, and columns of each thread, near those of a small decoder's layers: 2.5 MiB of weights.
const REDUCTION: u64 = 1024;
const COLUMNS: u64 = 4096;

/// The product with each distance, and its operands.
pub(super) struct Rows<'a> {
    plain: BlockProduct,
    far: BlockProduct,
    parallel: &'a dyn Parallel,
    /// Packed weights, all zeros.
    weights: Extent,
    /// Bytes of them.
    bytes: usize,
    left: Vec<f32>,
    /// C, then scratch.
    results: RefCell<Vec<f32>>,
    columns: usize,
}

impl<'a> Rows<'a> {
    /// Prepares memory, at most `most` bytes. `None` where there is no memory, or code of that level does not prefetch.
    pub(super) fn new(isa: Isa, parallel: &'a dyn Parallel, most: usize) -> Option<Rows<'a>> {
        if !Ahead::matters(isa) {
            return None;
        }
        let format = BlockFormat { codes: Codes::Int4, zeros: ZeroPoints::Middle, block: 32 };
        let n = COLUMNS.checked_mul(parallel.threads() as u64)?;
        let shape = BlockProductShape { m: 1, n, k: REDUCTION, format, bias: false, left: LeftElements::Bytes };
        let bytes = shape.panels(isa).bytes();
        if bytes > most {
            return None;
        }
        let blocks = BlockProductBlocks::pick(isa, Extensions::beside(isa), &shape, parallel.threads());
        let product = |ahead| BlockProduct::new(isa, shape, blocks, ahead, &EmitEach).ok();
        let (plain, far) = (product(Ahead::Nothing)?, product(Ahead::Far)?);
        let mut weights = Extent::reserve(bytes).ok()?;
        // Write to all pages: pages without a write would all be one page of zeros.
        for_each_chunk(parallel, &mut weights.bytes_mut()[..bytes], 1 << 20, &|_, chunk| chunk.fill(0));
        let results = RefCell::new(vec![0.0; shape.n() + plain.scratch_len().max(far.scratch_len())]);
        Some(Rows { plain, far, parallel, weights, bytes, left: vec![1.0; shape.k()], results, columns: shape.n() })
    }

    /// Bytes of weights a second.
    pub(super) fn rate(&self, ahead: Ahead, budget: Duration) -> f64 {
        let (weights, threads) = (&self.weights.bytes()[..self.bytes], self.parallel.threads());
        let product = match ahead {
            Ahead::Nothing => &self.plain,
            Ahead::Far => &self.far,
        };
        let mut results = self.results.borrow_mut();
        let (c, scratch) = results.split_at_mut(self.columns);
        let seconds = least_seconds(budget, || {
            self.parallel.run(threads, &|thread| {
                flush(&weights[weights.len() * thread / threads..weights.len() * (thread + 1) / threads]);
            });
            let begin = Instant::now();
            match product.run(&self.left, weights, None, c, scratch, self.parallel) {
                Ok(()) => begin.elapsed(),
                // All operands are as long as the shape says; a product that were refused would be infinitely slow.
                Err(_) => Duration::MAX,
            }
        });
        self.bytes as f64 / seconds
    }
}
