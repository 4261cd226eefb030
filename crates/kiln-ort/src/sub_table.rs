//! Tables that the table's getters return: the macro that declares one.

/// Declares a table of functions as C has it, and its one value: the entries' C arguments in the header's order, and
/// the module of each entry. Entries without a module answer `ORT_NOT_IMPLEMENTED` with their name. If a struct of
/// `ort-sys` is named before the entries, the compiler compares the place of each entry.
macro_rules! sub_table {
    ($table:ident, $value:ident, $ort:ident; $($name:ident($($argument:ty),* $(,)?) $(-> $gives:ty)? $(= $module:ident)?;)+) => {
        $crate::sub_table::sub_table! { $table, $value; $($name($($argument),*) $(-> $gives)? $(= $module)?;)+ }

        $(
            #[cfg(feature = "ort")]
            const _: () = assert!(std::mem::offset_of!($table, $name) == std::mem::offset_of!(ort_sys::$ort, $name));
        )+
    };
    ($table:ident, $value:ident; $($name:ident($($argument:ty),* $(,)?) $(-> $gives:ty)? $(= $module:ident)?;)+) => {
        /// The table as C has it.
        #[repr(C)]
        #[allow(non_snake_case, reason = "C's names")]
        pub(crate) struct $table {
            $($name: extern "C" fn($($argument),*) $(-> $gives)?,)+
        }

        const $value: $table = $table {
            $($name: $crate::sub_table::sub_table!(@entry $name ($($argument),*) [$($gives)?] $($module)?),)+
        };
    };
    (@entry $name:ident ($($argument:ty),*) [$($gives:ty)?] $module:ident) => {
        crate::$module::$name
    };
    (@entry $name:ident ($($argument:ty),*) [$gives:ty]) => {{
        extern "C" fn $name($(_: $argument),*) -> $gives {
            $crate::seam::Failure::status($crate::error::Error::not_implemented(stringify!($name)))
        }
        $name
    }};
}
pub(crate) use sub_table;
