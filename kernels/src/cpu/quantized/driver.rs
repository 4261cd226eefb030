//! A quantised product or convolution that is ready to run: the parts that all ways of computing share.
//!
//! The start values, factors and addends of all columns are laid out as panels are; then [`dense`](super::dense) or
//! [`depthwise`](super::depthwise) computes.

use super::amx::{self, Amx};
use super::blocks::QuantizedBlocks;
use super::bytes::{Added, add_to};
use super::dense::Dense;
use super::depthwise::Channels;
use super::epilogue::{Epilogue, GROUPED};
use super::operands::{LINE, Operands};
use super::tile::{FAMILY, Form};
use super::weights::{self, IntegerSizes, Layout, PackedIntegers, PackedIntegersMut, Steps};
use super::winograd::Winograd;
use crate::cpu::CodeSource;
use crate::cpu::conv::ConvShape;
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::Parallel;
use crate::problem::quantized::{Output, Terms, WeightSource};

/// A product or convolution that is ready to run.
#[derive(Clone, Debug)]
pub struct Quantized {
    isa: Isa,
    shape: ConvShape,
    layout: Layout,
    output: Output,
    added: Added,
    way: Way,
    packed: IntegerSizes,
}

/// How it is computed.
#[derive(Clone, Debug)]
enum Way {
    Dense(Dense),
    Amx(Box<Amx>),
    Winograd(Winograd),
    Channels(Channels),
}

/// Layout of columns: groups, panels of a group, and their width.
#[derive(Clone, Copy, Debug)]
struct Columns {
    groups: usize,
    panels: usize,
    width: usize,
}

impl Columns {
    fn all(&self) -> usize {
        self.groups * self.panels * self.width
    }
}

impl Quantized {
    /// Makes a product ready: gets its kernels from `source`. The weights are packed as [`Layout::of`] says. `added`
    /// says whether a residual of bytes is added to the output.
    ///
    /// # Errors
    ///
    /// For sizes that make no sense, blocks that do not fit, and where kernels cannot be made.
    pub fn new(
        isa: Isa,
        shape: ConvShape,
        form: Form,
        output: Output,
        added: Added,
        blocks: QuantizedBlocks,
        source: &dyn CodeSource,
    ) -> Result<Quantized> {
        shape.validate()?;
        if shape.transposed || !blocks.fits() || !form.usable(isa) || added != Added::Nothing && output.bytes() != 1 {
            let reason = format!("{blocks:?} and {form:?} do not fit {shape:?}");
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        let sizes = shape.weights();
        let steps = Steps { strides: shape.strides(), dilations: shape.dilations() };
        let layout = Layout::of(isa, &sizes, steps, form);
        let packed = layout.packed(isa, &sizes);
        let way = match layout {
            Layout::Channels { form, vectors } => {
                Way::Channels(Channels::new(isa, shape, output, blocks, form, vectors, source)?)
            }
            Layout::Transformed { vectors } => {
                Way::Winograd(Winograd::new(isa, shape, output, blocks, vectors, source)?)
            }
            Layout::Panels { form: Form::Tiles, lines, .. } => {
                if !amx::fits(&shape) {
                    let reason = format!("{shape:?} needs more scratch than can be counted");
                    return Err(KernelError::Unsupported { family: FAMILY, reason });
                }
                Way::Amx(Box::new(Amx::new(isa, shape, output, added, blocks, lines, source)?))
            }
            Layout::Panels { .. } => Way::Dense(Dense::new(isa, shape, output, blocks, layout, source)?),
        };
        Ok(Quantized { isa, shape, layout, output, added, way, packed })
    }

    /// The sizes of packed weights.
    #[must_use]
    pub fn packed(&self) -> IntegerSizes {
        self.packed
    }

    /// Packs weights for it in `words`, as many as the [packed sizes](Quantized::packed) say.
    ///
    /// # Errors
    ///
    /// Where the source or the memory does not fit, or weights do not fit the form.
    pub fn pack<'a>(&self, source: &WeightSource<'_>, words: &'a mut [u32]) -> Result<PackedIntegers<'a>> {
        let room = PackedIntegersMut::new(self.packed, words)?;
        weights::pack(self.isa, &self.shape.weights(), self.layout, source, room)?;
        PackedIntegers::new(self.packed, words)
    }

    /// The level that it is made for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    fn columns(&self) -> Columns {
        let (groups, panels, width) = match &self.way {
            Way::Dense(Dense { panelling, .. }) => (panelling.groups, panelling.panels, panelling.width),
            Way::Amx(amx) => (amx.panelling.groups, amx.panelling.panels, amx.panelling.width),
            Way::Winograd(winograd) => (1, winograd.panels.panels, winograd.panels.width),
            Way::Channels(channels) => (1, channels.panels.panels, channels.panels.width),
        };
        Columns { groups, panels, width }
    }

    /// Words of one list of all columns.
    fn list(&self) -> usize {
        self.columns().all().next_multiple_of(LINE)
    }

