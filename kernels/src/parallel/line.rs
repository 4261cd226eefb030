//! Values that threads spin on.

/// A value alone on a pair of cache lines, so that threads that spin on it do not slow down others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line<T>(pub(super) T);
