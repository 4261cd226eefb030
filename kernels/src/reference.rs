//! Plain Rust references, one for each kernel family: the oracle of the tests and the fallback without JIT.

pub mod attention;
pub mod blend;
pub mod blockwise;
pub mod chain;
pub mod conv;
pub mod extreme;
pub mod gemm;
pub mod linear_attention;
pub mod norm;
pub mod pool;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod regions;
pub mod rotary;
pub mod running;
pub mod softmax;
pub mod transpose;
