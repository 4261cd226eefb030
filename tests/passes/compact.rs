//! Weights that are stored small give the numbers that their nodes would compute in every request.

use half::f16;
use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, ValueId};
use kiln_model::passes::PassOptions;
use kiln_tensor::{DType, Element, Tensor};

use super::{distance, outputs};

fn constant<T: Element>(build: &mut GraphBuilder, shape: &[usize], number: impl Fn(usize) -> T) -> ValueId {
    let count = shape.iter().product();
    build.constant(Tensor::from_vec(shape.iter().copied(), (0..count).map(number).collect()).unwrap())
}

fn bytes(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    constant(build, shape, |at| (at * 37 % 255) as u8 as i8)
}

fn scales(build: &mut GraphBuilder, shape: &[usize]) -> ValueId {
    constant(build, shape, |at| 0.003 + (at % 7) as f32 * 0.0007)
}

/// Weights of that shape in every form that is folded to a compact constant: a scale for all, an axis, blocks of an
/// axis; numbers of half precision; a cast with what follows it.
fn forms(shape: [usize; 2]) -> Vec<Box<dyn Fn(&mut GraphBuilder) -> ValueId>> {
    let [rows, columns] = shape;
    let cast = |build: &mut GraphBuilder, value| build.op("Cast", &[value], &[("to", Attr::Int(1))]);
    let mut forms: Vec<Box<dyn Fn(&mut GraphBuilder) -> ValueId>> = vec![
        Box::new(move |b| {
            let (w, scale, zero) = (bytes(b, &shape), scales(b, &[]), constant(b, &[], |_| -7i8));
            b.op("DequantizeLinear", &[w, scale, zero], &[])
        }),
        Box::new(move |b| {
            let w = constant(b, &shape, |at| f16::from_f32((at % 97) as f32 * 0.01 - 0.4));
            cast(b, w)
        }),
        Box::new(move |b| {
            let (w, zero, scale) = (bytes(b, &shape), scales(b, &[]), scales(b, &[rows, 1]));
            let w = cast(b, w);
            let w = b.op("Sub", &[w, zero], &[]);
            b.op("Mul", &[scale, w], &[])
        }),
        Box::new(move |b| {
            // Blocks by hand: one scale for 16 columns of a row.
            let (w, scale) = (bytes(b, &[rows, columns / 16, 16]), scales(b, &[rows, columns / 16, 1]));
            let w = cast(b, w);
            let w = b.op("Mul", &[w, scale], &[]);
            let target = constant(b, &[2], move |at| shape[at] as i64);
            b.op("Reshape", &[w, target], &[])
        }),
    ];
    for (axis, block, factors) in [
        (0, 0, vec![rows]),
        (1, 0, vec![columns]),
        (0, 24, vec![rows.div_ceil(24), columns]),
        (1, 7, vec![rows, columns.div_ceil(7)]),
    ] {
        forms.push(Box::new(move |b| {
            let (w, scale) = (bytes(b, &shape), scales(b, &factors));
            let zero = constant(b, &factors, |at| (at % 11) as i8 - 5);
            let attrs = [("axis", Attr::Int(axis)), ("block_size", Attr::Int(block))];
            b.op("DequantizeLinear", &[w, scale, zero], &attrs)
        }));
    }
    forms
}

/// Results of a graph with all passes beside those without any pass.
fn results(dtype: DType, x: Tensor, make: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) -> [Tensor; 2] {
    let mut build = GraphBuilder::new("compact", 21);
    let input = build.input("x", dtype, x.shape().iter().map(|&dim| dim.into()));
    let y = make(&mut build, input);
    build.output("y", y);
    let graph = build.finish();
    let request = vec![("x".to_owned(), x)];
    [PassOptions::none(), PassOptions::default()]
        .map(|passes| outputs(&graph, passes, std::slice::from_ref(&request)).unwrap().remove(0).remove(0))
}

#[test]
fn rows_of_a_compact_table_are_those_of_the_whole_one() {
    let ids = Tensor::from_vec([2, 3], vec![0i64, 299, -1, 17, 17, -300]).unwrap();
    for form in forms([300, 64]) {
        let [plain, folded] = results(DType::I64, ids.clone(), |build, ids| {
            let table = form(build);
            build.op("Gather", &[table, ids], &[])
        });
        assert!(folded.same(&plain), "{folded:?}\n{plain:?}");
    }
}

#[test]
fn products_and_convolutions_are_those_by_the_numbers() {
    let x = |shape: [usize; 4]| {
        let count: usize = shape.iter().product();
        Tensor::from_vec(shape, (0..count).map(|at| (at * 29 % 61) as f32 / 16.0 - 1.75).collect()).unwrap()
    };
    for (at, form) in forms([144, 128]).iter().enumerate() {
        let product = results(DType::F32, x([1, 1, 5, 144]), |build, x| {
            let weights = form(build);
            build.op("MatMul", &[x, weights], &[])
        });
        let conv = results(DType::F32, x([1, 128, 3, 4]), |build, x| {
            let (weights, kernel) = (form(build), constant(build, &[4], |at| [144, 128, 1, 1][at]));
            let weights = build.op("Reshape", &[weights, kernel], &[]);
            build.op("Conv", &[x, weights], &[])
        });
        for [plain, folded] in [product, conv] {
            let distance = distance(&plain, &folded).unwrap();
            assert!(distance <= 1e-5, "form {at}: {distance}");
        }
    }
}
