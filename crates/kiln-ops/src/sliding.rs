//! A window that slides over the spatial dimensions of an image: sizes from attributes, and which input element each
//! output position sees. For the plain operators (integer convolutions, Col2Im, ...); families of kernels have their
//! own.

use kiln_kernels::memory::Collect;
use kiln_model::NodeDesc;
use kiln_model::operators::spatial::positions;
use kiln_run::NodeError;
use kiln_tensor::Shape;

use super::{OpError, refused};

/// The attributes of a sliding window. Lists are empty where the model leaves them out.
#[derive(Clone, Debug)]
pub(crate) struct Sliding {
    pub(crate) kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    /// At the start of each dimension, then at the end of each.
    pads: Vec<usize>,
    auto: Option<Auto>,
}

/// Padding that follows from the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Auto {
    Valid,
    /// Padding that keeps the size, with an odd element at the end or at the start.
    Same {
        odd_at_end: bool,
    },
}

/// A window over an image of known size.
#[derive(Clone, Debug)]
pub(crate) struct Slide {
    pub(crate) input: Shape,
    pub(crate) kernel: Shape,
    pub(crate) output: Shape,
    strides: Shape,
    dilations: Shape,
    /// At the start of each dimension.
    pads: Shape,
}

impl Sliding {
    /// Reads the attributes; the kernel's size under the name `kernel`.
    pub(crate) fn read(node: &NodeDesc, kernel: &str) -> Result<Sliding, OpError> {
        let list = |name: &str, least: i64| {
            let values = node.ints(name).unwrap_or_default();
            let checked = values.iter().map(|&value| usize::try_from(value).ok().filter(|_| value >= least));
            checked
                .collect::<Option<Vec<usize>>>()
                .ok_or_else(|| OpError::invalid(node, format!("{name} = {values:?}")))
        };
        // Neither DeformConv nor Col2Im has such an attribute.
        let attributes = node.attributes();
        let auto_pad = if attributes.declares("auto_pad") { attributes.text("auto_pad") } else { "NOTSET" };
        let auto = match auto_pad {
            "NOTSET" => None,
            "VALID" => Some(Auto::Valid),
            "SAME_UPPER" => Some(Auto::Same { odd_at_end: true }),
            "SAME_LOWER" => Some(Auto::Same { odd_at_end: false }),
            other => return Err(OpError::invalid(node, format!("auto_pad = {other}"))),
        };
        Ok(Sliding {
            kernel: list(kernel, 1)?,
            strides: list("strides", 1)?,
            dilations: list("dilations", 1)?,
            pads: list("pads", 0)?,
            auto,
        })
    }

    /// The window of `kernel` elements over an image of `input`.
    pub(crate) fn over(&self, input: &[usize], kernel: &[usize]) -> Result<Slide, NodeError> {
        let rank = input.len();
        let fits = |list: &[usize], count: usize| list.is_empty() || list.len() == count;
        let consistent = kernel.len() == rank
            && fits(&self.kernel, rank)
            && fits(&self.strides, rank)
            && fits(&self.dilations, rank)
            && fits(&self.pads, 2 * rank);
        let error = || refused(format!("a window of {kernel:?} does not slide over {input:?}"));
        if !consistent || kernel.contains(&0) || !self.kernel.is_empty() && self.kernel != kernel {
            return Err(error());
        }
        let filled = |list: &[usize]| (0..rank).map(|dim| list.get(dim).copied().unwrap_or(1)).collect::<Shape>();
        let (strides, dilations) = (filled(&self.strides), filled(&self.dilations));
        let (mut pads, mut output) = (Shape::new(), Shape::new());
        for dim in 0..rank {
            let given = [dim, dim + rank].map(|at| self.pads.get(at).copied().unwrap_or(0));
            let along = Along { size: input[dim], kernel: kernel[dim], stride: strides[dim], dilation: dilations[dim] };
            let (pad, count) = along.fit(given, self.auto).ok_or_else(error)?;
            pads.push(pad);
            output.push(count);
        }
        Ok(Slide { input: input.into(), kernel: kernel.into(), output, strides, dilations, pads })
    }
}

/// One spatial dimension.
struct Along {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
}

