//! Trees laid out for descents: records of 12 or 16 bytes, both children of a branch side by side, sixteen descents at
//! a time.
//!
//! A descent waits for a load at each step, so several are made together, of rows through one tree or of one row
//! through trees. With a thousand full trees of depth 8, a step of a row takes 1.2 ns in sixteen descents, 1.5 in eight
//! and 1.8 in four. A step has no branch: all tests except equality are brought to `value <= split`, whose result is
//! added to the place of the children. A leaf leads to itself, because its split is NaN and no value is at most NaN, so
//! that descents of different lengths may go on together.
//! different lengths may go on together.

use kiln_kernels::memory;

use super::stated::{Depth, Next, Stated, Test};

/// Descents that are made together.
pub(super) const LANES: usize = 16;

/// The types that features are compared in.
pub(super) trait Split: Copy + PartialOrd + Send + Sync {
    fn rounded(split: f64) -> Self;

    /// The next lesser number: a value below `self` is at most that number. Below the least it is NaN, which no value
    /// is at most.
    fn below(self) -> Self;
}

macro_rules! split {
    ($($float:ident)*) => {$(
        impl Split for $float {
            fn rounded(split: f64) -> Self {
                split as $float
            }

            fn below(self) -> Self {
                if self == $float::NEG_INFINITY { $float::NAN } else { self.next_down() }
            }
        }
    )*};
}

split!(f32 f64);

/// A place of a tree. The children of a branch are at `next`, for features above the split, and at the place after it.
#[derive(Clone, Copy, Debug)]
struct Record<S> {
    split: S,
    feature: u32,
    next: u32,
}

/// Properties of branches that few branches have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kind(u8);

impl Kind {
    /// A missing feature leads to the second child.
    const MISSING_IS_SECOND: u8 = 1;
    /// Only a value equal to the split leads to the second child.
    const EQUAL: u8 = 2;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    root: u32,
    depth: Depth,
}

/// The kind of steps that rows need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// All branches ask for `value <= split`, and a missing feature is above it.
    Plain,
    /// Branches say where a missing feature leads.
    Missing,
    /// Some branches ask for equality.
    Any,
}

pub(super) struct Layout<S> {
    records: Vec<Record<S>>,
    /// The properties of each record.
    kinds: Vec<Kind>,
    /// For each record, the number of the leaf that it is.
    leaves: Vec<u32>,
    trees: Vec<Tree>,
    /// The steps of rows that lack no feature, and those of other rows.
    steps: [Steps; 2],
}

/// Some rows of features, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, S> {
    pub(super) values: &'a [S],
    /// Features of each row.
    pub(super) features: usize,
}

impl<'a, S> Rows<'a, S> {
    pub(super) fn count(&self) -> usize {
        self.values.len() / self.features.max(1)
    }

    pub(super) fn part(&self, rows: std::ops::Range<usize>) -> Rows<'a, S> {
        Rows { values: &self.values[rows.start * self.features..rows.end * self.features], features: self.features }
    }
}

impl<S: Split> Layout<S> {
    /// Lays out trees; `depths` are those of their branches. `None` if there are more records than can be numbered.
    pub(super) fn of(stated: &Stated, depths: &[Option<Depth>]) -> Option<Layout<S>> {
        let mut made = Layout {
            records: memory::with_capacity(2 * stated.branches.len() + stated.roots.len()),
            kinds: Vec::new(),
            leaves: Vec::new(),
            trees: memory::with_capacity(stated.roots.len()),
            steps: [Steps::Plain; 2],
        };
        // The places of each branch's children, once they have places.
        let mut children: Vec<Option<u32>> = vec![None; stated.branches.len()];
        let mut open = Vec::new();
        for &root in &stated.roots {
            let place = made.place(&[root])?;
            let depth = if let Next::Branch(branch) = root { depths[branch as usize] } else { None };
            made.trees.push(Tree { root: place, depth: depth.unwrap_or_default() });
            open.push((place, root));
            // Children and grandchildren lie together, and then each grandchild's, so that a descent reads few lines.
            while let Some((place, next)) = open.pop() {
                for (place, child) in made.fill(stated, &mut children, place, next)?.into_iter().flatten() {
                    let grandchildren = made.fill(stated, &mut children, place, child)?;
                    open.extend(grandchildren.into_iter().flatten().rev());
                }
            }
        }
        let has = |bit: u8| made.kinds.iter().any(|kind| kind.has(bit));
        made.steps = match (has(Kind::EQUAL), has(Kind::MISSING_IS_SECOND)) {
            (true, _) => [Steps::Any; 2],
            (false, true) => [Steps::Plain, Steps::Missing],
            (false, false) => [Steps::Plain; 2],
        };
        Some(made)
    }

    /// Places for these nodes, side by side, each a leaf until it is filled.
    fn place(&mut self, nexts: &[Next]) -> Option<u32> {
        let first = u32::try_from(self.records.len()).ok()?;
        for &next in nexts {
            let own = u32::try_from(self.records.len()).ok()?;
            self.records.push(Record { split: S::rounded(f64::NAN), feature: 0, next: own });
            self.kinds.push(Kind::default());
            self.leaves.push(if let Next::Leaf(leaf) = next { leaf } else { 0 });
        }
        Some(first)
    }

