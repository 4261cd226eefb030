//! Element-wise chains: a whole [`Program`] for each element, with operands broadcast by their strides.
//!
//! Where the inner dimension allows, a thread computes four neighbours, and each operand takes one load for the four.
//! [`reference::chain`](crate::reference::chain) defines the computation, which is in single precision here
//! ([`functions`]).

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::functions::{self, FUNCTIONS};
use super::space::{IterationSpace, SpaceCode};
use super::{Kernel, KernelCode, launch_each, operand, refuse, source};
use crate::cpu::chain::{Geometry, Lane, Program, Storage};
use crate::error::Result;
use crate::gpu::{Arg, Module, Region, Source};

pub(super) const FAMILY: &str = "device chain";

/// Elements that a thread reads and writes at once.
const TOGETHER: u64 = 4;

/// What shapes the instructions of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChainCode {
    /// The computation.
    pub program: Program,
    /// Dimensions and operands.
    pub space: SpaceCode,
    /// Which operands vary along the inner dimension, where a thread computes four elements at once; else empty.
    pub lanes: SmallVec<[Lane; 4]>,
}

/// A chain for one geometry.
#[derive(Debug)]
pub struct ChainKernel {
    code: ChainCode,
    /// Threads to launch.
    threads: u64,
    elements: u64,
    extents: Vec<u64>,
    space: Vec<u8>,
}

impl ChainKernel {
    /// The chain of that program over those operands. Inputs: the program's.
    ///
    /// # Errors
    ///
    /// Unsupported where program and geometry do not fit together.
    pub fn new(program: &Program, geometry: &Geometry) -> Result<ChainKernel> {
        if !program.is_valid() || !geometry.is_valid() || geometry.operands() != program.inputs.len() {
            return Err(refuse(FAMILY, "the program and its operands do not fit together"));
        }
        let strides: Vec<Vec<i64>> =
            geometry.operands.iter().map(|strides| strides.iter().map(|&stride| stride as i64).collect()).collect();
        let operands: Vec<(i64, &[i64])> = strides.iter().map(|strides| (0, strides.as_slice())).collect();
        let mut space = IterationSpace::new(FAMILY, &geometry.dims, &operands)?;
        let elements = space.total(FAMILY)?;
        let extents = (0..operands.len()).map(|index| space.extent(FAMILY, index)).collect::<Result<_>>()?;
        let code = space.code(FAMILY)?;
        let lanes = together(&mut space);
        let threads = (elements / if lanes.is_empty() { 1 } else { TOGETHER }).max(elements.min(1));
        let space = space.bytes(code);
        Ok(ChainKernel {
            code: ChainCode { program: program.clone(), space: code, lanes },
            threads,
            elements,
            extents,
            space,
        })
    }
}

/// Makes four elements of the inner dimension one position where every operand allows. Returns which operands vary
/// along it.
fn together(space: &mut IterationSpace) -> SmallVec<[Lane; 4]> {
    let last = space.counts.len() - 1;
    let fits = |count: u64| count.is_multiple_of(TOGETHER);
    let rows_fit = last == 0
        || fits(space.counts[last])
            && space.operands.iter().all(|(_, strides)| {
                strides[last] == 0 || strides[..last].iter().all(|&stride| stride % TOGETHER as i64 == 0)
            });
    // Constants alone need no loads.
    if !rows_fit || space.operands.is_empty() {
        return SmallVec::new();
    }
    space.tail = space.counts[last] % TOGETHER;
    space.counts[last] /= TOGETHER;
    let lane = |(_, strides): &mut (i64, Vec<i64>)| {
        if strides[last] == 0 {
            return Lane::Scalar;
        }
        strides[..last].iter_mut().for_each(|stride| *stride /= TOGETHER as i64);
        Lane::Vector
    };
    space.operands.iter_mut().map(lane).collect()
}

fn c_type(storage: Storage) -> &'static str {
    match storage {
        Storage::F32 => "float",
        Storage::Bool => "unsigned char",
    }
}

/// The type of four elements.
fn c_four(storage: Storage) -> &'static str {
    match storage {
        Storage::F32 => "Float4",
        Storage::Bool => "Byte4",
    }
}

fn size(storage: Storage) -> u64 {
    match storage {
        Storage::F32 => 4,
        Storage::Bool => 1,
    }
}

/// A stored value as a float to compute with.
fn loaded(storage: Storage, value: &str) -> String {
    match storage {
        Storage::F32 => value.to_owned(),
        Storage::Bool => format!("kiln_flag({value} != 0)"),
    }
}

/// A computed float in its stored form.
fn stored(storage: Storage, value: &str) -> String {
    match storage {
        Storage::F32 => value.to_owned(),
        Storage::Bool => format!("({value}) != 0.0f"),
    }
}

