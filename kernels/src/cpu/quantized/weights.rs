//! Packed weights of quantised products. The layout depends on the weights and on dilations, but not on the shape of
//! the input.
//!
//! A packed panel holds `width` columns (filters). Its weights follow each other as the micro-kernel reads them: *run*
//! after run, in each run group after group, in each group column by column. A run is the part of a left-hand row that
//! one tap reads: the channels of one position of the window or, with few channels, a whole line of the window. The
//! last group of a run is padded with zeros, so that elements behind the run in the left-hand row do not count; a run
//! of [`Form::Tiles`] is padded to whole AMX steps.
//!
//! Filters of one channel (depthwise) make panels of channels: two positions of the window below each other, or four,
//! side by side for each channel.
//!
//! Behind all panels of [`Form::Bytes`], of [`Form::Tiles`] and of filters of one channel stand the columns' sums,
//! which are multiplied by the left-hand zero point. Sizes are in 32-bit words, which whole rows of a panel fill.

use super::lines::LinesCode;
use super::tile::{FAMILY, Form, panel_vectors};
use crate::cpu::amx::{PANEL, STEP_BYTES};
use crate::cpu::conv::Weights;
use crate::cpu::gemm::{Panels, Source};
use crate::cpu::{PackedElement, PackedWeights, PackedWeightsMut};
use crate::error::{KernelError, Result};
use crate::isa::Isa;
use crate::memory;
use crate::problem::quantized::{Output, WeightSource};

/// Channels below which a line of the window is one run: the few elements of one position would not pay for loading its
/// pointers.
const FEW_CHANNELS: usize = 16;

/// Most channels and filters for which 3x3 windows are transformed. The transform itself is exact up to 917: a sum is
/// at most 9 * 255 * 255 a channel, and 32 bits have to hold it four times.
const MOST_TRANSFORMED: usize = 384;

/// Frequencies of the transform of 3x3 windows.
pub(crate) const TRANSFORMED: usize = 16;

