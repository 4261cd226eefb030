"""Packed models: written by `kiln.pack`, or made by sessions behind their load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import make_model, tensor
from onnx import helper, numpy_helper

import kiln

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def product(path: Path) -> Path:
    """y = relu(x w), in a file."""
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    path.write_bytes(make_model(nodes, [tensor("x")], [tensor("y", shape=None)], [weights]))
    return path


def test_a_packed_model_gives_the_same_bits(tmp_path: Path) -> None:
    model = product(tmp_path / "model.onnx")
    packed = tmp_path / "model.kpk"
    size = kiln.pack(model, packed, precision="f32")
    assert size == packed.stat().st_size
    plain, mapped = kiln.Session(model), kiln.Session(packed)
    assert mapped.packed and not plain.packed
    [expected], [found] = plain.run(None, {"x": X}), mapped.run(None, {"x": X})
    np.testing.assert_array_equal(expected, found, strict=True)


def test_a_table_may_stay_in_the_models_file(tmp_path: Path) -> None:
    table = np.linspace(-1, 1, 600 * 64, dtype=np.float32).reshape(600, 64)
    nodes = [helper.make_node("Gather", ["w", "x"], ["y"])]
    ids = helper.make_tensor_value_info("x", 7, ["n"])
    model, packed, whole = (tmp_path / name for name in ("model.onnx", "model.kpk", "whole.kpk"))
    model.write_bytes(make_model(nodes, [ids], [tensor("y", shape=None)], [numpy_helper.from_array(table, "w")]))
    saved = kiln.pack(model, whole) - kiln.pack(model, packed, weightless=True)
    assert abs(saved - table.nbytes) < 8192
    [found] = kiln.Session(packed, pack_verify="each").run(None, {"x": np.array([5, 599])})
    np.testing.assert_array_equal(found, table[[5, 599]], strict=True)
    model.unlink()
    with pytest.raises(kiln.ModelError, match="model.onnx"):
        kiln.Session(packed)


def test_a_session_packs_its_model_and_the_next_one_maps_it(tmp_path: Path) -> None:
    model = product(tmp_path / "model.onnx")
    with kiln.Session(model, pack="auto", cache_dir=tmp_path / "records") as first:
        [expected] = first.run(None, {"x": X})
        assert not first.packed
    second = kiln.Session(model, pack="auto", cache_dir=tmp_path / "records")
    assert second.packed
    np.testing.assert_array_equal(second.run(None, {"x": X})[0], expected, strict=True)


def test_the_environment_packs_for_programs_that_do_not_know_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = product(tmp_path / "model.onnx")
    monkeypatch.setenv("KILN_PACK", "auto")
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path / "records"))
    kiln.Session(model).close()
    assert kiln.Session(model).packed


def test_a_file_for_other_options_or_that_is_damaged_is_refused_by_name(tmp_path: Path) -> None:
    model, packed = product(tmp_path / "model.onnx"), tmp_path / "model.kpk"
    kiln.pack(model, packed)
    with pytest.raises(kiln.ModelError, match="numerics"):
        kiln.Session(packed, numerics="strict")
    damaged = bytearray(packed.read_bytes())
    damaged[-1] ^= 1
    packed.write_bytes(damaged)
    with pytest.raises(kiln.ModelError, match=r"model\.kpk is no packed model"):
        kiln.Session(packed)
    with pytest.raises(kiln.ModelNotFoundError):
        kiln.pack(tmp_path / "none.onnx", packed)
    with pytest.raises(kiln.ModelError, match="cannot write"):
        kiln.pack(model, tmp_path / "none" / "model.kpk")


def test_a_packed_model_is_saved_and_given_to_later_sessions(tmp_path: Path) -> None:
    model, packed = product(tmp_path / "model.onnx"), tmp_path / "saved.kpk"
    first = kiln.Session(model, cache_mode="memory")
    assert first.save_cache(packed, "fusion") == 1
    assert kiln.Session(packed).packed and not kiln.Session(model, cache_mode="memory").packed
    assert first.load_cache(packed, "fusion") == 1
    later = kiln.Session(model, cache_mode="memory")
    assert later.packed and not first.packed
    np.testing.assert_array_equal(first.run(None, {"x": X})[0], later.run(None, {"x": X})[0], strict=True)
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(kiln.ModelError, match=r"saved\.kpk is no packed model"):
        first.load_cache(packed, "fusion")
    with pytest.raises(kiln.OptionError, match="tensorrt"):
        first.save_cache(packed, "tensorrt")  # type: ignore[arg-type]
    with pytest.raises(kiln.RecordsError):
        first.load_cache(tmp_path / "none.kiln", "cpu")
