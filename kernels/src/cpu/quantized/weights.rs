//! Packed weights of quantised products. The layout depends on the weights and on dilations: on nothing that changes
//! with the shape of the input.
//!
//! A packed panel holds `width` columns (filters). Its weights follow each other as the micro-kernel reads them: *run*
//! after run (a run is what one tap reads: the channels of one position of the window, or with few channels a whole
//! line of the window), in each run group after group, in each group column by column. The last group of a run is
//! padded with zeros, so that what lies behind the run in the left-hand row does not count; a run of [`Form::Tiles`] is
//! padded to whole AMX steps.
//!
//! Filters of one channel (depthwise) make panels of channels: two positions of the window below each other, or four,
//! side by side for each channel.
//!
//! Behind all panels of [`Form::Bytes`] and [`Form::Tiles`] and of filters of one channel stand the columns' sums,
//! which the left-hand zero point is multiplied with.

use super::tile::{FAMILY, Form, panel_vectors};
use crate::cpu::amx::{PANEL, STEP_BYTES};
use crate::cpu::conv::Weights;
use crate::error::{KernelError, Result};
use crate::isa::Isa;

/// Channels below which a line of the window is one run: the few elements of one position would not pay for loading its
/// pointers.
const FEW_CHANNELS: usize = 16;

/// Channels and filters up to which 3x3 windows are transformed. The transform itself is exact up to 917: the quarter
/// of a sum that 32 bits have to hold four times is at most 9 * 255 * 255 a channel.
const MOST_TRANSFORMED: usize = 384;

/// Frequencies of the transform of 3x3 windows.
pub(crate) const TRANSFORMED: usize = 16;

/// Channels that are transformed at a time; layers have a multiple of them.
pub(super) const CHANNELS: usize = 16;

/// Strides and dilations of a window: all that decides on a layout besides the weights' sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Strides: input positions from one output to the next.
    pub strides: [usize; 3],
    /// Dilations: input positions from one tap to the next.
    pub dilations: [usize; 3],
}

impl Steps {
    /// Position by position.
    pub const ONE: Steps = Steps { strides: [1; 3], dilations: [1; 3] };
}

/// How weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// In panels.
    Panels {
        /// How factors are stored and multiplied.
        form: Form,
        /// Vectors of a panel.
        vectors: usize,
        /// Whether a line of the window is one run.
        lines: bool,
    },
    /// Windows of 3x3, transformed: a matrix for each frequency.
    Transformed {
        /// Vectors of a panel.
        vectors: usize,
    },
    /// Filters of one channel (depthwise).
    Channels {
        /// How factors are multiplied: [`Form::Words`] or [`Form::Bytes`].
        form: Form,
        /// Vectors of a panel.
        vectors: usize,
    },
}

impl Layout {
    /// The layout of weights of these sizes.
    #[must_use]
    pub fn of(isa: Isa, sizes: &Weights, steps: Steps, form: Form) -> Layout {
        if sizes.is_depthwise() {
            let form = if form == Form::Bytes { form } else { Form::Words };
            return Layout::Channels { form, vectors: panel_vectors(isa, sizes.channels) };
        }
        let few = sizes.channels < FEW_CHANNELS && sizes.kernel[2] > 1;
        let lines = few && sizes.groups == 1 && steps.dilations[2] == 1;
        if form.is_in_steps() {
            return Layout::Panels { form, vectors: PANEL / Isa::Avx512.lanes(), lines };
        }
        let vectors = panel_vectors(isa, sizes.filters / sizes.groups.max(1));
        let plain = sizes.kernel == [1, 3, 3] && steps == Steps::ONE && sizes.groups == 1;
        // Four times the bytes a window: larger layers would wait for their weights, and few channels for the
        // transforms.
        let fits =
            (32..=MOST_TRANSFORMED).contains(&sizes.channels) && (16..=MOST_TRANSFORMED).contains(&sizes.filters);
        // Where bytes are multiplied four at a time, half as many products at half the speed gain nothing.
        if plain && fits && sizes.channels.is_multiple_of(CHANNELS) && form != Form::Bytes {
            return Layout::Transformed { vectors };
        }
        Layout::Panels { form, vectors, lines }
    }
}

/// Where the weights are: filter `f`, channel `c` (of its group), position `t` of the window is byte
/// `f * filter + c * channel + t * tap`.
#[derive(Clone, Copy, Debug)]
pub struct WeightSource<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Whether they are signed.
    pub signed: bool,
    /// Zero points: one for all or one for each filter.
    pub zeros: &'a [i32],
    /// Byte strides of filters, channels and positions.
    pub filter: usize,
    /// Stride of channels.
    pub channel: usize,
    /// Stride of positions.
    pub tap: usize,
}

