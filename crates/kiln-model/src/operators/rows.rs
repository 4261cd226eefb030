//! The rows of the table, by theme. Their rules stand beside them in `operators`.

mod axes;
mod contrib;
mod elementwise;
mod flow;
mod ml;
mod movement;
mod products;
mod quantized;
mod signals;
mod spatial;
mod streams;
mod texts;

use super::row::Operator;

/// All rows, by theme.
pub(super) const GROUPS: &[&[Operator]] = &[
    axes::ROWS,
    contrib::ROWS,
    elementwise::ROWS,
    flow::ROWS,
    ml::ROWS,
    movement::ROWS,
    products::ROWS,
    quantized::ROWS,
    signals::ROWS,
    spatial::ROWS,
    streams::ROWS,
    texts::ROWS,
];
