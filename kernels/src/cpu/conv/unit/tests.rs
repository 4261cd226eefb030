//! Grids beside plain arithmetic.
