//! Trees as a model states them: branches and leaves by their numbers, checked before they are laid out.
//!
//! A model's trees are untrusted: a branch that leads back into itself would never end a descent.

use kiln_kernels::memory;
use kiln_model::{Attr, NodeDesc};

use crate::OpError;
use crate::wide::widened;

/// How a feature is compared with the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    AtMost,
    Below,
    AtLeast,
    Above,
    Equal,
    Unequal,
}

/// Where a test leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Branch(u32),
    Leaf(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    pub(super) feature: u32,
    pub(super) test: Test,
    pub(super) split: f64,
    /// Whether a missing feature passes the test.
    pub(super) missing: bool,
    /// Where the branch leads if the test holds, and if not.
    pub(super) next: [Next; 2],
}

/// All trees of a node. Branches may share children.
#[derive(Clone, Debug, Default)]
pub(super) struct Stated {
    pub(super) branches: Vec<Branch>,
    pub(super) roots: Vec<Next>,
}

/// How many tests lie between a place and the leaves below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    pub(super) least: u32,
    pub(super) most: u32,
}

/// A tree leads back into itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circle;

impl Stated {
    /// The depth below each branch that a root leads to; `None` for other branches.
    pub(super) fn depths(&self) -> Result<Vec<Option<Depth>>, Circle> {
        let mut depths: Vec<Option<Depth>> = vec![None; self.branches.len()];
        let mut is_open = memory::filled(false, self.branches.len());
        let branch = |next: &Next| if let Next::Branch(place) = *next { Some(place as usize) } else { None };
        let mut path: Vec<usize> = Vec::new();
        for root in self.roots.iter().filter_map(branch) {
            path.push(root);
            while let Some(&place) = path.last() {
                if depths[place].is_some() {
                    path.pop();
                    continue;
                }
                let next = &self.branches[place].next;
                let mut waits = next.iter().filter_map(branch).filter(|&next| depths[next].is_none()).peekable();
                if waits.peek().is_none() {
                    let of = |next: &Next| branch(next).and_then(|next| depths[next]).unwrap_or_default();
                    let [yes, no] = [of(&next[0]), of(&next[1])];
                    depths[place] = Some(Depth { least: 1 + yes.least.min(no.least), most: 1 + yes.most.max(no.most) });
                    path.pop();
                    continue;
                }
                // A branch that is met again while it is open leads back into itself.
                if std::mem::replace(&mut is_open[place], true) {
                    return Err(Circle);
                }
                path.extend(waits);
            }
        }
        Ok(depths)
    }
}

/// Numbers under a name, or as a tensor under the name that ends in `_as_tensor`.
pub(super) fn floats(node: &NodeDesc, name: &str) -> Result<Vec<f64>, OpError> {
    match (node.attrs.get(&format!("{name}_as_tensor")), node.floats(name)) {
        (Some(Attr::Tensor(tensor)), _) => {
            widened(tensor).map_err(|error| OpError::invalid(node, format!("{name}: {error}")))
        }
        (_, Some(values)) => Ok(values.iter().copied().map(f64::from).collect()),
        _ => Ok(Vec::new()),
    }
}
