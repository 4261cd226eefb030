//! How a key states its fields, so that a test can change each of them and demand that the key changes.
//!
//! Hand-written keys rot: a field is added, and the hash, the equality or the test that should have noticed is not. So
//! hash and equality are derived, and so is [`Mutate`]: every value that differs from this one in a single place. A key
//! that consists of other structs and enums has them derive `Mutate` too. The laws that keys must obey are stated over
//! `Mutate` in [`laws`](crate::laws).

use serde::{Deserialize, Serialize};
#[cfg(feature = "smallvec")]
use smallvec::SmallVec;

/// A value that can name its neighbours: the values that differ from it in one place.
pub trait Mutate: Clone {
    /// Some value of the type.
    fn sample() -> Self;

    /// Values that differ from this one in one place each, every place at least once, with the path of the place:
    /// `"shape[1]"`, `"policy.block"`. Empty only for a type that has a single value.
    fn mutants(&self) -> Vec<(String, Self)>;
}

/// Puts a field's name before the path inside it.
#[doc(hidden)]
#[must_use]
pub fn join_path(field: &str, inner: &str) -> String {
    match inner.chars().next() {
        _ if field.is_empty() => inner.to_owned(),
        None => field.to_owned(),
        Some('[' | '.') => format!("{field}{inner}"),
        Some(_) => format!("{field}.{inner}"),
    }
}

/// An `f32` as a key may hold it: by its bits, so that equality is total and equal keys build equal code.
///
/// `0.0` and `-0.0` are two values, a NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct F32Bits(u32);

impl F32Bits {
    /// The value, as a key holds it.
    #[must_use]
    pub const fn new(value: f32) -> F32Bits {
        F32Bits(value.to_bits())
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for F32Bits {
    fn from(value: f32) -> F32Bits {
        F32Bits::new(value)
    }
}

impl std::fmt::Debug for F32Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.get(), f)
    }
}

impl Mutate for F32Bits {
    fn sample() -> F32Bits {
        F32Bits::new(1.0)
    }

    fn mutants(&self) -> Vec<(String, F32Bits)> {
        self.0.mutants().into_iter().map(|(path, bits)| (path, F32Bits(bits))).collect()
    }
}

macro_rules! mutate_integers {
    ($($integer:ty),*) => {$(
        impl Mutate for $integer {
            fn sample() -> $integer {
                1
            }

            /// The next number, and the number with its highest bit flipped, which a narrowing cast would not see.
            fn mutants(&self) -> Vec<(String, $integer)> {
                let high = 1 << (<$integer>::BITS - 1);
                vec![(String::new(), self.wrapping_add(1)), (String::new(), self ^ high)]
            }
        }
    )*};
}

// No `usize`: its width differs between machines, and a key must mean the same on all of them.
mutate_integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Mutate for bool {
    fn sample() -> bool {
        false
    }

    fn mutants(&self) -> Vec<(String, bool)> {
        vec![(String::new(), !self)]
    }
}

impl Mutate for String {
    fn sample() -> String {
        "a".to_owned()
    }

    fn mutants(&self) -> Vec<(String, String)> {
        let mut out = vec![(String::new(), format!("{self}b"))];
        if !self.is_empty() {
            out.push((String::new(), String::new()));
        }
        out
    }
}

impl<T: Mutate> Mutate for Option<T> {
    fn sample() -> Option<T> {
        None
    }

    fn mutants(&self) -> Vec<(String, Option<T>)> {
        match self {
            None => vec![(String::new(), Some(T::sample()))],
            Some(inner) => {
                let inner = inner.mutants().into_iter().map(|(path, value)| (path, Some(value)));
                inner.chain([(String::new(), None)]).collect()
            }
        }
    }
}

impl<T: Mutate, const N: usize> Mutate for [T; N] {
    fn sample() -> [T; N] {
        std::array::from_fn(|_| T::sample())
    }

    fn mutants(&self) -> Vec<(String, [T; N])> {
        element_mutants(self, |index, value| {
            let mut copy = self.clone();
            copy[index] = value;
            copy
        })
    }
}

/// Each element changed, through `with(index, new element)`.
fn element_mutants<T: Mutate, C>(elements: &[T], with: impl Fn(usize, T) -> C) -> Vec<(String, C)> {
    let mut out = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        for (path, value) in element.mutants() {
            out.push((join_path(&format!("[{index}]"), &path), with(index, value)));
        }
    }
    out
}

macro_rules! mutate_sequences {
    ($($sequence:ty where [$($generics:tt)*]),* $(,)?) => {$(
        impl<$($generics)*> Mutate for $sequence {
            fn sample() -> Self {
                [T::sample()].into_iter().collect()
            }

            /// Each element changed, one element more, and one less.
            fn mutants(&self) -> Vec<(String, Self)> {
                let with = |index: usize, value: T| {
                    let mut copy = self.clone();
                    copy[index] = value;
                    copy
                };
                let mut out = element_mutants(self, with);
                out.push(("len".to_owned(), self.iter().cloned().chain([T::sample()]).collect()));
                if !self.is_empty() {
                    out.push(("len".to_owned(), self[..self.len() - 1].iter().cloned().collect()));
                }
                out
            }
        }
    )*};
}

mutate_sequences!(Vec<T> where [T: Mutate], Box<[T]> where [T: Mutate]);
#[cfg(feature = "smallvec")]
mutate_sequences!(SmallVec<[T; N]> where [T: Mutate, const N: usize]);

impl<A: Mutate, B: Mutate> Mutate for (A, B) {
    fn sample() -> (A, B) {
        (A::sample(), B::sample())
    }

    fn mutants(&self) -> Vec<(String, (A, B))> {
        let (a, b) = self;
        let first = a.mutants().into_iter().map(|(path, a)| (join_path("0", &path), (a, b.clone())));
        let second = b.mutants().into_iter().map(|(path, b)| (join_path("1", &path), (a.clone(), b)));
        first.chain(second).collect()
    }
}
