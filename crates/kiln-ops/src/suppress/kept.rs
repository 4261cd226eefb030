//! The boxes that stay, and the comparison of a candidate with all of them.
//!
//! A few boxes are one list. A long list is cut into a grid along one axis: boxes that have nothing in common are not
//! compared. A detector's classes are often told apart by an offset of their boxes, so that tens of thousands of boxes
//! stay and a candidate meets only those of its class.

use kiln_kernels::memory;

/// Lower and upper edge along two axes.
pub(super) type Edges = [[f32; 2]; 2];

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

/// Boxes in the order in which they came.
#[derive(Clone, Default)]
struct List {
    all: Vec<Boxes>,
    count: usize,
}

impl List {
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

    fn iter(&self) -> impl Iterator<Item = Edges> {
        let edges = |boxes: &Boxes, lane: usize| boxes.edges.map(|axis| axis.map(|edges| edges[lane]));
        (0..self.count).map(move |at| edges(&self.all[at / LANES], at % LANES))
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

/// Boxes in strips along an axis. A box is in every strip that it reaches into.
struct Grid {
    axis: usize,
    low: f32,
    /// Strips of a unit of length.
    scale: f32,
    strips: Vec<List>,
    /// Boxes that reach into too many strips, or whose edges are no numbers: every candidate meets them.
    wide: List,
}

impl Grid {
    const MOST_STRIPS: f32 = 1024.0;
    /// Fewer strips than these save too little.
    const FEWEST_STRIPS: f32 = 8.0;
    /// Most strips that a box is kept in.
    const SPAN: usize = 8;

    /// The grid for such boxes: a strip is as wide as a box is on average. `None` where strips would be few.
    fn new(boxes: &[Edges]) -> Option<Grid> {
        let finite = || boxes.iter().filter(|edges| is_finite(**edges));
        let along = |axis: usize| {
            let (mut low, mut high, mut length, mut count) = (f32::INFINITY, f32::NEG_INFINITY, 0.0, 0.0f64);
            for [from, to] in finite().map(|edges| edges[axis]) {
                (low, high) = (low.min(from).min(to), high.max(from).max(to));
                (length, count) = (length + f64::from((to - from).abs()), count + 1.0);
            }
            let strips = (f64::from(high - low) * count / length.max(f64::MIN_POSITIVE)) as f32;
            (strips.min(Grid::MOST_STRIPS), low, high, axis)
        };
        let (strips, low, high, axis) = [along(0), along(1)].into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let scale = strips / (high - low);
        if !(strips >= Grid::FEWEST_STRIPS && scale.is_finite()) {
            return None;
        }
        Some(Grid { axis, low, scale, strips: vec![List::default(); strips as usize], wide: List::default() })
    }

    /// The first and the last strip that a box reaches into; `None` where its edges are no numbers. Strips do not
    /// decrease along the axis, so boxes with something in common have a strip in common.
    fn span(&self, edges: Edges) -> Option<(usize, usize)> {
        let last = self.strips.len() - 1;
        let [from, to] = edges[self.axis].map(|edge| (((edge - self.low) * self.scale) as usize).min(last));
        is_finite(edges).then_some((from.min(to), from.max(to)))
    }

    fn push(&mut self, edges: Edges) {
        match self.span(edges).filter(|(first, last)| last - first < Grid::SPAN) {
            Some((first, last)) => self.strips[first..=last].iter_mut().for_each(|strip| strip.push(edges)),
            None => self.wide.push(edges),
        }
    }

    fn spare(&self, edges: Edges, most: f32) -> bool {
        let strips = match self.span(edges) {
            Some((first, last)) => &self.strips[first..=last],
            None => &self.strips,
        };
        self.wide.spare(edges, most) && strips.iter().all(|strip| strip.spare(edges, most))
    }
}

fn is_finite(edges: Edges) -> bool {
    edges.as_flattened().iter().all(|edge| edge.is_finite())
}

/// The boxes that stay so far.
pub(super) struct Kept<'a> {
    /// All boxes that may come.
    boxes: &'a [Edges],
    /// The most that two boxes may share of their union.
    most: f32,
    few: List,
    many: Option<Grid>,
    count: usize,
}

impl<'a> Kept<'a> {
    /// As many boxes are compared faster than a grid is made.
    const FEW: usize = 512;

    pub(super) fn new(boxes: &'a [Edges], most: f32) -> Kept<'a> {
        Kept { boxes, most, few: List::default(), many: None, count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, edges: Edges) {
        self.count += 1;
        // Boxes that share nothing are spared without a comparison, unless even that is too much.
        if self.count == Kept::FEW && self.most >= 0.0 {
            self.many = Grid::new(self.boxes);
            if let Some(grid) = &mut self.many {
                std::mem::take(&mut self.few).iter().for_each(|edges| grid.push(edges));
            }
        }
        match &mut self.many {
            Some(grid) => grid.push(edges),
            None => self.few.push(edges),
        }
    }

    /// Whether no box of these shares too much with that box.
    pub(super) fn spare(&self, edges: Edges) -> bool {
        match &self.many {
            Some(grid) => grid.spare(edges, self.most),
            None => self.few.spare(edges, self.most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Compares candidates with those before them that stay, one pair after the other.
    fn agree(boxes: &[Edges], has_grid: bool) {
        for most in [0.0, 0.3, 1.0, f32::NAN, -1.0] {
            let mut kept = Kept::new(boxes, most);
            let mut all: Vec<Edges> = Vec::new();
            for &candidate in boxes {
                let spared = all.iter().all(|&other| overlap(candidate, other) <= most);
                assert_eq!(kept.spare(candidate), spared, "{candidate:?} of {}, {most}", all.len());
                if spared {
                    kept.push(candidate);
                    all.push(candidate);
                }
            }
            assert_eq!(kept.count(), all.len());
            assert_eq!(kept.many.is_some(), has_grid && all.len() >= Kept::FEW, "{most}");
        }
    }

    fn number(at: usize, of: usize) -> f32 {
        ((at * 7919 + of * 104_729) % 1009) as f32 / 10.0
    }

    #[test]
    fn many_boxes_are_compared_as_pairs_are() {
        let edges = |at| [0, 1].map(|axis| [number(at, axis), number(at, axis) + number(at, axis + 2) - 5.0]);
        let mut boxes: Vec<Edges> = (0..300).map(edges).collect();
        boxes[7][0][1] = f32::NAN;
        boxes[9][1][0] = f32::INFINITY;
        agree(&boxes, false);
    }

    #[test]
    fn boxes_in_strips_are_compared_as_pairs_are() {
        for axis in [0, 1] {
            let edges = |at: usize| {
                let mut edges = [0, 1].map(|axis| [number(at, axis), number(at, axis) + number(at, axis + 2) / 6.0]);
                // Boxes of forty classes, each with an offset.
                edges[axis].iter_mut().for_each(|edge| *edge += (at % 40) as f32 * 150.0 - 900.0);
                edges
            };
            let mut boxes: Vec<Edges> = (0..2000).map(edges).collect();
            // One as wide as all, one that ends beyond all numbers, one without a place, one the wrong way round.
            boxes[20][axis] = [-2000.0, 9000.0];
            boxes[700][axis][1] = f32::INFINITY;
            boxes[800][0][0] = f32::NAN;
            boxes[900][axis].reverse();
            agree(&boxes, true);
        }
        let one_place = vec![[[1.0, 1.0], [2.0, 2.0]]; 1000];
        agree(&one_place, false);
    }
}