impl<'a> WeightSource<'a> {
    /// A convolution's weights, `[filters, channels / groups, window...]`.
    #[must_use]
    pub fn convolution(data: &'a [u8], signed: bool, zeros: &'a [i32], sizes: &Weights) -> WeightSource<'a> {
        let taps = sizes.kernel.iter().product();
        let channels = sizes.channels / sizes.groups.max(1);
        WeightSource { data, signed, zeros, filter: channels * taps, channel: taps, tap: 1 }
    }

    /// A matrix of `k` rows and `n` columns; stored column by column if `transposed`.
    #[must_use]
    pub fn matrix(data: &'a [u8], signed: bool, zeros: &'a [i32], [k, n]: [usize; 2], transposed: bool) -> Self {
        let (filter, channel) = if transposed { (k, 1) } else { (1, n) };
        WeightSource { data, signed, zeros, filter, channel, tap: 0 }
    }

    fn at(&self, filter: usize, channel: usize, tap: usize) -> i16 {
        let byte = self.data[filter * self.filter + channel * self.channel + tap * self.tap];
        let value = if self.signed { i16::from(byte as i8) } else { i16::from(byte) };
        let zero = self.zeros[if self.zeros.len() == 1 { 0 } else { filter }];
        // Checked to be a byte's, signed or not.
        value - zero as i16
    }

    fn check(&self, sizes: &Weights) -> Result<()> {
        let (have, need) = (self.data.len(), sizes.len());
        if have != need {
            return Err(KernelError::Bounds { family: FAMILY, operand: "weights", have, need });
        }
        if self.zeros.len() != 1 && self.zeros.len() != sizes.filters {
            let (have, need) = (self.zeros.len(), sizes.filters);
            return Err(KernelError::Bounds { family: FAMILY, operand: "zero points", have, need });
        }
        let bounds = if self.signed { -128..=127 } else { 0..=255 };
        if self.zeros.iter().any(|zero| !bounds.contains(zero)) {
            let reason = "a zero point that is not of the weights' type".to_owned();
            return Err(KernelError::Unsupported { family: FAMILY, reason });
        }
        Ok(())
    }

    /// Whether every weight less its zero point is a signed byte.
    ///
    /// # Errors
    ///
    /// Where the source does not fit the sizes.
    pub fn fits_bytes(&self, sizes: &Weights) -> Result<bool> {
        self.check(sizes)?;
        if self.signed && self.zeros.iter().all(|&zero| zero == 0) {
            return Ok(true);
        }
        let (channels, taps) = (sizes.channels / sizes.groups.max(1), sizes.kernel.iter().product::<usize>());
        let all = |filter: usize| {
            (0..channels).all(|channel| (0..taps).all(|tap| i8::try_from(self.at(filter, channel, tap)).is_ok()))
        };
        Ok((0..sizes.filters).all(all))
    }
}

/// Sizes of packed panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panelling {
    pub(crate) form: Form,
    /// Columns of a panel.
    pub(crate) width: usize,
    /// Panels of a group of filters.
    pub(crate) panels: usize,
    /// Groups of filters.
    pub(crate) groups: usize,
    /// Runs, their elements, and the groups of elements that each takes.
    pub(crate) runs: usize,
    pub(crate) run: usize,
    pub(crate) run_groups: usize,
}

impl Panelling {
    pub(crate) fn new(isa: Isa, sizes: &Weights, form: Form, vectors: usize, lines: bool) -> Panelling {
        let width = vectors * isa.lanes();
        let [depth, height, line] = sizes.kernel;
        let channels = sizes.channels / sizes.groups.max(1);
        let (runs, run) = if lines { (depth * height, line * channels) } else { (depth * height * line, channels) };
        Panelling {
            form,
            width,
            panels: (sizes.filters / sizes.groups.max(1)).div_ceil(width.max(1)),
            groups: sizes.groups,
            runs,
            run,
            run_groups: match form {
                Form::Tiles | Form::Few => run.div_ceil(STEP_BYTES).max(1) * STEP_BYTES / form.group(),
                _ => run.div_ceil(form.group()),
            },
        }
    }

    /// Sizes of panels of that form in its own width.
    pub(crate) fn of(isa: Isa, sizes: &Weights, form: Form, lines: bool) -> Panelling {
        let vectors = match form {
            Form::Tiles | Form::Few => PANEL / isa.lanes(),
            _ => panel_vectors(isa, sizes.filters / sizes.groups.max(1)),
        };
        Panelling::new(isa, sizes, form, vectors, lines)
    }

