//! Masks that a model stores as a table of all positions, and cuts to the lengths of a step.

use half::f16;
use kiln_tensor::{DType, Tensor};

/// Fewest rows of a table: smaller constants are tried number by number.
const FEWEST_ROWS: usize = 16;

/// Most rows of a table that is read, 256 MiB of bytes.
const MOST_ROWS: usize = 1 << 14;

/// A square table [..., rows, rows] that marks for each query its own and all earlier keys, or a window of the last ones,
/// or all keys but these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) rows: usize,
    /// The keys of a window, if not all earlier ones are marked alike.
    pub(super) window: Option<usize>,
}

impl Table {
    /// The table that a constant is, if it is one: of bytes or booleans that are zero or not, or of floats that are 0, 1
    /// or hide a key.
    pub(super) fn of(constant: &Tensor) -> Option<Table> {
        let [before @ .., rows, columns] = constant.shape() else { return None };
        let rows = *rows;
        if rows != *columns || before.iter().any(|&size| size != 1) || !(FEWEST_ROWS..=MOST_ROWS).contains(&rows) {
            return None;
        }
        let float = |value: f32| match value {
            0.0 => Some(false),
            _ => Some(true).filter(|_| value == 1.0 || value <= super::HIDDEN),
        };
        match constant.dtype() {
            DType::Bool | DType::U8 => Table::marked(rows, constant.bytes(), |&byte| Some(byte != 0)),
            DType::F32 => Table::marked(rows, constant.as_slice::<f32>().ok()?, |&value| float(value)),
            DType::F16 => Table::marked(rows, constant.as_slice::<f16>().ok()?, |value| float(value.to_f32())),
            _ => None,
        }
    }

    fn marked<T>(rows: usize, elements: &[T], mark: impl Fn(&T) -> Option<bool>) -> Option<Table> {
        let last = &elements[(rows - 1) * rows..];
        let own = mark(&last[rows - 1])?;
        let near = last.iter().rev().take_while(|element| mark(element) == Some(own)).count();
        let table = Table { rows, window: Some(near).filter(|&near| near < rows) };
        let is_seen = |query: usize, key: usize| key <= query && query - key < near;
        let fits = |(query, row): (usize, &[T])| {
            row.iter().enumerate().all(|(key, element)| mark(element) == Some(is_seen(query, key) == own))
        };
        elements.chunks_exact(rows).enumerate().all(fits).then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mark: impl Fn(usize, usize) -> bool) -> Option<Table> {
        let elements = (0..20 * 20).map(|at| u8::from(mark(at / 20, at % 20))).collect();
        Table::of(&Tensor::from_vec([1, 1, 20, 20], elements).unwrap())
    }

    #[test]
    fn triangles_and_windows_are_tables_whichever_keys_they_mark() {
        let (all, window) = (Table { rows: 20, window: None }, Table { rows: 20, window: Some(5) });
        assert_eq!(of(|query, key| key <= query), Some(all));
        assert_eq!(of(|query, key| key > query), Some(all));
        assert_eq!(of(|query, key| key <= query && key + 5 > query), Some(window));
        assert_eq!(of(|query, key| key > query || key + 5 <= query), Some(window));
        let added = (0..20 * 20).map(|at| if at % 20 <= at / 20 { 0.0 } else { -1e9f32 }).collect();
        assert_eq!(Table::of(&Tensor::from_vec([20, 20], added).unwrap()), Some(all));
    }

    #[test]
    fn other_constants_are_none() {
        assert_eq!(of(|query, key| key < query), None, "no query sees itself");
        assert_eq!(of(|query, key| key <= query && (query, key) != (9, 3)), None, "a hole");
        assert_eq!(of(|query, key| key / 4 <= query / 4), None, "chunks");
        let bias = (0..20 * 20).map(|at| (at % 20) as f32).collect();
        assert_eq!(Table::of(&Tensor::from_vec([20, 20], bias).unwrap()), None, "numbers");
        let few = (0..9).map(|at| u8::from(at % 3 <= at / 3)).collect();
        assert_eq!(Table::of(&Tensor::from_vec([3, 3], few).unwrap()), None, "few rows");
        assert_eq!(Table::of(&Tensor::from_vec([16, 17], vec![1u8; 16 * 17]).unwrap()), None, "not square");
    }
}