    /// Makes the record at `place` that of a branch; returns its children if they got their places by that.
    fn fill(
        &mut self,
        stated: &Stated,
        children: &mut [Option<u32>],
        place: u32,
        next: Next,
    ) -> Option<[Option<(u32, Next)>; 2]> {
        let Next::Branch(number) = next else { return Some([None; 2]) };
        let branch = &stated.branches[number as usize];
        let (split, [yes, no]) = (S::rounded(branch.split), branch.next);
        // A test against a NaN holds for no value, so every value leads to the test's second side.
        let all = S::rounded(if branch.split.is_nan() { f64::INFINITY } else { branch.split });
        let (split, pair) = match branch.test {
            Test::AtMost | Test::Equal => (split, [no, yes]),
            Test::Below => (split.below(), [no, yes]),
            Test::Above => (all, [yes, no]),
            Test::AtLeast if branch.split.is_nan() => (all, [yes, no]),
            Test::AtLeast => (all.below(), [yes, no]),
            Test::Unequal => (split, [yes, no]),
        };
        let missing_is_second = match branch.test {
            Test::AtMost | Test::Below | Test::Equal => branch.missing,
            Test::AtLeast | Test::Above => !branch.missing,
            // A missing feature is not equal to the split.
            Test::Unequal => false,
        };
        let is_equality = matches!(branch.test, Test::Equal | Test::Unequal);
        let bits = [(missing_is_second, Kind::MISSING_IS_SECOND), (is_equality, Kind::EQUAL)];
        let known = children[number as usize];
        let first = match known {
            Some(first) => first,
            None => self.place(&pair)?,
        };
        children[number as usize] = Some(first);
        self.kinds[place as usize] = Kind(bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum());
        self.records[place as usize] = Record { split, feature: branch.feature, next: first };
        Some(match known {
            Some(_) => [None; 2],
            None => [Some((first, pair[0])), Some((first + 1, pair[1]))],
        })
    }

    pub(super) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Steps of a descent through all trees.
    pub(super) fn steps(&self) -> usize {
        self.trees.iter().map(|tree| tree.depth.most as usize).sum()
    }

    /// The steps that these rows need.
    fn steps_of(&self, rows: &Rows<'_, S>) -> Steps {
        let [whole, missing] = self.steps;
        // Only NaN is not equal to itself.
        let lacks = |value: &S| value.partial_cmp(value).is_none();
        if whole != missing && rows.values.iter().fold(false, |any, value| any | lacks(value)) {
            missing
        } else {
            whole
        }
    }

    /// The leaves that rows end in, tree by tree: `each(tree, first row, leaves)` for groups of rows; the last group
    /// may have fewer.
    pub(super) fn descend_rows(&self, rows: &Rows<'_, S>, mut each: impl FnMut(usize, &[u32])) {
        let steps = self.steps_of(rows);
        for &tree in &self.trees {
            for first in (0..rows.count()).step_by(LANES) {
                let count = LANES.min(rows.count() - first);
                let offsets = std::array::from_fn(|lane| (first + lane.min(count - 1)) * rows.features);
                let ends = self.descend(steps, [tree; LANES], rows.values, offsets);
                each(first, &ends[..count]);
            }
        }
    }

    /// The leaves that one row ends in, in the trees from `first` on.
    pub(super) fn descend_row(&self, row: &Rows<'_, S>, first: usize, to: &mut [u32]) {
        let steps = self.steps_of(row);
        for (trees, to) in self.trees[first..].chunks(LANES).zip(to.chunks_mut(LANES)) {
            let trees = std::array::from_fn(|lane| trees[lane.min(trees.len() - 1)]);
            let ends = self.descend(steps, trees, row.values, [0; LANES]);
            to.copy_from_slice(&ends[..to.len()]);
        }
    }

    /// The leaves that the rows at these offsets end in, each in a tree.
    fn descend(&self, steps: Steps, trees: [Tree; LANES], values: &[S], offsets: [usize; LANES]) -> [u32; LANES] {
        let is_missing = |kind: Kind, value: S| kind.has(Kind::MISSING_IS_SECOND) & value.partial_cmp(&value).is_none();
        match steps {
            Steps::Plain => self.descend_by(trees, values, offsets, |_, split, value| value <= split),
            Steps::Missing => self.descend_by(trees, values, offsets, |place, split, value| {
                (value <= split) | is_missing(self.kinds[place], value)
            }),
            Steps::Any => self.descend_by(trees, values, offsets, |place, split, value| {
                let kind = self.kinds[place];
                let is_second = if kind.has(Kind::EQUAL) { value == split } else { value <= split };
                is_second | is_missing(kind, value)
            }),
        }
    }

    /// As [`Layout::descend`], where `is_second(place, split, value)` says which child is next.
    #[inline(always)]
    fn descend_by(
        &self,
        trees: [Tree; LANES],
        values: &[S],
        offsets: [usize; LANES],
        is_second: impl Fn(usize, S, S) -> bool,
    ) -> [u32; LANES] {
        let mut places = trees.map(|tree| tree.root);
        let step = |places: &mut [u32; LANES]| {
            for (place, offset) in places.iter_mut().zip(&offsets) {
                let Record { split, feature, next } = self.records[*place as usize];
                let value = values[offset + feature as usize];
                *place = next + u32::from(is_second(*place as usize, split, value));
            }
        };
        let least = trees.iter().map(|tree| tree.depth.least).min().unwrap_or(0);
        let most = trees.iter().map(|tree| tree.depth.most).max().unwrap_or(0);
        for _ in 0..least {
            step(&mut places);
        }
        // From here on some places may be leaves, and once all are, nothing moves.
        for _ in least..most {
            let before = places;
            step(&mut places);
            if places == before {
                break;
            }
        }
        places.map(|place| self.leaves[place as usize])
    }
}