    /// Bytes of a panel.
    pub(crate) fn panel_bytes(&self) -> usize {
        self.runs * self.run_groups * self.width * self.form.group() * self.form.weight_bytes()
    }

    /// Columns of all panels, padding included.
    pub(crate) fn columns(&self) -> usize {
        self.groups * self.panels * self.width
    }

    /// Where the columns' sums start.
    pub(crate) fn sums_at(&self) -> usize {
        self.groups * self.panels * self.panel_bytes()
    }

    /// Whether they are there.
    pub(crate) fn has_sums(&self) -> bool {
        self.form == Form::Bytes || self.form.is_in_steps()
    }

    fn bytes(&self) -> usize {
        self.sums_at() + if self.has_sums() { self.columns() * 4 } else { 0 }
    }
}

/// Sizes of packed panels of filters of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelPanels {
    /// Channels of a panel.
    pub(crate) width: usize,
    /// Panels.
    pub(crate) panels: usize,
    /// Heights that are multiplied at a time.
    pub(crate) group: usize,
    /// Lines of the window: one for each depth and group of heights; and positions in each.
    pub(crate) lines: usize,
    pub(crate) line: usize,
}

impl ChannelPanels {
    pub(crate) fn new(isa: Isa, sizes: &Weights, form: Form, vectors: usize) -> ChannelPanels {
        let (width, group) = (vectors * isa.lanes(), form.group());
        let [depth, height, line] = sizes.kernel;
        let (panels, lines) = (sizes.channels.div_ceil(width.max(1)), depth * height.div_ceil(group));
        ChannelPanels { width, panels, group, lines, line }
    }

    /// Bytes of a panel.
    pub(crate) fn panel_bytes(&self) -> usize {
        self.lines * self.line * self.width * 4
    }

    /// Columns of all panels, padding included.
    pub(crate) fn columns(&self) -> usize {
        self.panels * self.width
    }

    /// Where the columns' sums start.
    pub(crate) fn sums_at(&self) -> usize {
        self.panels * self.panel_bytes()
    }
}

/// Sizes of packed panels of transformed windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WinogradPanels {
    /// Columns of a panel.
    pub(crate) width: usize,
    /// Panels of a frequency.
    pub(crate) panels: usize,
    channels: usize,
}

impl WinogradPanels {
    pub(crate) fn new(isa: Isa, sizes: &Weights, vectors: usize) -> WinogradPanels {
        let width = vectors * isa.lanes();
        WinogradPanels { width, panels: sizes.filters.div_ceil(width.max(1)), channels: sizes.channels }
    }

    /// Bytes of a panel of one frequency.
    pub(crate) fn panel_bytes(&self) -> usize {
        self.channels * self.width * 2
    }

    fn bytes(&self) -> usize {
        TRANSFORMED * self.panels * self.panel_bytes()
    }
}

/// Bytes of weights packed that way.
#[must_use]
pub fn packed_bytes(isa: Isa, sizes: &Weights, layout: Layout) -> usize {
    match layout {
        Layout::Panels { form, vectors, lines } => Panelling::new(isa, sizes, form, vectors, lines).bytes(),
        Layout::Transformed { vectors } => WinogradPanels::new(isa, sizes, vectors).bytes(),
        Layout::Channels { form, vectors } => {
            let panels = ChannelPanels::new(isa, sizes, form, vectors);
            panels.sums_at() + panels.columns() * 4
        }
    }
}

/// Packs weights into `out`, which is [`packed_bytes`] long.
///
/// # Errors
///
/// Where the sizes make no sense, the source does not fit them, or weights do not fit the layout's form.
pub fn pack(isa: Isa, sizes: &Weights, layout: Layout, source: &WeightSource<'_>, out: &mut [u8]) -> Result<()> {
    sizes.validate()?;
    let (have, need) = (out.len(), packed_bytes(isa, sizes, layout));
    if have != need {
        return Err(KernelError::Bounds { family: FAMILY, operand: "packed weights", have, need });
    }
    source.check(sizes)?;
    out.fill(0);
    match layout {
        Layout::Panels { .. } => pack_panels(isa, sizes, layout, source, out),
        Layout::Transformed { vectors } => {
            pack_transformed(isa, sizes, vectors, source, out);
            Ok(())
        }
        Layout::Channels { form, vectors } => pack_channels(isa, sizes, form, vectors, source, out),
    }
}

