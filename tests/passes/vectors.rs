//! Products with a vector on either side, and the values added to them, give the same with passes as without.

use kiln_model::ir::Dim;
use kiln_model::passes::PassOptions;
use kiln_model::{Graph, GraphBuilder, ValueId};
use kiln_tensor::{DType, Tensor};

use super::{TOLERANCE, distance, outputs};

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let number = |at: usize| ((at * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0;
    Tensor::from_vec(shape.iter().copied(), (0..shape.iter().product()).map(number).collect()).unwrap()
}

/// One product and its summand. A size of 0 stands for a size that requests decide.
struct Case {
    left: &'static [usize],
    right: &'static [usize],
    added: &'static [usize],
    /// Whether the vector and the summand are constants.
    constant: bool,
}

impl Case {
    fn graph(&self) -> Graph {
        let mut build = GraphBuilder::new("vectors", 17);
        let given = |build: &mut GraphBuilder, name: &str, shape: &[usize]| -> ValueId {
            let dim = |&size: &usize| if size == 0 { Dim::from("N") } else { Dim::Fixed(size) };
            build.input(name, DType::F32, shape.iter().map(dim))
        };
        let left = given(&mut build, "left", self.left);
        let [right, added] = [("right", self.right, 1), ("added", self.added, 2)].map(|(name, shape, seed)| {
            if self.constant { build.constant(numbers(shape, seed)) } else { given(&mut build, name, shape) }
        });
        let product = build.op("MatMul", &[left, right], &[]);
        let sum = build.op("Add", &[added, product], &[]);
        let y = build.op("Relu", &[sum], &[]);
        build.output("y", y);
        build.finish()
    }

    fn request(&self, size: usize) -> Vec<(String, Tensor)> {
        let given = [("left", self.left, 0), ("right", self.right, 1), ("added", self.added, 2)];
        let given = given.into_iter().take(if self.constant { 1 } else { 3 });
        let sized = |shape: &[usize]| shape.iter().map(|&dim| if dim == 0 { size } else { dim }).collect::<Vec<_>>();
        given.map(|(name, shape, seed)| (name.to_owned(), numbers(&sized(shape), seed))).collect()
    }
}

#[test]
fn products_by_a_vector_take_what_is_added_to_them() {
    let shapes: [(&[usize], &[usize], &[usize]); 9] = [
        (&[3, 4], &[4], &[3]),
        (&[4, 4], &[4], &[4]),
        (&[0, 3, 4], &[4], &[3]),
        (&[0, 3, 4], &[4], &[1, 3]),
        (&[0, 4], &[4], &[1]),
        (&[0, 1, 4], &[4], &[1]),
        (&[4], &[4, 5], &[5]),
        (&[4], &[4, 5], &[1]),
        (&[4], &[4], &[1]),
    ];
    for (left, right, added) in shapes {
        for constant in [false, true] {
            let case = Case { left, right, added, constant };
            let (graph, requests) = (case.graph(), [3, 1, 8, 3].map(|size| case.request(size)));
            let expected = outputs(&graph, PassOptions::none(), &requests).unwrap();
            let found = outputs(&graph, PassOptions::default(), &requests)
                .unwrap_or_else(|error| panic!("{left:?} by {right:?} and {added:?}, {constant}: {error}"));
            for (expected, found) in expected.iter().zip(&found) {
                let distance = distance(&expected[0], &found[0]);
                assert!(
                    matches!(distance, Ok(distance) if distance <= TOLERANCE),
                    "{left:?} by {right:?} and {added:?}, {constant}: {distance:?}"
                );
            }
        }
    }
}
