# Commands of the house. `just --list` shows them.

# Format, lints and documents, warnings denied.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Every test.
test:
    cargo test --release

# One bench, for example `just bench gemm`.
bench NAME:
    cargo bench --bench {{NAME}}

# The ONNX backend suite, as case folders below DIR.
conformance DIR:
    cargo run --release -- check {{DIR}}
