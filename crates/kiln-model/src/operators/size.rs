//! Sizes that may be unknown: numbers, or symbols that stand for the same number wherever they occur.
//!
//! A symbol stands for a name, for an unknown size, or for a computation with other sizes. The same computation on the
//! same sizes gives the same symbol. There is no further algebra but sums with constants and the few cancellations that
//! shape arithmetic in models needs.

use hashbrown::HashMap;

/// A size, or any integer computed from sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Size {
    /// This number.
    Known(i64),
    /// A symbol plus a number.
    Symbol {
        /// Which symbol.
        id: u32,
        /// The number that is added to it.
        plus: i64,
    },
}

impl Size {
    /// The number, if it is one.
    pub fn known(self) -> Option<i64> {
        match self {
            Size::Known(value) => Some(value),
            Size::Symbol { .. } => None,
        }
    }

    /// Whether it is certainly one.
    pub(crate) fn is_one(self) -> bool {
        self == Size::Known(1)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Named(String),
    /// A dimension that has no name, by a number of its own.
    Unnamed(u32),
    Sum(Size, Size),
    Difference(Size, Size),
    Product(Size, Size),
    Quotient(Size, Size),
    Broadcast(Size, Size),
    /// Any other computation, told apart by a name and its operands.
    Other(&'static str, Size, Size),
}

/// The number of `size` elements before `end`; a negative `end` counts from the last one.
fn front(end: i64, size: i64) -> i64 {
    if end < 0 { size.saturating_add(end).max(0) } else { end.min(size) }
}

/// The symbols of one graph.
#[derive(Debug, Default)]
pub struct Sizes {
    symbols: HashMap<Origin, u32>,
    origins: Vec<Option<Origin>>,
}

impl Sizes {
    /// An unknown size.
    pub(crate) fn fresh(&mut self) -> Size {
        self.origins.push(None);
        Size::Symbol { id: (self.origins.len() - 1) as u32, plus: 0 }
    }

    /// The size that the model calls by that name.
    pub(crate) fn named(&mut self, name: &str) -> Size {
        self.symbol(Origin::Named(name.to_owned()))
    }

    /// The size of a dimension that the model does not name.
    pub(crate) fn unnamed(&mut self) -> Size {
        self.symbol(Origin::Unnamed(self.origins.len() as u32))
    }

    /// Whether a number is certainly not negative: a dimension, or a sum or product of dimensions.
    fn is_natural(&self, size: Size) -> bool {
        // Computations nest as deep as a graph is long; a few levels are what models have.
        const MOST: usize = 16;
        let mut open = vec![size];
        for _ in 0..MOST {
            let (id, plus) = match open.pop() {
                None => return true,
                Some(Size::Known(value)) if value >= 0 => continue,
                Some(Size::Known(_)) => return false,
                Some(Size::Symbol { id, plus }) => (id, plus),
            };
            match self.origins.get(id as usize) {
                _ if plus < 0 => return false,
                Some(Some(Origin::Named(_) | Origin::Unnamed(_))) => {}
                Some(&Some(Origin::Sum(a, b) | Origin::Product(a, b) | Origin::Broadcast(a, b))) => open.extend([a, b]),
                _ => return false,
            }
        }
        false
    }

    /// Whether two numbers are equal, where that is certain.
    pub(crate) fn equal(&self, a: Size, b: Size) -> Option<bool> {
        match (a, b) {
            _ if a == b => Some(true),
            (Size::Known(_), Size::Known(_)) => Some(false),
            (Size::Known(known), other) | (other, Size::Known(known)) if known < 0 && self.is_natural(other) => {
                Some(false)
            }
            _ => None,
        }
    }

    fn symbol(&mut self, origin: Origin) -> Size {
        if let Some(&id) = self.symbols.get(&origin) {
            return Size::Symbol { id, plus: 0 };
        }
        let id = self.origins.len() as u32;
        self.origins.push(Some(origin.clone()));
        self.symbols.insert(origin, id);
        Size::Symbol { id, plus: 0 }
    }

    fn origin(&self, size: Size) -> Option<&Origin> {
        match size {
            Size::Symbol { id, plus: 0 } => self.origins.get(id as usize)?.as_ref(),
            _ => None,
        }
    }

    /// a + b
    pub(crate) fn add(&mut self, a: Size, b: Size) -> Size {
        let sum = match (a, b) {
            (Size::Known(a), Size::Known(b)) => a.checked_add(b).map(Size::Known),
            (Size::Known(known), Size::Symbol { id, plus }) | (Size::Symbol { id, plus }, Size::Known(known)) => {
                plus.checked_add(known).map(|plus| Size::Symbol { id, plus })
            }
            _ => return self.symbol(Origin::Sum(a.min(b), a.max(b))),
        };
        sum.unwrap_or_else(|| self.fresh())
    }

    /// a - b
    pub(crate) fn sub(&mut self, a: Size, b: Size) -> Size {
        let difference = match (a, b) {
            (Size::Symbol { id: x, plus: a }, Size::Symbol { id: y, plus: b }) if x == y => {
                a.checked_sub(b).map(Size::Known)
            }
            (_, Size::Known(known)) => match known.checked_neg() {
                Some(negative) => return self.add(a, Size::Known(negative)),
                None => None,
            },
            _ => {
                // (x + y) - y is x: how a concatenation is undone.
                if let Some(&Origin::Sum(x, y)) = self.origin(a)
                    && (x == b || y == b)
                {
                    return if x == b { y } else { x };
                }
                return self.symbol(Origin::Difference(a, b));
            }
        };
        difference.unwrap_or_else(|| self.fresh())
    }

    /// a * b
    pub(crate) fn mul(&mut self, a: Size, b: Size) -> Size {
        let product = match (a, b) {
            (Size::Known(a), Size::Known(b)) => a.checked_mul(b).map(Size::Known),
            (Size::Known(1), other) | (other, Size::Known(1)) => Some(other),
            (Size::Known(0), _) | (_, Size::Known(0)) => Some(Size::Known(0)),
            _ => return self.symbol(Origin::Product(a.min(b), a.max(b))),
        };
        product.unwrap_or_else(|| self.fresh())
    }

    /// a / b rounded towards zero, which for sizes is rounding down.
    pub(crate) fn div(&mut self, a: Size, b: Size) -> Size {
        match (a, b) {
            (Size::Known(a), Size::Known(b)) => match a.checked_div(b) {
                Some(quotient) => Size::Known(quotient),
                None => self.fresh(),
            },
            (_, Size::Known(1)) => a,
            _ => {
                if let Some(&Origin::Product(x, y)) = self.origin(a) {
                    // A known factor is the smaller one, because numbers sort before symbols.
                    match (x, y, b) {
                        (Size::Known(x), _, Size::Known(b)) if b != 0 && x % b == 0 => {
                            return self.mul(Size::Known(x / b), y);
                        }
                        _ if x == b && b.known() != Some(0) => return y,
                        _ if y == b && b.known() != Some(0) => return x,
                        _ => {}
                    }
                }
                self.symbol(Origin::Quotient(a, b))
            }
        }
    }

    /// How many elements a slice of `size` elements from the first to `end` has; a negative end counts from the last.
    pub(crate) fn front(&mut self, end: Size, size: Size) -> Size {
        match (end, size) {
            (Size::Known(end), Size::Known(size)) => Size::Known(front(end, size)),
            _ => self.symbol(Origin::Other("front", end, size)),
        }
    }

    /// Whether `size` is the length of a slice up to `whole` of a known number of elements, at least 1. Then both
    /// broadcast to `whole`, or not at all.
    fn is_front_of(&self, size: Size, whole: Size) -> bool {
        matches!(self.origin(size), Some(&Origin::Other("front", end, Size::Known(1..))) if end == whole)
    }

    /// The size that `a` and `b` broadcast to, if they broadcast.
    pub(crate) fn broadcast(&mut self, a: Size, b: Size) -> Size {
        match (a, b) {
            _ if a == b || self.is_front_of(b, a) => a,
            _ if self.is_front_of(a, b) => b,
            (Size::Known(1), other) | (other, Size::Known(1)) => other,
            // The other side is 1 or the same.
            (Size::Known(known), _) | (_, Size::Known(known)) => Size::Known(known),
            _ => self.symbol(Origin::Broadcast(a.min(b), a.max(b))),
        }
    }

    /// A computation that is told apart by its name and operands alone.
    pub(crate) fn other(&mut self, name: &'static str, a: Size, b: Size) -> Size {
        self.symbol(Origin::Other(name, a, b))
    }

    /// Whether `size` is a broadcast of `part` with something else, so that it is `part` unless `part` is 1.
    pub(crate) fn may_broadcast_from(&self, size: Size, part: Size) -> bool {
        // Broadcasts nest as deep as a graph is long; a few levels are what models have.
        const MOST: usize = 16;
        let mut open = vec![size];
        for _ in 0..MOST {
            let Some(size) = open.pop() else { return false };
            if let Some(&Origin::Broadcast(a, b)) = self.origin(size) {
                if a == part || b == part {
                    return true;
                }
                open.extend([a, b]);
            }
        }
        false
    }

    /// The value of a size for these values of names; `None` where it depends on an unknown size, or on sizes that do
    /// not fit together.
    pub fn value(&self, size: Size, named: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        // Computations nest as deep as a graph is long; a few levels are what models have.
        self.value_within(size, named, 64)
    }

    fn value_within(&self, size: Size, named: &dyn Fn(&str) -> Option<i64>, levels: usize) -> Option<i64> {
        let (id, plus) = match size {
            Size::Known(value) => return Some(value),
            Size::Symbol { id, plus } => (id, plus),
        };
        let left = levels.checked_sub(1)?;
        let both =
            |a: &Size, b: &Size| Some((self.value_within(*a, named, left)?, self.value_within(*b, named, left)?));
        let value = match self.origins.get(id as usize)?.as_ref()? {
            Origin::Named(name) => named(name)?,
            Origin::Unnamed(_) => return None,
            Origin::Sum(a, b) => both(a, b).and_then(|(a, b)| a.checked_add(b))?,
            Origin::Difference(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b))?,
            Origin::Product(a, b) => both(a, b).and_then(|(a, b)| a.checked_mul(b))?,
            Origin::Quotient(a, b) => both(a, b).and_then(|(a, b)| a.checked_div(b))?,
            Origin::Broadcast(a, b) => match both(a, b)? {
                (1, other) | (other, 1) => other,
                (a, b) => Some(a).filter(|&a| a == b)?,
            },
            Origin::Other("floor", a, b) => both(a, b).and_then(|(a, b)| a.checked_div_euclid(b))?,
            Origin::Other("max", a, b) => both(a, b).map(|(a, b)| a.max(b))?,
            Origin::Other("front", a, b) => both(a, b).map(|(end, size)| front(end, size))?,
            Origin::Other(..) => return None,
        };
        value.checked_add(plus)
    }

    /// The product of all sizes.
    pub(crate) fn product(&mut self, sizes: &[Size]) -> Size {
        if let Some(product) = sizes.iter().try_fold(1i64, |product, size| product.checked_mul(size.known()?)) {
            return Size::Known(product);
        }
        // In a fixed order, so that the same factors give the same symbol.
        let mut sorted = sizes.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().fold(Size::Known(1), |product, size| self.mul(product, size))
    }

    /// The product of `of` divided by the factors in `by`: the -1 of a reshape.
    pub(crate) fn ratio(&mut self, of: &[Size], by: &[Size]) -> Size {
        let mut left = self.factors(of);
        let mut divisor = Vec::new();
        for factor in self.factors(by) {
            match left.iter().position(|&size| size == factor) {
                Some(place) => drop(left.swap_remove(place)),
                None => divisor.push(factor),
            }
        }
        let known = |sizes: &[Size]| sizes.iter().filter_map(|size| size.known()).try_fold(1i64, i64::checked_mul);
        let (Some(a), Some(b)) = (known(&left), known(&divisor)) else { return self.fresh() };
        left.retain(|size| size.known().is_none());
        divisor.retain(|size| size.known().is_none());
        if divisor.is_empty() && b != 0 && a % b == 0 {
            left.push(Size::Known(a / b));
            return self.product(&left);
        }
        left.push(Size::Known(a));
        divisor.push(Size::Known(b));
        let (of, by) = (self.product(&left), self.product(&divisor));
        self.div(of, by)
    }

    /// Products taken apart, as far as they were put together here.
    fn factors(&self, sizes: &[Size]) -> Vec<Size> {
        // Far more factors than a shape has.
        const MOST: usize = 32;
        let mut open = sizes.to_vec();
        let mut factors = Vec::new();
        while let Some(size) = open.pop() {
            match self.origin(size) {
                Some(&Origin::Product(a, b)) if open.len() + factors.len() < MOST => open.extend([a, b]),
                _ => factors.push(size),
            }
        }
        factors
    }
}
