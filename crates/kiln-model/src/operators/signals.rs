//! Dimensions of spectra, bands and windows of signals.

use super::error::{Open, ShapeError};
use super::size::{Size, Sizes};
use super::view::{Dims, View, axis};

/// The size, or a new unknown one where it is not known at load.
fn or_fresh(size: Result<Size, Open>, sizes: &mut Sizes) -> Result<Size, Open> {
    match size {
        Err(Open::Unknown) => Ok(sizes.fresh()),
        other => other,
    }
}

/// Whether a size is known and not at least `least`.
fn below(size: Size, least: i64) -> bool {
    size.known().is_some_and(|size| size < least)
}

fn refused(reason: String) -> Open {
    ShapeError::Lists(reason).into()
}

/// `length / 2 + 1`: the bins of a real signal's spectrum without the mirrored half.
fn half_spectrum(length: Size, sizes: &mut Sizes) -> Size {
    let half = sizes.div(length, Size::Known(2));
    sizes.add(half, Size::Known(1))
}

/// A signal whose last axis holds real numbers or pairs, transformed along one of the others.
pub(super) fn dft(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut dims = view.dims(0)?;
    let parts = *dims.last().ok_or_else(|| no_signal(&dims))?;
    if dims.len() < 2 || parts.known().is_some_and(|parts| !matches!(parts, 1 | 2)) {
        return Err(no_signal(&dims));
    }
    let (one_sided, inverse) = (view.int("onesided") != 0, view.int("inverse") != 0);
    let named = match view.node.version < 20 {
        true => view.int("axis"),
        false if view.has(2) => view.size(2)?.known().ok_or(Open::Unknown)?,
        false => -2,
    };
    let at = axis(named, dims.len()).ok_or(ShapeError::Axis { axis: named, rank: dims.len() })?;
    let length = match (view.has(1), one_sided && inverse) {
        (true, _) => or_fresh(view.size(1), sizes)?,
        (false, false) => dims[at],
        // A half spectrum stands for a whole one.
        (false, true) => {
            let gaps = sizes.sub(dims[at], Size::Known(1));
            sizes.mul(gaps, Size::Known(2))
        }
    };
    if below(length, 1) || at + 1 == dims.len() {
        let dims = ShapeError::extents(&dims);
        return Err(refused(format!("no transform along axis {named} of shape {dims}")));
    }
    let last = dims.len() - 1;
    dims[at] = if one_sided && !inverse { half_spectrum(length, sizes) } else { length };
    dims[last] = Size::Known(if one_sided && inverse { 1 } else { 2 });
    Ok(dims)
}

fn no_signal(dims: &[Size]) -> Open {
    refused(format!("no real or complex signal in shape {}", ShapeError::extents(dims)))
}

/// The spectra of frames of a batch of signals: `[batch, frames, bins, 2]`.
pub(super) fn stft(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let signal = view.dims(0)?;
    let (batch, samples) = match signal[..] {
        [batch, samples] => (batch, samples),
        [batch, samples, parts] if parts.known().is_none_or(|parts| matches!(parts, 1 | 2)) => (batch, samples),
        _ => return Err(refused(format!("no batch of signals in shape {}", ShapeError::extents(&signal)))),
    };
    let window = if view.has(2) { Some(sizes.product(&view.dims(2)?)) } else { None };
    let step = or_fresh(view.size(1), sizes)?;
    let length = match view.has(3) {
        true => or_fresh(view.size(3), sizes)?,
        false => window.unwrap_or(samples),
    };
    let longer = |a: Size, b: Size| matches!((a.known(), b.known()), (Some(a), Some(b)) if a > b);
    if below(step, 1) || below(length, 1) || longer(length, samples) || window.is_some_and(|own| longer(own, length)) {
        let [length, step, samples] = [length, step, samples].map(super::shapes::shown);
        return Err(refused(format!("no frames of {length} every {step} of {samples} samples")));
    }
    let rest = sizes.sub(samples, length);
    let steps = sizes.div(rest, step);
    let frames = sizes.add(steps, Size::Known(1));
    let bins = if view.int("onesided") != 0 { half_spectrum(length, sizes) } else { length };
    Ok([batch, frames, bins, Size::Known(2)].into_iter().collect())
}

/// A row for each bin of a spectrum of input 1's length, a column for each of input 0's bands.
pub(super) fn mel_weights(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let mut size = |input: usize| match or_fresh(view.size(input), sizes)? {
        negative if below(negative, 0) => Err(refused(format!("a size of {}", super::shapes::shown(negative)))),
        size => Ok(size),
    };
    let (bands, length) = (size(0)?, size(1)?);
    Ok([half_spectrum(length, sizes), bands].into_iter().collect())
}

/// As many classes as `sample_size` says for each row of logarithms: `[rows, classes]` gives `[rows, sample_size]`.
pub(super) fn classes_drawn(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    let dims = view.dims(0)?;
    match (&dims[..], view.int("sample_size")) {
        (&[rows, _], count) if count >= 0 => Ok([rows, Size::Known(count)].into_iter().collect()),
        (&[_, _], count) => Err(refused(format!("a sample_size of {count}"))),
        _ => Err(ShapeError::input(0, &dims, "no rows of classes")),
    }
}

/// The length is the value of the first input.
pub(super) fn window(view: &View<'_>, _: &mut Sizes) -> Result<Dims, Open> {
    match view.size(0)? {
        size if below(size, 0) => Err(refused(format!("a size of {}", super::shapes::shown(size)))),
        size => Ok([size].into_iter().collect()),
    }
}