    /// Words of scratch that [`Quantized::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        let own = match &self.way {
            Way::Dense(dense) => dense.scratch_len(),
            Way::Amx(amx) => amx.scratch_len(),
            Way::Winograd(winograd) => winograd.scratch_len(),
            Way::Channels(channels) => channels.scratch_len(),
        };
        3 * self.list() + own
    }

    /// Convolves `x` (channels last) with packed weights; `y` holds the bytes of the output's elements, channels last.
    ///
    /// # Errors
    ///
    /// Where a buffer is not as long as the shape says, or a zero point is not of its type.
    pub fn run(
        &self,
        x: &[u8],
        weights: PackedIntegers<'_>,
        y: &mut [u8],
        terms: &Terms<'_>,
        scratch: &mut [i32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        self.check(x, weights, y, terms, scratch)?;
        if y.is_empty() {
            return Ok(());
        }
        let given = Given::new().read("input", x).read("weights", weights.panels.bytes()).read("order", &GROUPED);
        let given = given.write("output", y).write("scratch", scratch);
        let given = given.maybe("what is added", terms.plus.map(|plus| plus.data));
        let list = self.list();
        let (start, rest) = scratch.split_at_mut(list);
        let (scale, rest) = rest.split_at_mut(list);
        let (shift, own) = rest.split_at_mut(list);
        self.spread(weights.sums, terms, start, scale, shift);
        let (least, greatest) = self.output.bounds();
        let (mut low, mut high) = (terms.low, terms.high);
        if self.output.bytes() == 1 {
            // Both within the type: bounds of the model may lie outside of it.
            let [least, greatest] = [least, greatest].map(|bound| (bound - terms.zero) as f32);
            (low, high) = (low.max(least).min(greatest), high.min(greatest).max(least));
        }
        let epilogue = Epilogue {
            output: self.output,
            scale: bytemuck::cast_slice(scale),
            shift: bytemuck::cast_slice(shift),
            low,
            high,
            zero: terms.zero,
        };
        let Terms { signed, left_zero, plus, .. } = *terms;
        let operands = Operands { x, weights: weights.panels, signed, left_zero, start, epilogue, plus, given };
        match &self.way {
            Way::Dense(dense) => dense.run(&operands, y, own, parallel),
            Way::Amx(amx) => {
                amx.run(&operands, y, own, parallel);
                return Ok(());
            }
            Way::Winograd(winograd) => winograd.run(&operands, y, own, parallel),
            Way::Channels(channels) => channels.run(&operands, y, own, parallel),
        }
        if let Some(plus) = plus {
            add_to(self.isa, y, terms.zero, plus, self.added, parallel);
        }
        Ok(())
    }

    fn check(&self, x: &[u8], weights: PackedIntegers<'_>, y: &[u8], terms: &Terms<'_>, scratch: &[i32]) -> Result<()> {
        let filters = self.shape.filters();
        let bounds = |operand: &'static str, have: usize, need: usize| match have == need {
            true => Ok(()),
            false => Err(KernelError::Bounds { family: FAMILY, operand, have, need }),
        };
        bounds("input", x.len(), self.shape.input_len())?;
        if weights.sizes() != self.packed {
            let reason = format!("weights packed as {:?} where {:?} are read", weights.sizes(), self.packed);
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        bounds("output", y.len(), self.shape.output_len() * self.output.bytes())?;
        bounds("bias", terms.bias.map_or(filters, <[i32]>::len), filters)?;
        bounds("shift", terms.shift.map_or(filters, <[f32]>::len), filters)?;
        if self.output != Output::Sums && terms.scale.len() != 1 {
            bounds("scale", terms.scale.len(), filters)?;
        }
        let need = self.scratch_len();
        if scratch.len() < need {
            return Err(KernelError::Bounds { family: FAMILY, operand: "scratch", have: scratch.len(), need });
        }
        if terms.plus.is_some() != (self.added != Added::Nothing) {
            let reason = "a sum that was not asked for, or none where one was".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        if let Some(plus) = terms.plus {
            bounds("what is added", plus.data.len(), y.len())?;
            let (least, greatest) = self.output.bounds();
            let fits = |zero: i32| (least..=greatest).contains(&zero);
            if plus.rounding.signed != (self.output == Output::Signed)
                || ![plus.zero, plus.rounding.zero].into_iter().all(fits)
            {
                let reason = "a sum of bytes of different types".to_owned();
                return Err(KernelError::Unsupported { family: FAMILY, reason });
            }
        }
        let left = if terms.signed { -128..=127 } else { 0..=255 };
        let (least, greatest) = self.output.bounds();
        if !left.contains(&terms.left_zero) || !(least..=greatest).contains(&terms.zero) {
            let reason = "a zero point that is not of its tensor's type".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        Ok(())
    }

    /// Start values, factors and addends of all columns, padding included, in the order of panels.
    fn spread(&self, sums: &[i32], terms: &Terms<'_>, start: &mut [i32], scale: &mut [i32], shift: &mut [i32]) {
        let Columns { groups, panels, width } = self.columns();
        let filters = self.shape.filters() / groups.max(1);
        let scale: &mut [f32] = bytemuck::cast_slice_mut(scale);
        let shift: &mut [f32] = bytemuck::cast_slice_mut(shift);
        start.fill(0);
        scale.fill(0.0);
        shift.fill(0.0);
        for panel in 0..groups * panels {
            let (group, first) = (panel / panels, panel % panels * width);
            let count = width.min(filters - first);
            let (own, to) = (group * filters + first, panel * width);
            let (own, to) = (own..own + count, to..to + count);
            if let Some(bias) = terms.bias {
                start[to.clone()].copy_from_slice(&bias[own.clone()]);
            }
            if self.output == Output::Sums {
                continue;
            }
            match terms.scale {
                &[one] => scale[to.clone()].fill(one),
                all => scale[to.clone()].copy_from_slice(&all[own.clone()]),
            }
            if let Some(all) = terms.shift {
                shift[to].copy_from_slice(&all[own]);
            }
        }
        // Vectors multiply signed bytes plus 128, AMX multiplies signed bytes directly.
        let moved = terms.signed && !matches!(self.way, Way::Amx(_));
        let zero = terms.left_zero + if moved { 128 } else { 0 };
        for (start, sum) in start.iter_mut().zip(sums) {
            *start = start.wrapping_sub(zero.wrapping_mul(*sum));
        }
    }
}
