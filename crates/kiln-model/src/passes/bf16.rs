//! Stores activations between layers that are multiplied as `bf16`: by AMX, or convolutions in pairs on vectors.
//!
//! Both round their operands anyway. Values whose maker can write `bf16` and whose readers can all read it are stored
//! as `bf16`: this halves their memory traffic, and they need no rounding later. A value that one reader needs as `f32`
//! stays `f32`, and no conversion is added. Results of convolutions do not change, but a residual is rounded once.
//!
//! Convolutions that multiply `bf16` read and write either type; those that multiply `f32` (of images, for example)
//! read `f32` and write either. Products, normalisations and attention take `bf16` with AMX alone. Depthwise
//! convolutions, pools and operators that move or pick elements write the type that they read, so their inputs and
//! outputs have one type. The type is the attribute `to` for nodes whose kernels need it. The graph's own inputs and
//! outputs keep their types.

use kiln_kernels::cpu::Elements;
use kiln_tensor::DType;

use super::PassCx;
use super::matmul;
use super::residual::as_fused_conv;
use super::weights::convolution;
use crate::facts::Facts;
use crate::ir::{Attr, Graph, NodeDesc, ValueId};

/// ONNX's numbers of the types.
const F32: i64 = 1;
const BF16: i64 = 16;

/// Which types a node takes for activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Reads and writes either type.
    Convolution,
    /// A convolution that multiplies `f32`: adds a residual of either type, and writes either.
    ConvolutionOfF32,
    /// Reads and writes either type: a product by constant weights.
    Product,
    /// Writes the type that it reads, by kernels for each type, so it needs the attribute.
    Pool,
    /// As `Pool`: a depthwise convolution.
    Depthwise,
    /// Writes the type that it reads, with the same code for every type.
    Moves,
    /// Reads `f32` and writes either type: a normalisation of rows.
    Norm,
    /// Reads queries, keys and values of one type, and writes either.
    Attention,
    /// Reads shapes only.
    Measures,
    /// Reads and writes `f32`.
    Plain,
}

impl Role {
    fn of(graph: &Graph, node: &NodeDesc, elements: Elements) -> Role {
        let on_amx = elements == Elements::Bf16Tiles;
        if let Some(sizes) = convolution(graph, node) {
            let alone = node.input(3).is_none();
            match sizes.elements(elements) {
                Elements::Bf16Dot | Elements::Bf16Tiles => Role::Convolution,
                _ if !sizes.is_depthwise() => Role::ConvolutionOfF32,
                _ if alone => Role::Depthwise,
                _ => Role::Plain,
            }
        } else if on_amx && is_product(graph, node) {
            Role::Product
        } else if on_amx && node.is_fused("FusedAttention") {
            Role::Attention
        } else if on_amx && (node.is("LayerNormalization") || node.is("RMSNormalization")) {
            if node.output(1).is_none() && node.output(2).is_none() { Role::Norm } else { Role::Plain }
        } else if (node.is("MaxPool") || node.is("AveragePool")) && node.is_channels_last() {
            if node.output(1).is_none() { Role::Pool } else { Role::Plain }
        } else if node.is("Concat") || is_nearest(node) {
            Role::Moves
        } else if node.is("Shape") || node.is("Size") {
            Role::Measures
        } else {
            Role::Plain
        }
    }

    /// Whether input number `index` may be `bf16`.
    fn reads(self, index: usize) -> bool {
        match self {
            Role::Convolution | Role::Product => [0, 3].contains(&index),
            Role::ConvolutionOfF32 => index == 3,
            Role::Pool | Role::Depthwise => index == 0,
            Role::Attention => index < 3,
            Role::Moves | Role::Measures => true,
            Role::Norm | Role::Plain => false,
        }
    }

    /// Whether the first output may be `bf16`.
    fn writes(self) -> bool {
        !matches!(self, Role::Measures | Role::Plain)
    }

    /// The values around a node that must have one type: data, and the result of a node that writes the type that it
    /// reads.
    fn group(self, node: &NodeDesc) -> Vec<ValueId> {
        match self {
            Role::Pool | Role::Depthwise => node.input(0).into_iter().chain(node.output(0)).collect(),
            Role::Moves if node.is("Concat") => node.inputs.iter().flatten().copied().chain(node.output(0)).collect(),
            Role::Moves => node.input(0).into_iter().chain(node.output(0)).collect(),
            Role::Attention => node.inputs.iter().take(3).flatten().copied().collect(),
            Role::Convolution | Role::ConvolutionOfF32 | Role::Product | Role::Norm | Role::Measures | Role::Plain => {
                Vec::new()
            }
        }
    }
}

