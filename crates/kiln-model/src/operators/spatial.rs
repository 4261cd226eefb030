//! Dimensions of outputs of operators over [batch, channels, space...]: windows, their inverses, resizing, padding.
//!
//! A node that is marked `channels_last` has its data as [batch, space..., channels]; it is looked at in ONNX's order
//! and the result is put back.

use smallvec::SmallVec;

use super::error::{Open, ShapeError};
use super::shapes::lengths;
use super::size::{Size, Sizes};
use super::view::{Dims, Ints, Outputs, View, axes_of};

/// Applies `rule` to the operand in ONNX's order, and puts the result into the node's order.
fn in_order(
    view: &View<'_>,
    sizes: &mut Sizes,
    rule: impl FnOnce(&View<'_>, &[Size], &mut Sizes) -> Result<Dims, Open>,
) -> Result<Dims, Open> {
    of_input(0, view, sizes, rule)
}

/// The same for the operand in that input.
fn of_input(
    input: usize,
    view: &View<'_>,
    sizes: &mut Sizes,
    rule: impl FnOnce(&View<'_>, &[Size], &mut Sizes) -> Result<Dims, Open>,
) -> Result<Dims, Open> {
    let mut x = view.dims(input)?;
    let last = view.node.is_channels_last() && x.len() >= 3;
    if last {
        x[1..].rotate_right(1);
    }
    let mut y = rule(view, &x, sizes)?;
    if last {
        y[1..].rotate_left(1);
    }
    Ok(y)
}

/// The weights of a convolution of `x`, which have as many dimensions.
fn weights(view: &View<'_>, x: &[Size], input: usize) -> Result<Dims, Open> {
    let weights = view.dims(input)?;
    if weights.len() != x.len() || x.len() < 3 {
        let (x, weights) = (ShapeError::extents(x), ShapeError::extents(&weights));
        return Err(ShapeError::Lists(format!("input of shape {x} for weights of shape {weights}")).into());
    }
    Ok(weights)
}

pub(super) fn conv(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |view, x, sizes| {
        let weights = weights(view, x, 1)?;
        windows(view, x, weights[0], &weights[2..], Places::Filter, sizes)
    })
}

/// The image is input 0, the weights are input 3.
pub(super) fn quantized_conv(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |view, x, sizes| {
        let weights = weights(view, x, 3)?;
        windows(view, x, weights[0], &weights[2..], Places::Filter, sizes)
    })
}

/// Windows of a pooling, and the positions of the greatest elements where they are wanted.
pub(super) fn pool(view: &View<'_>, sizes: &mut Sizes) -> Result<Outputs, Open> {
    let dims = in_order(view, sizes, |view, x, sizes| {
        let kernel = view.node.ints("kernel_shape").ok_or(Open::Unknown)?;
        if x.len() < 3 || x.len() != kernel.len() + 2 {
            return Err(ShapeError::input(0, x, format!("it does not go with windows of {} axes", kernel.len())));
        }
        let kernel: Dims = kernel.iter().map(|&size| Size::Known(size)).collect();
        windows(view, x, x[1], &kernel, Places::Pool { ceil: view.int("ceil_mode") != 0 }, sizes)
    })?;
    Ok((0..view.node.outputs.len().clamp(1, 2)).map(|_| dims.clone()).collect())
}

/// In training, the running moments of each channel follow.
pub(super) fn batch_normalization(view: &View<'_>, _: &mut Sizes) -> Result<Outputs, Open> {
    let x = view.dims(0)?;
    let last = view.node.is_channels_last();
    let channels = if last { x.last() } else { x.get(1) }.copied();
    let moments = match view.int("training_mode") {
        0 => 0,
        _ => view.node.outputs.len().saturating_sub(1),
    };
    let mut outputs = Outputs::from_iter([x]);
    for _ in 0..moments {
        outputs.push([channels.ok_or(Open::Unknown)?].into_iter().collect());
    }
    Ok(outputs)
}

pub(super) fn global_pool(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |_, x, _| {
        if x.len() < 3 {
            return Err(ShapeError::input(0, x, "it has no spatial axes to pool"));
        }
        Ok(x.iter().enumerate().map(|(place, &size)| if place < 2 { size } else { Size::Known(1) }).collect())
    })
}

