//! The code of the main kernels, instruction by instruction: an unintended change of code shows up here.
//!
//! The listings are in `kernels/tests/golden`. `cargo test --release -p kiln-kernels --test golden -- --ignored` writes
//! them anew; the difference is then read before it is committed.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, Mnemonic, NasmFormatter};
use kiln_kernels::cpu::amx::{Columns, Factors, FusedEpilogue, MultiplyCode};
use kiln_kernels::cpu::attention::emit::{Adjust, AttentionCode, Form as AttentionForm};
use kiln_kernels::cpu::blend::BlendCode;
use kiln_kernels::cpu::blockwise::{
    Ahead, BlockDotCode, BlockExpandCode, Codes, ExpandedNumbers, Products, ZeroPoints,
};
use kiln_kernels::cpu::chain::{ChainCode, Lane, Program, Step, Storage, UnaryOp};
use kiln_kernels::cpu::conv::winograd::WinogradSide;
use kiln_kernels::cpu::conv::{DepthwiseCode, SlideCode, WinogradCode, WinogradTile};
use kiln_kernels::cpu::extreme::{ExtremeCode, Wanted};
use kiln_kernels::cpu::gemm::tile::{LeftRows, RightColumns, TileCode};
use kiln_kernels::cpu::gemm::{Epilogue, Left, Matmul, MatmulBlocks, MatmulShape, Right, RowCode, WidenCode};
use kiln_kernels::cpu::linear_attention::{Decay, StateCode};
use kiln_kernels::cpu::norm::RowNormCode;
use kiln_kernels::cpu::pool::{Collect, PoolCode};
use kiln_kernels::cpu::quantized::bytes::Added;
use kiln_kernels::cpu::quantized::lookup::{LookupCode, LookupForm};
use kiln_kernels::cpu::quantized::tile::LeftRows as QuantizedRows;
use kiln_kernels::cpu::quantized::{Form, LinesCode, Output, QuantizedCode, QuantizedEpilogueCode};
use kiln_kernels::cpu::recurrent::{Activation, GateCode, Gates};
use kiln_kernels::cpu::reduce::{Fold, Map, Order, Pass, PostOp, ReduceCode};
use kiln_kernels::cpu::rotary::RotaryCode;
use kiln_kernels::cpu::softmax::{self, SoftmaxCode};
use kiln_kernels::cpu::stream::{self, RowType, StreamCode};
use kiln_kernels::cpu::transpose::{self, TransposeCode};
use kiln_kernels::cpu::{Elements, Stored};
use kiln_kernels::{CodeKey, CodeParts, CodeSource, EmitEach, Isa, PartSet, Result};

/// Notes the code that a driver requests, part by part.
#[derive(Default)]
struct Noting(Mutex<Vec<(CodeKey, usize)>>);

impl CodeSource for Noting {
    fn parts(&self, key: &CodeKey, wanted: PartSet) -> Result<Arc<CodeParts>> {
        self.0.lock().unwrap().extend(wanted.iter().map(|part| (key.clone(), part)));
        EmitEach.parts(key, wanted)
    }
}

/// The code of a product with packed weights, whose rows are cut into tiles of one height.
fn products(isa: Isa) -> Vec<(CodeKey, usize)> {
    let right = Right::Packed { vectors: 2, elements: Elements::F32 };
    let shape =
        MatmulShape { m: 48, n: 256, k: 256, batch: Default::default(), left: Left::Rows { stride: 256 }, right };
    let epilogue = Epilogue { bias: true, ..Epilogue::default() };
    let noting = Noting::default();
    let blocks = MatmulBlocks::pick(isa, &shape, &epilogue, 1);
    Matmul::new(isa, shape, blocks, epilogue, &noting).unwrap();
    noting.0.into_inner().unwrap()
}

/// The instructions of a kernel, and the offset of its constants, which follow the last instruction.
fn decoded(bytes: &[u8]) -> (Vec<Instruction>, usize) {
    let mut table = bytes.len() as u64;
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    while decoder.ip() < table {
        let instruction = decoder.decode();
        if instruction.is_ip_rel_memory_operand() {
            table = table.min(instruction.ip_rel_memory_address());
        }
        instructions.push(instruction);
    }
    (instructions, table as usize)
}

/// One line an instruction, with its offset, then the constants. Instructions at `left_out` are counted only.
fn abridged(key: &CodeKey, part: usize, left_out: impl Fn(&[Instruction]) -> Range<u64>) -> String {
    let bytes = key.assemble(part).unwrap();
    let (instructions, table) = decoded(&bytes);
    let left_out = left_out(&instructions);
    let count = instructions.iter().filter(|instruction| left_out.contains(&instruction.ip())).count();
    let mut formatter = NasmFormatter::new();
    let mut text = format!("; {key:?}\n; part {part}, {} bytes\n", bytes.len());
    for instruction in &instructions {
        if count > 0 && instruction.ip() == left_out.end {
            text += &format!("; {count} instructions are left out\n");
        }
        if !left_out.contains(&instruction.ip()) {
            let mut line = String::new();
            formatter.format(instruction, &mut line);
            text += &format!("{:04x} {line}\n", instruction.ip());
        }
    }
    for word in bytes[table..].chunks(4) {
        text += &format!("; {word:02x?}\n");
    }
    text
}