pub(super) fn run(graph: &mut Graph, cx: &mut PassCx<'_>) -> usize {
    if !matches!(cx.elements, Elements::Bf16Dot | Elements::Bf16Tiles) {
        return 0;
    }
    let roles: Vec<Role> = graph.nodes.iter().map(|node| Role::of(graph, node, cx.elements)).collect();
    let in_bf16 = stored_as_bf16(graph, &roles, &cx.facts);
    let is_bf16 = |value: Option<ValueId>| value.is_some_and(|value| in_bf16[value.index()]);
    let mut nodes = std::mem::take(&mut graph.nodes);
    for (node, role) in nodes.iter_mut().zip(&roles) {
        let writes = is_bf16(node.output(0));
        if matches!(role, Role::Pool | Role::Norm) && writes {
            node.attrs.insert("to".to_owned(), Attr::Int(BF16));
        }
        let told = matches!(
            role,
            Role::Convolution | Role::ConvolutionOfF32 | Role::Product | Role::Depthwise | Role::Attention
        );
        let reads = [0, 3].iter().any(|&index| role.reads(index) && is_bf16(node.input(index)));
        if told && (writes || reads) {
            match role {
                Role::Attention => {}
                Role::Product => *node = matmul::as_fused(node),
                _ => *node = fused(node),
            }
            node.attrs.insert("to".to_owned(), Attr::Int(if writes { BF16 } else { F32 }));
        }
    }
    graph.nodes = nodes;
    let found = graph.values.iter_mut().zip(&in_bf16).filter(|(_, in_bf16)| **in_bf16);
    found.map(|(value, _)| value.dtype = Some(DType::BF16)).count()
}

/// The values whose maker can write `bf16` and whose readers can all read it.
fn stored_as_bf16(graph: &Graph, roles: &[Role], facts: &Facts) -> Vec<bool> {
    let mut in_bf16 = vec![false; graph.values.len()];
    for (node, _) in graph.nodes.iter().zip(roles).filter(|(_, role)| role.writes()) {
        if let Some(output) = node.output(0).filter(|output| facts.is(*output, DType::F32)) {
            in_bf16[output.index()] = true;
        }
    }
    for output in &graph.outputs {
        in_bf16[output.index()] = false;
    }
    for (node, role) in graph.nodes.iter().zip(roles) {
        for (index, input) in node.inputs.iter().enumerate() {
            if let Some(input) = input.filter(|_| !role.reads(index)) {
                in_bf16[input.index()] = false;
            }
        }
    }
    // Values of one group have one type. From the last node to the first, one round decides most groups.
    let mut unchanged = false;
    while !unchanged {
        unchanged = true;
        for (node, role) in graph.nodes.iter().zip(roles).rev() {
            let group = role.group(node);
            let all = group.iter().all(|value| in_bf16[value.index()]);
            for value in group {
                unchanged &= all || !std::mem::replace(&mut in_bf16[value.index()], all);
            }
        }
    }
    in_bf16
}

/// Whether a node multiplies rows by a matrix of constant weights.
fn is_product(graph: &Graph, node: &NodeDesc) -> bool {
    let product = node.is("MatMul") || node.is_fused(matmul::FUSED) && !node.attributes().flag("trans_a");
    let weights = || graph.constant_input(node, 1);
    product && weights().is_some_and(|weights| weights.dtype() == DType::F32 && weights.shape().len() == 2)
}

/// Whether a node picks the nearest element at each position.
fn is_nearest(node: &NodeDesc) -> bool {
    (node.is("Resize") || node.is("Upsample")) && node.attributes().text("mode") == "nearest"
}

/// The fused form of a convolution.
fn fused(node: &NodeDesc) -> NodeDesc {
    match node.op.as_str() {
        "Conv" => as_fused_conv(node),
        "ConvTranspose" => NodeDesc { domain: "kiln".to_owned(), op: "FusedConvTranspose".to_owned(), ..node.clone() },
        _ => node.clone(),
    }
}
