"""Models that programs compile ahead: the same model is written on, with its tensors where they are asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import apart, make_model, tensor, unary
from onnx import TensorProto, helper

import kiln.onnxruntime as ort
from kiln.onnxruntime.capi import onnxruntime_pybind11_state as state

W = np.arange(3000, dtype=np.float32)


def inner_apart(weights: Any) -> bytes:
    """y = x + w in a branch, whose w is a Constant with its data in w.bin."""
    constant = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)
    onnx.external_data_helper.set_external_data(constant, "w.bin", 8, weights.nbytes)
    constant.ClearField("raw_data")
    nodes = [helper.make_node("Constant", [], ["w"], value=constant), helper.make_node("Add", ["x", "w"], ["z"])]
    branch = helper.make_graph(nodes, "branch", [], [tensor("z", shape=weights.shape)])
    condition = helper.make_tensor("yes", TensorProto.BOOL, (), [True])
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    shape = weights.shape
    return make_model([node], [tensor("x", shape=shape)], [tensor("y", shape=shape)], [condition])


def double(model: str | bytes | Path) -> None:
    """Holds y = x + w to be 2 w for x = w."""
    [y] = ort.InferenceSession(model).run(None, {"x": W})
    np.testing.assert_array_equal(y, 2 * W)


def test_a_model_of_one_file_is_written_as_it_is(tmp_path: Path) -> None:
    relu, path, out = unary("Relu"), tmp_path / "relu.onnx", tmp_path / "compiled.onnx"
    path.write_bytes(relu)
    options = ort.SessionOptions()
    for given in (relu, path, str(path)):
        compiler = ort.ModelCompiler(options, given)
        assert compiler.compile_to_bytes() == relu
        pieces: list[bytes] = []
        compiler.compile_to_stream(pieces.append)
        assert b"".join(pieces) == relu
        compiler.compile_to_file(out)
        assert out.read_bytes() == relu
    ort.ModelCompiler(options, path).compile_to_file()
    assert (tmp_path / "relu_ctx.onnx").read_bytes() == relu


@pytest.mark.parametrize("make", [apart, inner_apart])
def test_tensors_of_other_files_come_into_the_model(tmp_path: Path, make: Any) -> None:
    ahead = b"" if make is apart else bytes(8)
    path = tmp_path / "model.onnx"
    path.write_bytes(make(W))
    (tmp_path / "w.bin").write_bytes(ahead + W.tobytes())
    whole = ort.ModelCompiler(ort.SessionOptions(), path).compile_to_bytes()
    double(whole)
    (tmp_path / "w.bin").unlink()
    options = ort.SessionOptions()
    data = ahead + W.tobytes()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [len(data)])
    for given in (path, make(W)):
        assert ort.ModelCompiler(options, given).compile_to_bytes() == whole, "what is handed over"


def test_long_initializers_go_into_the_file_that_is_named(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [W.tobytes()], [W.nbytes])
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "model.onnx"
    for threshold, is_apart in ((1024, True), (W.nbytes - 1, True), (W.nbytes, False)):
        (tmp_path / "out" / "data.bin").write_bytes(b"what was there before" * 1000)
        ort.ModelCompiler(
            options,
            apart(W),
            external_initializers_file_path="data.bin",
            external_initializers_size_threshold=threshold,
        ).compile_to_file(out)
        assert (tmp_path / "out" / "data.bin").read_bytes() == (W.tobytes() if is_apart else b"")
        assert (out.stat().st_size < 1000) == is_apart
        double(out)
    replaced = ort.SessionOptions()
    replaced.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(W))
    double(ort.ModelCompiler(replaced, apart(W + 1)).compile_to_bytes())


def test_what_cannot_be_is_an_error_that_programs_catch(tmp_path: Path) -> None:
    options, flags = ort.SessionOptions(), ort.OrtCompileApiFlags
    path = tmp_path / "relu.onnx"
    path.write_bytes(unary("Relu"))
    unknown = make_model([helper.make_node("Nothing", ["x"], ["y"])], [tensor("x")], [tensor("y")])
    kept, nowhere = ort.ModelCompiler(options, path), tmp_path / "no" / "model.onnx"
    exists = ort.ModelCompiler(options, path, flags=flags.ERROR_IF_OUTPUT_FILE_EXISTS)
    for refused, kind in (
        (lambda: ort.ModelCompiler(options, tmp_path / "none.onnx").compile_to_bytes(), state.InvalidArgument),
        (lambda: ort.ModelCompiler(options, b"no model").compile_to_bytes(), state.InvalidProtobuf),
        (lambda: ort.ModelCompiler(options, unknown).compile_to_bytes(), state.NotImplemented),
        (lambda: ort.ModelCompiler(options, apart(W)).compile_to_bytes(), state.InvalidGraph),
        (lambda: ort.ModelCompiler(options, unary("Relu")).compile_to_file(), state.InvalidArgument),
        (lambda: kept.compile_to_file(nowhere), state.Fail),
        (lambda: exists.compile_to_file(path), state.Fail),
        (
            lambda: ort.ModelCompiler(options, path, flags=flags.ERROR_IF_NO_NODES_COMPILED).compile_to_bytes(),
            state.Fail,
        ),
        (lambda: ort.ModelCompiler(options, path, get_initializer_location_func=print), state.NotImplemented),
        (lambda: ort.ModelCompiler(options, b""), ValueError),
        (lambda: ort.ModelCompiler(options, 7), TypeError),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind):
            refused()
    assert path.read_bytes() == unary("Relu")


def test_without_the_package_onnx_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [W.tobytes()], [W.nbytes])
    model = apart(W)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(state.NotImplemented, match="kiln-onnx\\[onnx\\]"):
        ort.ModelCompiler(options, model).compile_to_bytes()
    relu = unary("Relu")
    assert ort.ModelCompiler(ort.SessionOptions(), relu).compile_to_bytes() == relu


@pytest.mark.parametrize("make", [apart, inner_apart])
def test_a_session_writes_the_model_where_its_options_say(tmp_path: Path, make: Any) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "written" / "model.onnx"
    out.parent.mkdir()
    path.write_bytes(make(W))
    (tmp_path / "w.bin").write_bytes((b"" if make is apart else bytes(8)) + W.tobytes())
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(out)
    ort.InferenceSession(path, options)
    double(out)
    relu = unary("Relu")
    ort.InferenceSession(relu, options)
    assert out.read_bytes() == relu
    # In place of its own file, whose weights this session goes on to read.
    options.optimized_model_filepath = str(path)
    session = ort.InferenceSession(path, options)
    np.testing.assert_array_equal(session.run(None, {"x": W})[0], 2 * W)
    double(path)
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith(".")], "nothing is left beside it"
    options.optimized_model_filepath = str(out)
    # A compiler with these options writes its own file alone.
    out.unlink()
    assert ort.ModelCompiler(options, relu).compile_to_bytes() == relu and not out.exists()


def test_tensors_of_a_written_model_go_where_its_options_say(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "written.onnx"
    path.write_bytes(apart(W))
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(out)
    key = "session.optimized_model_external_initializers_"
    options.add_session_config_entry(key + "file_name", "tensors.bin")
    options.add_session_config_entry(key + "min_size_in_bytes", "100")
    ort.InferenceSession(path, options)
    (tmp_path / "w.bin").unlink()
    assert (tmp_path / "tensors.bin").stat().st_size == W.nbytes
    double(out)
    # Also in place of the file that the session reads.
    options.optimized_model_filepath = str(tmp_path / "again.onnx")
    session = ort.InferenceSession(out, options)
    np.testing.assert_array_equal(session.run(None, {"x": W})[0], 2 * W)
    double(tmp_path / "again.onnx")
    options.add_session_config_entry(key + "min_size_in_bytes", "many")
    with pytest.raises(state.InvalidArgument, match="min_size_in_bytes is 'many'"):
        ort.InferenceSession(unary("Relu"), options)
    options.add_session_config_entry(key + "file_name", "")
    options.add_session_config_entry(key + "min_size_in_bytes", "100")
    options.optimized_model_filepath = str(tmp_path / "missing" / "model.onnx")
    with pytest.raises(state.Fail, match="missing"):
        ort.InferenceSession(unary("Relu"), options)
