//! Branches of convolutions that are added give the same joined as apart, whatever their windows.

use kiln_model::GraphBuilder;
use kiln_model::ir::{Attr, Dim, ValueId};
use kiln_model::passes::PassOptions;
use kiln_tensor::{DType, Tensor};
use proptest::prelude::*;

use super::{distance, outputs};

fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|at| ((at * 29 + seed * 17) % 61) as f32 / 30.0 - 1.0).collect();
    Tensor::from_vec(shape.iter().copied(), values).unwrap()
}

/// A branch along one axis: the size of its window, and its padding at the beginning and at the end.
type Along = [usize; 3];

/// Branches over the same input.
#[derive(Clone, Debug)]
struct Case {
    /// Groups, channels of a group, and filters of a group.
    sizes: [usize; 3],
    strides: Vec<usize>,
    dilations: Vec<usize>,
    branches: Vec<Vec<Along>>,
    normalised: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    (1..=3usize, prop::array::uniform3(1..=3usize), any::<bool>()).prop_flat_map(|(space, sizes, normalised)| {
        let along = (1..=3usize, 0..=2usize, 0..=2usize).prop_map(|(kernel, begin, end)| [kernel, begin, end]);
        let branches = prop::collection::vec(prop::collection::vec(along, space), 2..=3);
        let steps = || prop::collection::vec(1..=2usize, space);
        (steps(), steps(), branches).prop_map(move |(strides, dilations, branches)| Case {
            sizes,
            strides,
            dilations,
            branches,
            normalised,
        })
    })
}

impl Case {
    /// The size of a branch's output along an axis.
    fn output(&self, branch: &[Along], axis: usize, size: usize) -> Option<usize> {
        let [kernel, begin, end] = branch[axis];
        let reach = (kernel - 1) * self.dilations[axis] + 1;
        (size + begin + end).checked_sub(reach).map(|left| left / self.strides[axis] + 1)
    }

    /// The branches whose outputs have the size of the first one's.
    fn alike(&self, input: usize) -> Vec<&Vec<Along>> {
        let size = |branch: &[Along]| -> Option<Vec<usize>> {
            (0..branch.len()).map(|axis| self.output(branch, axis, input)).collect()
        };
        let first = size(&self.branches[0]);
        self.branches.iter().filter(|branch| first.is_some() && size(branch) == first).collect()
    }

    fn conv(&self, build: &mut GraphBuilder, x: ValueId, branch: &[Along], seed: usize) -> ValueId {
        let [groups, channels, filters] = self.sizes;
        let shape: Vec<usize> = [groups * filters, channels].into_iter().chain(branch.iter().map(|a| a[0])).collect();
        let w = build.constant(numbers(&shape, seed));
        let bias = seed.is_multiple_of(2).then(|| build.constant(numbers(&[groups * filters], seed + 1)));
        let list = |values: &[usize]| Attr::Ints(values.iter().map(|&value| value as i64).collect());
        let pads: Vec<usize> = [1, 2].into_iter().flat_map(|end| branch.iter().map(move |a| a[end])).collect();
        let attrs = [
            ("group", Attr::Int(groups as i64)),
            ("strides", list(&self.strides)),
            ("dilations", list(&self.dilations)),
            ("pads", list(&pads)),
        ];
        build.op_of("", "Conv", &[Some(x), Some(w), bias], &attrs)
    }
}

proptest! {
    #[test]
    fn joined_branches_give_what_they_gave_apart(case in cases()) {
        const SIZE: usize = 6;
        let [groups, channels, filters] = case.sizes;
        let space = case.strides.len();
        let mut build = GraphBuilder::new("branches", 17);
        let dims = [Dim::Any, Dim::Fixed(groups * channels)].into_iter().chain((0..space).map(|_| Dim::Any));
        let x = build.input("x", DType::F32, dims);
        let mut sum = None;
        for (seed, branch) in case.alike(SIZE).into_iter().enumerate() {
            let made = case.conv(&mut build, x, branch, seed);
            sum = Some(sum.map_or(made, |sum| build.op("Add", &[sum, made], &[])));
        }
        let Some(mut y) = sum else { return Ok(()) };
        let is_own = (0..space).all(|axis| case.output(&case.branches[0], axis, SIZE) == Some(SIZE));
        if case.normalised && channels == filters && is_own {
            let channels = groups * channels;
            let mut constant = |at: usize| {
                let values = vec![at as f32 + 0.5; channels];
                build.constant(Tensor::from_vec([channels], values).unwrap())
            };
            let parameters = [0, 1, 2, 3].map(&mut constant);
            let own = build.op("BatchNormalization", &[&[x][..], &parameters].concat(), &[]);
            y = build.op("Add", &[own, y], &[]);
        }
        build.output("y", y);
        let graph = build.finish();
        let shape: Vec<usize> = [2, groups * channels].into_iter().chain(vec![SIZE; space]).collect();
        let requests = [vec![("x".to_owned(), numbers(&shape, 5))]];
        let apart = outputs(&graph, PassOptions::none(), &requests).unwrap();
        for options in [PassOptions::default(), PassOptions::none().with("branches")] {
            let joined = outputs(&graph, options, &requests).unwrap();
            let distance = distance(&apart[0][0], &joined[0][0]);
            prop_assert!(matches!(distance, Ok(distance) if distance < 1e-5), "{distance:?}");
        }
    }
}