pub(super) fn conv_transpose(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, transposed)
}

pub(super) fn depth_to_space(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |view, x, sizes| blocks(view, x, sizes, true))
}

pub(super) fn space_to_depth(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |view, x, sizes| blocks(view, x, sizes, false))
}

/// One dimension's attribute values, with a default where the list is absent or empty.
fn list(view: &View<'_>, name: &str, count: usize, default: i64) -> Result<Ints, Open> {
    match view.node.ints(name).unwrap_or_default() {
        [] => Ok(Ints::from_elem(default, count)),
        values if values.len() == count => Ok(Ints::from_slice(values)),
        values => Err(ShapeError::Lists(format!("{} {name} where there are {count}", values.len())).into()),
    }
}

/// The rule that counts the positions of a window.
#[derive(Clone, Copy, PartialEq)]
enum Places {
    /// A filter.
    Filter,
    /// A pooling, which may round up.
    Pool { ceil: bool },
}

/// Positions of a window of `reach` elements along a padded input; `None` where not even one fits. An empty input has 0
/// positions by the same formula, unless its padding is more than a stride shorter than the window.
pub fn positions(input: usize, padded: usize, reach: usize, stride: usize) -> Option<usize> {
    match padded.checked_sub(reach) {
        Some(room) => Some(room / stride + 1),
        None => (input == 0 && reach - padded <= stride).then_some(0),
    }
}

/// Positions of a pooling's window of `span` elements along an axis; `None` where not even one fits.
pub fn pooled(input: u64, [before, after]: [u64; 2], span: u64, stride: u64, ceil: bool) -> Option<u64> {
    let total = input.saturating_add(before).saturating_add(after);
    let windows = match total.checked_sub(span) {
        Some(room) if ceil => room.div_ceil(stride) + 1,
        Some(room) => room / stride + 1,
        // The same formula, rounded up: an input that is short by less than a stride has one window, by a stride none.
        None if ceil => 1u64.checked_sub((span - total) / stride)?,
        // An empty input has none, where windows are no longer than their steps.
        None if total == 0 && span <= stride => 0,
        None => return None,
    };
    // A window that starts after the input and the padding before it would see nothing.
    let late = ceil && windows > 0 && (windows - 1).saturating_mul(stride) >= input.saturating_add(before);
    Some(windows - u64::from(late))
}

/// Windows of `kernel` sliding over `x`: a convolution or pooling with `channels` of output.
fn windows(
    view: &View<'_>,
    x: &[Size],
    channels: Size,
    kernel: &[Size],
    places: Places,
    sizes: &mut Sizes,
) -> Result<Dims, Open> {
    let count = x.len() - 2;
    let (strides, dilations) = (list(view, "strides", count, 1)?, list(view, "dilations", count, 1)?);
    let pads = list(view, "pads", 2 * count, 0)?;
    // DeformConv has no such attribute.
    let auto = if view.attributes.declares("auto_pad") { view.attributes.text("auto_pad") } else { "NOTSET" };
    let mut y: Dims = [x[0], channels].into_iter().collect();
    for n in 0..count {
        let stride = Some(strides[n]).filter(|&stride| stride > 0).ok_or(Open::Unknown)?;
        let [before, after] = match auto {
            "SAME_UPPER" | "SAME_LOWER" => {
                // The output has ceil(x / stride) places.
                let up = sizes.add(x[2 + n], Size::Known(stride - 1));
                y.push(floor_div(sizes, up, stride));
                continue;
            }
            "VALID" => [0, 0],
            _ => [pads[n], pads[count + n]],
        };
        let refused = || {
            let (kernel, x) = (ShapeError::extents(kernel), ShapeError::extents(&x[2..]));
            Open::from(ShapeError::Lists(format!("windows of {kernel}: one does not fit an input of {x}")))
        };
        let reach = kernel[n].known().ok_or(Open::Unknown)?.checked_sub(1).and_then(|k| k.checked_mul(dilations[n]));
        let reach = reach.and_then(|reach| reach.checked_add(1)).ok_or_else(refused)?;
        let padding = before.checked_add(after).ok_or_else(refused)?;
        if let Size::Known(size) = x[2 + n] {
            let padded = size.checked_add(padding).filter(|_| before >= 0 && after >= 0 && reach > 0);
            let padded = padded.ok_or_else(refused)?;
            let found = match places {
                Places::Filter => positions(size as usize, padded as usize, reach as usize, stride as usize),
                Places::Pool { ceil } => {
                    let pads = [before as u64, after as u64];
                    pooled(size as u64, pads, reach as u64, stride as u64, ceil).map(|places| places as usize)
                }
            };
            y.push(Size::Known(found.and_then(|places| i64::try_from(places).ok()).ok_or_else(refused)?));
            continue;
        }
        let padded = sizes.add(x[2 + n], Size::Known(padding));
        let free = sizes.sub(padded, Size::Known(reach));
        let places = if places != (Places::Pool { ceil: true }) {
            floor_div(sizes, free, stride)
        } else if stride == 1 && after < reach {
            // A window that would start in the padding after the input is left out, which only numbers can decide.
            free
        } else {
            sizes.fresh()
        };
        y.push(sizes.add(places, Size::Known(1)));
    }
    Ok(y)
}

