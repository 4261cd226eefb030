//! Gathering from a transposed constant gives the same as gathering before the transpose.

use kiln_model::GraphBuilder;
use kiln_model::ir::Dim;
use kiln_model::passes::PassOptions;
use kiln_tensor::{DType, Tensor};

use super::outputs;

#[test]
fn a_row_of_a_transposed_table_is_a_column_of_the_table() {
    // Folding leaves only tables larger than these, so it is turned off.
    let unfolded = || PassOptions::default().without("fold");
    for (shape, perm, axis) in [
        (&[4usize, 6][..], &[1i64, 0][..], 0i64),
        (&[4, 6], &[1, 0], -1),
        (&[2, 3, 5], &[2, 0, 1], 1),
        (&[2, 3, 5], &[1, 2, 0], 0),
        (&[2, 3, 5], &[0, 2, 1], 2),
    ] {
        for indices in [&[][..], &[3], &[2, 2]] {
            let mut build = GraphBuilder::new("gathered", 17);
            let sizes: &[usize] = indices;
            let chosen = build.input("chosen", DType::I64, sizes.iter().map(|&size| Dim::Fixed(size)));
            let table = (0..shape.iter().product::<usize>()).map(|at| at as f32).collect();
            let table = build.constant(Tensor::from_vec(shape.iter().copied(), table).unwrap());
            let transposed = build.op("Transpose", &[table], &[("perm", perm.to_vec().into())]);
            let rows = build.op("Gather", &[transposed, chosen], &[("axis", axis.into())]);
            build.output("rows", rows);
            let graph = build.finish();
            let count = sizes.iter().product::<usize>() as i64;
            let chosen =
                Tensor::from_vec(sizes.iter().copied(), (0..count).map(|at| (at * 7 + 1) % 3 - 1).collect()).unwrap();
            let requests = [vec![("chosen".to_owned(), chosen)]];
            let expected = outputs(&graph, unfolded().without("gather"), &requests).unwrap();
            let found = outputs(&graph, unfolded(), &requests).unwrap();
            assert!(expected[0][0].same(&found[0][0]), "{shape:?} by {perm:?}, axis {axis}, {indices:?}");
        }
    }
}
