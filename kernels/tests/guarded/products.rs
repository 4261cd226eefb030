//! Families whose heart is the matrix product: products, attention, recurrent layers.

use half::f16;
use kiln_kernels::cpu::attention::{
    Attention, AttentionBlocks, AttentionShape, Cache, Cells, Held, KeyRange, Operands, Pages, Scales, Strides,
};
use kiln_kernels::cpu::chain::UnaryOp;
use kiln_kernels::cpu::gemm::{
    BatchDim, Epilogue, Extras, Left, Matmul, MatmulBlocks, MatmulShape, MatmulStored, Panels, Right, Source,
};
use kiln_kernels::cpu::precision::{from_bf16, to_bf16};
use kiln_kernels::cpu::recurrent::{
    self as cells, Activation, Cell, Direction, DirectionWeights, Outputs, Recurrent, RecurrentShape,
};
use kiln_kernels::cpu::{ActivationsMut, Elements, PackedWeights, PackedWeightsMut, Stored};
use kiln_kernels::reference::recurrent as plain;
use kiln_kernels::{EmitEach, Isa, reference};

use super::draw::Draw;
use super::page::{Both, Guarded};
use super::{InTurn, close};

/// Matrices with NaN between their rows.
fn lay_out([count, rows, columns]: [usize; 3], stride: usize, value: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
    let mut data = vec![f32::NAN; (count * rows - 1) * stride + columns];
    for matrix in 0..count {
        for row in 0..rows {
            for column in 0..columns {
                data[(matrix * rows + row) * stride + column] = value(matrix, row, column);
            }
        }
    }
    data
}

/// Weights as panels of these elements.
fn panels(
    isa: Isa,
    elements: Elements,
    source: &Source<'_>,
    rows: usize,
    columns: usize,
    at_end: bool,
) -> Guarded<f32> {
    let width = elements.panel_vectors(isa, columns) * isa.lanes();
    let panels = Panels { rows: elements.words(rows), columns, width };
    let mut packed = Guarded::blank(panels.len(), at_end);
    panels.pack_as(source, 1.0, PackedWeightsMut::new(elements, bytemuck::cast_slice_mut(&mut packed))).unwrap();
    packed.open();
    packed
}

/// The elements that weights may have at that level.
fn suiting(isa: Isa) -> Vec<Elements> {
    let all = [Elements::F32, Elements::Bf16, Elements::Bf16Dot, Elements::Bf16Tiles, Elements::F16];
    all.into_iter().filter(|elements| elements.suit(isa)).collect()
}

