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
    /// Instructions on tiles. `first` is the address of a configuration or of a tile's first row, `stride` the bytes from
    /// row to row.
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
            Kind::TileDotBf16 => self.configured().multiply(op, dot_bf16),
            Kind::TileDotBytes => self.configured().multiply(op, |sum, a, b| dot_bytes(sum, a, b, i32::from)),
            Kind::TileDotSigned => {
                self.configured().multiply(op, |sum, a, b| dot_bytes(sum, a, b, |byte| i32::from(byte as i8)));
            }
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
            for (index, word) in tile[row].iter_mut().enumerate().take(words) {
                let at = at.wrapping_add(4 * index as u64);
                match op.kind {
                    Kind::TileStore => memory.write(at, *word),
                    _ => *word = memory.read(at),
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

    /// Adds to each word of the sum the products of a row on the left and a column on the right.
    fn multiply(&mut self, op: &Operation, add: impl Fn(u32, &[u32], [u32; 16]) -> u32) {
        let (rows, columns, steps) = self.product(op);
        let [left, right] = [op.a, op.b].map(|tile| self.tiles[usize::from(tile)]);
        for column in 0..columns {
            let right: [u32; 16] = std::array::from_fn(|step| right[step][column]);
            let sums = &mut self.tiles[usize::from(op.dst)];
            for (sums, left) in sums.iter_mut().zip(&left).take(rows) {
                sums[column] = add(sums[column], &left[..steps], right);
            }
        }
    }
}

/// `tdpbf16ps` of one element.
fn dot_bf16(sum: u32, left: &[u32], right: [u32; 16]) -> u32 {
    let mut sums = [0f32; 2];
    for (a, b) in left.iter().zip(right) {
        let even = [a << 16, b << 16];
        let odd = [a & 0xFFFF_0000, b & 0xFFFF_0000];
        for (sum, factors) in sums.iter_mut().zip([even, odd]) {
            let [a, b] = factors.map(|bits| flushed(f32::from_bits(bits)));
            *sum = flushed(a.mul_add(b, *sum));
        }
    }
    flushed(flushed(f32::from_bits(sum)) + flushed(sums[0] + sums[1])).to_bits()
}

/// `tdpbusd` and `tdpbssd` of one element; `value` is that of a left-hand byte.
fn dot_bytes(sum: u32, left: &[u32], right: [u32; 16], value: impl Fn(u8) -> i32) -> u32 {
    let value = &value;
    let products = left.iter().zip(right).flat_map(|(a, b)| {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        (0..4).map(move |byte| value(a[byte]) * i32::from(b[byte] as i8))
    });
    products.fold(sum as i32, i32::wrapping_add) as u32
}
