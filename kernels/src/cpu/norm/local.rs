//! Local response normalisation: each element by the mean square of the channels around it, in either layout.
//!
//! Old image networks have one or two of these. Plain loops over slices, the same at every level: the powers take most
//! of the time, and the exponent that networks use (3/4) is computed by two square roots.

use kiln_key::F32Bits;

use super::{Channels, Local, bounds, unsupported};
use crate::error::Result;
use crate::parallel::{Disjoint, Parallel, part};

/// Elements of a line that are computed at a time.
const BLOCK: usize = 512;

/// A local response normalisation ready to run.
#[derive(Debug)]
pub struct LocalNorm {
    shape: Channels,
    local: Local,
    elements: usize,
    tasks: usize,
}

impl LocalNorm {
    /// Prepares images of that shape, split into at most `tasks` tasks.
    pub fn new(shape: Channels, local: Local, tasks: usize) -> Result<LocalNorm> {
        if local.size == 0 {
            return Err(unsupported("a mean square of no channels".to_owned()));
        }
        Ok(LocalNorm { shape, local, elements: shape.elements()?, tasks: tasks.max(1) })
    }

    /// Computes it.
    pub fn run(&self, input: &[f32], output: &mut [f32], parallel: &dyn Parallel) -> Result<()> {
        bounds("input", input.len(), self.elements)?;
        bounds("output", output.len(), self.elements)?;
        // Where one dimension is zero, the number of lines may still be large.
        if self.elements == 0 {
            return Ok(());
        }
        let ([batch, channels, spatial], last) = (self.shape.sizes(), self.shape.last);
        let input = &input[..self.elements];
        let output = Disjoint::new(output);
        let (before, after) = self.local.reach();
        // A line is contiguous. Channels lie within one (channels last), or each line is of one channel.
        let (lines, length) = if last { (batch * spatial, channels) } else { (batch * channels, spatial) };
        let tasks = self.tasks.min(lines);
        parallel.run(tasks, &|task| {
            let mut squares = [0f32; BLOCK];
            for line in part(lines, tasks, task) {
                if parallel.is_stopped() {
                    return;
                }
                for start in (0..length).step_by(BLOCK) {
                    let here = start..length.min(start + BLOCK);
                    let squares = &mut squares[..here.len()];
                    squares.fill(0.0);
                    if last {
                        let input = &input[line * length..(line + 1) * length];
                        add_shifted(squares, input, here.start, before, after);
                    } else {
                        let channel = line % channels;
                        let near = channel.saturating_sub(before)..channels.min(channel.saturating_add(after + 1));
                        for near in near {
                            let near = line - channel + near;
                            add_squares(squares, &input[near * length..][here.clone()]);
                        }
                    }
                    let here = line * length + here.start..line * length + here.end;
                    // SAFETY: each line belongs to one task.
                    let output = unsafe { output.part(here.clone()) };
                    self.divide(&input[here], squares, output);
                }
            }
        });
        Ok(())
    }

    fn divide(&self, input: &[f32], squares: &[f32], output: &mut [f32]) {
        let [alpha, beta, bias] = [self.local.alpha, self.local.beta, self.local.bias].map(F32Bits::get);
        let each = alpha / self.local.size as f32;
        let terms = output.iter_mut().zip(input).zip(squares);
        if beta == 0.75 {
            terms.for_each(|((to, x), square)| {
                let root = (bias + each * square).sqrt();
                *to = x / (root * root.sqrt());
            });
        } else {
            terms.for_each(|((to, x), square)| *to = x / (bias + each * square).powf(beta));
        }
    }
}

fn add_squares(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += x * x);
}

/// Adds to the sum of each channel, from `first` on, the squares of the channels from `before` before it to `after`
/// after it.
fn add_shifted(sums: &mut [f32], line: &[f32], first: usize, before: usize, after: usize) {
    // At distance `shift` from the first channel, the window reaches back no further than the start of the line.
    for back in 0..=before.min(first + sums.len() - 1) {
        let skip = back.saturating_sub(first);
        add_squares(&mut sums[skip..], &line[first + skip - back..]);
    }
    for ahead in 1..=after.min(line.len().saturating_sub(first + 1)) {
        add_squares(sums, &line[first + ahead..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_around_each_channel_are_added_up_to_the_line_s_ends() {
        let line: Vec<f32> = (1..=7).map(|x| x as f32).collect();
        for (first, width) in [(0, 7), (0, 3), (3, 4), (6, 1)] {
            for (before, after) in [(0, 0), (1, 1), (2, 3), (9, 0), (0, 9), (50, 50)] {
                let mut sums = vec![0.0; width];
                add_shifted(&mut sums, &line, first, before, after);
                for (at, sum) in (first..).zip(sums) {
                    let near = at.saturating_sub(before)..(at + after + 1).min(7);
                    let want: f32 = line[near].iter().map(|x| x * x).sum();
                    assert_eq!(sum, want, "channel {at} from {first}, {before} before and {after} after");
                }
            }
        }
    }
}
