//! The row of an operator in the table.

use kiln_tensor::{DType, Tensor, TensorSpec};

use super::arithmetic::{Arithmetic, Extents};
use super::attributes::{Attribute, Attributes};
use super::device::Device;
use super::device::Form;
use super::error::Open;
use super::lower::Lower;
use super::size::Sizes;
use super::view::{Dims, Outputs, View};
use super::wide::Wide;
use super::work::Work;
use crate::ir::NodeDesc;

/// One operator: everything that is known of it before one of its nodes is made.
#[derive(Clone, Copy)]
pub struct Operator {
    /// Its domain: "" is ONNX's own, "kiln" that of fused operators.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The versions of its domain's operator set that defined it, first to last.
    pub since: &'static [u8],
    /// The first version in which models have it: the first that defined it, unless other tools wrote it into the
    /// domain before.
    pub first: u8,
    /// How many inputs a node has, at least and at most.
    pub inputs: Count,
    /// Its attributes with their defaults.
    pub attributes: &'static [Attribute],
    /// Element types of its outputs.
    pub types: Types,
    /// Dimensions of its outputs.
    pub shapes: Shapes,
    /// Elements of its first output, where it computes small integer tensors.
    pub(crate) elements: Option<Elements>,
    /// What the layout pass does with it.
    pub layout: Layout,
    /// Its form on a device.
    pub device: Device,
    /// Its function of elements, if it is element-wise.
    pub element_wise: Option<ElementWise>,
    /// How its nodes run.
    pub work: Work,
    /// How much they compute.
    pub arithmetic: Arithmetic,
    /// Which of its nodes are folded: computed while a model is loaded, if their inputs are constants.
    pub(crate) folds: Folds,
    /// Whether it draws random numbers, so that equal inputs do not give equal outputs.
    pub draws: bool,
    /// Whether it reads only the shapes of its inputs.
    pub measures: bool,
    /// How it treats rows one by one, where it does so and is not element-wise.
    pub row_wise: Option<RowWise>,
    /// Which other operators apply it by name.
    pub applied: Applied,
}

impl Operator {
    /// An operator without further facts: its outputs are unknown, and it runs in ONNX's order on the processor.
    pub(super) const fn new(
        work: Work,
        arithmetic: Arithmetic,
        domain: &'static str,
        name: &'static str,
        since: &'static [u8],
        inputs: Count,
        attributes: &'static [Attribute],
    ) -> Operator {
        Operator {
            domain,
            name,
            since,
            first: since[0],
            inputs,
            attributes,
            types: Types::Unknown,
            shapes: Shapes::Unknown,
            elements: None,
            layout: Layout::Plain,
            device: Device::None,
            element_wise: None,
            work,
            arithmetic,
            folds: Folds::Sized,
            draws: false,
            measures: false,
            row_wise: None,
            applied: Applied::Nowhere,
        }
    }

    /// Such an operator that computes through executors.
    pub(super) const fn keyed(
        arithmetic: Arithmetic,
        domain: &'static str,
        name: &'static str,
        since: &'static [u8],
        inputs: Count,
        attributes: &'static [Attribute],
    ) -> Operator {
        Operator::new(Work::Key, arithmetic, domain, name, since, inputs, attributes)
    }

    /// Such an operator that moves elements or whole values and computes nothing.
    pub(super) const fn moves(
        domain: &'static str,
        name: &'static str,
        since: &'static [u8],
        inputs: Count,
        attributes: &'static [Attribute],
    ) -> Operator {
        Operator::new(Work::Moves, Arithmetic::PerElement, domain, name, since, inputs, attributes)
    }

    /// Such an operator that computes in plain Rust, for that reason.
    pub(super) const fn plain(
        reason: &'static str,
        arithmetic: Arithmetic,
        domain: &'static str,
        name: &'static str,
        since: &'static [u8],
        inputs: Count,
        attributes: &'static [Attribute],
    ) -> Operator {
        Operator::new(Work::Plain(reason), arithmetic, domain, name, since, inputs, attributes)
    }

