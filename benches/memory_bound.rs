//! Kernels that memory bounds, beside the speed of a plain copy of the same number of bytes in the same moments: `cargo
//! bench --bench memory_bound [-- WORD...]`; words choose the rows whose name contains one of the words.
//!
//! A row alternates between the kernel and the copy until its time is up, and the fastest repeat of each counts.
//! "Moved" is every operand once and the result once; lines that a store fetches before it overwrites them are not
//! counted, neither here nor in the copy. The share is the kernel's bytes a second over the copy's.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "memory_bound/channels.rs"]
mod channels;
#[path = "memory_bound/elements.rs"]
mod elements;
#[path = "memory_bound/movement.rs"]
mod movement;
#[path = "memory_bound/rows.rs"]
mod rows;
#[path = "memory_bound/table.rs"]
mod table;

use kiln_kernels::Result;
use kiln_tensor::threads::Threads;
use table::Table;

fn main() -> Result<()> {
    // `cargo test --benches` passes arguments of its own; it then gets a quick look.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--test");
    let words: Vec<String> = arguments.into_iter().filter(|argument| !argument.starts_with('-')).collect();
    for count in if quick { vec![1] } else { vec![1, 2] } {
        let Ok(threads) = Threads::new(count) else { continue };
        let table = Table::new(&threads, &words, quick);
        elements::measure(&table)?;
        rows::measure(&table)?;
        channels::measure(&table)?;
        movement::measure(&table)?;
    }
    Ok(())
}