/// All instructions of a part.
fn listing(key: &CodeKey, part: usize) -> String {
    abridged(key, part, |_| 0..0)
}

/// A kernel with a variant for each number of rows or positions of a block, the largest first; it jumps to a variant
/// after a comparison for each. Variants of more than two rows are left out: they repeat the code that the variant for
/// two has for its second row.
fn of_two_rows(key: &CodeKey) -> String {
    abridged(key, 0, |instructions| {
        let dispatch = instructions.iter().position(|instruction| instruction.mnemonic() == Mnemonic::Jmp).unwrap();
        let compared = instructions[..dispatch].iter().filter(|instruction| instruction.mnemonic() == Mnemonic::Je);
        let variants: Vec<u64> = compared.map(Instruction::near_branch_target).collect();
        let [first, .., two, _one] = variants[..] else { panic!("{} variants", variants.len()) };
        first..two
    })
}

/// The smallest kernel of each other family with all parts of its kernels: loops, tails, masks and constants.
fn others(isa: Isa) -> [(&'static str, CodeKey); 19] {
    let program = Program {
        inputs: [Storage::F32].into_iter().collect(),
        steps: [Step::Unary(UnaryOp::Sigmoid, 0)].into_iter().collect(),
        output: Storage::F32,
    };
    let chain = ChainCode { isa, program, lanes: [Lane::Vector].into_iter().collect(), unroll: 1 };
    let pass = Pass { map: Map::Square, fold: Fold::Add, post_op: PostOp::Sqrt };
    let norm = RowNormCode { isa, centred: true, scale: true, bias: true, moments: false, output: Default::default() };
    let winograd = WinogradCode { isa, tile: WinogradTile::Two, side: WinogradSide::Input(Stored::F32) };
    // An affine activation needs no registers or code beyond the loops.
    let affine = Activation::Affine { alpha: 0.2.into(), beta: 0.5.into() };
    let gates = GateCode { isa, gates: Gates::GruReset { activation: affine }, clip: None };
    let extreme = |wanted, columns| CodeKey::Extreme(ExtremeCode { isa, wanted, last: columns, columns });
    let slide = SlideCode { isa, kernel: [2, 2], strides: [1, 1], activation: None, stored: Stored::F32 };
    [
        ("dots", CodeKey::Stream(StreamCode { isa, form: stream::Form::Dots, rows: RowType::F32, ahead: true })),
        ("dots-f16", CodeKey::Stream(StreamCode { isa, form: stream::Form::Dots, rows: RowType::F16, ahead: true })),
        ("blend", CodeKey::Blend(BlendCode { isa, round: 2 })),
        ("chain", CodeKey::Chain(chain)),
        ("depthwise", CodeKey::Slide(slide)),
        ("extreme", extreme(Wanted::Greatest, false)),
        ("extreme-columns", extreme(Wanted::Least, true)),
        ("gates", CodeKey::Gates(gates)),
        ("layer-norm", CodeKey::RowNorm(norm)),
        ("linear-attention", CodeKey::State(StateCode { isa, decay: Decay::Head, corrects: true })),
        ("pool", CodeKey::Pool(PoolCode { isa, collect: Collect::Sum, stored: Stored::F32 })),
        ("reduction", CodeKey::Reduce(ReduceCode { isa, pass, order: Order::Rows, centred: false })),
        ("rotation", CodeKey::Rotary(RotaryCode { isa, interleaved: false })),
        ("rotation-neighbours", CodeKey::Rotary(RotaryCode { isa, interleaved: true })),
        ("row-f16", CodeKey::Row(RowCode { isa, vectors: 1, right: RightColumns::Halves, activation: None })),
        ("softmax", CodeKey::Softmax(SoftmaxCode { isa, form: softmax::Form::Softmax, columns: false })),
        (
            "transposition",
            CodeKey::Transpose(TransposeCode { isa, form: transpose::Form::Tile(transpose::Stores::Ahead) }),
        ),
        ("widening", CodeKey::Widen(WidenCode { isa })),
        ("winograd-input", CodeKey::Winograd(winograd)),
    ]
}

/// Rows of bytes by block-quantised weights: products in fours, of a few rows on two panels and of more rows on one;
/// pairs in 16 bits; and widened pairs.
fn rows_of_bytes(isa: Isa) -> [(&'static str, CodeKey); 5] {
    [
        ("block-fours", Products::Fours, 2, 2, Codes::Int4, ZeroPoints::Bytes),
        ("block-fours-rows", Products::Fours, 3, 1, Codes::Int4, ZeroPoints::Bytes),
        ("block-pairs", Products::Pairs, 2, 1, Codes::Int4, ZeroPoints::Bytes),
        ("block-pairs-rows", Products::Pairs, 4, 1, Codes::Int4, ZeroPoints::Bytes),
        ("block-widened", Products::Pairs, 2, 1, Codes::Int8, ZeroPoints::Middle),
    ]
    .map(|(name, products, rows, streams, codes, zeros)| {
        (
            name,
            CodeKey::BlockDot(BlockDotCode {
                isa,
                products,
                rows,
                vectors: 1,
                streams,
                codes,
                zeros,
                ahead: Ahead::Far,
                short: true,
            }),
        )
    })
}

/// The file of each listing, and its present text.
fn places() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut places = Vec::new();
    for isa in [Isa::Avx2, Isa::Avx512] {
        let keys = products(isa);
        assert!(!keys.is_empty(), "a product asks for no code");
        let text = keys.iter().map(|(key, part)| listing(key, *part) + "\n").collect();
        places.push((folder.join(format!("matmul-{isa}.asm")), text));
        // The last part has the code of all others.
        let others = others(isa).into_iter().chain(rows_of_bytes(isa));
        let others = others.map(|(name, key)| (format!("{name}-{isa}.asm"), listing(&key, key.parts() - 1)));
        places.extend(others.map(|(name, text)| (folder.join(name), text)));
        let depthwise = DepthwiseCode { isa, activation: Some(UnaryOp::Relu), stored: Stored::F32 };
        // Two vectors of signed bytes: on AVX2 two rows are stored at once.
        let (form, left, output) = (Form::Widened, QuantizedRows::Strided, Output::Signed);
        let quantized = QuantizedCode { isa, form, vectors: 2, left, output };
        for (name, key) in
            [("depthwise-any", CodeKey::Depthwise(depthwise)), ("quantized", CodeKey::Quantized(quantized))]
        {
            places.push((folder.join(format!("{name}-{isa}.asm")), of_two_rows(&key)));
        }
    }
    // A convolution of bf16 pairs whose activation follows the store: on a copy of the tile, before it is rounded.
    for (name, activation) in [("pairs", None), ("pairs-activation", Some(UnaryOp::Sigmoid))] {
        let code = CodeKey::Tile(TileCode {
            isa: Isa::Avx512,
            vectors: 1,
            left: LeftRows::Table,
            right: RightColumns::Dots,
            activation,
            residual: Stored::F32,
            output: Stored::Bf16,
            in_order: false,
        });
        places.push((folder.join(format!("{name}-avx512.asm")), listing(&code, 1)));
    }
    let epilogue = QuantizedEpilogueCode { isa: Isa::Avx512, output: Output::Signed, added: Added::First };
    let epilogue = CodeKey::QuantizedEpilogue(epilogue);
    places.push((folder.join("quantized-epilogue-avx512.asm"), listing(&epilogue, 0)));
    let isa = Isa::Avx512;
    let lines = LinesCode { isa, lines: 3, taps: 3, stride: 2, dilation: 1, output: Output::Unsigned };
    places.push((folder.join("quantized-lines-avx512.asm"), listing(&CodeKey::QuantizedLines(lines), 0)));
    let numbers = ExpandedNumbers::Bf16Pairs;
    let pairs = BlockExpandCode { isa, vectors: 2, codes: Codes::Int4, zeros: ZeroPoints::Bytes, numbers };
    places.push((folder.join("block-expand-pairs-avx512.asm"), listing(&CodeKey::BlockExpand(pairs), 0)));
    for (name, isa, form) in [
        ("lookup-avx512", Isa::Avx512, LookupForm::Halves),
        ("lookup-pieces-avx2", Isa::Avx2, LookupForm::Pieces),
        ("lookup-pieces-avx512", Isa::Avx512, LookupForm::Pieces),
    ] {
        let code = CodeKey::Lookup(LookupCode { isa, form });
        places.push((folder.join(format!("{name}.asm")), listing(&code, 0)));
    }
    let form = AttentionForm::WeighPairs(Adjust::default());
    let weights = CodeKey::Attention(AttentionCode { isa: Isa::Avx512, form });
    places.push((folder.join("attention-weights-avx512.asm"), listing(&weights, 0)));
    let epilogue = FusedEpilogue {
        columns: Columns::Most,
        activation: Some(UnaryOp::Relu),
        residual: Stored::Bf16,
        output: Stored::Bf16,
    };
    for (name, epilogue) in [("amx", None), ("amx-epilogue", Some(epilogue))] {
        let code = CodeKey::Multiply(MultiplyCode { isa: Isa::Avx512, factors: Factors::Bf16, epilogue });
        places.push((folder.join(format!("{name}-avx512.asm")), listing(&code, code.parts() - 1)));
    }
    places
}

fn holds(path: &Path, now: &str) {
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let line = known.lines().zip(now.lines()).position(|(known, now)| known != now);
    if known != now {
        let line = line.unwrap_or_else(|| known.lines().count().min(now.lines().count()));
        let (known, now) = (known.lines().nth(line), now.lines().nth(line));
        panic!("{}, line {}: {known:?} has become {now:?}; see the head of this test", path.display(), line + 1);
    }
}

#[test]
fn kernels_are_as_they_were() {
    for (path, now) in places() {
        holds(&path, &now);
    }
}

#[test]
#[ignore = "writes what the other test expects"]
fn write_anew() {
    for (path, now) in places() {
        std::fs::write(path, now).unwrap();
    }
}