    /// The number of products that a node of this operator computes on these inputs, or of elements under its windows;
    /// 0 where it is bound by reading and writing, `None` where it is unknown or overflows.
    pub fn products(&self, node: &NodeDesc, inputs: &[Option<&Tensor>], outputs: &[TensorSpec]) -> Option<usize> {
        self.arithmetic.products(&Extents { node, attributes: self.attributes_of(node), inputs, outputs })
    }

    /// The attributes of a node of this operator.
    pub const fn attributes_of<'a>(&self, node: &'a NodeDesc) -> Attributes<'a> {
        Attributes::new(node, self.attributes)
    }

    /// The form of a node of this operator on a device.
    pub fn form(&self, node: &NodeDesc) -> Option<Form> {
        self.device.form(node)
    }

    /// Why a model's node is not valid for this operator, by its version and the attributes that this version requires;
    /// `None` if it is valid.
    pub fn refusal(&self, node: &NodeDesc) -> Option<Refusal> {
        if node.version < i64::from(self.first) {
            return Some(Refusal::NotYetDefined { first: self.first });
        }
        self.attributes_of(node).missing().map(Refusal::Attribute)
    }

    /// The names of its attributes.
    pub fn attribute_names(&self) -> impl Iterator<Item = &'static str> {
        self.attributes.iter().map(|attribute| attribute.name)
    }

    /// Whether it computes every element from the elements in the same place of its operands.
    #[must_use]
    pub fn is_element_wise(&self) -> bool {
        self.element_wise.is_some()
    }
}

/// Which nodes are folded if their inputs are constants, within the bounds of folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folds {
    /// Nodes with outputs of known dimensions that are small or not much larger than the operands.
    Sized,
    /// These, and nodes with outputs of unknown dimensions, which are about as large as the operands.
    Unsized,
    /// Nodes with outputs of known dimensions, however much larger than the operands: filled tensors, which stand for
    /// weights in models whose weights were removed.
    Filled,
    /// No nodes: they run graphs of their own.
    Never,
}

/// Which other operators apply an operator of one float to their results, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// None.
    Nowhere,
    /// Products and convolutions of ONNX Runtime's domain.
    ByProducts,
    /// These, and the cells of recurrent layers.
    ByCells,
}

/// How an operator treats rows one by one: rows are the leading axes of its operands, and their results are
/// independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWise {
    /// It multiplies the rows of its first operand by the second one, unless this attribute transposes the first.
    Product(Option<&'static str>),
    /// It computes along the last axis of each row if that is its axis, from version `since` on.
    LastAxis {
        /// The first version whose axis is one.
        since: i64,
    },
    /// It gathers rows of its first operand by the second one, where its axis is the first.
    Table,
}

/// Why a model's node is not valid for its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node's operator set does not have the operator yet.
    NotYetDefined {
        /// The first version that has it.
        first: u8,
    },
    /// An attribute is missing.
    Attribute(&'static str),
}

/// A range of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// At least.
    pub least: u8,
    /// At most; none where there is no limit.
    pub most: Option<u8>,
}

impl Count {
    /// Whether `count` is in the range.
    pub fn allows(self, count: usize) -> bool {
        count >= usize::from(self.least) && self.most.is_none_or(|most| count <= usize::from(most))
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.most {
            Some(most) if most == self.least => write!(f, "{most}"),
            Some(most) => write!(f, "{} to {most}", self.least),
            None => write!(f, "at least {}", self.least),
        }
    }
}

/// As many as that.
pub(super) const fn exactly(count: u8) -> Count {
    Count { least: count, most: Some(count) }
}

/// From `least` to `most`.
pub(super) const fn between(least: u8, most: u8) -> Count {
    Count { least, most: Some(most) }
}

/// Any number from `least` on.
pub(super) const fn at_least(least: u8) -> Count {
    Count { least, most: None }
}

