//! How a key states its fields, so that a test can change each of them and demand that the key changes.
//!
//! Hand-written keys rot: a field is added, and the hash, the equality or the test that should have noticed is not. So a
//! key is written once, inside [`key!`](crate::key), which derives everything that can be derived and implements
//! [`Mutate`]: every value that differs from this one in a single place. A key that consists of other structs and enums
//! has them implement `Mutate` too, through [`mutate!`](crate::mutate); both macros take the type apart completely, so
//! that a field or a variant left out does not compile. The laws that keys must obey are stated over `Mutate` in
//! `record::laws`, and one line applies them to a key type.

use serde::{Deserialize, Serialize};
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

mutate_sequences!(Vec<T> where [T: Mutate], Box<[T]> where [T: Mutate], SmallVec<[T; N]> where [T: Mutate, const N: usize]);

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

/// Declares a key struct: derives `Clone`, `Debug`, `PartialEq`, `Eq`, `Hash`, `Serialize` and `Deserialize`, and
/// implements [`Mutate`](crate::cache::Mutate) over all its fields.
///
/// ```
/// kiln::key! {
///     /// Everything that determines a matmul executor.
///     pub struct MatMulKey {
///         /// Rows of the left matrix.
///         pub m: u32,
///         /// Sizes of the batch.
///         pub batch: Vec<u32>,
///         /// The factor of the product, by its bits.
///         pub alpha: kiln::cache::F32Bits,
///     }
/// }
///
/// use kiln::cache::Mutate;
/// let paths: Vec<String> = MatMulKey::sample().mutants().into_iter().map(|(path, _)| path).collect();
/// assert!(["m", "batch[0]", "batch.len", "alpha"].iter().all(|path| paths.iter().any(|known| known == path)));
/// ```
///
/// The crate that uses the macro needs `serde`.
#[macro_export]
macro_rules! key {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $ty:ty ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        $vis struct $name { $( $(#[$field_meta])* $field_vis $field: $ty ),* }

        $crate::mutate! { struct $name { $($field),* } }
    };
}

/// Implements [`Mutate`](crate::cache::Mutate) for a struct or an enum declared elsewhere.
///
/// All fields and variants must be listed; one that is forgotten does not compile. A variant has no fields, one unnamed
/// field, or named fields.
///
/// ```
/// #[derive(Clone, Debug, PartialEq)]
/// enum Activation { None, Leaky(u32), Clip { low: u32, high: u32 } }
///
/// kiln::mutate! { enum Activation { None, Leaky(slope), Clip { low, high } } }
/// ```
#[macro_export]
macro_rules! mutate {
    (struct $name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::cache::Mutate for $name {
            fn sample() -> Self {
                $name { $($field: $crate::cache::Mutate::sample()),* }
            }

            #[allow(unused_mut, reason = "a struct without fields has no mutants")]
            fn mutants(&self) -> ::std::vec::Vec<(::std::string::String, Self)> {
                let $name { $($field),* } = self;
                let mut out = ::std::vec::Vec::new();
                $(
                    for (path, value) in $crate::cache::Mutate::mutants($field) {
                        let mut copy = ::std::clone::Clone::clone(self);
                        copy.$field = value;
                        out.push(($crate::cache::join_path(stringify!($field), &path), copy));
                    }
                )*
                out
            }
        }
    };
    (enum $name:ident { $($variant:ident $(($inner:ident))? $({ $($field:ident),* $(,)? })?),* $(,)? }) => {
        impl $crate::cache::Mutate for $name {
            fn sample() -> Self {
                let [first, ..] = [$($crate::mutate!(@sample $name $variant $(($inner))? $({ $($field),* })?)),*];
                first
            }

            #[allow(unused_mut, unused_variables, irrefutable_let_patterns, reason = "some enums have one variant, some no fields")]
            fn mutants(&self) -> ::std::vec::Vec<(::std::string::String, Self)> {
                // Exhaustive, so that a variant that is not listed does not compile.
                match self { $($name::$variant { .. } => {})* }
                let this = self;
                let mut out = ::std::vec::Vec::new();
                $($crate::mutate!(@inside this out $name $variant $(($inner))? $({ $($field),* })?);)*
                for other in [$($crate::mutate!(@sample $name $variant $(($inner))? $({ $($field),* })?)),*] {
                    if ::std::mem::discriminant(&other) != ::std::mem::discriminant(self) {
                        out.push((::std::string::String::new(), other));
                    }
                }
                out
            }
        }
    };
    (@sample $name:ident $variant:ident) => { $name::$variant };
    (@sample $name:ident $variant:ident ($inner:ident)) => { $name::$variant($crate::cache::Mutate::sample()) };
    (@sample $name:ident $variant:ident { $($field:ident),* }) => {
        $name::$variant { $($field: $crate::cache::Mutate::sample()),* }
    };
    (@inside $this:ident $out:ident $name:ident $variant:ident) => {};
    (@inside $this:ident $out:ident $name:ident $variant:ident ($inner:ident)) => {
        if let $name::$variant($inner) = $this {
            for (path, value) in $crate::cache::Mutate::mutants($inner) {
                $out.push(($crate::cache::join_path(stringify!($variant), &path), $name::$variant(value)));
            }
        }
    };
    (@inside $this:ident $out:ident $name:ident $variant:ident { $($field:ident),* }) => {
        if let $name::$variant { $($field),* } = $this {
            $(
                for (path, value) in $crate::cache::Mutate::mutants($field) {
                    let mut copy = ::std::clone::Clone::clone($this);
                    if let $name::$variant { $field: slot, .. } = &mut copy {
                        *slot = value;
                    }
                    let field = $crate::cache::join_path(stringify!($variant), stringify!($field));
                    $out.push(($crate::cache::join_path(&field, &path), copy));
                }
            )*
        }
    };
}
