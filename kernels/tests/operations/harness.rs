//! Tiny kernels around operations: how they are built, called and compared.

use kiln_kernels::Isa;
use kiln_kernels::jit::{Asm, Code, Gpr, Mem, verify};

/// The levels that code is emitted for.
pub(crate) const LEVELS: [Isa; 2] = [Isa::Avx2, Isa::Avx512];

/// Where kernels of the harness find their arguments.
pub(crate) const INPUT: Gpr = Gpr::R8;
pub(crate) const OUTPUT: Gpr = Gpr::R9;
pub(crate) const WORDS: Gpr = Gpr::R10;

/// The widest vector. Vectors stand this far apart in the buffers at every level.
pub(crate) type Vector = [u32; 16];

/// A vector of the input or output buffer.
pub(crate) fn vector(buffer: Gpr, index: usize) -> Mem {
    Mem::at(buffer, 64 * index as i32)
}

#[repr(C)]
struct Args {
    input: *const u32,
    output: *mut u32,
    words: *mut u64,
}

/// The memory after a kernel of the harness.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) vectors: Vec<Vector>,
    pub(crate) words: Vec<u64>,
}

/// Memory that a kernel did not write.
pub(crate) const UNTOUCHED: u32 = 0x5555_5555;

/// Wraps instructions into a kernel that has INPUT, OUTPUT and WORDS loaded, and checks it by decoding.
pub(crate) fn kernel(isa: Isa, emit: impl FnOnce(&mut Asm)) -> Code {
    let mut asm = Asm::new(isa).unwrap();
    asm.prologue();
    asm.load(INPUT, Mem::at(Gpr::RDI, 0));
    asm.load(OUTPUT, Mem::at(Gpr::RDI, 8));
    asm.load(WORDS, Mem::at(Gpr::RDI, 16));
    emit(&mut asm);
    asm.epilogue();
    let bytes = asm.finish("test").unwrap();
    verify::verify(isa, &bytes).unwrap();
    Code::seal(isa, "test", &bytes).unwrap()
}

/// Calls a kernel, natively where the processor can and always in the emulator, and compares the two.
pub(crate) fn call(code: &Code, input: &[Vector], vectors: usize, words: &[u64]) -> Outcome {
    #[repr(align(64))]
    struct Aligned([Vector; 40]);
    assert!(vectors <= 40);
    let once = |enter: &dyn Fn(&Args)| {
        let mut output = Box::new(Aligned([[UNTOUCHED; 16]; 40]));
        let mut words = words.to_vec();
        enter(&Args { input: input.as_ptr().cast(), output: output.0.as_mut_ptr().cast(), words: words.as_mut_ptr() });
        assert_eq!(output.0[vectors..], [[UNTOUCHED; 16]; 40][vectors..], "written beyond the output");
        Outcome { vectors: output.0[..vectors].to_vec(), words }
    };
    let emulated = once(&|args| {
        // SAFETY: kernels of the harness use the buffers that the tests give them.
        unsafe { code.emulate(args) };
    });
    if code.isa() <= Isa::detect() {
        let native = once(&|args| {
            // SAFETY: as above.
            unsafe { code.call_undescribed(args) }
        });
        assert_eq!(native.words, emulated.words, "processor and emulator disagree");
        for (native, emulated) in native.vectors.iter().zip(&emulated.vectors) {
            assert!(agree(native, emulated), "processor {native:x?}\n emulator {emulated:x?}");
        }
    }
    emulated
}

/// Builds and calls in one go.
pub(crate) fn run(isa: Isa, input: &[Vector], vectors: usize, words: &[u64], emit: impl FnOnce(&mut Asm)) -> Outcome {
    call(&kernel(isa, emit), input, vectors, words)
}

/// The same bits, or both NaN: no promise says which NaN an operation returns.
pub(crate) fn agree(a: &[u32], b: &[u32]) -> bool {
    let nan = |x: u32| f32::from_bits(x).is_nan();
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || nan(*a) && nan(*b))
}

/// Numbers in the corners of f32 and some ordinary ones.
pub(crate) fn corners() -> Vec<f32> {
    let mut all = vec![
        0.0,
        1.0,
        1.5,
        2.5,
        0.1,
        1e-3,
        3.402_823_5e38,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::from_bits(0x007F_FFFF),
        f32::INFINITY,
        f32::NAN,
        8_388_607.5,
        16_777_216.0,
        2_147_483_648.0,
        1e10,
        std::f32::consts::PI,
        123.456,
    ];
    all.extend(all.clone().iter().map(|x| -x));
    all
}

/// A reproducible stream of bits.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Any bit pattern; every second time a number of ordinary size.
    pub(crate) fn lane(&mut self) -> u32 {
        let bits = self.next();
        if bits & 1 == 0 {
            (bits >> 32) as u32
        } else {
            ((bits >> 33) as i32 as f32 / (1u64 << 28) as f32 - 4.0).to_bits()
        }
    }

    pub(crate) fn vector(&mut self) -> Vector {
        std::array::from_fn(|_| self.lane())
    }
}