pub(crate) fn matmul(draw: &mut Draw<'_>, isa: Isa) {
    let (batches, m, n, k) = (draw.size(3), draw.reach(40, 600), draw.reach(130, 1600), draw.reach(100, 4200));
    // The reference takes time in proportion to its products.
    let k = k.min((1 << 21) / (batches * m * n)).max(1);
    let (slack, threads, at_end) = (draw.below(4), draw.of(&[1, 2, 3, 4, 64]), draw.flag());
    let (a, b) = (draw.integers(batches * m * k), draw.integers(k * n));
    let left_at = |batch: usize, row: usize, column: usize| a[(batch * m + row) * k + column];
    let (left, left_data, step) = match draw.flag() {
        false => (Left::Rows { stride: k + slack }, lay_out([batches, m, k], k + slack, left_at), m * (k + slack)),
        true => {
            let transposed = lay_out([batches, k, m], m + slack, |batch, column, row| left_at(batch, row, column));
            (Left::Columns { stride: m + slack }, transposed, k * (m + slack))
        }
    };
    let left_data = Both::new(&left_data, at_end);
    let (right, right_data) = match draw.below(3) {
        0 => {
            let elements = draw.of(&suiting(isa));
            let packed = panels(isa, elements, &Source::row_major(&b, k, n), k, n, at_end);
            (Right::Packed { vectors: elements.panel_vectors(isa, n), elements }, packed)
        }
        1 => {
            let data = lay_out([1, k, n], n + slack, |_, row, column| b[row * n + column]);
            (Right::Rows { stride: n + slack }, Guarded::of(&data, at_end))
        }
        _ => {
            let data = lay_out([1, n, k], k + slack, |_, column, row| b[row * n + column]);
            (Right::Columns { stride: k + slack }, Guarded::of(&data, at_end))
        }
    };
    let batch = [BatchDim { size: batches, left: step, right: 0 }].into_iter().collect();
    let shape = MatmulShape { m, n, k, batch, left, right };
    let packed = matches!(right, Right::Packed { .. });
    let (bias, residual) = (draw.integers(n), draw.integers(batches * m * n));
    let (with_bias, with_residual, relu) = (draw.flag(), draw.flag(), draw.flag());
    // A factor beside a bias asks for a right-hand side that is packed in the run.
    let scale = if draw.flag() && !(packed && with_bias) { 2.0 } else { 1.0 };
    let epilogue = Epilogue { scale, bias: with_bias, activation: relu.then_some(UnaryOp::Relu) };
    let blocks = draw.byte();
    let candidates = MatmulBlocks::candidates(isa, &shape, &epilogue, threads, 24);
    let blocks = candidates[usize::from(blocks) % candidates.len()];
    let mut want: Vec<f32> =
        (0..batches).flat_map(|batch| reference::gemm::matmul(m, n, k, &a[batch * m * k..][..m * k], &b)).collect();
    for (index, value) in want.iter_mut().enumerate() {
        *value = *value * scale + if with_bias { bias[index % n] } else { 0.0 };
        *value += if with_residual { residual[index] } else { 0.0 };
        *value = if relu { value.max(0.0) } else { *value };
    }
    let types = [Stored::F32, Stored::Bf16];
    let [left_type, added, output] = [draw.of(&types), draw.of(&types), draw.of(&types)];
    let wanted = MatmulStored { left: left_type, residual: if with_residual { added } else { Stored::F32 }, output };
    let stored = if wanted.suits(&shape) { wanted } else { MatmulStored::default() };
    let product = Matmul::stored(isa, shape.clone(), blocks, stored, epilogue, &EmitEach).unwrap();
    let (bias, residual) = (Guarded::of(&bias, at_end), Both::new(&residual, at_end));
    let residual = with_residual.then(|| residual.get(stored.residual));
    let extras = Extras { bias: with_bias.then_some(&*bias), residual };
    let (mut scratch, mut c) = (Guarded::blank(product.scratch_len(), at_end), Guarded::blank(want.len(), at_end));
    let mut halves: Guarded<u16> = Guarded::blank(want.len(), at_end);
    let to = match stored.output {
        Stored::F32 => ActivationsMut::F32(&mut c),
        Stored::Bf16 => ActivationsMut::Bf16(&mut halves),
    };
    let left = left_data.get(stored.left);
    let right = PackedWeights::new(shape.elements(), bytemuck::cast_slice(&right_data));
    product.run_stored(left, right, to, extras, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    let what = || format!("{isa} {blocks:?} {stored:?} {shape:?} {epilogue:?}");
    if stored.output == Stored::F32 {
        return close(c.open(), &want, |_| 0.0, &what);
    }
    let found: Vec<f32> = halves.open().iter().copied().map(from_bf16).collect();
    let want: Vec<f32> = want.into_iter().map(|value| from_bf16(to_bf16(value))).collect();
    close(&found, &want, |_| 0.0, &what);
}

/// Elements that products of two computed matrices may have at that level.
fn of_computed(draw: &mut Draw<'_>, isa: Isa) -> Elements {
    match isa {
        Isa::Avx512 => draw.of(&[Elements::F32, Elements::Bf16Dot, Elements::Bf16Tiles]),
        _ => Elements::F32,
    }
}

pub(crate) fn attention(draw: &mut Draw<'_>, isa: Isa) {
    let (batch, queries) = (draw.size(2), draw.reach(20, 200));
    // There may be no keys: every output is then zero.
    let keys = if draw.below(16) == 0 { 0 } else { draw.reach(50, 1100) };
    let (size, value_size) = (draw.reach(40, 160), draw.reach(40, 160));
    let queries = queries.min((1 << 19) / (keys.max(1) * size.max(value_size))).max(1);
    let (shared, own) = (draw.size(2), draw.size(2));
    let heads = shared * own;
    // Heads before positions, or heads side by side within positions.
    let joined = draw.flag();
    let steps = |heads: usize, rows: usize, size: usize| {
        let [heads, rows, size] = [heads, rows, size].map(|count| count as u64);
        match joined {
            true => Strides { batch: rows * heads * size, head: size, row: heads * size },
            false => Strides { batch: heads * rows * size, head: rows * size, row: size },
        }
    };
    let key_columns = !joined && draw.flag();
    let key = if key_columns { Strides { row: keys as u64, ..steps(own, keys, size) } } else { steps(own, keys, size) };
    let beside = Strides { batch: 0, head: if draw.flag() { (queries * keys) as u64 } else { 0 }, row: keys as u64 };
    let shape = AttentionShape {
        batch: batch as u64,
        heads: heads as u64,
        shared: shared as u64,
        queries: queries as u64,
        keys: keys as u64,
        size: size as u64,
        value_size: value_size as u64,
        query: steps(heads, queries, size),
        key,
        key_columns,
        value: steps(own, keys, value_size),
        output: steps(heads, queries, value_size),
        mask: draw.flag().then_some(beside),
        keep: draw.flag().then_some(beside),
        inverted: draw.flag(),
        fill: (-1e4).into(),
        scale: 0.25.into(),
        cap: draw.flag().then_some(3.0.into()),
        causal: draw.flag().then_some(draw.below(3) as u64),
        range: KeyRange::Shape,
        held: Held::F32,
        blind_is_zero: false,
        stored: Stored::F32,
        written: Stored::F32,
        elements: of_computed(draw, isa),
    };
    let (threads, at_end) = (draw.size(4), draw.flag());
    let picked = AttentionBlocks::pick(isa, &shape, threads);
    let width = shape.panel(isa);
    let blocks = [
        picked,
        AttentionBlocks { pack_values: !picked.pack_values, stream: false, ..picked },
        AttentionBlocks { keys: width as u32, rows: 5, stream: false, head_tasks: 3, query_tasks: 2, ..picked },
        AttentionBlocks { stream: true, pack_values: false, ..picked },
    ];
    let fitting: Vec<AttentionBlocks> = blocks.into_iter().filter(|blocks| blocks.fits(&shape, isa)).collect();
    let blocks = draw.of(&fitting);
    let needs = shape.needs().unwrap();
    let [query, key, value, mask] = [0, 1, 2, 4].map(|operand| Guarded::of(&draw.floats(needs[operand]), at_end));
    let keep: Vec<u8> = draw.raw(needs[5]).iter().map(|byte| byte % 2).collect();
    let keep = Guarded::of(&keep, at_end);
    let operands = Operands {
        query: &*query,
        key: &*key,
        value: &*value,
        mask: shape.mask.map(|_| &*mask),
        keep: shape.keep.map(|_| &*keep),
    };
    let mut want = vec![0.0; needs[3]];
    reference::attention::attention(&shape, &operands, &mut want);
    let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
    let mut scratch = Guarded::blank(attention.scratch_len(), at_end);
    let mut output = Guarded::blank(needs[3], at_end);
    attention.run(&operands, &mut output, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    let allowed = if shape.elements == Elements::F32 || blocks.stream { 1e-5 } else { 2e-2 };
    close(output.open(), &want, |_| allowed, &|| format!("{isa}, {blocks:?}, {shape:?}"));
}

/// Attention over a cache: batches of different lengths, whose rows end where the cache does or long before.
pub(crate) fn cached(draw: &mut Draw<'_>, isa: Isa) {
    let (batch, queries) = (draw.size(3), draw.reach(4, 40));
    let (size, shared, own) = (draw.reach(40, 160), draw.size(8), draw.size(2));
    let room = draw.reach(50, 700).max(queries);
    let is_step = queries == 1;
    let lengths: Vec<usize> = (0..batch).map(|_| queries + draw.wide(room) % (room - queries + 1)).collect();
    let held = draw.of(&[Held::F32, Held::F32, Held::F32, Held::Bytes, Held::Nibbles, Held::F16, Held::F16]);
    let elements = if held == Held::F32 { of_computed(draw, isa) } else { Elements::F32 };
    // Single queries read whole vectors of f16 in place.
    let size = if held == Held::F16 && draw.flag() { size.next_multiple_of(16) } else { size };
    let window = draw.flag().then(|| draw.wide(room));
    let width = own * shared * size;
    let steps = |rows: [usize; 3]| {
        let [batch, head, row] = rows.map(|elements| elements as u64);
        Strides { batch, head, row }
    };
    // A step's queries are those of the heads that share keys.
    let (heads, share, rows) = if is_step { (own, 1, shared) } else { (own * shared, shared, queries) };
    let query = steps(if is_step { [width, shared * size, size] } else { [queries * width, size, width] });
    let row = steps([0, 0, size]);
    let shape = AttentionShape {
        batch: batch as u64,
        heads: heads as u64,
        shared: share as u64,
        queries: rows as u64,
        keys: room as u64,
        size: size as u64,
        value_size: size as u64,
        query,
        key: row,
        key_columns: false,
        value: row,
        output: query,
        mask: None,
        keep: None,
        inverted: false,
        fill: f32::NEG_INFINITY.into(),
        scale: 0.25.into(),
        cap: draw.flag().then_some(3.0.into()),
        causal: (!is_step).then_some(0),
        range: if window.is_some() { KeyRange::Window } else { KeyRange::Cache },
        held,
        blind_is_zero: true,
        stored: Stored::F32,
        written: Stored::F32,
        elements,
    };
    let (threads, at_end) = (draw.size(4), draw.flag());
    let blocks = match draw.flag() {
        true => AttentionBlocks::pick(isa, &shape, threads),
        false => AttentionBlocks::in_order(isa, &shape, threads),
    };
    // The rows of some batch are the last of the cache.
    let (per_head, per_batch) = (room * size, own * room * size);
    let ends = lengths.iter().enumerate().map(|(at, keys)| at * per_batch + (own - 1) * per_head + keys * size);
    let end = ends.max().unwrap_or(0);
    let query = Guarded::of(&draw.floats(batch * queries * width), at_end);
    let count = if draw.flag() { 1 } else { own * size };
    let scales: Vec<f32> = draw.floats(count).iter().map(|scale| scale / 64.0).collect();
    let [key, value] = [(); 2].map(|()| Rows::draw(draw, held, end / size, size, at_end));
    let [keys_held, values_held] = [&key, &value].map(|rows| rows.cells(&scales));
    let [key, value] = [keys_held, values_held].map(|cells| {
        let mut numbers = vec![0.0; end];
        for (row, to) in numbers.chunks_exact_mut(size).enumerate() {
            cells.widen(Isa::Portable, row..row + 1, row / room % own, size, to);
        }
        numbers
    });
    let mut want = vec![0.0; batch * queries * width];
    for (at, &keys) in lengths.iter().enumerate() {
        let sees = |query: usize, key: usize| {
            let last = keys - queries + query;
            key <= last && window.is_none_or(|window| last - key < window)
        };
        let keep: Vec<u8> = (0..queries * keys).map(|at| u8::from(sees(at / keys, at % keys))).collect();
        let alone = AttentionShape {
            batch: 1,
            heads: (own * shared) as u64,
            shared: shared as u64,
            queries: queries as u64,
            keys: keys as u64,
            query: steps([0, size, width]),
            output: steps([0, size, width]),
            key: steps([0, per_head, size]),
            value: steps([0, per_head, size]),
            keep: Some(steps([0, 0, keys])),
            causal: None,
            range: KeyRange::Shape,
            held: Held::F32,
            elements: Elements::F32,
            ..shape
        };
        let operands = Operands {
            query: &query[at * queries * width..],
            key: &key[at * per_batch..],
            value: &value[at * per_batch..],
            mask: None,
            keep: Some(&keep[..]),
        };
        reference::attention::attention(&alone, &operands, &mut want[at * queries * width..][..queries * width]);
    }
    let attention = Attention::new(isa, shape, blocks, &EmitEach).unwrap();
    let mut scratch = Guarded::blank(attention.scratch_len(), at_end);
    let mut output = Guarded::blank(want.len(), at_end);
    let before: Vec<usize> = lengths.iter().map(|keys| keys - queries).collect();
    let cache = Cache {
        key: keys_held,
        value: values_held,
        keys: &lengths,
        before: &before,
        pages: Pages { table: &[], of_batch: 1, keys: room, page: own * room, head: room },
        window: window.unwrap_or(0),
        sink: None,
        bias: None,
    };
    attention.run_cached(&query, &cache, &mut output, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    let allowed = if elements == Elements::F32 { 1e-5 } else { 2e-2 };
    close(output.open(), &want, |_| allowed, &|| format!("{isa}, {blocks:?}, {lengths:?}, {window:?}, {shape:?}"));
}

/// Rows of a cache between pages that fault.
enum Rows {
    Numbers(Guarded<f32>),
    Bytes(Guarded<i8>),
    Nibbles(Guarded<u8>),
    Halves(Guarded<f16>),
}

impl Rows {
    fn draw(draw: &mut Draw<'_>, held: Held, rows: usize, size: usize, at_end: bool) -> Rows {
        let bytes = rows * held.row_bytes(size);
        match held {
            Held::F32 => Rows::Numbers(Guarded::of(&draw.floats(rows * size), at_end)),
            Held::Bytes => {
                let codes: Vec<i8> = draw.raw(bytes).iter().map(|&byte| byte as i8).collect();
                Rows::Bytes(Guarded::of(&codes, at_end))
            }
            Held::Nibbles => Rows::Nibbles(Guarded::of(&draw.raw(bytes), at_end)),
            Held::F16 => {
                let halves: Vec<f16> = draw.floats(rows * size).into_iter().map(f16::from_f32).collect();
                Rows::Halves(Guarded::of(&halves, at_end))
            }
        }
    }

    fn cells<'a>(&'a self, scales: &'a [f32]) -> Cells<'a> {
        match self {
            Rows::Numbers(numbers) => Cells::F32(numbers),
            Rows::Bytes(codes) => Cells::Bytes(codes, Scales(scales)),
            Rows::Nibbles(codes) => Cells::Nibbles(codes, Scales(scales)),
            Rows::Halves(halves) => Cells::F16(halves),
        }
    }
}

const CELLS: [Cell; 6] = [
    Cell::Lstm { input_forget: false, peepholes: false },
    Cell::Lstm { input_forget: false, peepholes: true },
    Cell::Lstm { input_forget: true, peepholes: true },
    Cell::Gru { linear_before_reset: false },
    Cell::Gru { linear_before_reset: true },
    Cell::Rnn,
];

/// ONNX's weights for one direction, as a caller packs them.
struct Packed {
    input: Guarded<f32>,
    recurrent: Guarded<f32>,
    faded: Guarded<f32>,
    bias: Guarded<f32>,
    reset_bias: Guarded<f32>,
    peepholes: Guarded<f32>,
}

fn prepare(shape: &RecurrentShape, isa: Isa, inputs: &plain::Inputs<'_>, direction: usize, at_end: bool) -> Packed {
    let (hidden, columns, input) = (shape.hidden(), shape.gate_columns(), shape.input());
    let pack = |weights: &[f32], rows: usize, columns: usize| {
        panels(isa, shape.elements, &Source::column_major(weights, rows, rows), rows, columns, at_end)
    };
    let w = &inputs.w[direction * columns * input..][..columns * input];
    let r = &inputs.r[direction * columns * hidden..][..columns * hidden];
    // The state that a reset gate scales is multiplied by itself.
    let fades = matches!(shape.cell, Cell::Gru { linear_before_reset: false });
    let kept = if fades { 2 * hidden } else { columns };
    let b = inputs.b.map_or(vec![0.0; 2 * columns], |b| b[direction * 2 * columns..][..2 * columns].to_vec());
    let after = matches!(shape.cell, Cell::Gru { linear_before_reset: true });
    let summed = |place: usize| !after || place < 2 * hidden;
    let bias: Vec<f32> = (0..columns).map(|i| b[i] + if summed(i) { b[columns + i] } else { 0.0 }).collect();
    let peepholes = inputs.peepholes.map_or(&[][..], |p| &p[direction * 3 * hidden..][..3 * hidden]);
    Packed {
        input: pack(w, input, columns),
        recurrent: pack(&r[..kept * hidden], hidden, kept),
        faded: if fades { pack(&r[kept * hidden..], hidden, hidden) } else { Guarded::blank(0, at_end) },
        bias: Guarded::of(&bias, at_end),
        reset_bias: Guarded::of(if after { &b[columns + 2 * hidden..] } else { &[] }, at_end),
        peepholes: Guarded::of(peepholes, at_end),
    }
}

pub(crate) fn recurrent(draw: &mut Draw<'_>, isa: Isa) {
    let cell = draw.of(&CELLS);
    let [sigmoid, tanh] = [UnaryOp::Sigmoid, UnaryOp::Tanh].map(Activation::Unary);
    let direction = |reverse: bool| Direction { reverse, activations: [sigmoid, tanh, tanh] };
    let both = draw.flag();
    let directions = if both { vec![direction(false), direction(true)] } else { vec![direction(draw.flag())] };
    let (steps, batch, input, hidden) = (draw.size(4), draw.reach(3, 20), draw.reach(20, 200), draw.reach(40, 200));
    let shape = RecurrentShape {
        cell,
        clip: draw.flag().then_some(0.5f32.into()),
        directions: directions.iter().copied().collect(),
        steps: steps as u64,
        batch: batch as u64,
        input: input as u64,
        hidden: hidden as u64,
        batch_first: draw.flag(),
        elements: draw.of(&suiting(isa)),
    };
    let allowed = if shape.elements == Elements::F32 { 2e-5 } else { 4e-2 };
    let (apart, threads, states, at_end) = (both && draw.flag(), draw.size(3), draw.flag(), draw.flag());
    let lengths: Option<Vec<usize>> = draw.flag().then(|| (0..batch).map(|_| draw.below(steps + 1)).collect());
    let (count, columns) = (directions.len(), shape.gate_columns());
    let mut halves = |count: usize| draw.floats(count).iter().map(|x| x / 2.0).collect::<Vec<f32>>();
    let (x, w, r) = (halves(shape.xs()), halves(count * columns * input), halves(count * columns * hidden));
    let (b, peepholes) = (halves(count * 2 * columns), halves(count * 3 * hidden));
    let (h, c) = (halves(shape.states()), halves(shape.states()));
    let inputs = plain::Inputs {
        x: &x,
        w: &w,
        r: &r,
        b: states.then_some(&b),
        peepholes: matches!(cell, Cell::Lstm { peepholes: true, .. }).then_some(&peepholes),
        lengths: lengths.as_deref(),
        h: states.then_some(&h),
        c: states.then_some(&c),
    };
    let memory = if cell.has_memory() { shape.states() } else { 0 };
    let mut want = [vec![0.0; shape.ys()], vec![0.0; shape.states()], vec![0.0; memory]];
    let [y, last_h, last_c] = &mut want;
    plain::recurrent(&shape, &inputs, &mut Outputs { y, h: last_h, c: last_c });

    let layer = Recurrent::new(shape.clone(), isa, apart, threads, &EmitEach).unwrap();
    let packed: Vec<Packed> = (0..count).map(|direction| prepare(&shape, isa, &inputs, direction, at_end)).collect();
    let weights_of = |words| PackedWeights::new(shape.elements, bytemuck::cast_slice::<f32, u32>(words));
    let weights: Vec<DirectionWeights<'_>> = packed
        .iter()
        .map(|packed| DirectionWeights {
            input: weights_of(&packed.input),
            recurrent: weights_of(&packed.recurrent),
            faded: weights_of(&packed.faded),
            bias: &packed.bias,
            reset_bias: &packed.reset_bias,
            peepholes: &packed.peepholes,
        })
        .collect();
    let [x, h, c] = [&x, &h, &c].map(|values| Guarded::of(values, at_end));
    let operands = cells::Operands {
        x: &x,
        weights: &weights,
        lengths: lengths.as_deref(),
        h: states.then_some(&*h),
        c: states.then_some(&*c),
    };
    let [mut y, mut last_h, mut last_c] = [shape.ys(), shape.states(), memory].map(|len| Guarded::blank(len, at_end));
    let mut scratch = Guarded::blank(layer.scratch_len(), at_end);
    let mut outputs = Outputs { y: &mut y, h: &mut last_h, c: &mut last_c };
    layer.run(&operands, &mut outputs, &mut scratch, &InTurn(threads)).unwrap();
    scratch.open();
    for (found, want) in [y, last_h, last_c].iter().zip(&want) {
        close(found.open(), want, |_| allowed, &|| format!("{shape:?} at {isa}, {lengths:?}, apart {apart}"));
    }
}