/// Channels that are transformed at a time; layers that are transformed have a multiple of this number.
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
            let along_line = [steps.strides[2], steps.dilations[2]];
            let by_vector = LinesCode::of(isa, sizes, form, along_line, Output::Sums).is_some();
            let vectors = if by_vector { 1 } else { panel_vectors(isa, sizes.channels) };
            return Layout::Channels { form, vectors };
        }
        let few = sizes.channels < FEW_CHANNELS && sizes.kernel[2] > 1;
        let lines = few && sizes.groups == 1 && steps.dilations[2] == 1;
        if form.is_in_steps() {
            return Layout::Panels { form, vectors: PANEL / Isa::Avx512.lanes(), lines };
        }
        let vectors = panel_vectors(isa, sizes.filters / sizes.groups.max(1));
        let plain = sizes.kernel == [1, 3, 3] && steps == Steps::ONE && sizes.groups == 1;
        // Transformed windows have four times the bytes: larger layers would wait for their weights, and layers of few
        // channels for the transforms.
        let fits =
            (32..=MOST_TRANSFORMED).contains(&sizes.channels) && (16..=MOST_TRANSFORMED).contains(&sizes.filters);
        // Where bytes are multiplied four at a time, half as many products at half the speed gain nothing.
        if plain && fits && sizes.channels.is_multiple_of(CHANNELS) && form != Form::Bytes {
            return Layout::Transformed { vectors };
        }
        Layout::Panels { form, vectors, lines }
    }
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
        // Checked to fit a byte, signed or not.
        value - zero as i16
    }

    /// Zero points of `count` filters from `first` on.
    fn zeros_of(&self, first: usize, count: usize) -> Vec<i16> {
        (first..first + count).map(|filter| self.zeros[if self.zeros.len() == 1 { 0 } else { filter }] as i16).collect()
    }

    /// The bytes of all filters with the channels of a position following each other.
    fn channels_last(&self, filters: usize, channels: usize, taps: usize) -> Vec<u8> {
        let elements = (0..taps).flat_map(|tap| (0..channels).map(move |channel| (channel, tap)));
        (0..filters)
            .flat_map(|filter| elements.clone().map(move |(channel, tap)| (filter, channel, tap)))
            .map(|(filter, channel, tap)| self.data[filter * self.filter + channel * self.channel + tap * self.tap])
            .collect()
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
    /// Runs, the elements of a run, and the groups of elements in a run.
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

    /// Words of a panel.
    pub(crate) fn panel_words(&self) -> usize {
        self.runs * self.run_groups * self.width * self.form.group() * self.form.weight_bytes() / 4
    }

    /// Bytes of a panel.
    pub(crate) fn panel_bytes(&self) -> usize {
        self.panel_words() * 4
    }

    fn packed(&self) -> IntegerSizes {
        let all = self.groups * self.panels;
        let has_sums = self.form == Form::Bytes || self.form.is_in_steps();
        let sums = if has_sums { all * self.width } else { 0 };
        IntegerSizes { element: self.form.into(), panels: all * self.panel_words(), sums }
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
    /// Lines of the window, one for each depth and group of heights; and positions of a line.
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

    /// Words of a panel.
    pub(crate) fn panel_words(&self) -> usize {
        self.lines * self.line * self.width
    }

    fn packed(&self, form: Form) -> IntegerSizes {
        let panels = self.panels * self.panel_words();
        IntegerSizes { element: form.into(), panels, sums: self.panels * self.width }
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

    /// Words of a panel of one frequency.
    pub(crate) fn panel_words(&self) -> usize {
        self.channels * self.width / 2
    }

    fn packed(&self) -> IntegerSizes {
        let panels = TRANSFORMED * self.panels * self.panel_words();
        IntegerSizes { element: PackedElement::Int16, panels, sums: 0 }
    }
}

/// Sizes of packed weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerSizes {
    element: PackedElement,
    /// Words of all panels.
    panels: usize,
    /// Sums of columns behind them.
    sums: usize,
}

impl IntegerSizes {
    /// Words of memory.
    #[must_use]
    pub fn words(&self) -> usize {
        self.panels + self.sums
    }

    fn check(&self, have: usize) -> Result<()> {
        match have == self.words() {
            true => Ok(()),
            false => Err(KernelError::Bounds { family: FAMILY, operand: "packed weights", have, need: self.words() }),
        }
    }
}

/// Packed weights that a driver reads: panels, and the sums of their columns where the layout has them.
#[derive(Clone, Copy, Debug)]
pub struct PackedIntegers<'a> {
    pub(crate) panels: PackedWeights<'a>,
    pub(crate) sums: &'a [i32],
}

impl<'a> PackedIntegers<'a> {
    /// Weights of these sizes in memory.
    ///
    /// # Errors
    ///
    /// Where the memory has another length.
    pub fn new(sizes: IntegerSizes, words: &'a [u32]) -> Result<PackedIntegers<'a>> {
        sizes.check(words.len())?;
        let (panels, sums) = words.split_at(sizes.panels);
        Ok(PackedIntegers { panels: PackedWeights::new(sizes.element, panels), sums: bytemuck::cast_slice(sums) })
    }

    /// Their sizes.
    #[must_use]
    pub fn sizes(&self) -> IntegerSizes {
        IntegerSizes { element: self.panels.element(), panels: self.panels.words(), sums: self.sums.len() }
    }
}

/// Packed weights, to be written.
#[derive(Debug)]
pub struct PackedIntegersMut<'a> {
    sizes: IntegerSizes,
    panels: PackedWeightsMut<'a>,
    sums: &'a mut [i32],
}

