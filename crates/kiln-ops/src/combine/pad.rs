//! Pad: constant, reflected, repeated or wrapped borders, and cuts where an amount is negative.
//!
//! For each axis a table says where every place of the output comes from. Everything after the last padded axis moves
//! as one unit, and the middle of that axis, where nothing is padded, as one run.

use std::sync::Arc;

use kiln_kernels::Parallel;
use kiln_kernels::memory::{self, Collect, Pace};
use kiln_kernels::parallel::{copy, for_each_chunk};
use kiln_model::Attr;
use kiln_run::{Io, Node, NodeError, PrepareCx, Prepared, RunCx};
use kiln_tensor::{DType, Tensor, TensorSpec};

use crate::{
    LoadCx, Movement, OpError, axes_of, counted, integers, optional, rearrange, refused, required, share, strides,
};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

struct Pad {
    mode: Mode,
    /// Amounts and value as attributes, before version 11.
    fixed: Option<(Vec<i64>, f32)>,
}

pub(super) fn make(cx: &LoadCx<'_>) -> Result<Box<dyn Node>, OpError> {
    let node = cx.node;
    let mode = match node.attributes().text("mode") {
        "constant" => Mode::Constant,
        "reflect" => Mode::Reflect,
        "edge" => Mode::Edge,
        "wrap" => Mode::Wrap,
        other => return Err(OpError::invalid(node, format!("mode '{other}'"))),
    };
    let fixed = match node.attrs.get("pads") {
        Some(Attr::Ints(pads)) => Some((pads.clone(), node.attributes().float("value"))),
        None => None,
        _ => return Err(OpError::invalid(node, "pads must be a list of integers")),
    };
    Ok(Box::new(Pad { mode, fixed }))
}

/// What happens to one axis.
#[derive(Clone, Copy, Default)]
struct Border {
    before: usize,
    after: usize,
    cut_before: usize,
    /// Elements of the input that stay.
    kept: usize,
}

impl Border {
    fn new(dim: usize, before: i64, after: i64) -> Option<Border> {
        let cut = |amount: i64| usize::try_from(amount.min(0).unsigned_abs()).ok();
        let added = |amount: i64| usize::try_from(amount.max(0)).ok();
        let kept = dim.checked_sub(cut(before)?)?.checked_sub(cut(after)?)?;
        Some(Border { before: added(before)?, after: added(after)?, cut_before: cut(before)?, kept })
    }

    fn size(&self) -> Option<usize> {
        self.before.checked_add(self.kept)?.checked_add(self.after)
    }

    /// Where place `index` of the output comes from; `None` where it is the constant.
    fn source(&self, index: usize, mode: Mode) -> Option<usize> {
        let kept = self.kept as i64;
        let place = index as i64 - self.before as i64;
        let inside = match mode {
            _ if (0..kept).contains(&place) => place,
            Mode::Constant => return None,
            Mode::Edge => place.clamp(0, kept - 1),
            Mode::Wrap => place.rem_euclid(kept),
            // A single element reflects to itself.
            Mode::Reflect if kept == 1 => 0,
            Mode::Reflect => {
                let period = 2 * (kept - 1);
                let phase = place.rem_euclid(period);
                phase.min(period - phase)
            }
        };
        Some(self.cut_before + inside as usize)
    }
}

