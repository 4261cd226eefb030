//! Equations of Einsum: names of axes, and the dimensions that they give the output.

use smallvec::SmallVec;

use super::error::{Open, ShapeError};
use super::size::{Size, Sizes};
use super::view::{Dims, View};

/// An axis name: a letter, or a place under an ellipsis, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A place under an ellipsis.
    Hidden(usize),
    /// A letter.
    Letter(u8),
}

/// One side of an operand: names, with an ellipsis at a place among them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Term {
    before: Vec<u8>,
    /// The names behind an ellipsis, if there is one.
    after: Option<Vec<u8>>,
}

impl Term {
    fn parse(text: &str) -> Option<Term> {
        let letters =
            |text: &str| text.bytes().map(|b| b.is_ascii_alphabetic().then_some(b)).collect::<Option<Vec<u8>>>();
        match text.split_once("...") {
            None => Some(Term { before: letters(text)?, after: None }),
            Some((before, after)) => Some(Term { before: letters(before)?, after: Some(letters(after)?) }),
        }
    }

    /// A name for each of `rank` axes.
    fn names(&self, rank: usize) -> Option<Vec<Name>> {
        let after = self.after.as_deref().unwrap_or_default();
        let hidden = rank.checked_sub(self.before.len() + after.len())?;
        if hidden > 0 && self.after.is_none() {
            return None;
        }
        let letters = |names: &[u8]| names.iter().copied().map(Name::Letter).collect::<Vec<_>>();
        Some([letters(&self.before), (0..hidden).rev().map(Name::Hidden).collect(), letters(after)].concat())
    }
}

/// An equation.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    operands: Vec<Term>,
    output: Option<Term>,
}

/// The names of the axes of all operands and of the output.
pub struct Named {
    /// Of each operand.
    pub operands: Vec<Vec<Name>>,
    /// Of the output; each is also a name of an operand.
    pub output: Vec<Name>,
}

impl Equation {
    /// Reads an equation; `None` where the text is invalid.
    pub fn parse(text: &str) -> Option<Equation> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let operands = left.split(',').map(Term::parse).collect::<Option<Vec<Term>>>()?;
        let output = match right {
            Some(right) => Some(Term::parse(right)?),
            None => None,
        };
        Some(Equation { operands, output })
    }

    /// How many operands it names.
    pub fn operands(&self) -> usize {
        self.operands.len()
    }

    /// The names of the axes of operands of these ranks; `None` where the ranks do not fit the equation.
    pub fn names(&self, ranks: &[usize]) -> Option<Named> {
        if ranks.len() != self.operands.len() {
            return None;
        }
        let operands = self.operands.iter().zip(ranks).map(|(term, &rank)| term.names(rank));
        let operands = operands.collect::<Option<Vec<Vec<Name>>>>()?;
        let all: Vec<Name> = operands.iter().flatten().copied().collect();
        let hidden = all.iter().filter_map(|name| if let Name::Hidden(at) = name { Some(at + 1) } else { None });
        let hidden = hidden.max().unwrap_or(0);
        let output = match &self.output {
            Some(term) => {
                let rank = term.before.len() + term.after.as_ref().map_or(0, |after| after.len() + hidden);
                term.names(rank)?
            }
            // Without an output: the axes under ellipses, then every letter that stands once, in order.
            None => {
                let stands_once = |name: &&Name| all.iter().filter(|other| other == name).count() == 1;
                let mut once: Vec<Name> = all.iter().filter(stands_once).copied().collect();
                once.retain(|name| matches!(name, Name::Letter(_)));
                once.sort_unstable();
                (0..hidden).rev().map(Name::Hidden).chain(once).collect()
            }
        };
        let distinct = output.iter().enumerate().all(|(at, name)| !output[..at].contains(name));
        (distinct && output.iter().all(|name| all.contains(name))).then_some(Named { operands, output })
    }
}

/// The sizes of the output's names, in order.
pub(super) fn einsum(view: &View<'_>, sizes: &mut Sizes) -> Result<Dims, Open> {
    let equation = view.attributes.word("equation").and_then(Equation::parse).ok_or(Open::Unknown)?;
    let operands = (0..view.count()).map(|index| view.dims(index)).collect::<Result<SmallVec<[Dims; 2]>, Open>>()?;
    let refused = || {
        let shapes: Vec<_> = operands.iter().map(|dims| ShapeError::extents(dims)).collect();
        Open::from(ShapeError::Lists(format!("shapes {shapes:?} do not fit the equation")))
    };
    let ranks: SmallVec<[usize; 2]> = operands.iter().map(|dims| dims.len()).collect();
    let named = equation.names(&ranks).ok_or_else(refused)?;
    let mut known: SmallVec<[(Name, Size); 8]> = SmallVec::new();
    for (names, dims) in named.operands.iter().zip(&operands) {
        for (&name, &size) in names.iter().zip(dims) {
            match known.iter_mut().find(|(other, _)| *other == name) {
                Some((_, have)) => {
                    let apart = matches!((have.known(), size.known()), (Some(a), Some(b)) if a != b);
                    if apart && !have.is_one() && !size.is_one() {
                        return Err(refused());
                    }
                    *have = sizes.broadcast(*have, size);
                }
                None => known.push((name, size)),
            }
        }
    }
    let size = |name: &Name| known.iter().find(|(other, _)| other == name).map(|(_, size)| *size);
    named.output.iter().map(size).collect::<Option<Dims>>().ok_or_else(refused)
}
