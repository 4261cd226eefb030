//! Operators that only move: transposition of elements of every width, tensors joined and divided, and images that
//! become twice as large.

use std::hint::black_box;
use std::sync::Arc;

use kiln::session::{Session, SessionOptions};
use kiln_cache::{Cache, Limits};
use kiln_kernels::cpu::transpose::{Collapsed, Method, Transpose};
use kiln_kernels::{EmitEach, Isa, KernelError, Parallel, Result};
use kiln_key::F32Bits;
use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim};
use kiln_run::exec::context::BuildCx;
use kiln_run::exec::family::Family;
use kiln_run::exec::resize::{Mode, ResizeAxis, ResizeKey, ResizeProblem, Rounding, Transform};
use kiln_run::record::Store;
use kiln_tensor::{DType, Tensor};

use crate::table::{Table, values};

fn transpose(table: &Table<'_>, shape: &[usize], perm: &[usize], element: usize) -> Result<()> {
    let bytes = shape.iter().product::<usize>() * element;
    table.row(&format!("transpose {shape:?} by {perm:?}, {element} B"), bytes / 2, || {
        let collapsed = Collapsed::new(shape, perm);
        let isa = Isa::detect();
        let method = Method::pick(&collapsed, element, isa);
        let transpose = Transpose::new(collapsed, element, isa, method, table.threads.threads(), &EmitEach)?;
        let (input, mut output) = (vec![1u8; bytes], vec![0u8; bytes]);
        Ok(move || {
            let done = transpose.run(&input, &mut output, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// An image of 64 channels of 128x128 that becomes twice as large either way, channels first or last.
fn resize(table: &Table<'_>, name: &str, mode: Mode, last: bool) -> Result<()> {
    let axis = |input: u64, output: u64| {
        let scale = (output as f64 / input as f64).to_bits();
        ResizeAxis { input, output, scale, start: F32Bits::new(0.0), end: F32Bits::new(1.0) }
    };
    let (keep, twice) = (axis(64, 64), axis(128, 256));
    let axes = if last { [twice, twice, keep] } else { [keep, twice, twice] };
    let place = if last { "nhwc" } else { "nchw" };
    let (input, output) = (64 * 128 * 128, 64 * 256 * 256);
    table.row(&format!("resize {name} 64@128 to 256 {place}"), (input + output) / 2, || {
        let threads = table.threads.threads();
        let problem = ResizeProblem {
            mode,
            transform: Transform::HalfPixel,
            exclude_outside: false,
            antialias: false,
            axes: axes.into_iter().collect(),
            width: 4,
        };
        let cx = BuildCx {
            isa: Isa::detect(),
            threads,
            numerics: Default::default(),
            precision: Default::default(),
            cache: Arc::new(Cache::new(Limits { entries: 64, bytes: 1 << 20 })),
            records: Arc::new(Store::in_memory()),
            check: false,
            gpu: None,
        };
        let key = ResizeKey::new(cx.target(), problem);
        let resize = key.build(&key.choose(&cx), &cx)?;
        let (input, mut output) = (values(input), vec![0.0; output]);
        Ok(move || {
            let done = resize.blend(&input, &mut output, 0.0, table.threads);
            black_box(&mut output);
            done
        })
    })
}

/// Two tensors of that shape joined along an axis, or one divided in two, as a session runs it, with some microseconds
/// for the request itself.
fn join_or_split(table: &Table<'_>, op: &str, shape: &[usize], axis: usize) -> Result<()> {
    let joins = op == "Concat";
    let sources = if joins { 2 } else { 1 };
    let elements = shape.iter().product::<usize>();
    table.row(&format!("{} {shape:?} along {axis}", op.to_lowercase()), 2 * sources * elements, || {
        let mut graph = GraphBuilder::new("moved", 17);
        let dims = || shape.iter().map(|&size| Dim::Fixed(size));
        let names = &["a", "b"][..sources];
        let inputs: Vec<_> = names.iter().map(|name| Some(graph.input(name, DType::F32, dims()))).collect();
        let attrs = [("axis", Attr::Int(axis as i64))];
        for (index, made) in graph.op_many(op, &inputs, 3 - sources, &attrs).into_iter().enumerate() {
            graph.output(&format!("y{index}"), made);
        }
        let options = SessionOptions { threads: table.threads.threads(), ..SessionOptions::default() };
        let wrong = |error: String| KernelError::Unsupported { family: "bench", reason: error };
        let session = Session::from_graph(graph.finish(), &options).map_err(|error| wrong(error.to_string()))?;
        let tensor = |&name: &&'static str| match Tensor::from_slice(shape.iter().copied(), &values(elements)) {
            Ok(tensor) => Ok((name, tensor)),
            Err(error) => Err(wrong(error.to_string())),
        };
        let given = names.iter().map(tensor).collect::<Result<Vec<_>>>()?;
        Ok(move || {
            black_box(session.run(&given).map_err(|error| wrong(error.to_string()))?);
            Ok(())
        })
    })
}

/// All rows of these families.
pub(crate) fn measure(table: &Table<'_>) -> Result<()> {
    let cases: [(&[usize], &[usize], usize); 21] = [
        (&[1, 64, 56, 56], &[0, 2, 3, 1], 4),
        (&[1, 56, 56, 64], &[0, 3, 1, 2], 4),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 4),
        (&[1, 112, 112, 64], &[0, 3, 1, 2], 4),
        (&[1, 3, 224, 224], &[0, 2, 3, 1], 4),
        (&[1, 224, 224, 3], &[0, 3, 1, 2], 4),
        (&[8, 256, 56, 56], &[0, 2, 3, 1], 4),
        (&[1, 128, 12, 64], &[0, 2, 1, 3], 4),
        (&[1, 128, 12, 64], &[0, 2, 3, 1], 4),
        (&[8, 512, 12, 64], &[0, 2, 1, 3], 4),
        (&[768, 3072], &[1, 0], 4),
        (&[4096, 4096], &[1, 0], 4),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 1),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 2),
        (&[1, 64, 112, 112], &[0, 2, 3, 1], 8),
        (&[1, 112, 112, 64], &[0, 3, 1, 2], 1),
        (&[2048, 2048], &[1, 0], 1),
        (&[2048, 2048], &[1, 0], 2),
        (&[2048, 2048], &[1, 0], 8),
        (&[1, 64, 56, 56], &[0, 1, 2, 3], 4),
        (&[8, 12, 512, 64], &[1, 0, 2, 3], 4),
    ];
    table.shapes(&cases).iter().try_for_each(|&(shape, perm, element)| transpose(table, shape, perm, element))?;
    let cases: [(&str, &[usize], usize); 8] = [
        ("Concat", &[1, 256, 256, 32], 3),
        ("Concat", &[1, 64, 64, 128], 3),
        ("Concat", &[1, 56, 56, 24], 3),
        ("Concat", &[1, 12, 1024, 64], 2),
        ("Concat", &[8, 512, 768], 1),
        ("Split", &[1, 512, 2304], 2),
        ("Split", &[1, 128, 128, 64], 3),
        ("Split", &[8, 512, 768], 1),
    ];
    table.shapes(&cases).iter().try_for_each(|&(op, shape, axis)| join_or_split(table, op, shape, axis))?;
    let nearest = Mode::Nearest(Rounding::PreferFloor);
    let modes = [("nearest", nearest), ("linear", Mode::Linear)];
    let cases = modes.map(|(name, mode)| [false, true].map(|last| (name, mode, last)));
    table.shapes(cases.as_flattened()).iter().try_for_each(|&(name, mode, last)| resize(table, name, mode, last))
}
