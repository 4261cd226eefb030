//! Reductions over the threads of a warp or of a block, where each thread gets the result.

/// The threads that reduce a row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Team {
    /// A warp, with several rows in a block.
    Warp,
    /// A block.
    Block,
}

/// The least elements of a row that a block reduces: 32 for each lane of a warp. With shorter rows, a block's threads
/// mostly wait at its barriers.
const LONG: u64 = 1024;

/// Rows of a block with a row for each warp.
const ROWS: u64 = (super::THREADS / super::WARP) as u64;

impl Team {
    /// The team for rows of that length.
    pub(super) fn of(length: u64) -> Team {
        if length > LONG { Team::Block } else { Team::Warp }
    }

    /// Blocks for `rows` rows.
    pub(super) fn blocks(self, rows: u64) -> u64 {
        match self {
            Team::Warp => rows.div_ceil(ROWS),
            Team::Block => rows,
        }
    }

    /// For each name and expression, a function `fold_NAME(value)` that reduces over the team, combining `value` and
    /// `other` by the expression. `TEAM_ROW` is the team's row, `TEAM_ROWS` the rows that are in flight, `TEAM_PLACE`
    /// the thread's number in the team and `TEAM_SIZE` the team's size.
    pub(super) fn text(self, folds: &[(&str, &str)]) -> String {
        let mut text = match self {
            Team::Warp => "#define TEAM_ROW ((Index)KILN_BLOCK_X * (KILN_THREADS_X / 32) + KILN_THREAD_X / 32)
#define TEAM_ROWS ((Index)KILN_BLOCKS_X * (KILN_THREADS_X / 32))
#define TEAM_PLACE (KILN_THREAD_X % 32)
#define TEAM_SIZE 32
"
            .to_owned(),
            Team::Block => "#define TEAM_ROW ((Index)KILN_BLOCK_X)
#define TEAM_ROWS ((Index)KILN_BLOCKS_X)
#define TEAM_PLACE KILN_THREAD_X
#define TEAM_SIZE KILN_THREADS_X
"
            .to_owned(),
        };
        for (name, combine) in folds {
            let warp = if self == Team::Warp { format!("fold_{name}") } else { format!("warp_{name}") };
            text += &format!(
                "KILN_DEVICE float {warp}(float value)
{{
    for (int lane = 16; lane > 0; lane /= 2) {{
        float other = KILN_SHUFFLE_XOR(value, lane);
        value = {combine};
    }}
    return value;
}}
"
            );
            if self == Team::Block {
                // The first barrier is for the previous result, which some threads may not have read yet.
                text += &format!(
                    "KILN_DEVICE float fold_{name}(float value)
{{
    KILN_SHARED float parts[32];
    value = warp_{name}(value);
    KILN_SYNC();
    if (KILN_THREAD_X % 32 == 0) parts[KILN_THREAD_X / 32] = value;
    KILN_SYNC();
    /* Every thread folds the same few numbers, of which a warp reads each at once. */
    value = parts[0];
    for (u32 part = 1; part < KILN_THREADS_X / 32; ++part) {{
        float other = parts[part];
        value = {combine};
    }}
    return value;
}}
"
                );
            }
        }
        text
    }
}
