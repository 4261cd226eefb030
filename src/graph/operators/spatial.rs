//! Dimensions of outputs of operators over [batch, channels, space...]: windows, their inverses, resizing, padding.
//!
//! A node that is marked `channels_last` has its data as [batch, space..., channels]; it is looked at in ONNX's order
//! and the result is put back.

use super::size::{Size, Sizes};
use super::view::{Dims, View};

/// What `rule` makes of the operand in ONNX's order, put into the order that the node has.
fn in_order(
    view: &View<'_>,
    sizes: &mut Sizes,
    rule: impl FnOnce(&View<'_>, &[Size], &mut Sizes) -> Option<Dims>,
) -> Option<Dims> {
    let data = view.dims(0).filter(|data| data.len() >= 3)?;
    let last = view.node.int("channels_last", 0) != 0;
    let mut x: Dims = data.iter().copied().collect();
    if last {
        x[1..].rotate_right(1);
    }
    let mut y = rule(view, &x, sizes)?;
    if last {
        y[1..].rotate_left(1);
    }
    Some(y)
}

pub(super) fn conv(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| {
        let weights = view.dims(1).filter(|w| w.len() == x.len())?;
        let kernel: Dims = weights[2..].iter().copied().collect();
        windows(view, x, weights[0], &kernel, false, sizes)
    })
}

pub(super) fn pool(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| {
        let kernel: Dims = view.node.ints("kernel_shape")?.iter().map(|&size| Size::Known(size)).collect();
        windows(view, x, x[1], &kernel, view.int("ceil_mode") != 0, sizes)
    })
}

pub(super) fn global_pool(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |_, x, _| {
        Some(x.iter().enumerate().map(|(place, &size)| if place < 2 { size } else { Size::Known(1) }).collect())
    })
}

pub(super) fn conv_transpose(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, transposed)
}

pub(super) fn depth_to_space(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| blocks(view, x, sizes, true))
}

pub(super) fn space_to_depth(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| blocks(view, x, sizes, false))
}

pub(super) fn resize(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| {
        let input = 3;
        if view.has(input) && view.attributes.text("keep_aspect_ratio_policy") == "stretch" {
            let target = view.elements(input).filter(|target| target.len() == x.len())?;
            return Some(target.iter().copied().collect());
        }
        scaled(view, x, if view.node.version < 11 { 1 } else { 2 }, sizes)
    })
}

pub(super) fn upsample(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    in_order(view, sizes, |view, x, sizes| scaled(view, x, 1, sizes))
}

/// One dimension's attribute values, with a default where the list is absent.
fn list(view: &View<'_>, name: &str, count: usize, default: i64) -> Option<Vec<i64>> {
    match view.node.ints(name) {
        None => Some(vec![default; count]),
        Some(values) => (values.len() == count).then(|| values.to_vec()),
    }
}

/// Windows of `kernel` sliding over `x`: a convolution or pooling with `channels` of output.
fn windows(
    view: &View<'_>,
    x: &[Size],
    channels: Size,
    kernel: &[Size],
    ceil: bool,
    sizes: &mut Sizes,
) -> Option<Dims> {
    let count = x.len() - 2;
    if kernel.len() != count {
        return None;
    }
    let (strides, dilations) = (list(view, "strides", count, 1)?, list(view, "dilations", count, 1)?);
    let pads = list(view, "pads", 2 * count, 0)?;
    let auto = view.attributes.text("auto_pad");
    let mut y: Dims = [x[0], channels].into_iter().collect();
    for n in 0..count {
        let stride = Some(strides[n]).filter(|&stride| stride > 0)?;
        let padded = match auto {
            "SAME_UPPER" | "SAME_LOWER" => {
                // The output has ceil(x / stride) places.
                let up = sizes.add(x[2 + n], Size::Known(stride - 1));
                y.push(floor_div(sizes, up, stride));
                continue;
            }
            "VALID" => x[2 + n],
            _ => sizes.add(x[2 + n], Size::Known(pads[n].checked_add(pads[count + n])?)),
        };
        let reach = kernel[n].known()?.checked_sub(1)?.checked_mul(dilations[n])?.checked_add(1)?;
        let free = sizes.sub(padded, Size::Known(reach));
        let places = if !ceil {
            floor_div(sizes, free, stride)
        } else {
            // A window that would start in the padding behind is left out, which takes numbers to decide.
            match (free, x[2 + n]) {
                (Size::Known(free), Size::Known(size)) => {
                    let places = (free + stride - 1).div_euclid(stride);
                    Size::Known(places - i64::from(places * stride >= size + pads[n]))
                }
                _ if stride == 1 && pads[count + n] < reach => free,
                _ => sizes.fresh(),
            }
        };
        y.push(sizes.add(places, Size::Known(1)));
    }
    Some(y)
}