impl ChainCode {
    pub(super) fn source(&self) -> Result<Source> {
        let inputs = self.program.inputs.len();
        let lanes_fit = self.lanes.is_empty() || self.lanes.len() == inputs;
        if !self.program.is_valid()
            || !self.space.is_valid()
            || !lanes_fit
            || usize::from(self.space.operands) != inputs
        {
            return Err(refuse(FAMILY, "the program and its operands do not fit together"));
        }
        let output = self.program.output;
        let mut parameters: Vec<(String, String)> = vec![];
        for (index, &storage) in self.program.inputs.iter().enumerate() {
            parameters.push((format!("const {}*", c_type(storage)), format!("in{index}")));
        }
        parameters.push((format!("{}*", c_type(output)), "out".to_owned()));
        parameters.push(("Space".to_owned(), "space".to_owned()));
        let helpers = format!(
            "{}typedef struct KILN_ALIGN(4) {{ unsigned char at[4]; }} Byte4;\n{FUNCTIONS}{}",
            self.space.structure(),
            self.function()
        );
        let body = if self.lanes.is_empty() { self.one_by_one() } else { self.four_by_four() };
        Ok(source("kiln_chain", &helpers, &parameters, &body))
    }

    /// The program as a function of one element of each operand.
    fn function(&self) -> String {
        let inputs = self.program.inputs.len();
        let arguments: Vec<String> = (0..inputs).map(|index| format!("float v{index}")).collect();
        let arguments = if inputs == 0 { "void".to_owned() } else { arguments.join(", ") };
        let mut text = format!("KILN_DEVICE float program({arguments})\n{{\n");
        for (index, step) in self.program.steps.iter().enumerate() {
            let _ = writeln!(text, "    float v{} = {};", inputs + index, functions::step(step));
        }
        let _ = writeln!(text, "    return v{};\n}}", inputs + self.program.steps.len() - 1);
        text
    }

    /// A call of the program with an element of each operand.
    fn call(&self, argument: impl Fn(usize) -> String) -> String {
        let arguments: Vec<String> =
            self.program.inputs.iter().enumerate().map(|(index, &storage)| loaded(storage, &argument(index))).collect();
        stored(self.program.output, &format!("program({})", arguments.join(", ")))
    }

    fn one_by_one(&self) -> String {
        format!(
            "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {{\n{}        out[at] = {};\n    }}\n",
            self.space.offsets("at", |_, _| false),
            self.call(|index| format!("in{index}[offset{index}]")),
        )
    }

    fn four_by_four(&self) -> String {
        let last = usize::from(self.space.rank) - 1;
        let four = c_four(self.program.output);
        let mut text = "    for (Index at = KILN_START; at < space.total; at += KILN_STEP) {\n".to_owned();
        text += &self.space.offsets("at", |operand, axis| axis == last && self.lanes[operand] == Lane::Scalar);
        for (index, (&storage, lane)) in self.program.inputs.iter().zip(&self.lanes).enumerate() {
            let _ = match lane {
                Lane::Vector => {
                    let kind = c_four(storage);
                    writeln!(text, "        {kind} x{index} = ((const {kind}*)in{index})[offset{index}];")
                }
                Lane::Scalar => {
                    writeln!(text, "        {} x{index} = in{index}[offset{index}];", c_type(storage))
                }
            };
        }
        let element = |place: usize| {
            self.call(|index| match self.lanes[index] {
                Lane::Vector => format!("x{index}.at[{place}]"),
                Lane::Scalar => format!("x{index}"),
            })
        };
        let _ = writeln!(text, "        {four} y;");
        for place in 0..TOGETHER as usize {
            let _ = writeln!(text, "        y.at[{place}] = {};", element(place));
        }
        let _ = writeln!(text, "        (({four}*)out)[at] = y;\n    }}");
        if last == 0 {
            // The last elements of a single row.
            let one = self.call(|index| match self.lanes[index] {
                Lane::Vector => format!("in{index}[left]"),
                Lane::Scalar => format!("in{index}[0]"),
            });
            let _ = writeln!(
                text,
                "    if (KILN_START < space.tail) {{\n        Index left = space.total * 4 + KILN_START;\n        \
                 out[left] = {one};\n    }}"
            );
        }
        text
    }
}

impl Kernel for ChainKernel {
    fn code(&self) -> KernelCode {
        KernelCode::Chain(self.code.clone())
    }

    fn launch(&self, module: &dyn Module, inputs: &[Option<&Region>], output: &Region) -> Result<()> {
        output.holds(FAMILY, "output", self.elements, size(self.code.program.output))?;
        let mut args: SmallVec<[Arg<'_>; 8]> = SmallVec::new();
        for (index, (&storage, &extent)) in self.code.program.inputs.iter().zip(&self.extents).enumerate() {
            args.push(Arg::Memory(Some(operand(FAMILY, inputs, index, extent, size(storage))?)));
        }
        if self.elements == 0 {
            return Ok(());
        }
        args.push(Arg::Memory(Some(output)));
        args.push(Arg::Bytes(&self.space));
        launch_each(module, self.threads, &args)
    }
}
