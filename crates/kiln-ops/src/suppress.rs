//! NonMaxSuppression: of boxes that overlap, the one with the best score stays.
//!
//! How many stay is known when the boxes have been compared, and boxes differ in each request. So this is a
//! [`Flow`], which makes its output when it runs, and not a node, whose output's size is inferred before.

use kiln_kernels::memory::{self, Collect};
use kiln_model::Value;
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::Tensor;

use super::{FlowLoad, FlowOperator, OpError, Ordinal, order_first, refused};

/// The operator of this file.
pub(super) const OPERATORS: &[FlowOperator] = &[("", "NonMaxSuppression", make)];

struct Suppression {
    /// Whether a box is centre and size, instead of two corners.
    centred: bool,
}

fn make(load: FlowLoad<'_>) -> Result<Box<dyn Flow>, OpError> {
    Ok(Box::new(Suppression { centred: load.node.attributes().int("center_point_box") != 0 }))
}

/// Comparisons between two checks of the clock: some ten microseconds.
const UNSEEN: usize = 4096;

/// Lower and upper edge along two axes.
type Edges = [[f32; 2]; 2];

fn area(edges: Edges) -> f32 {
    (edges[0][1] - edges[0][0]) * (edges[1][1] - edges[1][0])
}

/// Boxes that are compared at once: several vectors of any level.
const LANES: usize = 16;

/// A vector's worth of boxes with their areas, each figure in a list of its own.
#[derive(Clone, Copy, Default)]
struct Boxes {
    edges: [[[f32; LANES]; 2]; 2],
    areas: [f32; LANES],
}

impl Boxes {
    /// Which of these boxes share no more than `most` of their union with that one.
    #[inline]
    fn spare(&self, edges: Edges, own: f32, most: f32) -> [bool; LANES] {
        let mut spared = [false; LANES];
        for (lane, spared) in spared.iter_mut().enumerate() {
            let common = [0, 1].map(|axis| {
                let [low, high] = self.edges[axis].map(|edges| edges[lane]);
                edges[axis][1].min(high) - edges[axis][0].max(low)
            });
            let (both, other) = (common[0] * common[1], self.areas[lane]);
            let union = own + other - both;
            // Every box is compared, so that nothing depends on a branch.
            let apart = (common[0] <= 0.0) | (common[1] <= 0.0);
            let flat = (own <= 0.0) | (other <= 0.0) | (union <= 0.0);
            let overlap = if apart | flat { 0.0 } else { both / union };
            *spared = overlap <= most;
        }
        spared
    }
}

/// The boxes that stay so far.
#[derive(Default)]
struct Kept {
    all: Vec<Boxes>,
    count: usize,
}

impl Kept {
    fn push(&mut self, edges: Edges) {
        let lane = self.count % LANES;
        if lane == 0 {
            memory::reserve(&mut self.all, 1);
            self.all.push(Boxes::default());
        }
        if let Some(last) = self.all.last_mut() {
            for (to, from) in last.edges.as_flattened_mut().iter_mut().zip(edges.as_flattened()) {
                to[lane] = *from;
            }
            last.areas[lane] = area(edges);
        }
        self.count += 1;
    }

    /// Whether no box of these shares more than `most` of its union with that box.
    fn spare(&self, edges: Edges, most: f32) -> bool {
        let (own, mut left) = (area(edges), self.count);
        self.all.iter().all(|boxes| {
            let filled = left.min(LANES);
            left -= filled;
            !boxes.spare(edges, own, most)[..filled].contains(&false)
        })
    }
}

impl Suppression {
    fn edges(&self, corners: &[f32]) -> Edges {
        let &[a, b, c, d] = corners else { return Edges::default() };
        if self.centred {
            return [[b - d / 2.0, b + d / 2.0], [a - c / 2.0, a + c / 2.0]];
        }
        // Any two opposite corners will do.
        [[a.min(c), a.max(c)], [b.min(d), b.max(d)]]
    }

