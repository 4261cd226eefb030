//! Shape and Size: outputs that are made from the input's shape alone.

use kiln_run::{Io, Node, NodeError, Prepared, RunCx};

use super::Operator;

/// The operators of this file.
pub(super) const OPERATORS: &[Operator] = &[
    ("", "Shape", |cx| {
        let (start, end) = (cx.node.attributes().int("start"), cx.node.attributes().integer("end"));
        Ok(Box::new(Measure::Shape { start, end }))
    }),
    ("", "Size", |_| Ok(Box::new(Measure::Size))),
];

enum Measure {
    Shape { start: i64, end: Option<i64> },
    Size,
}

impl Measure {
    fn values(&self, shape: &[usize]) -> Vec<i64> {
        match *self {
            Measure::Size => vec![shape.iter().product::<usize>() as i64],
            Measure::Shape { start, end } => {
                let rank = shape.len() as i64;
                let from_start = |axis: i64| if axis < 0 { axis.saturating_add(rank) } else { axis };
                let place = |axis: i64| from_start(axis).clamp(0, rank) as usize;
                let (start, end) = (place(start), end.map_or(shape.len(), place));
                shape[start..end.max(start)].iter().map(|&dim| dim as i64).collect()
            }
        }
    }
}

impl Node for Measure {
    fn family(&self) -> &'static str {
        match self {
            Measure::Shape { .. } => "Shape",
            Measure::Size => "Size",
        }
    }

    fn execute(&self, _: &Prepared, io: &mut Io<'_>, _: &RunCx<'_>) -> Result<(), NodeError> {
        let mut output = io.alloc(0)?;
        output.as_mut_slice()?.copy_from_slice(&self.values(io.input(0)?.shape()));
        io.push(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::Trial;

    #[test]
    fn shape_gives_the_dimensions_between_start_and_end_clamped() {
        let row = || Trial::new("Shape").input::<f32>(&[2, 3, 4], &[0.0; 24]);
        row().gives::<i64>(&[3], &[2, 3, 4]);
        row().int("start", 1).gives::<i64>(&[2], &[3, 4]);
        row().int("start", -1).gives::<i64>(&[1], &[4]);
        row().int("end", -1).gives::<i64>(&[2], &[2, 3]);
        row().int("start", -100).int("end", 100).gives::<i64>(&[3], &[2, 3, 4]);
        row().int("start", 2).int("end", 1).gives::<i64>(&[0], &[]);
        row().int("start", i64::MIN).int("end", i64::MIN).gives::<i64>(&[0], &[]);
    }

    #[test]
    fn size_counts_elements() {
        Trial::new("Size").input::<f32>(&[2, 3], &[0.0; 6]).gives::<i64>(&[], &[6]);
        Trial::new("Size").input::<u8>(&[0, 7], &[]).gives::<i64>(&[], &[0]);
        Trial::new("Size").input(&[], &[1i32]).gives::<i64>(&[], &[1]);
    }
}
