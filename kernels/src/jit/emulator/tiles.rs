//! Tile registers: their configuration, moves and products.

use super::lanes::flushed;
use super::lower::{Kind, Operation};
use super::memory::Memory;

/// Bytes of a row.
const ROW: usize = 64;

/// One tile: 16 rows of 16 words.
type Tile = [[u32; 16]; 16];

/// All tiles; `None` while they are not configured.
#[derive(Default)]
pub(super) struct Tiles(Option<Box<Configured>>);

struct Configured {
    /// Rows, and bytes of a row.
    shapes: [(usize, usize); 8],
    tiles: [Tile; 8],
}

impl Tiles {
    pub(super) fn are_released(&self) -> bool {
        self.0.is_none()
    }

    fn configured(&mut self) -> &mut Configured {
        self.0.as_mut().expect("emulator: tiles that are not configured")
    }
}

impl Configured {
    fn new(config: &[u8; 64]) -> Configured {
        assert_eq!(config[0], 1, "emulator: a palette that there is not");
        assert!(config[1..16].iter().all(|&byte| byte == 0), "emulator: reserved bytes of a tile configuration");
        let shapes = std::array::from_fn(|tile| {
            let bytes = u16::from_le_bytes([config[16 + 2 * tile], config[17 + 2 * tile]]);
            (usize::from(config[48 + tile]), usize::from(bytes))
        });
        assert!(
            shapes.iter().all(|&(rows, bytes)| rows <= 16 && bytes <= ROW && bytes % 4 == 0),
            "emulator: {shapes:?} are no shapes of tiles"
        );
        Configured { shapes, tiles: Default::default() }
    }

    /// Rows and bytes of a row.
    fn shape(&self, tile: u8) -> (usize, usize) {
        let (rows, bytes) = self.shapes[usize::from(tile)];
        assert!(rows > 0 && bytes > 0, "emulator: tile {tile} is configured as empty");
        (rows, bytes)
    }

    /// Checks that the three shapes fit. Returns rows and words of a row of the sum, and words of a row on the left.
    fn product(&self, op: &Operation) -> (usize, usize, usize) {
        let (rows, bytes) = self.shape(op.dst);
        let ((left_rows, left_bytes), (right_rows, right_bytes)) = (self.shape(op.a), self.shape(op.b));
        assert!(
            op.dst != op.a && op.dst != op.b && op.a != op.b,
            "emulator: a product of tiles of which two are the same"
        );
        assert!(
            left_rows == rows && right_bytes == bytes && right_rows * 4 == left_bytes,
            "emulator: tiles {op:?} do not fit each other"
        );
        (rows, bytes / 4, left_bytes / 4)
    }
}

impl Tiles {
    /// Instructions on tiles. `first` is the address of a configuration or of a tile's first row, `stride` the bytes
    /// from row to row. Inlined, so that it is compiled with the same instructions as the loop ([`super::execute`]).
    #[inline(always)]
    pub(super) fn run(&mut self, op: &Operation, memory: &Memory<'_>, first: u64, stride: u64) {
        match op.kind {
            Kind::TileConfig => self.0 = Some(Box::new(Configured::new(&memory.read(first)))),
            Kind::TileRelease => self.0 = None,
            Kind::TileZero => {
                let tiles = self.configured();
                tiles.shape(op.dst);
                tiles.tiles[usize::from(op.dst)] = Tile::default();
            }
            Kind::TileLoad | Kind::TileStore => {
                self.configured().move_rows(op, memory, |row| first.wrapping_add(stride.wrapping_mul(row)));
            }
            Kind::TileDotBf16 => self.configured().multiply_bf16(op),
            Kind::TileDotBytes => self.configured().multiply_bytes(op, i32::from),
            Kind::TileDotSigned => self.configured().multiply_bytes(op, |byte| i32::from(byte as i8)),
            _ => unreachable!("only instructions on tiles come here"),
        }
    }
}

impl Configured {
    fn move_rows(&mut self, op: &Operation, memory: &Memory<'_>, row_at: impl Fn(u64) -> u64) {
        let (rows, bytes) = self.shape(op.dst);
        let words = bytes / 4;
        let tile = &mut self.tiles[usize::from(op.dst)];
        for (row, at) in (0..rows).map(|row| (row, row_at(row as u64))) {
            match op.kind {
                Kind::TileStore if words == 16 => memory.write(at, tile[row]),
                Kind::TileLoad if words == 16 => tile[row] = memory.read(at),
                kind => {
                    for (index, word) in tile[row].iter_mut().enumerate().take(words) {
                        let at = at.wrapping_add(4 * index as u64);
                        match kind {
                            Kind::TileStore => memory.write(at, *word),
                            _ => *word = memory.read(at),
                        }
                    }
                }
            }
            if op.kind == Kind::TileLoad {
                tile[row][words..].fill(0);
            }
        }
        if op.kind == Kind::TileLoad {
            tile[rows..].fill([0; 16]);
        }
    }

    /// `tdpbf16ps`: adds to each word of the sum the products of a row on the left and a column on the right, even and
    /// odd elements apart. The words of a row are computed side by side.
    #[inline(always)]
    fn multiply_bf16(&mut self, op: &Operation) {
        let (rows, columns, steps) = self.product(op);
        let halves = |tile: u8| {
            let tile = &self.tiles[usize::from(tile)];
            let half = |of: fn(u32) -> u32| tile.map(|row| row.map(|word| flushed(f32::from_bits(of(word)))));
            [half(|word| word << 16), half(|word| word & 0xFFFF_0000)]
        };
        let (left, right) = (halves(op.a), halves(op.b));
        for (row, totals) in self.tiles[usize::from(op.dst)].iter_mut().enumerate().take(rows) {
            let mut sums = [[0f32; 16]; 2];
            for ((sums, left), right) in sums.iter_mut().zip(&left).zip(&right) {
                for (a, right) in left[row].iter().zip(right).take(steps) {
                    for (sum, b) in sums.iter_mut().zip(right) {
                        *sum = flushed(a.mul_add(*b, *sum));
                    }
                }
            }
            for (column, total) in totals.iter_mut().enumerate().take(columns) {
                let sum = flushed(sums[0][column] + sums[1][column]);
                *total = flushed(flushed(f32::from_bits(*total)) + sum).to_bits();
            }
        }
    }

    /// `tdpbusd` and `tdpbssd`: the same with four bytes a word; they differ in the value of a byte on the left.
    #[inline(always)]
    fn multiply_bytes(&mut self, op: &Operation, value: impl Fn(u8) -> i32) {
        let (rows, columns, steps) = self.product(op);
        let [left, right] = [op.a, op.b].map(|tile| self.tiles[usize::from(tile)]);
        for (totals, left) in self.tiles[usize::from(op.dst)].iter_mut().zip(&left).take(rows) {
            let mut sums = *totals;
            for (a, right) in left.iter().zip(&right).take(steps) {
                for (byte, a) in a.to_le_bytes().into_iter().enumerate() {
                    let a = value(a);
                    for (sum, b) in sums.iter_mut().zip(right) {
                        let b = i32::from((b >> (8 * byte)) as i8);
                        *sum = sum.wrapping_add((a * b) as u32);
                    }
                }
            }
            totals[..columns].copy_from_slice(&sums[..columns]);
        }
    }
}
