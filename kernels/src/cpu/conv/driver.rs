//! A convolution that is ready to run, whatever its strategy.

use smallvec::SmallVec;

use super::amx::{self, Amx};
use super::blocks::{ConvBlocks, ConvStored, Strategy};
use super::dense::Dense;
use super::depthwise::Depthwise;
use super::extras::{ConvExtras, EpilogueOperands};
use super::input::{self, ConvInput, ConvPart, bounds};
use super::lines::{self, Lines};
use super::weights::WeightLayout;
use super::winograd::{self, Winograd};
use crate::cpu::activation;
use crate::cpu::chain::UnaryOp;
use crate::cpu::gemm::most_rows;
use crate::cpu::{Activations, ActivationsMut, CodeSource, Elements, PackedWeights};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::jit::Given;
use crate::parallel::Parallel;
use crate::problem::conv::ConvShape;

impl ConvBlocks {
    /// Whether a driver can take these blocks for that shape and level.
    #[must_use]
    pub fn fits(&self, shape: &ConvShape, isa: Isa) -> bool {
        // More tasks than this only cost time; larger blocks would make tables of unlimited size.
        const MOST: usize = 1 << 16;
        let cut = [self.row_block(), self.row_tasks(), self.unit_tasks()];
        let counted =
            cut.iter().all(|&count| count > 0 && count <= MOST) && self.row_tasks() * self.unit_tasks() <= MOST;
        let dense = most_rows(isa, self.vectors()) > 0;
        let weights = match self.strategy {
            Strategy::Amx => self.elements == Elements::Bf16Tiles,
            Strategy::Lines | Strategy::Depthwise => self.elements == Elements::F32,
            Strategy::Pointwise | Strategy::Direct | Strategy::Winograd(_) => match self.elements {
                Elements::F32 | Elements::F16 => true,
                Elements::Bf16Dot => self.elements.suit(isa) && shape.weights().pairs_up(),
                Elements::Bf16 | Elements::Bf16Tiles => false,
            },
        };
        counted
            && weights
            && match self.strategy {
                Strategy::Pointwise => dense && shape.is_pointwise(),
                Strategy::Direct => dense,
                Strategy::Lines => dense && lines::suits(shape) && lines::fits(self, shape),
                Strategy::Depthwise => shape.weights().is_depthwise(),
                Strategy::Winograd(tile) => dense && winograd::suits(shape) && winograd::fits(self, shape, isa, tile),
                Strategy::Amx => {
                    let elements = shape.weights().elements(self.elements);
                    elements == self.elements && elements.suit(isa) && amx::fits(self, shape)
                }
            }
    }
}

/// A convolution that is ready to run.
#[derive(Clone, Debug)]
pub struct Conv {
    isa: Isa,
    shape: ConvShape,
    blocks: ConvBlocks,
    stored: ConvStored,
    packed_len: usize,
    kernel: Kernel,
}

#[derive(Clone, Debug)]
enum Kernel {
    Dense(Box<Dense>),
    Lines(Box<Lines>),
    Depthwise(Box<Depthwise>),
    Winograd(Box<Winograd>),
    Amx(Box<Amx>),
}

