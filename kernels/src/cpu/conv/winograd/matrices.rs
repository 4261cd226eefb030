//! The matrices of the minimal filtering algorithms.
//!
//! A filter of three taps over `m` outputs is a product of two polynomials, of degree 2 and `m - 1`, read backwards.
//! The product, of degree `m + 1`, is found from its values at `m + 1` points and at infinity: `m + 2` multiplications
//! instead of `3 m` (Toom and Cook; Winograd 1980 for filters). In matrices, for inputs `d` and taps `g`:
//!
//! `y = A ((G g) * (B d))`, with `*` element by element.
//!
//! - Row `j` of `G` is the value of the filter's polynomial at point `a_j`, over the product of `a_j - a_k`.
//! - Row `j` of `B` are the coefficients of the product of `x - a_k` over all other points; the last row is the
//!   product over all points.
//! - Column `j` of `A` are the powers of `a_j`; the last column is that of infinity, where only the last power counts.
//!
//! In two dimensions the same is done to rows and then to columns. Points are small and close to 1 in magnitude,
//! because their powers multiply rounding errors: 0, 1 and -1, and for four outputs also 1/2 and -2, with half the
//! error of 2 and -2. Everything but `G` is a multiple of a power of two. The signs of a row of `G` and of `B` may be
//! turned together: every row of `G` has a factor above zero here, with which a sum can start.

use kiln_key::Mutate;
use serde::{Deserialize, Serialize};

/// A size of output squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Mutate)]
pub enum WinogradTile {
    /// Two by two outputs of four by four inputs: 16 multiplications instead of 36.
    Two,
    /// Four by four outputs of six by six inputs: 36 multiplications instead of 144.
    Four,
}

/// Rows of a matrix; a row has as many columns as the tile has inputs along a dimension.
pub(super) type Rows = &'static [&'static [f32]];

/// Most inputs of a tile along a dimension.
pub(super) const MOST_SIDE: usize = 6;

impl WinogradTile {
    /// Every size.
    pub const ALL: [WinogradTile; 2] = [WinogradTile::Two, WinogradTile::Four];

    /// Outputs along a dimension.
    #[must_use]
    pub const fn outputs(self) -> usize {
        match self {
            WinogradTile::Two => 2,
            WinogradTile::Four => 4,
        }
    }

    /// Inputs, and points, along a dimension.
    #[must_use]
    pub const fn side(self) -> usize {
        self.outputs() + 2
    }

    /// Points: multiplications of a tile.
    #[must_use]
    pub const fn points(self) -> usize {
        self.side() * self.side()
    }

    /// The point whose product reaches all outputs with factor 1: a bias is added there once, for all outputs.
    pub(super) const fn bias_point(self) -> usize {
        self.side() + 1
    }

    /// `B`, for inputs.
    #[rustfmt::skip]
    pub(super) const fn input(self) -> Rows {
        match self {
            WinogradTile::Two => &[
                &[1.0, 0.0, -1.0, 0.0],
                &[0.0, 1.0, 1.0, 0.0],
                &[0.0, -1.0, 1.0, 0.0],
                &[0.0, -1.0, 0.0, 1.0],
            ],
            WinogradTile::Four => &[
                &[1.0, -1.5, -2.0, 1.5, 1.0, 0.0],
                &[0.0, -1.0, 0.5, 2.5, 1.0, 0.0],
                &[0.0, 1.0, -2.5, 0.5, 1.0, 0.0],
                &[0.0, 2.0, 1.0, -2.0, -1.0, 0.0],
                &[0.0, 0.5, -1.0, -0.5, 1.0, 0.0],
                &[0.0, 1.0, -1.5, -2.0, 1.5, 1.0],
            ],
        }
    }

    /// `A`, for products.
    #[rustfmt::skip]
    pub(super) const fn output(self) -> Rows {
        match self {
            WinogradTile::Two => &[
                &[1.0, 1.0, 1.0, 0.0],
                &[0.0, 1.0, -1.0, 1.0],
            ],
            WinogradTile::Four => &[
                &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
                &[0.0, 1.0, -1.0, 0.5, -2.0, 0.0],
                &[0.0, 1.0, 1.0, 0.25, 4.0, 0.0],
                &[0.0, 1.0, -1.0, 0.125, -8.0, 1.0],
            ],
        }
    }

    /// `G`, for weights.
    #[rustfmt::skip]
    pub(super) const fn filter(self) -> &'static [[f64; 3]] {
        match self {
            WinogradTile::Two => &[
                [1.0, 0.0, 0.0],
                [0.5, 0.5, 0.5],
                [0.5, -0.5, 0.5],
                [0.0, 0.0, 1.0],
            ],
            WinogradTile::Four => &[
                [1.0, 0.0, 0.0],
                [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
                [-1.0 / 3.0, 1.0 / 3.0, -1.0 / 3.0],
                [16.0 / 15.0, 8.0 / 15.0, 4.0 / 15.0],
                [1.0 / 15.0, -2.0 / 15.0, 4.0 / 15.0],
                [0.0, 0.0, 1.0],
            ],
        }
    }
}