    /// Batch, class and number of each box that stays; `check` is called meanwhile and says whether to go on.
    fn select(
        &self,
        inputs: &[Option<&Tensor>],
        check: impl Fn() -> Result<(), NodeError>,
    ) -> Result<Vec<[i64; 3]>, NodeError> {
        let input = |index: usize| inputs.get(index).copied().flatten();
        let (Some(boxes), Some(scores)) = (input(0), input(1)) else {
            return Err(refused("boxes and scores are needed"));
        };
        let &[batches, count, 4] = boxes.shape() else { return Err(mismatch(boxes, scores)) };
        let classes = match *scores.shape() {
            [same, classes, each] if same == batches && each == count => classes,
            _ => return Err(mismatch(boxes, scores)),
        };
        if u32::try_from(count).is_err() {
            return Err(NodeError::Limit { what: "boxes of an image", limit: u32::MAX.into() });
        }
        let most = match input(2).map(Tensor::to_i64_vec).transpose()?.as_deref() {
            Some(&[most]) => usize::try_from(most).unwrap_or(0),
            _ => 0,
        };
        let threshold = |index| match input(index).map(Tensor::as_slice::<f32>).transpose()? {
            Some(&[value]) => Ok::<_, NodeError>(Some(value)),
            _ => Ok(None),
        };
        let (most_overlap, least_score) = (threshold(3)?.unwrap_or(0.0), threshold(4)?);
        let (boxes, scores) = (boxes.as_slice::<f32>()?, scores.as_slice::<f32>()?);
        let mut selected = Vec::new();
        let mut unseen = 0;
        for batch in 0..batches {
            let corners = boxes[batch * count * 4..][..count * 4].chunks_exact(4);
            let edges: Vec<Edges> = corners.map(|corners| self.edges(corners)).collected();
            for class in 0..classes {
                let scores = &scores[(batch * classes + class) * count..][..count];
                check()?;
                let good = |&place: &usize| least_score.is_none_or(|least| scores[place] > least);
                let ranked = (0..count).filter(good).map(|place| rank_of(scores[place]) << 32 | place as u64);
                let mut order = Ordered::new(ranked.collected(), most);
                let mut kept = Kept::default();
                while let Some(candidate) = order.next() {
                    if kept.count >= most {
                        break;
                    }
                    unseen += kept.count;
                    if unseen >= UNSEEN {
                        unseen = 0;
                        check()?;
                    }
                    if kept.spare(edges[candidate], most_overlap) {
                        kept.push(edges[candidate]);
                        memory::reserve(&mut selected, 1);
                        selected.push([batch, class, candidate].map(|number| number as i64));
                    }
                }
            }
        }
        Ok(selected)
    }
}

/// A number that is the less the better a score is, of 32 bits. NaN, which passes no threshold, comes after all numbers.
/// ONNX says nothing of NaN, and onnxruntime leaves it wherever its heap does, mostly there.
fn rank_of(score: f32) -> u64 {
    let last = u64::from(u32::MAX);
    if score.is_nan() { last } else { last - score.ordinal() }
}

/// Places of boxes, the best score first and of equal scores the first box. Only those that are asked for are sorted:
/// mostly few of many boxes stay.
struct Ordered {
    /// A rank in the upper half, a place in the lower one.
    entries: Vec<u64>,
    /// Entries at the front that are in order.
    sorted: usize,
    /// Entries to sort next.
    share: usize,
    given: usize,
}

impl Ordered {
    /// All of these; `most` boxes are likely to stay.
    fn new(entries: Vec<u64>, most: usize) -> Ordered {
        Ordered { entries, sorted: 0, share: most.saturating_mul(2).max(64), given: 0 }
    }

