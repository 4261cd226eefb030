//! Code keys as callers of the cache see them, and what one that differs in a single place looks like, for the laws that
//! keys obey: all that shapes a kernel's instructions has to be compared and hashed, or one kernel is run for another.
//!
//! The types are those of the kernels crate, which knows no cache. Those that executor keys hold too are stated there.

use kiln_kernels::cpu::amx::{Columns, Ending, EpilogueCode, Factors, MultiplyCode};
use kiln_kernels::cpu::attention::{Adjust, AttentionCode, Form as Between};
use kiln_kernels::cpu::chain::{ChainCode, Lane};
use kiln_kernels::cpu::conv::winograd::WinogradSide;
use kiln_kernels::cpu::conv::{DepthwiseCode, SlideCode, WinogradCode, WinogradTile};
use kiln_kernels::cpu::gemm::tile::{LeftRows, RightColumns};
use kiln_kernels::cpu::gemm::{Bf16ConvertCode, RowCode, TileCode};
use kiln_kernels::cpu::norm::RowNormCode;
use kiln_kernels::cpu::pool::{Collect, PoolCode};
use kiln_kernels::cpu::quantized::tile::LeftRows as QuantizedRows;
use kiln_kernels::cpu::quantized::{QuantizedCode, QuantizedEpilogueCode};
use kiln_kernels::cpu::recurrent::{GateCode, Gates};
use kiln_kernels::cpu::reduce::{Finish, Fold, Map, Pass, ReduceCode, Walk};
use kiln_kernels::cpu::softmax::{Form as Exponentials, SoftmaxCode};
use kiln_kernels::cpu::transpose::{Form as Turn, Stores, TransposeCode};
use kiln_kernels::{CodeKey, Kit};

use crate::cache::Key;

impl Key for CodeKey {
    type Value = Kit;
    const FAMILY: &'static str = "code";
}

crate::mutate! {
    enum CodeKey {
        Attention(code), Chain(code), Pool(code), Quantized(code), QuantizedEpilogue(code), Gates(code), Reduce(code), RowNorm(code),
        Softmax(code), Transpose(code), Multiply(code), Epilogue(code), Bf16Convert(code), Row(code), Tile(code), Depthwise(code),
        Slide(code), Winograd(code),
    }
}

crate::mutate! { struct AttentionCode { isa, form } }
crate::mutate! { enum Between { Weigh(adjust), Scale(stored), Dots, Blend, WeighPairs(adjust), Round(stored), Interleave(stored) } }
crate::mutate! { struct Adjust { cap, select, mask } }
crate::mutate! { struct ChainCode { isa, program, lanes, unroll } }
crate::mutate! { enum Lane { Vector, Scalar } }
crate::mutate! { struct PoolCode { isa, collect, stored } }
crate::mutate! { enum Collect { Max, Sum, Absolute, Square } }
crate::mutate! { struct QuantizedCode { isa, form, vectors, left, output } }
crate::mutate! { struct QuantizedEpilogueCode { isa, output, added } }
crate::mutate! { enum QuantizedRows { Strided, Table, Own } }
crate::mutate! { struct GateCode { isa, gates, clip } }
crate::mutate! {
    enum Gates {
        Lstm { activations, input_forget, peepholes }, GruLinear { activations }, GruReset { activation },
        GruUpdate { activation }, Rnn { activation },
    }
}
crate::mutate! { struct ReduceCode { isa, pass, walk, centred } }
crate::mutate! { struct Pass { map, fold, finish } }
crate::mutate! { enum Map { Identity, Abs, Square } }
crate::mutate! { enum Fold { Add, Mul, Max, Min, LogAddExp } }
crate::mutate! { enum Finish { None, Sqrt, Log } }
crate::mutate! { enum Walk { Rows, Columns, Streams } }
crate::mutate! { struct RowNormCode { isa, centred, scale, bias, moments, output } }
crate::mutate! { struct SoftmaxCode { isa, form, columns } }
crate::mutate! { enum Exponentials { Softmax, LogSoftmax, LogSumExp } }
crate::mutate! { struct TransposeCode { isa, form } }
crate::mutate! { enum Turn { Tile(stores), WideTile(stores), Interleave(rows), Deinterleave(rows) } }
crate::mutate! { enum Stores { Near, Ahead, Stream } }
crate::mutate! { struct MultiplyCode { isa, factors, ending } }
crate::mutate! { struct Ending { columns, activation, residual, output } }
crate::mutate! { enum Columns { Whole, Most, Half } }
crate::mutate! { enum Factors { Halves, Bytes, SignedBytes } }
crate::mutate! { struct EpilogueCode { isa, activation, residual, output } }
crate::mutate! { struct Bf16ConvertCode { isa } }
crate::mutate! { struct RowCode { isa, vectors, pairs, activation } }
crate::mutate! { struct TileCode { isa, vectors, left, right, activation, in_order } }
crate::mutate! { enum LeftRows { Strided, Lines, Table } }
crate::mutate! { enum RightColumns { Packed, Plain, Pairs, Dots } }
crate::mutate! { struct DepthwiseCode { isa, activation, stored } }
crate::mutate! { struct SlideCode { isa, kernel, strides, activation, stored } }
crate::mutate! { struct WinogradCode { isa, tile, side } }
crate::mutate! { enum WinogradTile { Two, Four } }
crate::mutate! { enum WinogradSide { Input, Filters, Output { activation } } }
