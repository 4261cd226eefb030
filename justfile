# Commands of the project. `just --list` shows them.

# What every commit passes: format, lints with warnings denied, documents, and every test of the default features in the
# profile `quick`. At most 8 minutes on two cores after an edit; .ci/run is everything that must hold.
check:
    cargo fmt --all --check
    cargo clippy --profile quick --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --profile quick --workspace --no-deps
    cargo test --profile quick
    tests/docs/run

# The documents as a site in target/book, and all their links.
docs:
    tests/docs/run

# Tests from day to day, of a profile that compiles an edit in seconds: `just quick --test single_layer softmax`.
quick *ARGS:
    cargo test --profile quick {{ARGS}}

# Every test.
test:
    cargo test --profile quick --locked --workspace --all-features

# One bench, for example `just bench gemm`.
bench NAME:
    cargo bench --bench {{NAME}}

# The Python package's release wheel, as a repository that pip takes it from: `just wheels FOLDER`.
wheels *ARGS:
    python/wheels {{ARGS}}

# Licences, sources, versions and, where their list can be had, vulnerabilities of all dependencies.
deny:
    .ci/deny

# Real models beside onnxruntime, as packages ship them.
zoo *ARGS:
    tests/zoo/run {{ARGS}}

# The library and its tests under AddressSanitizer, and emitted code under valgrind.
sanitize *ARGS:
    tests/sanitize/run {{ARGS}}

# Operators of com.microsoft and ai.onnx.ml beside onnxruntime.
contrib *ARGS:
    tests/contrib/run {{ARGS}}

# The ONNX backend suite in every form, as case folders below DIR (tests/conformance makes them).
conformance DIR:
    cargo build --release --locked
    cargo build --profile quick --locked --workspace --all-features
    tests/conformance/run {{DIR}}