impl Pad {
    fn borders(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Border>, NodeError> {
        let shape = required(inputs, 0)?.shape();
        let pads = match &self.fixed {
            Some((pads, _)) => pads.clone(),
            None => integers(required(inputs, 1)?)?,
        };
        let axes = match optional(inputs, 3).filter(|_| self.fixed.is_none()) {
            Some(axes) => axes_of(&integers(axes)?, shape.len())?,
            None => (0..shape.len()).collect(),
        };
        if pads.len() != 2 * axes.len() {
            return Err(refused(format!("{} amounts do not pad {} axes", pads.len(), axes.len())));
        }
        let mut borders: Vec<Border> = shape.iter().map(|&kept| Border { kept, ..Border::default() }).collect();
        for (place, &axis) in axes.iter().enumerate() {
            let (before, after) = (pads[place], pads[place + axes.len()]);
            let border = Border::new(shape[axis], before, after).ok_or_else(|| {
                refused(format!("{before} and {after} around axis {axis} leave nothing of shape {shape:?}"))
            })?;
            if border.kept == 0 && self.mode != Mode::Constant && before.max(after) > 0 {
                return Err(refused(format!("axis {axis} of shape {shape:?} has nothing to repeat")));
            }
            borders[axis] = border;
        }
        Ok(borders)
    }

    /// The value of constant borders, as a tensor of one element.
    fn constant(&self, io: &Io<'_>, dtype: DType) -> Result<Tensor, NodeError> {
        match (&self.fixed, io.optional(2)) {
            (Some((_, value)), _) => match dtype {
                DType::F32 => Ok(Tensor::scalar(*value)),
                DType::F64 => Ok(Tensor::scalar(f64::from(*value))),
                DType::F16 => Ok(Tensor::scalar(half::f16::from_f32(*value))),
                _ => Err(refused(format!("elements of type {dtype} before version 11"))),
            },
            (None, Some(value)) if value.len() == 1 => Ok(value.clone()),
            (None, Some(value)) => Err(refused(format!("a constant of shape {:?}", value.shape()))),
            (None, None) => Ok(Tensor::zeros(TensorSpec::new(dtype, []))?),
        }
    }
}

impl Node for Pad {
    fn family(&self) -> &'static str {
        "pad"
    }

    fn value_inputs(&self) -> u64 {
        // The constant (input 2) changes nothing about shapes.
        if self.fixed.is_some() { 0 } else { 1 << 1 | 1 << 3 }
    }

    fn check(&self, inputs: &[Option<&Tensor>], _: &[TensorSpec]) -> Result<(), NodeError> {
        let input = required(inputs, 0)?;
        if let Some(value) = optional(inputs, 2).filter(|value| value.dtype() != input.dtype()) {
            return Err(refused(format!("a constant of type {} among {}", value.dtype(), input.dtype())));
        }
        self.borders(inputs).map(drop)
    }

    fn prepare_params(
        &self,
        _: &PrepareCx<'_>,
        inputs: &[Option<&Tensor>],
        outputs: &[TensorSpec],
    ) -> Result<Prepared, NodeError> {
        // An empty output needs no table, and its other dimensions may be too large for one. Large tables of other
        // outputs are not made until the output has its memory, which is larger.
        let empty = counted(outputs[0].dtype, outputs[0].shape.iter().copied())?.elements()? == 0;
        if empty || outputs[0].shape.iter().any(|&dim| dim > LONGEST_KEPT) {
            return Ok(Prepared::NONE);
        }
        let borders = self.borders(inputs)?;
        let plan = Plan::new(required(inputs, 0)?.shape(), &borders, self.mode);
        let outer = plan.outer.iter().map(|places| size_of::<Vec<usize>>() + size_of_val(&places[..]));
        let held = outer.sum::<usize>() + size_of_val(&plan.row[..]);
        Ok(Prepared::holding(Arc::new(plan), held))
    }

    fn execute(&self, prepared: &Prepared, io: &mut Io<'_>, cx: &RunCx<'_>) -> Result<(), NodeError> {
        let output = io.alloc(0)?;
        if output.is_empty() {
            io.push(output);
            return Ok(());
        }
        let input = io.input(0)?;
        let constant = self.constant(io, input.dtype())?;
        let long = output.shape().iter().any(|&dim| dim > LONGEST_KEPT);
        let made =
            long.then(|| self.borders(&io.inputs()).map(|borders| Plan::new(input.shape(), &borders, self.mode)));
        let made = made.transpose()?;
        let plan = made.as_ref().map_or_else(|| prepared.get::<Plan>(), Ok)?;
        let padded = Padded { plan, width: input.dtype().size(), parallel: cx.parallel };
        let output = rearrange(&padded, &[input, &constant], output)?;
        io.push(output);
        Ok(())
    }
}