/// Element types of the outputs.
#[derive(Clone, Copy)]
pub enum Types {
    /// Not known by the operator alone.
    Unknown,
    /// The type of an input.
    Input(usize),
    /// The common type of all inputs, by the first that is known.
    Inputs,
    /// Always this one.
    Is(DType),
    /// By the output's number.
    By(fn(&View<'_>, usize) -> Option<DType>),
}

impl Types {
    /// The element type of that output, where it is known by the operator.
    pub(crate) fn of(self, view: &View<'_>, output: usize) -> Option<DType> {
        match self {
            Types::Unknown => None,
            Types::Input(index) => view.dtype(index),
            Types::Inputs => (0..view.count()).find_map(|index| view.dtype(index)),
            Types::Is(dtype) => Some(dtype),
            Types::By(rule) => rule(view, output),
        }
    }
}

/// Dimensions of the outputs. A node that runs makes as many outputs as its rule has dimensions.
#[derive(Clone, Copy)]
pub enum Shapes {
    /// They depend on more than types and shapes, or have no rule.
    Unknown,
    /// The first output has the dimensions of an input.
    Input(usize),
    /// The first output has the dimensions that all inputs broadcast to.
    Broadcast,
    /// Of the first output.
    First(fn(&View<'_>, &mut Sizes) -> Result<Dims, Open>),
    /// Of all outputs that a node makes, in order.
    All(fn(&View<'_>, &mut Sizes) -> Result<Outputs, Open>),
}

/// Elements of a small integer tensor, from those of the inputs.
pub(crate) type Elements = fn(&View<'_>, &mut Sizes) -> Result<Dims, Open>;

/// What the layout pass does with an operator: where its axes are in channels-last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// It runs in ONNX's order.
    Plain,
    /// It pulls its operand to channels-last, and is marked so. A node with more than one output is plain: positions of
    /// maxima are counted in ONNX's order.
    Pulls,
    /// It is marked so where its operand is channels-last already, and has a single output.
    Follows,
    /// Every element is computed from those in the same place of its operands, which broadcast.
    ElementWise,
    /// As `ElementWise` where its parameters are single numbers.
    Quantizes,
    /// As `ElementWise` with one operand; its other outputs are single numbers about all elements.
    Measures,
    /// It names one axis, since that version (it flattened before). The first input is data, or all inputs are.
    Axis {
        /// The first version with an axis of its own.
        since: i64,
        /// Whether all inputs are data.
        all: bool,
    },
    /// It reduces axes that it names.
    Reduces,
    /// It pads, by two numbers an axis.
    Pads,
    /// It slices axes that it names.
    Slices,
    /// It returns the sizes.
    Shape,
    /// It drops axes.
    Squeeze,
    /// It adds axes.
    Unsqueeze,
    /// It regroups axes.
    Reshape,
    /// It permutes axes.
    Transpose,
}

/// The function of an element-wise operator.
#[derive(Clone, Copy)]
pub struct ElementWise {
    /// The types of its operands.
    pub operands: Operands,
    /// How they broadcast.
    pub broadcast: Broadcast,
    /// Which element types it takes.
    pub takes: Takes,
    /// Its program over `f32` and booleans, where it has one.
    pub(crate) lower: Lower,
    /// Its arithmetic on all other types; `None` where the operator has a node of its own.
    pub wide: Option<Wide>,
}

/// How the types of operands belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// All of one type.
    Alike,
    /// A boolean first, then all of one type.
    Condition,
    /// The second is of any numeric type.
    Exponent,
}

/// How inputs broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// To each other.
    All,
    /// To the first.
    ToFirst,
    /// Not at all: the inputs after the first are single numbers.
    Scalars,
}

/// Element types that an element-wise operator takes, without minifloats and integers of less than a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All types.
    Any,
    /// Integers and floats.
    Numbers,
    /// Integers.
    Integers,
    /// Floats, the narrow ones among them.
    Floats,
    /// Booleans.
    Booleans,
    /// Strings.
    Texts,
    /// Numbers, booleans and strings.
    Comparable,
}

impl Takes {
    /// Whether elements of that type are taken.
    pub fn takes(self, dtype: DType) -> bool {
        let (boolean, text) = (dtype == DType::Bool, dtype == DType::String);
        let number = !boolean && !text && !dtype.is_minifloat() && !dtype.is_small_integer();
        match self {
            Takes::Any => true,
            Takes::Numbers => number,
            Takes::Integers => number && !dtype.is_float(),
            Takes::Floats => dtype.is_float(),
            Takes::Booleans => boolean,
            Takes::Texts => text,
            Takes::Comparable => number || boolean || text,
        }
    }
}
