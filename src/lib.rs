//! Kiln: a runtime that never compiles, tunes or picks the same kernel twice.