impl Conv {
    /// Makes a convolution of `f32` ready: gets its kernels from `source`.
    ///
    /// # Errors
    ///
    /// For sizes that make no sense, blocks that do not fit, an activation that is not
    /// [fusible](activation::is_fusible), and where kernels cannot be made.
    pub fn new(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Conv> {
        Conv::stored(isa, shape, blocks, ConvStored::default(), activation, source)
    }

    /// As [`Conv::new`], for activations stored as `f32` or `bf16`.
    ///
    /// # Errors
    ///
    /// As [`Conv::new`], and where the strategy does not take activations of these types.
    pub fn stored(
        isa: Isa,
        shape: ConvShape,
        blocks: ConvBlocks,
        stored: ConvStored,
        activation: Option<UnaryOp>,
        source: &dyn CodeSource,
    ) -> Result<Conv> {
        shape.validate()?;
        activation::check("conv", activation)?;
        if !blocks.fits(&shape, isa) || !stored.suits(blocks.strategy, blocks.elements, isa) {
            let reason = format!("{blocks:?} and {stored:?} do not fit {shape:?}");
            return Err(KernelError::Unsupported { family: "conv", reason });
        }
        let packed_len = shape.weights().packed_len(isa, blocks.layout());
        let kernel = match blocks.strategy {
            Strategy::Depthwise => {
                Kernel::Depthwise(Box::new(Depthwise::new(isa, shape, blocks, stored.input, activation, source)?))
            }
            Strategy::Winograd(tile) => {
                Kernel::Winograd(Box::new(Winograd::new(isa, shape, blocks, tile, stored, activation, source)?))
            }
            Strategy::Amx => {
                let panels = shape.weights().panels(isa, blocks.layout());
                Kernel::Amx(Box::new(Amx::new(isa, shape, blocks, stored, activation, &panels, source)?))
            }
            Strategy::Lines => {
                let panels = shape.weights().panels(isa, blocks.layout());
                Kernel::Lines(Box::new(Lines::new(isa, shape, blocks, stored, activation, panels[0], source)?))
            }
            Strategy::Pointwise | Strategy::Direct => {
                let panels = shape.weights().panels(isa, blocks.layout());
                Kernel::Dense(Box::new(Dense::new(isa, shape, blocks, stored, activation, &panels, source)?))
            }
        };
        Ok(Conv { isa, shape, blocks, stored, packed_len, kernel })
    }

    /// The blocks in use.
    #[must_use]
    pub fn blocks(&self) -> &ConvBlocks {
        &self.blocks
    }

    /// The level that it is made for.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// How weights have to be packed for it.
    #[must_use]
    pub fn layout(&self) -> WeightLayout {
        self.blocks.layout()
    }

    /// Elements of scratch that [`Conv::run`] needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        match &self.kernel {
            Kernel::Depthwise(_) => 0,
            Kernel::Dense(dense) => dense.scratch_len(),
            Kernel::Lines(lines) => lines.scratch_len(),
            Kernel::Winograd(winograd) => winograd.scratch_len(),
            Kernel::Amx(amx) => amx.scratch_len(),
        }
    }

    /// Bytes held besides code.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match &self.kernel {
            Kernel::Dense(dense) => size_of::<Dense>() + dense.bytes(),
            Kernel::Depthwise(_) => size_of::<Depthwise>(),
            Kernel::Lines(_) => size_of::<Lines>(),
            Kernel::Winograd(winograd) => size_of::<Winograd>() + winograd.bytes(),
            Kernel::Amx(amx) => size_of::<Amx>() + amx.bytes(),
        };
        size_of::<Conv>() + held
    }

    /// Whether the output may be written over the residual ([`Conv::run_over_residual`]). It may not where partial sums
    /// wait in the output for the rest of the reduction.
    #[must_use]
    pub fn writes_over_residual(&self) -> bool {
        match &self.kernel {
            Kernel::Dense(dense) => !dense.reduces_in_parts(),
            Kernel::Lines(_) | Kernel::Depthwise(_) | Kernel::Winograd(_) | Kernel::Amx(_) => true,
        }
    }

    /// Whether the input may come in parts with these numbers of channels ([`ConvInput::Parts`]): where it is copied or
    /// transformed anyway, by whole vectors or AMX steps.
    #[must_use]
    pub fn takes_parts(&self, channels: &[usize]) -> bool {
        channels.len() == 1
            || match &self.kernel {
                Kernel::Winograd(_) => input::starts_at(channels, self.isa.lanes()),
                Kernel::Amx(amx) => amx.takes_parts(channels),
                Kernel::Dense(_) | Kernel::Lines(_) | Kernel::Depthwise(_) => false,
            }
    }

    /// Convolves `x` with packed weights.
    ///
    /// # Errors
    ///
    /// Where a buffer is not as long as the shape says, or activations are of another type.
    pub fn run(
        &self,
        x: &[f32],
        weights: PackedWeights<'_>,
        y: &mut [f32],
        extras: ConvExtras<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let extras = ConvExtras { bias: extras.bias, residual: extras.residual.map(Activations::from) };
        self.run_stored(x.into(), weights, y.into(), extras, scratch, parallel)
    }

    /// As [`Conv::run`], for activations stored as `f32` or `bf16`.
    ///
    /// # Errors
    ///
    /// Where a buffer is not as long as the shape says, activations are not of the announced types, or they come in
    /// parts that [`Conv::takes_parts`] does not take.
    pub fn run_stored(
        &self,
        x: ConvInput<'_>,
        weights: PackedWeights<'_>,
        mut y: ActivationsMut<'_>,
        extras: ConvExtras<'_, Activations<'_>>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        let mut one = None;
        let x = x.parts(self.shape.channels(), &mut one);
        self.check(x, weights, y.read(), extras, scratch)?;
        let to = y.as_mut_ptr() as isize;
        let residual = extras.residual.map(|residual| (residual.as_ptr() as isize).wrapping_sub(to));
        let given = Given::new().maybe("residual", extras.residual.map(|residual| residual.bytes()));
        let extras = EpilogueOperands { given: &given, bias: extras.bias, residual };
        self.run_checked(x, weights, y, extras, scratch, parallel)
    }

    /// As [`Conv::run_stored`], where `y` holds the residual and the output is written over it: residual and output
    /// then share cache lines.
    ///
    /// # Errors
    ///
    /// As [`Conv::run_stored`], and where [`Conv::writes_over_residual`] is false.
    pub fn run_over_residual(
        &self,
        x: ConvInput<'_>,
        weights: PackedWeights<'_>,
        y: ActivationsMut<'_>,
        bias: Option<&[f32]>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        if !self.writes_over_residual() {
            return unsupported("an output over the residual where a reduction goes in parts");
        }
        let mut one = None;
        let x = x.parts(self.shape.channels(), &mut one);
        self.check(x, weights, y.read(), ConvExtras { bias, residual: Some(y.read()) }, scratch)?;
        let extras = EpilogueOperands { given: &Given::new(), bias, residual: Some(0) };
        self.run_checked(x, weights, y, extras, scratch, parallel)
    }

    /// Whether buffers are as long as the shape says, and activations of the announced types.
    fn check(
        &self,
        x: &[ConvPart<'_>],
        weights: PackedWeights<'_>,
        y: Activations<'_>,
        extras: ConvExtras<'_, Activations<'_>>,
        scratch: &[f32],
    ) -> Result<()> {
        let shape = &self.shape;
        let given = ConvStored {
            input: input::check(x, shape)?,
            residual: extras.residual.map_or(self.stored.residual, |residual| residual.stored()),
            output: y.stored(),
        };
        if given != self.stored {
            return unsupported(&format!("activations {given:?} where {:?} were asked for", self.stored));
        }
        let channels: SmallVec<[usize; 4]> = x.iter().map(|part| part.channels).collect();
        if !self.takes_parts(&channels) {
            return unsupported(&format!("an input in parts of {channels:?} channels by {:?}", self.blocks.strategy));
        }
        if !weights.is_of(self.layout().elements()) {
            return unsupported(&format!("weights of another type than {:?}", self.layout().elements()));
        }
        bounds("weights", weights.words(), self.packed_len)?;
        bounds("output", y.len(), shape.output_len())?;
        bounds("bias", extras.bias.map_or(shape.filters(), <[f32]>::len), shape.filters())?;
        bounds("residual", extras.residual.map_or(y.len(), |residual| residual.len()), y.len())?;
        bounds("scratch", scratch.len().min(self.scratch_len()), self.scratch_len())
    }

    /// Convolves with buffers that passed [`Conv::check`]; `given` already lists a residual beside the output.
    fn run_checked(
        &self,
        parts: &[ConvPart<'_>],
        weights: PackedWeights<'_>,
        mut y: ActivationsMut<'_>,
        extras: EpilogueOperands<'_>,
        scratch: &mut [f32],
        parallel: &dyn Parallel,
    ) -> Result<()> {
        if y.read().is_empty() {
            return Ok(());
        }
        let given = parts.iter().fold(extras.given.clone(), |given, part| given.read("input", part.x.bytes()));
        let given = given.read("weights", weights.bytes()).maybe("bias", extras.bias);
        let given = given.write("output", y.bytes_mut()).write("scratch", scratch);
        let extras = EpilogueOperands { given: &given, ..extras };
        let [ConvPart { x, .. }, ..] = *parts else { return unsupported("no input") };
        match (&self.kernel, x, y, weights) {
            (Kernel::Amx(amx), _, y, weights) => amx.run(parts, weights, y, extras, scratch, parallel),
            (Kernel::Depthwise(_), Activations::Bf16(_), ..) if extras.residual.is_some() => {
                return unsupported("a residual beside depthwise bf16");
            }
            (Kernel::Depthwise(depthwise), x, y, PackedWeights::F32(weights)) => {
                depthwise.run(x, weights, y, extras, parallel);
            }
            (Kernel::Winograd(winograd), _, y, weights) => winograd.run(parts, weights, y, extras, scratch, parallel),
            (Kernel::Dense(dense), x, y, weights) => dense.run(x, weights, y, extras, scratch, parallel),
            (Kernel::Lines(lines), Activations::F32(x), y, PackedWeights::F32(weights)) => {
                lines.run(x, weights, y, extras, scratch, parallel);
            }
            _ => return unsupported("bf16 by a strategy of f32"),
        }
        Ok(())
    }
}

fn unsupported(reason: &str) -> Result<()> {
    Err(KernelError::Unsupported { family: "conv", reason: reason.to_owned() })
}

#[cfg(test)]
mod tests;