impl Along {
    /// Padding at the start and number of positions; `None` where no window fits.
    fn fit(&self, given: [usize; 2], auto: Option<Auto>) -> Option<(usize, usize)> {
        let reach = (self.kernel - 1).checked_mul(self.dilation)?.checked_add(1)?;
        let [before, after] = match auto {
            None => given,
            Some(Auto::Valid) => [0, 0],
            Some(Auto::Same { odd_at_end }) => {
                let count = self.size.div_ceil(self.stride);
                let needed = count.saturating_sub(1).checked_mul(self.stride)?.checked_add(reach)?;
                let total = needed.saturating_sub(self.size);
                if odd_at_end { [total / 2, total.div_ceil(2)] } else { [total.div_ceil(2), total / 2] }
            }
        };
        let padded = self.size.checked_add(before)?.checked_add(after)?;
        // Coordinates are computed as signed numbers below.
        let count = positions(self.size, padded, reach, self.stride)?;
        (padded <= isize::MAX as usize / 4).then_some((before, count))
    }
}

impl Slide {
    /// Positions of the window.
    pub(crate) fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// The input element under element number `element` of a two-dimensional window at a position; negative in the
    /// padding.
    pub(crate) fn place(&self, position: usize, element: usize) -> [isize; 2] {
        let (positions, window) = (self.output[1], self.kernel[1]);
        let along = |dim: usize, at: usize, element: usize| {
            (at * self.strides[dim] + element * self.dilations[dim]) as isize - self.pads[dim] as isize
        };
        [along(0, position / positions, element / window), along(1, position % positions, element % window)]
    }

    /// For element number `element` of the window: each position at which it is inside of the image, with the image's
    /// element there.
    pub(crate) fn taps(&self, element: usize) -> Vec<(usize, usize)> {
        let mut taps = vec![(0, 0)];
        let mut rest = element;
        let mut inner: usize = self.kernel.iter().product();
        for dim in 0..self.input.len() {
            inner /= self.kernel[dim];
            let offset = rest / inner * self.dilations[dim];
            rest %= inner;
            let (positions, size) = (self.output[dim], self.input[dim]);
            let (pad, stride) = (self.pads[dim], self.strides[dim]);
            // Those inside, however many lie in the padding.
            let first = pad.saturating_sub(offset).div_ceil(stride);
            let end = (size + pad).saturating_sub(offset).div_ceil(stride).min(positions);
            let along: Vec<(usize, usize)> = (first..end).map(|at| (at, at * stride + offset - pad)).collected();
            let join = |&(to, from): &(usize, usize)| {
                along.iter().map(move |&(at, place)| (to * positions + at, from * size + place))
            };
            taps = taps.iter().flat_map(join).collected();
        }
        taps
    }
}

#[cfg(test)]
mod tests {
    use kiln_model::Attr;

    use super::*;

    fn sliding(lists: &[(&str, &[i64])], auto: &str) -> Sliding {
        let mut node = NodeDesc { op: "ConvInteger".to_owned(), ..NodeDesc::default() };
        for (name, list) in lists {
            node.attrs.insert((*name).to_owned(), Attr::Ints(list.to_vec()));
        }
        node.attrs.insert("auto_pad".to_owned(), Attr::Str(auto.to_owned()));
        Sliding::read(&node, "kernel_shape").unwrap()
    }

    #[test]
    fn positions_follow_from_sizes() {
        let plain = sliding(&[("strides", &[2]), ("pads", &[1, 0])], "NOTSET").over(&[4], &[3]).unwrap();
        assert_eq!(plain.output[..], [2]);
        assert_eq!(plain.taps(0), [(1, 1)]);
        assert_eq!(plain.taps(1), [(0, 0), (1, 2)]);
        let same = |auto| sliding(&[], auto).over(&[3, 3], &[2, 2]).unwrap();
        assert_eq!(same("SAME_UPPER").output[..], [3, 3]);
        assert_eq!(same("SAME_UPPER").taps(0).len(), 9);
        assert_eq!(same("SAME_LOWER").taps(3).len(), 9);
        assert_eq!(same("VALID").output[..], [2, 2]);
        assert_eq!(sliding(&[("dilations", &[2])], "NOTSET").over(&[5], &[3]).unwrap().output[..], [1]);
    }

    #[test]
    fn windows_that_do_not_fit_are_refused() {
        assert!(sliding(&[], "NOTSET").over(&[2], &[3]).is_err());
        assert!(sliding(&[], "NOTSET").over(&[2, 2], &[1]).is_err());
        assert!(sliding(&[("pads", &[1])], "NOTSET").over(&[2], &[1]).is_err());
        assert!(sliding(&[("pads", &[i64::MAX, i64::MAX])], "NOTSET").over(&[2], &[1]).is_err());
        assert!(sliding(&[("dilations", &[i64::MAX])], "NOTSET").over(&[2], &[3]).is_err());
    }
}