fn floor_div(sizes: &mut Sizes, size: Size, by: i64) -> Size {
    match size {
        Size::Known(size) => Size::Known(size.div_euclid(by)),
        _ if by == 1 => size,
        // Not a quotient that rounds towards zero, so it gets a name of its own.
        _ => sizes.other("floor", size, Size::Known(by)),
    }
}

fn transposed(view: &View<'_>, x: &[Size], sizes: &mut Sizes) -> Option<Dims> {
    let node = view.node;
    let count = x.len() - 2;
    let weights = view.dims(1).filter(|w| w.len() == x.len())?;
    let channels = sizes.mul(weights[1], Size::Known(view.int("group")));
    let mut y: Dims = [x[0], channels].into_iter().collect();
    if let Some(shape) = node.ints("output_shape") {
        let space = shape.get(shape.len().checked_sub(count)?..)?;
        y.extend(space.iter().map(|&size| Size::Known(size)));
        return Some(y);
    }
    let (strides, dilations) = (list(view, "strides", count, 1)?, list(view, "dilations", count, 1)?);
    let (pads, extra) = (list(view, "pads", 2 * count, 0)?, list(view, "output_padding", count, 0)?);
    let auto = view.attributes.text("auto_pad");
    for n in 0..count {
        if auto.starts_with("SAME") {
            y.push(sizes.mul(x[2 + n], Size::Known(strides[n])));
            continue;
        }
        let reach = weights[2 + n].known()?.checked_sub(1)?.checked_mul(dilations[n])?.checked_add(1)?;
        let padded = if auto == "VALID" { 0 } else { pads[n].checked_add(pads[count + n])? };
        let fixed = extra[n].checked_add(reach)?.checked_sub(padded)?.checked_sub(strides[n])?;
        // stride * (x - 1) + reach + extra - pads
        let spread = sizes.mul(x[2 + n], Size::Known(strides[n]));
        y.push(sizes.add(spread, Size::Known(fixed)));
    }
    Some(y)
}

fn blocks(view: &View<'_>, x: &[Size], sizes: &mut Sizes, to_space: bool) -> Option<Dims> {
    let block = Size::Known(view.int("blocksize").max(1));
    let area = sizes.mul(block, block);
    let (n, c, h, w) = (x[0], x[1], *x.get(2)?, *x.get(3)?);
    Some(if to_space {
        [n, sizes.div(c, area), sizes.mul(h, block), sizes.mul(w, block)].into_iter().collect()
    } else {
        [n, sizes.mul(c, area), sizes.div(h, block), sizes.div(w, block)].into_iter().collect()
    })
}

/// Scaled sizes are followed for whole factors only.
fn scaled(view: &View<'_>, x: &[Size], scales_input: usize, sizes: &mut Sizes) -> Option<Dims> {
    let node = view.node;
    if node.attrs.contains_key("axes") {
        return None;
    }
    let given = view.graph.constant_input(node, scales_input).and_then(|scales| scales.as_slice::<f32>().ok());
    let scales = given.or_else(|| node.floats("scales")).filter(|scales| scales.len() == x.len())?;
    let size = |(&size, &scale): (&Size, &f32)| {
        let whole = scale.fract() == 0.0 && (1.0..65536.0).contains(&scale);
        if whole { sizes.mul(size, Size::Known(scale as i64)) } else { sizes.fresh() }
    };
    Some(x.iter().zip(scales).map(size).collect())
}

pub(super) fn pad(view: &View<'_>, sizes: &mut Sizes) -> Option<Dims> {
    let mut dims: Dims = view.dims(0)?.iter().copied().collect();
    let rank = dims.len();
    if view.has(3) {
        return None;
    }
    let pads = view.ints("pads", 1)??;
    (pads.len() == 2 * rank).then_some(())?;
    for (n, size) in dims.iter_mut().enumerate() {
        *size = sizes.add(*size, Size::Known(pads[n].checked_add(pads[rank + n])?));
    }
    Some(dims)
}
