//! Plain tables for people. The only file that names comfy-table.

use comfy_table::{CellAlignment, presets};

/// A table under construction.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table of these columns. A title that starts with `>` makes a column of numbers, aligned to the right.
    pub(crate) fn new(titles: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(titles.iter().map(|title| title.trim_start_matches('>')));
        let numbers = titles.iter().enumerate().filter(|(_, title)| title.starts_with('>'));
        for (index, _) in numbers {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Table(table)
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells.into_iter().collect::<Vec<_>>());
    }

    /// The lines, without trailing blanks.
    pub(crate) fn text(&self) -> String {
        self.0.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// Milliseconds with the digits that matter at their size.
pub(crate) fn milliseconds(ms: f64) -> String {
    match ms {
        _ if ms < 1.0 => format!("{ms:.3}"),
        _ if ms < 100.0 => format!("{ms:.2}"),
        _ => format!("{ms:.1}"),
    }
}

/// Bytes in the unit that fits their size.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_end_together() {
        let mut table = Table::new(&["name", ">ms"]);
        table.row(["a".to_owned(), "1.0".to_owned()]);
        table.row(["longer".to_owned(), "100.0".to_owned()]);
        assert_eq!(table.text(), " name       ms\n a         1.0\n longer  100.0\n");
    }

    #[test]
    fn figures_keep_three_digits_or_so() {
        assert_eq!([0.0123, 1.234, 123.45].map(milliseconds), ["0.012", "1.23", "123.5"]);
        assert_eq!([12, 2048, 3 << 20].map(bytes), ["12 B", "2.0 KiB", "3.0 MiB"]);
    }
}