/// Packs filters of one channel.
fn pack_channels(
    isa: Isa,
    sizes: &Weights,
    form: Form,
    vectors: usize,
    source: &WeightSource<'_>,
    out: &mut [u8],
) -> Result<()> {
    check_bytes(form, sizes, source)?;
    let panels = ChannelPanels::new(isa, sizes, form, vectors);
    let ([depth, height, line], group, size) = (sizes.kernel, form.group(), form.weight_bytes());
    let (weights, sums) = out.split_at_mut(panels.sums_at());
    for channel in 0..sizes.channels {
        let (panel, place) = (channel / panels.width, channel % panels.width);
        let weights = &mut weights[panel * panels.panel_bytes()..];
        let mut sum = 0i32;
        for tap in 0..depth * height * line {
            let [d, h, w] = [tap / line / height, tap / line % height, tap % line];
            let value = source.at(channel, 0, tap);
            let number = (d * height.div_ceil(group) + h / group) * line + w;
            let at = ((number * panels.width + place) * group + h % group) * size;
            weights[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            sum += i32::from(value);
        }
        let at = (panel * panels.width + place) * 4;
        sums[at..at + 4].copy_from_slice(&sum.to_ne_bytes());
    }
    Ok(())
}

/// Refuses weights that do not fit the form's type.
fn check_bytes(form: Form, sizes: &Weights, source: &WeightSource<'_>) -> Result<()> {
    if form.weight_bytes() == 1 && !source.fits_bytes(sizes)? {
        let reason = "weights that, less their zero points, are no bytes".to_owned();
        return Err(KernelError::Unsupported { family: FAMILY, reason });
    }
    Ok(())
}

/// Packs transformed windows.
fn pack_transformed(isa: Isa, sizes: &Weights, vectors: usize, source: &WeightSource<'_>, out: &mut [u8]) {
    let panels = WinogradPanels::new(isa, sizes, vectors);
    // Twice the rows of the transform, of which two are halves.
    let line = |[a, b, c]: [i16; 3]| [2 * a, a + b + c, a - b + c, 2 * c];
    for filter in 0..sizes.filters {
        let (panel, place) = (filter / panels.width, filter % panels.width);
        for channel in 0..sizes.channels {
            let row = |h: usize| line([0, 1, 2].map(|w| source.at(filter, channel, h * 3 + w)));
            let rows = [row(0), row(1), row(2)];
            for w in 0..4 {
                for (h, value) in line(rows.map(|row| row[w])).into_iter().enumerate() {
                    let panel = ((h * 4 + w) * panels.panels + panel) * panels.panel_bytes();
                    let at = panel + ((channel / 2 * panels.width + place) * 2 + channel % 2) * 2;
                    out[at..at + 2].copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
    }
}

/// Packs panels.
fn pack_panels(isa: Isa, sizes: &Weights, layout: Layout, source: &WeightSource<'_>, out: &mut [u8]) -> Result<()> {
    let Layout::Panels { form, vectors, lines } = layout else { return Ok(()) };
    check_bytes(form, sizes, source)?;
    let panelling = Panelling::new(isa, sizes, form, vectors, lines);
    let (filters, channels) = (sizes.filters / sizes.groups.max(1), sizes.channels / sizes.groups.max(1));
    let (panels, sums) = out.split_at_mut(panelling.sums_at());
    let size = form.weight_bytes();
    for (unit, panel) in panels.chunks_exact_mut(panelling.panel_bytes().max(1)).enumerate() {
        let (group, first) = (unit / panelling.panels, unit % panelling.panels * panelling.width);
        let columns = panelling.width.min(filters - first);
        let groups = panel.chunks_exact_mut(panelling.width * form.group() * size);
        for (number, weights) in groups.enumerate() {
            let (run, start) = (number / panelling.run_groups, number % panelling.run_groups * form.group());
            for element in start..panelling.run.min(start + form.group()) {
                let (tap, channel) = if lines {
                    (run * sizes.kernel[2] + element / channels, element % channels)
                } else {
                    (run, element)
                };
                for column in 0..columns {
                    let value = source.at(group * filters + first + column, channel, tap);
                    let at = (column * form.group() + element - start) * size;
                    weights[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
        }
        if panelling.has_sums() {
            let own = &mut sums[unit * panelling.width * 4..][..panelling.width * 4];
            for (column, sum) in own.chunks_exact_mut(4).enumerate() {
                let weights = panel.chunks_exact(4).skip(column).step_by(panelling.width);
                let total: i32 = weights.flatten().map(|&byte| i32::from(byte as i8)).sum();
                sum.copy_from_slice(&total.to_ne_bytes());
            }
        }
    }
    Ok(())
}