    fn next(&mut self) -> Option<usize> {
        if self.given == self.sorted {
            let rest = &mut self.entries[self.sorted..];
            let share = self.share.min(rest.len());
            order_first(rest, share);
            self.sorted += share;
            self.share = self.share.saturating_mul(2);
        }
        let entry = *self.entries.get(self.given)?;
        self.given += 1;
        Some((entry & u64::from(u32::MAX)) as usize)
    }
}

fn mismatch(boxes: &Tensor, scores: &Tensor) -> NodeError {
    refused(format!("boxes of {:?} with scores of {:?}", boxes.shape(), scores.shape()))
}

impl Flow for Suppression {
    fn family(&self) -> &'static str {
        "NonMaxSuppression"
    }

    fn run(&self, inputs: Vec<Option<Value>>, cx: &mut FlowCx<'_>) -> Result<Vec<Value>, NodeError> {
        let inputs = inputs.into_iter().map(|input| input.map(Value::into_tensor).transpose());
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let selected = self.select(&inputs, || cx.check_stop())?;
        Ok(vec![Tensor::from_slice([selected.len(), 3], selected.as_flattened())?.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three boxes; the first two cover each other for the most part.
    const BOXES: [f32; 12] = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0];

    fn select(boxes: &Tensor, scores: &Tensor, most: i64, least: f32) -> Result<Vec<[i64; 3]>, NodeError> {
        let (most, overlap) = (Tensor::scalar(most), Tensor::scalar(0.5f32));
        let least = Tensor::scalar(least);
        let inputs = [boxes, scores, &most, &overlap, &least].map(Some);
        Suppression { centred: false }.select(&inputs, || Ok(()))
    }

    #[test]
    fn any_number_of_boxes_stays_in_the_order_of_scores() {
        let count = 500;
        let corners: Vec<f32> = (0..count).flat_map(|at| [0.0, 2.0 * at as f32, 1.0, 2.0 * at as f32 + 1.0]).collect();
        let scores: Vec<f32> = (0..count).map(|at| ((at * 7919) % 251) as f32 - 100.0).collect();
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        let boxes = Tensor::from_slice([1, count, 4], &corners).unwrap();
        let scores = Tensor::from_slice([1, 1, count], &scores).unwrap();
        for most in [1, 30, 31, 200, 500, 1000] {
            let selected = select(&boxes, &scores, most, f32::MIN).unwrap();
            let want: Vec<[i64; 3]> = places.iter().take(most as usize).map(|&place| [0, 0, place as i64]).collect();
            assert_eq!(selected, want, "{most}");
        }
    }

    #[test]
    fn scores_that_are_no_numbers_come_last_and_pass_no_threshold() {
        let boxes = Tensor::from_slice([1, 3, 4], &BOXES).unwrap();
        let scores = Tensor::from_slice([1, 1, 3], &[f32::NAN, 0.1, 0.5]).unwrap();
        let [most, overlap, least] = [Tensor::scalar(3i64), Tensor::scalar(0.9f32), Tensor::scalar(0f32)];
        let places = |inputs: &[Option<&Tensor>]| -> Vec<i64> {
            let selected = Suppression { centred: false }.select(inputs, || Ok(())).unwrap();
            selected.iter().map(|selected| selected[2]).collect()
        };
        assert_eq!(places(&[&boxes, &scores, &most, &overlap].map(Some)), [2, 1, 0]);
        assert_eq!(places(&[&boxes, &scores, &most, &overlap, &least].map(Some)), [2, 1]);
    }

    #[test]
    fn boxes_that_a_better_one_covers_are_dropped() {
        let boxes = Tensor::from_slice([1, 3, 4], &BOXES).unwrap();
        let scores = Tensor::from_slice([1, 1, 3], &[0.9f32, 0.95, 0.5]).unwrap();
        let row = |most, least| select(&boxes, &scores, most, least).unwrap();
        assert_eq!(row(3, 0.0), [[0, 0, 1], [0, 0, 2]]);
        assert_eq!(row(1, 0.0), [[0, 0, 1]]);
        assert_eq!(row(3, 0.6), [[0, 0, 1]]);
        assert!(row(0, 0.0).is_empty() && row(-5, 0.0).is_empty());
    }

    #[test]
    fn many_boxes_are_compared_as_pairs_are() {
        /// Intersection over union.
        fn overlap(a: Edges, b: Edges) -> f32 {
            let common = [0, 1].map(|axis| a[axis][1].min(b[axis][1]) - a[axis][0].max(b[axis][0]));
            if common.iter().any(|&length| length <= 0.0) {
                return 0.0;
            }
            let common = common[0] * common[1];
            let union = area(a) + area(b) - common;
            if area(a) <= 0.0 || area(b) <= 0.0 || union <= 0.0 { 0.0 } else { common / union }
        }
        let number = |at: usize, of: usize| ((at * 7919 + of * 104_729) % 1009) as f32 / 10.0;
        let edges = |at| [0, 1].map(|axis| [number(at, axis), number(at, axis) + number(at, axis + 2) - 5.0]);
        let mut boxes: Vec<Edges> = (0..300).map(edges).collect();
        boxes[7][0][1] = f32::NAN;
        boxes[9][1][0] = f32::INFINITY;
        for most in [0.0, 0.3, 1.0, f32::NAN] {
            let mut kept = Kept::default();
            let mut all: Vec<Edges> = Vec::new();
            for &candidate in &boxes {
                let spared = all.iter().all(|&other| overlap(candidate, other) <= most);
                assert_eq!(kept.spare(candidate, most), spared, "{candidate:?} of {}", all.len());
                if spared {
                    kept.push(candidate);
                    all.push(candidate);
                }
            }
        }
    }

    #[test]
    fn each_class_of_each_image_has_boxes_of_its_own() {
        let boxes = Tensor::from_slice([2, 3, 4], &[BOXES, BOXES].concat()).unwrap();
        let scores = [0.9f32, 0.95, 0.5, 0.9, 0.1, 0.2, 0.0, 0.0, 0.3, 0.2, 0.1, 0.0];
        let scores = Tensor::from_slice([2, 2, 3], &scores).unwrap();
        let selected = select(&boxes, &scores, 1, 0.0).unwrap();
        assert_eq!(selected, [[0, 0, 1], [0, 1, 0], [1, 0, 2], [1, 1, 0]]);
    }

    #[test]
    fn no_boxes_leave_none_and_shapes_that_do_not_agree_are_refused() {
        let none = Tensor::from_slice::<f32>([1, 0, 4], &[]).unwrap();
        let scores = Tensor::from_slice::<f32>([1, 2, 0], &[]).unwrap();
        assert!(select(&none, &scores, 3, 0.0).unwrap().is_empty());
        let boxes = Tensor::from_slice([1, 3, 4], &BOXES).unwrap();
        let scores = Tensor::from_slice([1, 1, 2], &[0f32; 2]).unwrap();
        assert!(select(&boxes, &scores, 3, 0.0).unwrap_err().to_string().contains("with scores"));
    }

    #[test]
    fn comparing_ends_when_it_is_told_to() {
        // Boxes without an area cover nothing, so all boxes stay and each is compared with all before it.
        let boxes = Tensor::from_slice([1, 1000, 4], &[0f32; 4000]).unwrap();
        let scores = Tensor::from_slice([1, 1, 1000], &[1f32; 1000]).unwrap();
        let most = Tensor::scalar(i64::MAX);
        let asked = std::cell::Cell::new(0);
        let check = || {
            asked.set(asked.get() + 1);
            if asked.get() < 10 { Ok(()) } else { Err(refused("enough")) }
        };
        let inputs = [Some(&boxes), Some(&scores), Some(&most)];
        let error = Suppression { centred: false }.select(&inputs, check).unwrap_err();
        assert!(error.to_string().contains("enough"), "{error}");
    }
}