fn floor_div(sizes: &mut Sizes, size: Size, by: i64) -> Size {
    match size {
        Size::Known(size) => Size::Known(size.div_euclid(by)),
        _ if by == 1 => size,
        // Not a quotient that rounds towards zero, so it gets a name of its own.
        _ => sizes.other("floor", size, Size::Known(by)),
    }
}

fn transposed(view: &View<'_>, x: &[Size], sizes: &mut Sizes) -> Result<Dims, Open> {
    let node = view.node;
    let weights = weights(view, x, 1)?;
    let count = x.len() - 2;
    let channels = sizes.mul(weights[1], Size::Known(view.int("group")));
    let mut y: Dims = [x[0], channels].into_iter().collect();
    if let Some(shape) = node.ints("output_shape").filter(|shape| !shape.is_empty()) {
        // Some exporters write batch and channels too.
        let space = shape.len().checked_sub(count).map(|first| &shape[first..]).ok_or(Open::Unknown)?;
        y.extend(space.iter().map(|&size| Size::Known(size)));
        return Ok(y);
    }
    let (strides, dilations) = (list(view, "strides", count, 1)?, list(view, "dilations", count, 1)?);
    let (pads, extra) = (list(view, "pads", 2 * count, 0)?, list(view, "output_padding", count, 0)?);
    let auto = view.attributes.text("auto_pad");
    for n in 0..count {
        if auto.starts_with("SAME") {
            y.push(sizes.mul(x[2 + n], Size::Known(strides[n])));
            continue;
        }
        let refused = || {
            let (kernel, x) = (ShapeError::extents(&weights[2..]), ShapeError::extents(&x[2..]));
            Open::from(ShapeError::Lists(format!("a kernel of {kernel} does not fit an input of {x}")))
        };
        let fixed = |kernel: i64| {
            let reach = kernel.checked_sub(1)?.checked_mul(dilations[n])?.checked_add(1)?;
            let padded = if auto == "VALID" { 0 } else { pads[n].checked_add(pads[count + n])? };
            extra[n].checked_add(reach)?.checked_sub(padded)?.checked_sub(strides[n])
        };
        let fixed = fixed(weights[2 + n].known().ok_or(Open::Unknown)?).ok_or_else(refused)?;
        // stride * (x - 1) + reach + extra - pads
        let spread = sizes.mul(x[2 + n], Size::Known(strides[n]));
        let size = sizes.add(spread, Size::Known(fixed));
        // An empty input cannot fill an output.
        if size.known().is_some_and(|size| size < 0 || size > 0 && x[2 + n] == Size::Known(0)) {
            return Err(refused());
        }
        y.push(size);
    }
    Ok(y)
}

