//! What goes wrong and fails nothing, told to those who listen: by `tracing` with the feature of that name, and not at
//! all without it. It is counted in [`StoreStats`](crate::StoreStats) either way.

#[cfg(feature = "tracing")]
macro_rules! warning {
    ($($event:tt)+) => {
        ::tracing::warn!($($event)+)
    };
}

/// Takes what `tracing::warn!` takes, and uses the fields for nothing.
#[cfg(not(feature = "tracing"))]
macro_rules! warning {
    ($message:literal) => {
        ()
    };
    (% $value:ident, $($rest:tt)+) => {{
        let _ = &$value;
        $crate::warning::warning!($($rest)+)
    }};
    ($name:ident = % $value:expr, $($rest:tt)+) => {{
        let _ = &$value;
        $crate::warning::warning!($($rest)+)
    }};
    ($name:ident = $value:expr, $($rest:tt)+) => {{
        let _ = &$value;
        $crate::warning::warning!($($rest)+)
    }};
    ($value:ident, $($rest:tt)+) => {{
        let _ = &$value;
        $crate::warning::warning!($($rest)+)
    }};
}

pub(crate) use warning;
