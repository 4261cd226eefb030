//! Which convolutions read the inputs of a Concat.

use kiln_kernels::cpu::Elements;

use super::*;

const PASSES: [&str; 7] = ["layout", "identity", "transpose", "activation", "chain", "bf16", "concat"];

fn in_parts(build: GraphBuilder, y: ValueId, elements: Elements) -> Vec<String> {
    let options = PASSES.iter().fold(PassOptions::none().with("dead"), |options, pass| options.with(pass));
    let graph = rewritten(build, y, &options.with_elements(elements));
    let joins = |node: &NodeDesc| match node.inputs.len() {
        0..=4 => node.op.clone(),
        count => format!("{} of {}", node.op, count - 3),
    };
    graph.nodes.iter().map(joins).filter(|op| op.contains("Conv") || op.contains("Concat")).collect()
}

fn conv(build: &mut GraphBuilder, x: ValueId, [channels, filters, kernel]: [usize; 3], group: usize) -> ValueId {
    let w = floats(build, &[filters, channels / group, kernel, kernel]);
    build.op("Conv", &[x, w], &[("pads", [(kernel / 2) as i64; 4].into()), ("group", (group as i64).into())])
}

/// Convolutions of `x` to these numbers of channels, joined along an axis.
fn joined(build: &mut GraphBuilder, x: ValueId, channels: &[usize], axis: i64) -> ValueId {
    let parts: Vec<ValueId> = channels.iter().map(|&filters| conv(build, x, [8, filters, 1], 1)).collect();
    build.op("Concat", &parts, &[("axis", axis.into())])
}

#[test]
fn a_convolution_of_whole_vectors_reads_what_was_to_be_joined() {
    for (channels, reads) in
        [(&[16, 16][..], "FusedConv of 2"), (&[32, 5], "FusedConv of 2"), (&[16; 4], "FusedConv of 4")]
    {
        let (mut build, x) = with_x(&[-2, 8, -3, -4]);
        let concat = joined(&mut build, x, channels, 1);
        let y = conv(&mut build, concat, [channels.iter().sum(), 16, 3], 1);
        let y = build.op("Relu", &[y], &[]);
        let found = in_parts(build, y, Elements::F32);
        assert_eq!(found.last().map(String::as_str), Some(reads), "{channels:?}");
        assert!(!found.contains(&"Concat".to_owned()));
    }
}

#[test]
fn the_matrix_unit_reads_whole_steps_whatever_the_stride() {
    for (channels, stays) in [([32, 32], false), ([64, 24], false), ([16, 48], true)] {
        let (mut build, x) = with_x(&[-2, 8, -3, -4]);
        let concat = joined(&mut build, x, &channels, 1);
        let w = floats(&mut build, &[16, channels.iter().sum(), 3, 3]);
        let y = build.op("Conv", &[concat, w], &[("strides", [2, 2].into())]);
        assert_eq!(in_parts(build, y, Elements::Bf16Tiles).contains(&"Concat".to_owned()), stays, "{channels:?}");
    }
}

#[test]
fn a_concat_stays_where_no_kernel_reads_parts_or_another_node_reads_it() {
    type Rest = fn(&mut GraphBuilder, ValueId) -> ValueId;
    let stays: [(&str, [usize; 2], i64, Rest); 6] = [
        ("parts that are no whole vectors", [8, 24], 1, |build, x| conv(build, x, [32, 16, 3], 1)),
        ("a product", [16, 16], 1, |build, x| conv(build, x, [32, 16, 1], 1)),
        ("groups", [16, 16], 1, |build, x| conv(build, x, [32, 16, 3], 2)),
        ("positions are joined", [16, 16], 2, |build, x| conv(build, x, [16, 16, 3], 1)),
        ("a stride", [16, 16], 1, |build, x| {
            let w = floats(build, &[16, 32, 3, 3]);
            build.op("Conv", &[x, w], &[("strides", [2, 2].into())])
        }),
        ("another reader", [16, 16], 1, |build, x| {
            let (a, b) = (conv(build, x, [32, 32, 3], 1), build.op("Sigmoid", &[x], &[]));
            build.op("Mul", &[a, b], &[])
        }),
    ];
    for (why, channels, axis, rest) in stays {
        let (mut build, x) = with_x(&[-2, 8, -3, -4]);
        let concat = joined(&mut build, x, &channels, axis);
        let y = rest(&mut build, concat);
        assert!(in_parts(build, y, Elements::F32).contains(&"Concat".to_owned()), "{why}");
    }
}