impl<'a> PackedIntegersMut<'a> {
    /// Memory for weights of these sizes, cleared, so that padding is zero.
    ///
    /// # Errors
    ///
    /// Where the memory has another length.
    pub fn new(sizes: IntegerSizes, words: &'a mut [u32]) -> Result<PackedIntegersMut<'a>> {
        sizes.check(words.len())?;
        words.fill(0);
        let (panels, sums) = words.split_at_mut(sizes.panels);
        let (panels, sums) = (PackedWeightsMut::new(sizes.element, panels), bytemuck::cast_slice_mut(sums));
        Ok(PackedIntegersMut { sizes, panels, sums })
    }
}

impl Layout {
    /// The sizes of weights that are packed so.
    #[must_use]
    pub fn packed(self, isa: Isa, sizes: &Weights) -> IntegerSizes {
        match self {
            Layout::Panels { form, vectors, lines } => Panelling::new(isa, sizes, form, vectors, lines).packed(),
            Layout::Transformed { vectors } => WinogradPanels::new(isa, sizes, vectors).packed(),
            Layout::Channels { form, vectors } => ChannelPanels::new(isa, sizes, form, vectors).packed(form),
        }
    }
}

/// Packs weights into `out`, which has the sizes of [`Layout::packed`].
///
/// # Errors
///
/// Where the sizes make no sense, the source does not fit them, weights do not fit the layout's form, or `out` does not
/// have the layout's sizes.
pub fn pack(
    isa: Isa,
    sizes: &Weights,
    layout: Layout,
    source: &WeightSource<'_>,
    out: PackedIntegersMut<'_>,
) -> Result<()> {
    sizes.validate()?;
    source.check(sizes)?;
    if out.sizes != layout.packed(isa, sizes) {
        return Err(other_room(layout));
    }
    let PackedIntegersMut { panels, sums, .. } = out;
    match layout {
        Layout::Panels { form, vectors, lines } => {
            check_bytes(form, sizes, source)?;
            let packing = Packing { sizes, source, panelling: Panelling::new(isa, sizes, form, vectors, lines) };
            match (panels, form.group()) {
                (PackedWeightsMut::Int16(panels), 2) => packing.pack::<_, 2>(|weight| weight, panels, sums),
                (PackedWeightsMut::Int8(panels), 2) => packing.pack::<_, 2>(|weight| weight as i8, panels, sums),
                (PackedWeightsMut::Int8(panels), 4) => packing.pack::<_, 4>(|weight| weight as i8, panels, sums),
                _ => Err(other_room(layout)),
            }
        }
        Layout::Transformed { vectors } => match panels {
            PackedWeightsMut::Int16(panels) => {
                pack_transformed(isa, sizes, vectors, source, panels);
                Ok(())
            }
            _ => Err(other_room(layout)),
        },
        Layout::Channels { form, vectors } => {
            check_bytes(form, sizes, source)?;
            let layout_of = ChannelPanels::new(isa, sizes, form, vectors);
            match panels {
                PackedWeightsMut::Int16(panels) => {
                    pack_channels(&layout_of, sizes, source, |weight| weight, panels, sums);
                }
                PackedWeightsMut::Int8(panels) => {
                    pack_channels(&layout_of, sizes, source, |weight| weight as i8, panels, sums);
                }
                PackedWeightsMut::F32(_) | PackedWeightsMut::Bf16(_) | PackedWeightsMut::F16(_) => {
                    return Err(other_room(layout));
                }
            }
            Ok(())
        }
    }
}

/// Why weights are not packed in memory that was made for another layout.
fn other_room(layout: Layout) -> KernelError {
    KernelError::Unsupported { family: FAMILY, reason: format!("{layout:?} in room for other weights") }
}

/// Refuses weights that do not fit the form's type.
fn check_bytes(form: Form, sizes: &Weights, source: &WeightSource<'_>) -> Result<()> {
    if form.weight_bytes() == 1 && !source.fits_bytes(sizes)? {
        let reason = "weights that, less their zero points, are no bytes".to_owned();
        return Err(KernelError::Unsupported { family: FAMILY, reason });
    }
    Ok(())
}

/// Packs filters of one channel.
fn pack_channels<E>(
    panels: &ChannelPanels,
    sizes: &Weights,
    source: &WeightSource<'_>,
    narrow: impl Fn(i16) -> E,
    out: &mut [E],
    sums: &mut [i32],
) {
    let ([depth, height, line], group) = (sizes.kernel, panels.group);
    // A word has a group of heights.
    let panel_len = panels.panel_words() * group;
    for channel in 0..sizes.channels {
        let (panel, place) = (channel / panels.width, channel % panels.width);
        let weights = &mut out[panel * panel_len..][..panel_len];
        for tap in 0..depth * height * line {
            let [d, h, w] = [tap / line / height, tap / line % height, tap % line];
            let value = source.at(channel, 0, tap);
            let number = (d * height.div_ceil(group) + h / group) * line + w;
            weights[(number * panels.width + place) * group + h % group] = narrow(value);
            sums[panel * panels.width + place] += i32::from(value);
        }
    }
}

/// Packs transformed windows: the matrix of each frequency, in pairs of channels.
fn pack_transformed(isa: Isa, sizes: &Weights, vectors: usize, source: &WeightSource<'_>, out: &mut [i16]) {
    let WinogradPanels { width, panels, channels } = WinogradPanels::new(isa, sizes, vectors);
    // Twice the rows of the transform, because two rows have halves.
    let line = |[a, b, c]: [i16; 3]| [2 * a, a + b + c, a - b + c, 2 * c];
    let all = sizes.filters * channels;
    let mut transformed = memory::zeroed(TRANSFORMED * all);
    for filter in 0..sizes.filters {
        for channel in 0..channels {
            let row = |h: usize| line([0, 1, 2].map(|w| source.at(filter, channel, h * 3 + w)));
            let rows = [row(0), row(1), row(2)];
            for w in 0..4 {
                for (h, value) in line(rows.map(|row| row[w])).into_iter().enumerate() {
                    transformed[(h * 4 + w) * all + filter * channels + channel] = value;
                }
            }
        }
    }
    let layout = Panels { rows: channels / 2, columns: sizes.filters, width };
    let mut out = out.as_chunks_mut::<2>().0.chunks_exact_mut(layout.panel_len().max(1));
    for matrix in transformed.chunks_exact(all.max(1)) {
        let matrix = Source::column_major(matrix, channels, channels);
        for (index, panel) in out.by_ref().take(panels).enumerate() {
            layout.pack_groups(&matrix, layout.rows, index, |_, weight| weight, panel);
        }
    }
}

/// Weights to be packed in panels.
struct Packing<'a> {
    sizes: &'a Weights,
    source: &'a WeightSource<'a>,
    panelling: Panelling,
}