fn blocks(view: &View<'_>, x: &[Size], sizes: &mut Sizes, to_space: bool) -> Result<Dims, Open> {
    let &[n, c, h, w] = x else {
        return Err(ShapeError::input(0, x, "it is not that of images [N, C, H, W]"));
    };
    let side = view.int("blocksize").max(1);
    let block = Size::Known(side);
    let area = sizes.mul(block, block);
    let whole = |size: Size, of: Size| match (size, of) {
        (Size::Known(size), Size::Known(of)) => size % of == 0,
        _ => true,
    };
    if to_space {
        if !whole(c, area) {
            return Err(ShapeError::input(0, x, format!("it has no whole blocks of {side} x {side} channels")));
        }
        return Ok([n, sizes.div(c, area), sizes.mul(h, block), sizes.mul(w, block)].into_iter().collect());
    }
    if !whole(h, block) || !whole(w, block) {
        return Err(ShapeError::input(0, x, format!("it is not made of blocks of {side} x {side}")));
    }
    Ok([n, sizes.mul(c, area), sizes.div(h, block), sizes.div(w, block)].into_iter().collect())
}

/// Whether a list is there and has elements: models leave lists out by empty ones.
fn is_given(view: &View<'_>, input: usize) -> bool {
    view.has(input) && view.dims(input).is_ok_and(|dims| dims[..] != [Size::Known(0)])
}

pub(super) fn resize(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(
        view,
        sizes,
        |view, x, sizes| {
            if view.node.version < 11 { scaled(view, x, 1, sizes) } else { resized(view, x, sizes) }
        },
    )
}

pub(super) fn upsample(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    in_order(view, sizes, |view, x, sizes| scaled(view, x, 1, sizes))
}

/// The axes to which scales and sizes apply.
fn named(view: &View<'_>, rank: usize) -> Result<SmallVec<[usize; 8]>, Open> {
    match view.node.ints("axes") {
        Some(axes) => axes_of(axes, rank),
        None => Ok((0..rank).collect()),
    }
}

fn as_many(given: usize, what: &str, axes: usize) -> Result<(), Open> {
    match given == axes {
        true => Ok(()),
        false => Err(ShapeError::Lists(format!("{given} {what} for {axes} axes")).into()),
    }
}

/// By sizes, or by scales where those are given.
fn resized(view: &View<'_>, x: &[Size], sizes: &mut Sizes) -> Result<Dims, Open> {
    let [scales, target] = [2, 3];
    if is_given(view, scales) || !is_given(view, target) {
        return scaled(view, x, scales, sizes);
    }
    let (axes, target) = (named(view, x.len())?, lengths(view, target)?);
    as_many(target.len(), "sizes", axes.len())?;
    let mut y: Dims = x.iter().copied().collect();
    let larger = match view.attributes.text("keep_aspect_ratio_policy") {
        "not_larger" => false,
        "not_smaller" => true,
        _ => {
            axes.iter().zip(&target).for_each(|(&axis, &size)| y[axis] = size);
            return Ok(y);
        }
    };
    // All axes get the greatest or the least of their ratios.
    let ratio = |(&axis, &to): (&usize, &Size)| {
        let (from, to) = (x[axis].known()?, to.known()?);
        // Also for two sizes of 0.
        Some(if from == to { 1.0 } else { to as f64 / from.max(1) as f64 })
    };
    let Some(ratios) = axes.iter().zip(&target).map(ratio).collect::<Option<SmallVec<[f64; 5]>>>() else {
        axes.iter().for_each(|&axis| y[axis] = sizes.fresh());
        return Ok(y);
    };
    let common = ratios.into_iter().reduce(if larger { f64::max } else { f64::min });
    for axis in axes {
        if let (Some(scale), Size::Known(size)) = (common, x[axis]) {
            y[axis] = sized(rounded_size(size.unsigned_abs(), scale), size, scale)?;
        }
    }
    Ok(y)
}

/// The size that a scale gives an axis of `size` elements: their product in `f32` without its fraction, as ONNX's shape
/// inference and ONNX Runtime compute it. TensorFlow's exporter relies on that: it divides two sizes in `f32`, and 12
/// elements times 7/12 are to be 7, where the exact product of the rounded quotient is a little less. `None` where it is
/// no size.
#[must_use]
pub fn scaled_size(size: u64, scale: f32) -> Option<u64> {
    // Above 2^24 not every integer is an f32.
    let product = match size < 1 << 24 {
        true => f64::from(size as f32 * scale),
        false => size as f64 * f64::from(scale),
    };
    whole(product).filter(|_| scale > 0.0)
}