/// Places of an axis whose table is kept from one request to the next.
const LONGEST_KEPT: usize = 1 << 16;

/// Marks a place that is the constant.
const CONSTANT: usize = usize::MAX;

/// The tables for one shape.
struct Plan {
    /// For each axis before the last padded one, the input's element that each place of the output starts from.
    outer: Vec<Vec<usize>>,
    /// The same for the last padded axis.
    row: Vec<usize>,
    /// Places of that axis before, in and after its unpadded middle.
    middle: std::ops::Range<usize>,
    /// Elements that move together.
    unit: usize,
}

impl Plan {
    fn new(shape: &[usize], borders: &[Border], mode: Mode) -> Plan {
        let strides = strides(shape);
        let last =
            borders.iter().zip(shape).rposition(|(border, &dim)| border.kept != dim || border.size() != Some(dim));
        let table = |axis: usize| -> Vec<usize> {
            let border = &borders[axis];
            let from = |place| border.source(place, mode).map_or(CONSTANT, |source| source * strides[axis]);
            (0..border.size().unwrap_or(0)).map(from).collected()
        };
        match last {
            None => Plan { outer: vec![], row: vec![0], middle: 0..1, unit: shape.iter().product() },
            Some(last) => Plan {
                outer: (0..last).map(table).collect(),
                row: table(last),
                middle: borders[last].before..borders[last].before + borders[last].kept,
                unit: strides[last],
            },
        }
    }

    /// The input's element that a row of the output starts from.
    fn start(&self, mut row: usize) -> Option<usize> {
        let mut start = 0;
        for table in self.outer.iter().rev() {
            match table[row % table.len()] {
                CONSTANT => return None,
                from => start += from,
            }
            row /= table.len();
        }
        Some(start)
    }
}

struct Padded<'a> {
    plan: &'a Plan,
    width: usize,
    parallel: &'a dyn Parallel,
}

impl Movement for Padded<'_> {
    fn run<T: Clone + Send + Sync>(&self, from: &[&[T]], to: &mut [T]) -> Result<(), NodeError> {
        let [input, constant] = from else { return Err(refused("padding takes a tensor and a value")) };
        let Some(constant) = constant.first() else { return Err(refused("no constant to pad with")) };
        let plan = self.plan;
        let length = plan.row.len() * plan.unit;
        let rows = share(to.len(), self.width, self.parallel).div_ceil(length);
        for_each_chunk(self.parallel, to, rows * length, &|index, chunk| {
            let mut pace = Pace::default();
            for (row, out) in chunk.chunks_exact_mut(length).enumerate() {
                pace.step(plan.row.len());
                let Some(start) = plan.start(index * rows + row) else {
                    memory::fill(out, constant);
                    continue;
                };
                let (before, rest) = out.split_at_mut(plan.middle.start * plan.unit);
                let (middle, after) = rest.split_at_mut(plan.middle.len() * plan.unit);
                for (border, places) in
                    [(before, &plan.row[..plan.middle.start]), (after, &plan.row[plan.middle.end..])]
                {
                    for (unit, &place) in border.chunks_exact_mut(plan.unit).zip(places) {
                        pace.step(1 + plan.unit / 16);
                        match place {
                            CONSTANT => memory::fill(unit, constant),
                            place => copy(&input[start + place..start + place + plan.unit], unit),
                        }
                    }
                }
                if !middle.is_empty() {
                    let first = start + plan.row[plan.middle.start];
                    copy(&input[first..first + middle.len()], middle);
                }
            }
        });
        Ok(())
    }
}
