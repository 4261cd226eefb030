//! NonMaxSuppression: of boxes that overlap, the one with the best score stays.
//!
//! How many stay is known when the boxes have been compared, and boxes differ in each request. So this is a
//! [`Flow`], which makes its output when it runs, and not a node, whose output's size is inferred before.

mod kept;

use kiln_kernels::memory::{self, Collect};
use kiln_model::Value;
use kiln_run::{Flow, FlowCx, NodeError};
use kiln_tensor::Tensor;

use self::kept::{Edges, Kept};
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
                let mut kept = Kept::new(&edges, most_overlap);
                while let Some(candidate) = order.next() {
                    if kept.count() >= most {
                        break;
                    }
                    unseen += kept.count();
                    if unseen >= UNSEEN {
                        unseen = 0;
                        check()?;
                    }
                    if kept.spare(edges[candidate]) {
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