/// The size that a scale of a resizing that keeps the ratio of sizes gives an axis: the product, rounded, and at least
/// one, also where the scale is 0. `None` where it is no size.
#[must_use]
pub fn rounded_size(size: u64, scale: f64) -> Option<u64> {
    whole((scale * size as f64 + 0.5).max(1.0))
}

/// A size without its fraction.
fn whole(size: f64) -> Option<u64> {
    // 2^53: above it not every integer is a double.
    (size < (1u64 << 53) as f64).then_some(size as u64)
}

/// The size that a scale gives an axis, or why it gives none.
fn sized(given: Option<u64>, size: i64, scale: f64) -> Result<Size, Open> {
    let refused = || ShapeError::Lists(format!("a scale of {scale} for {size} elements"));
    Ok(Size::Known(given.and_then(|size| i64::try_from(size).ok()).ok_or_else(refused)?))
}

/// Scales the sizes; unknown sizes only by whole factors.
fn scaled(view: &View<'_>, x: &[Size], input: usize, sizes: &mut Sizes) -> Result<Dims, Open> {
    let axes = named(view, x.len())?;
    let scales = match view.node.floats("scales") {
        _ if is_given(view, input) => view.floats(input)?,
        Some(scales) => SmallVec::from_slice(scales),
        // A list that is not known yet may be there when the node runs.
        None if view.has(input) && view.dims(input).is_err() => return Err(Open::Unknown),
        None => return Err(ShapeError::Lists("neither scales nor sizes".to_owned()).into()),
    };
    as_many(scales.len(), "scales", axes.len())?;
    let mut y: Dims = x.iter().copied().collect();
    for (&axis, &scale) in axes.iter().zip(&scales) {
        let whole = scale.fract() == 0.0 && (1.0..65536.0).contains(&scale);
        y[axis] = match x[axis] {
            Size::Known(size) => sized(scaled_size(size.unsigned_abs(), scale), size, f64::from(scale))?,
            size if whole => sizes.mul(size, Size::Known(scale as i64)),
            _ => sizes.fresh(),
        };
    }
    Ok(y)
}

