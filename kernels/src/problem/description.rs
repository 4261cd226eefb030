//! Descriptions of problems and of their blocks, as keys and records hold them.
//!
//! A description is plain data of a fixed width, because a key means the same on every machine. Memory is counted in
//! `usize`: [`sizes`] gives a description a method for each of its sizes, with the field's name, that returns `usize`.

/// A value of a fixed width that can be counted in `T`.
pub(crate) trait Counted<T> {
    fn counted(self) -> T;
}

macro_rules! counted {
    ($($width:ty),*) => {$(
        impl Counted<usize> for $width {
            #[inline]
            fn counted(self) -> usize {
                self as usize
            }
        }
    )*};
}

counted!(u8, u32, u64);

impl<T: Counted<usize>, const N: usize> Counted<[usize; N]> for [T; N] {
    #[inline]
    fn counted(self) -> [usize; N] {
        self.map(Counted::counted)
    }
}

impl<T: Counted<U>, U> Counted<Option<U>> for Option<T> {
    #[inline]
    fn counted(self) -> Option<U> {
        self.map(Counted::counted)
    }
}

/// Methods that return fields of a description in the type in which memory is counted.
macro_rules! sizes {
    ($type:ty { $($field:ident: $counted:ty),* $(,)? }) => {
        impl $type {
            $(
                #[doc = concat!("The field `", stringify!($field), "`, as memory is counted.")]
                #[inline]
                #[must_use]
                pub fn $field(&self) -> $counted {
                    $crate::problem::description::Counted::counted(self.$field)
                }
            )*
        }
    };
}

pub(crate) use sizes;

/// A number of tasks or of tiles in the form that a choice holds. Cost models choose small numbers; a larger number
/// becomes the largest.
#[must_use]
pub(crate) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
