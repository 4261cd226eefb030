//! Problems that cause no failure, reported by `tracing` with the feature of that name, and not reported without it.
//! [`StoreStats`](crate::StoreStats) counts them either way.

#[cfg(feature = "tracing")]
macro_rules! warning {
    ($($event:tt)+) => {
        ::tracing::warn!($($event)+)
    };
}

/// Takes the arguments of `tracing::warn!` and ignores the fields.
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