pub(super) fn pad(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    let fixed = view.node.ints("pads").is_some();
    let pads = view.ints("pads", 1)?.ok_or(ShapeError::Missing(1))?;
    let axes = match !fixed && view.has(3) {
        true => axes_of(&view.known(3)?, dims.len())?,
        false => (0..dims.len()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(ShapeError::Lists(format!("{} amounts do not pad {} axes", pads.len(), axes.len())).into());
    }
    for (place, &axis) in axes.iter().enumerate() {
        let (before, after) = (pads[place], pads[place + axes.len()]);
        let left = |size: i64| size.checked_add(before.min(0))?.checked_add(after.min(0)).filter(|&left| left >= 0);
        if dims[axis].known().is_some_and(|size| left(size).is_none()) {
            let reason = format!("{before} and {after} around axis {axis} leave nothing");
            return Err(ShapeError::input(0, &dims, reason));
        }
        let first = sizes.add(dims[axis], Size::Known(before));
        dims[axis] = sizes.add(first, Size::Known(after));
    }
    Ok(dims)
}

/// The values of an image at each place of a grid, whose last axis holds the place.
pub(super) fn grid_sample(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (image, grid) = (view.dims(0)?, view.dims(1)?);
    match (&image[..], &grid[..]) {
        ([batch, channels, ..], [_, places @ .., _]) if image.len() == grid.len() => {
            Ok([*batch, *channels].into_iter().chain(places.iter().copied()).collect())
        }
        _ => {
            let (image, grid) = (ShapeError::extents(&image), ShapeError::extents(&grid));
            Err(ShapeError::Lists(format!("a grid of shape {grid} over an image of {image}")).into())
        }
    }
}

/// A place of two or three numbers for every element of images of the size in input 1.
pub(super) fn affine_grid(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (theta, size) = (view.dims(0)?, view.elements(1)?);
    let known = |at: usize| theta.get(at).and_then(|size| size.known());
    let fits = |batch: &Size| match (theta[0].known(), batch.known()) {
        (Some(matrices), Some(batch)) => matrices == batch,
        _ => true,
    };
    match &size[..] {
        [batch, _, space @ ..]
            if [2, 3].contains(&space.len())
                && theta.len() == 3
                && fits(batch)
                && known(1).is_none_or(|rows| rows == space.len() as i64)
                && known(2).is_none_or(|columns| columns == space.len() as i64 + 1)
                && size.iter().all(|size| size.known().is_none_or(|size| size >= 0)) =>
        {
            let rank = Size::Known(space.len() as i64);
            Ok([theta[0]].into_iter().chain(space.iter().copied()).chain([rank]).collect())
        }
        _ => {
            let (size, theta) = (ShapeError::extents(&size), ShapeError::extents(&theta));
            Err(ShapeError::Lists(format!("no grid of size {size} from matrices of shape {theta}")).into())
        }
    }
}

/// Bins of every region of the images.
pub(super) fn regions(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    bins(view, ["output_height", "output_width"].map(|name| view.int(name)))
}

/// Bins of every region, counted by one list.
pub(super) fn region_maxima(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let pooled: &[i64] = view.node.ints("pooled_shape").ok_or(Open::Unknown)?;
    let &[rows, columns] = pooled else {
        return Err(ShapeError::Lists(format!("pooled_shape {pooled:?}, which is not two sizes")).into());
    };
    bins(view, [rows, columns])
}

fn bins(view: &View<'_>, bins: [i64; 2]) -> Result<Dims, Open> {
    let (images, regions) = (view.dims(0)?, view.dims(1)?);
    match (&images[..], &regions[..]) {
        (&[_, channels, _, _], &[count, _]) => Ok([count, channels].into_iter().chain(bins.map(Size::Known)).collect()),
        _ => {
            let (images, regions) = (ShapeError::extents(&images), ShapeError::extents(&regions));
            Err(ShapeError::Lists(format!("regions of shape {regions} in images of {images}")).into())
        }
    }
}

/// Input 1 gives the sizes of some or all axes.
pub(super) fn crop_pad(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let (mut dims, target) = (view.dims(0)?, lengths(view, 1)?);
    let axes = named(view, dims.len())?;
    as_many(target.len(), "sizes", axes.len())?;
    axes.iter().zip(&target).for_each(|(&axis, &size)| dims[axis] = size);
    Ok(dims)
}

/// Columns of blocks put together to images: [batch, channels x block, positions] to [batch, channels, image].
pub(super) fn col2im(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let (columns, image, block) = (view.dims(0)?, lengths(view, 1)?, lengths(view, 2)?);
    let &[batch, rows, _] = &columns[..] else {
        return Err(ShapeError::input(0, &columns, "columns are [batch, channels x block, positions]"));
    };
    let block = sizes.product(&block);
    Ok([batch, sizes.div(rows, block)].into_iter().chain(image).collect())
}

/// The shape that was pooled, unless input 2 gives one.
pub(super) fn unpool(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    if view.has(2) {
        return lengths(view, 2);
    }
    let pooled = view.dims(0)?;
    let kernel = view.node.ints("kernel_shape").unwrap_or_default();
    let refused =
        || Open::from(ShapeError::Lists(format!("no window of {kernel:?} over {:?}", ShapeError::extents(&pooled))));
    if pooled.len() != kernel.len() + 2 {
        return Err(refused());
    }
    let count = kernel.len();
    let (strides, pads) = (list(view, "strides", count, 1)?, list(view, "pads", 2 * count, 0)?);
    let mut dims: Dims = pooled[..2].iter().copied().collect();
    for n in 0..count {
        // (pooled - 1) * stride + kernel - pads
        let fixed =
            kernel[n].checked_sub(strides[n]).and_then(|size| size.checked_sub(pads[n])?.checked_sub(pads[count + n]));
        let spread = sizes.mul(pooled[2 + n], Size::Known(strides[n]));
        let size = sizes.add(spread, Size::Known(fixed.ok_or_else(refused)?));
        if size.known().is_some_and(|size| size < 0) || pooled[2 + n] == Size::Known(0) {
            return Err(refused());
        }
        dims.push(size);
    }
    Ok(dims)
}
