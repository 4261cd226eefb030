//! Resizing executors. A resize of a shape seen before only reads and writes: tables say where every place of the
//! output comes from, and with which weights, and these tables are the executor.
//!
//! [`axis`] makes a table of the coordinates of one axis, [`blend`] mixes neighbours by weights and [`nearest`] picks
//! one. The graph is not known here, and neither is emitted code: the loops are bound by memory.

pub mod axis;
mod blend;
mod nearest;

use kiln_kernels::memory::{self, Pace};
use kiln_kernels::{CodeSource, KernelError, Parallel, Result as KernelResult};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub use self::axis::Table;
use kiln_key::{F32Bits, Mutate};

use self::blend::Blend;
use self::nearest::Pick;
use super::family::tasks_for_bytes;
use super::key::{ExecutorKey, Problem};
use super::target::{Target, Tasks};

/// How a place of the output is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Mode {
    /// One neighbour.
    Nearest(Rounding),
    /// Two neighbours along each axis.
    Linear,
    /// Four neighbours along each axis, with that coefficient.
    Cubic {
        /// ONNX's `cubic_coeff_a`.
        a: F32Bits,
    },
}

/// Which neighbour is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum Rounding {
    /// To nearest, halves down.
    PreferFloor,
    /// To nearest, halves up.
    PreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// How a coordinate of the output becomes one of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
#[allow(missing_docs, reason = "ONNX's names")]
pub enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// One axis, or several neighbours that keep their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ResizeAxis {
    /// Elements of the input.
    pub input: u64,
    /// Elements of the output.
    pub output: u64,
    /// Output by input as the model asks for it, in double precision, by its bits.
    pub scale: u64,
    /// Where the part that is resized starts, as a share of the axis; crops only.
    pub start: F32Bits,
    /// Where it ends.
    pub end: F32Bits,
}

/// Everything that determines a resizing executor.
pub type ResizeKey = ExecutorKey<ResizeProblem>;

/// A resize.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub struct ResizeProblem {
    /// How a place of the output is made.
    pub mode: Mode,
    /// How coordinates are mapped.
    pub transform: Transform,
    /// Whether neighbours outside of the input weigh nothing.
    pub exclude_outside: bool,
    /// Whether a reduced image is smoothed first.
    pub antialias: bool,
    /// All axes, outermost first.
    pub axes: SmallVec<[ResizeAxis; 5]>,
    /// Bytes of an element.
    pub width: u8,
}

impl ResizeAxis {
    /// An axis that keeps its size.
    #[must_use]
    pub fn keep(size: u64) -> ResizeAxis {
        let (start, end) = (F32Bits::new(0.0), F32Bits::new(1.0));
        ResizeAxis { input: size, output: size, scale: 1f64.to_bits(), start, end }
    }

    /// Whether the axis stays as it is.
    #[must_use]
    pub fn keeps(&self) -> bool {
        *self == ResizeAxis::keep(self.input)
    }
}

impl ResizeProblem {
    /// The problem over `axes`, with neighbours that keep their size merged into one.
    #[must_use]
    pub fn merged(mut self) -> ResizeProblem {
        let mut merged: SmallVec<[ResizeAxis; 5]> = SmallVec::new();
        for axis in self.axes {
            match merged.last_mut() {
                Some(last) if last.keeps() && axis.keeps() => {
                    *last = ResizeAxis::keep(last.input.saturating_mul(axis.input))
                }
                _ => merged.push(axis),
            }
        }
        self.axes = merged;
        self
    }

    fn elements(&self, size: impl Fn(&ResizeAxis) -> u64) -> Option<usize> {
        let product = self.axes.iter().try_fold(8u64, |product, axis| product.checked_mul(size(axis).max(1)));
        product.filter(|&product| product < 1 << 62).map(|product| product as usize / 8)
    }

    /// Whether tables can be made for it, of a bounded size, and no tensor on the way is too large: keys from a file
    /// are checked by it.
    fn is_valid(&self) -> bool {
        !self.axes.is_empty()
            // Axes are done one after the other, so that some have their new size while others have the old one.
            && self.elements(|axis| axis.input.max(axis.output)).is_some()
            && self.axes.iter().all(|axis| axis.keeps() || axis::is_valid(axis, self))
    }
}

/// The axes of a resize from the first that changes to the last, each with its table, and the elements around them.
#[derive(Debug)]
pub struct Tables {
    /// Product of the axes before.
    pub outer: u64,
    /// Axes with their tables.
    pub axes: Vec<(ResizeAxis, Table)>,
    /// Product of the axes after.
    pub inner: u64,
}

impl ResizeProblem {
    /// The tables, for devices, which resize by kernels of their own; no axes where none changes.
    ///
    /// # Errors
    ///
    /// Sizes or scales that no table can be made of.
    pub fn tables(&self) -> KernelResult<Tables> {
        if !self.is_valid() {
            return Err(KernelError::Unsupported { family: "resize", reason: format!("{self:?}") });
        }
        let changes = |axis: &ResizeAxis| !axis.keeps();
        let first = self.axes.iter().position(changes).unwrap_or(self.axes.len());
        let end = self.axes.iter().rposition(changes).map_or(first, |last| last + 1);
        let product = |axes: &[ResizeAxis]| axes.iter().map(|axis| axis.output).product();
        // An axis that keeps its size between two that do not has a table too, if it is short enough for one.
        let between = &self.axes[first..end];
        if between.iter().any(|axis| !axis::is_valid(axis, self)) {
            return Err(KernelError::Unsupported { family: "resize", reason: format!("{self:?}") });
        }
        let axes = between.iter().map(|axis| Ok((*axis, Table::new(axis, self)?))).collect::<KernelResult<_>>()?;
        Ok(Tables { outer: product(&self.axes[..first]), axes, inner: product(&self.axes[end..]) })
    }
}