impl Packing<'_> {
    /// Packs the panels of all groups, and sums up their columns. `narrow` makes an element of a weight; `KR` elements
    /// follow each other.
    fn pack<E: Copy + Default + Into<i32>, const KR: usize>(
        &self,
        narrow: impl Fn(i16) -> E,
        out: &mut [E],
        sums: &mut [i32],
    ) -> Result<()> {
        let (source, panelling, groups) = (self.source, &self.panelling, self.sizes.groups.max(1));
        let (filters, channels) = (self.sizes.filters / groups, self.sizes.channels / groups);
        let taps: usize = self.sizes.kernel.iter().product();
        let layout = Panels { rows: panelling.runs * panelling.run_groups, columns: filters, width: panelling.width };
        // A line of the window is one run once channels are innermost; layouts have such lines in one group only.
        let lined = if panelling.run == channels { None } else { Some(source.channels_last(filters, channels, taps)) };
        let mut panels = out.as_chunks_mut::<KR>().0.chunks_exact_mut(layout.panel_len().max(1));
        for group in 0..panelling.groups {
            let (data, outer, inner_stride, column_stride): (_, Vec<usize>, _, _) = match &lined {
                Some(data) => {
                    let runs = (0..panelling.runs).map(|run| run * panelling.run);
                    (&data[..], runs.collect(), 1, taps * channels)
                }
                None => {
                    let runs = (0..panelling.runs).map(|run| group * filters * source.filter + run * source.tap);
                    (source.data, runs.collect(), source.channel, source.filter)
                }
            };
            let plain = Source { data, outer: &outer, inner: panelling.run, inner_stride, column_stride };
            Panels { rows: panelling.runs * panelling.run, ..layout }.check(&plain)?;
            for (index, panel) in panels.by_ref().take(panelling.panels).enumerate() {
                let first = index * panelling.width;
                let zeros = source.zeros_of(group * filters + first, layout.columns_of(index));
                let weight = |column: usize, byte: u8| {
                    let value = if source.signed { i16::from(byte as i8) } else { i16::from(byte) };
                    narrow(value - zeros[column])
                };
                layout.pack_groups(&plain, panelling.run_groups, index, weight, panel);
                let sums = sums.get_mut((group * panelling.panels + index) * panelling.width..).unwrap_or_default();
                for row in panel.chunks_exact(panelling.width) {
                    for (sum, weights) in sums.iter_mut().zip(row) {
                        *sum += weights.iter().map(|&weight| weight.into()).sum::<i32>();
                    }
                }
            }
        }
        Ok(())
    }
}