/// A resize ready to run.
#[derive(Debug)]
pub struct Resize {
    work: Work,
    /// For axes that a crop reaches beyond: which places of the output are outside, and how many elements a place has.
    outside: Vec<(Vec<bool>, usize)>,
    /// Elements read and written.
    input: usize,
    output: usize,
    tasks: usize,
}

#[derive(Debug)]
enum Work {
    Nearest(Pick),
    Blend(Blend),
}

impl Resize {
    fn new(key: &ResizeProblem, tasks: usize) -> KernelResult<Resize> {
        // A valid key's sizes can be counted.
        let count = |size: fn(&ResizeAxis) -> u64| key.axes.iter().map(|axis| size(axis) as usize).product::<usize>();
        let (input, output) = (count(|axis| axis.input), count(|axis| axis.output));
        // Where the output is empty there is nothing to do, and other axes may be too long for a table.
        let empty = output == 0;
        let table = |axis: &ResizeAxis| (!axis.keeps() && !empty).then(|| Table::new(axis, key)).transpose();
        let mut tables: Vec<Option<Table>> = key.axes.iter().map(table).collect::<KernelResult<_>>()?;
        let mut outside = vec![];
        let mut width = 1;
        for (axis, table) in key.axes.iter().zip(&mut tables).rev() {
            if let Some(table) = table.as_mut().filter(|table| table.outside.contains(&true)) {
                outside.push((std::mem::take(&mut table.outside), width));
            }
            width *= axis.output as usize;
        }
        let work = match key.mode {
            Mode::Nearest(_) => Work::Nearest(Pick::new(&key.axes, tables)),
            Mode::Linear | Mode::Cubic { .. } => Work::Blend(Blend::new(&key.axes, tables)),
        };
        Ok(Resize { work, outside, input, output, tasks })
    }

    /// Resizes by mixing; places outside of a crop become `outside`.
    pub fn blend(&self, input: &[f32], output: &mut [f32], outside: f32, parallel: &dyn Parallel) -> KernelResult<()> {
        self.check(input.len(), output.len())?;
        let output = &mut output[..self.output];
        match &self.work {
            Work::Blend(blend) => blend.run(input, output, self.tasks, parallel),
            Work::Nearest(pick) => pick.run(input, output, self.tasks, parallel),
        }
        self.fill_outside(output, &outside);
        Ok(())
    }

    /// Resizes elements of any type by picking; places outside of a crop become `outside`.
    pub fn pick<T: Clone + Send + Sync>(
        &self,
        input: &[T],
        output: &mut [T],
        outside: &T,
        parallel: &dyn Parallel,
    ) -> KernelResult<()> {
        self.check(input.len(), output.len())?;
        let output = &mut output[..self.output];
        let Work::Nearest(pick) = &self.work else {
            let reason = "elements of this type cannot be mixed".to_owned();
            return Err(KernelError::Unsupported { family: "resize", reason });
        };
        pick.run(input, output, self.tasks, parallel);
        self.fill_outside(output, outside);
        Ok(())
    }

    fn check(&self, input: usize, output: usize) -> KernelResult<()> {
        for (operand, have, need) in [("input", input, self.input), ("output", output, self.output)] {
            if have < need {
                return Err(KernelError::Bounds { family: "resize", operand, have, need });
            }
        }
        Ok(())
    }

    fn fill_outside<T: Clone>(&self, output: &mut [T], value: &T) {
        let mut pace = Pace::default();
        for (places, width) in &self.outside {
            for (place, part) in output.chunks_exact_mut(*width).enumerate() {
                pace.step(1);
                if places[place % places.len()] {
                    memory::fill(part, value);
                }
            }
        }
    }
}

impl Problem for ResizeProblem {
    const FAMILY: &'static str = "resize";
    const REVISION: u32 = 2;
    type Value = Resize;
    type Choice = Tasks;

    fn choose(&self, target: &Target) -> Tasks {
        let output = self.elements(|axis| axis.output).unwrap_or(0) as u64;
        Tasks { tasks: tasks_for_bytes(output.saturating_mul(u64::from(self.width)), target.threads) }
    }

    fn accepts(&self, choice: &Tasks, target: &Target) -> bool {
        target.has_tasks(choice.tasks)
    }

    fn build(&self, choice: &Tasks, _: &Target, _: &dyn CodeSource) -> KernelResult<Resize> {
        if !self.is_valid() {
            return Err(KernelError::Unsupported { family: "resize", reason: format!("{self:?}") });
        }
        Resize::new(self, choice.tasks as usize)
    }

    fn table_bytes(&self) -> Option<u64> {
        let changing = || self.axes.iter().filter(|axis| !axis.keeps());
        let add = |bytes: u64, axis: &ResizeAxis| bytes.checked_add(axis::table_bytes(axis, self)?);
        self.is_valid().then(|| changing().try_fold(0, add)).flatten()
    }

    fn weigh(resize: &Resize) -> usize {
        let work = match &resize.work {
            Work::Nearest(pick) => pick.bytes(),
            Work::Blend(blend) => blend.bytes(),
        };
        std::mem::size_of_val(resize) + work + resize.outside.iter().map(|(places, _)| places.len()).sum::<usize>()
    }
}
