"""Packed models: written by `kiln.pack`, or made by sessions behind their load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import WORDS, language_model, make_model, tensor, translator
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


PROMPT = [1, 5, 2, 11, 7]


def said(source: kiln.Decoder | kiln.Encoded, prompt: list[int]) -> list[int]:
    generator = kiln.Generator(source, max_tokens=24)
    generator.append(prompt)
    return list(generator)


def same_decoder(plain: kiln.Decoder, mapped: kiln.Decoder) -> None:
    """Both give the same bits at each step, and so the same text."""
    caches = plain.cache(), mapped.cache()
    for tokens in (PROMPT, [3], [WORDS - 1]):
        expected, found = plain.step(caches[0], [tokens]), mapped.step(caches[1], [tokens])
        np.testing.assert_array_equal(expected, found, strict=True)
    assert said(plain, PROMPT) == said(mapped, PROMPT)


def builders(folder: Path, **model: object) -> Path:
    """A folder as onnxruntime-genai's builder writes it."""
    folder.mkdir()
    (folder / "decoder.onnx").write_bytes(language_model())
    known = {"context_length": 64, "eos_token_id": 0, "decoder": {"filename": "decoder.onnx"}}
    (folder / "genai_config.json").write_text(json.dumps({"model": {**known, **model}}))
    return folder


def test_a_packed_decoder_says_what_its_model_says(tmp_path: Path) -> None:
    model, packed = tmp_path / "model.onnx", tmp_path / "model.kpk"
    model.write_bytes(language_model())
    assert kiln.pack(model, packed, decoder=True) == packed.stat().st_size
    same_decoder(kiln.Decoder(model), kiln.Decoder(packed, pack_verify="each"))
    with pytest.raises(kiln.ModelError, match="a decoder"):
        kiln.Session(packed)
    kiln.pack(model, packed)
    with pytest.raises(kiln.ModelError, match="a session"):
        kiln.Decoder(packed)
    with pytest.raises(kiln.ModelError):
        kiln.pack(product(tmp_path / "product.onnx"), packed, decoder=True)
    with pytest.raises(kiln.ModelNotFoundError):
        kiln.pack(tmp_path / "none.onnx", packed, decoder=True)
    assert kiln.Session(packed).packed, "a call that fails leaves the file"


def test_the_decoder_of_a_folder_of_exporters_is_packed(tmp_path: Path) -> None:
    folder, packed = tmp_path / "exported", tmp_path / "model.kpk"
    (folder / "onnx").mkdir(parents=True)
    model = folder / "onnx" / "model.onnx"
    model.write_bytes(language_model())
    with pytest.raises(kiln.ModelNotFoundError, match=r"config\.json"):
        kiln.pack(folder, packed)
    (folder / "config.json").write_text("{}")
    kiln.pack(folder, packed)
    same_decoder(kiln.Decoder(model), kiln.Decoder(packed))


def test_a_decoder_that_is_packed_with_aliases_is_loaded_with_them(tmp_path: Path) -> None:
    model, packed = tmp_path / "model.onnx", tmp_path / "model.kpk"
    model.write_bytes(language_model())
    alias = ["present.* -> past_key_values.*"]
    kiln.pack(model, packed, decoder=True, alias=alias)
    same_decoder(kiln.Decoder(model, alias=alias), kiln.Decoder(packed, alias=alias))
    with pytest.raises(kiln.ModelError, match="aliases"):
        kiln.Decoder(packed)
    with pytest.raises(kiln.ModelError, match="is not OUTPUT -> INPUT"):
        kiln.pack(model, packed, decoder=True, alias=["present"])
    for of in (model, translator(tmp_path / "translator")):
        with pytest.raises(kiln.OptionError, match="alias"):
            kiln.pack(of, tmp_path / "out", alias=alias)


def test_the_decoder_of_a_builders_folder_is_packed(tmp_path: Path) -> None:
    folder = builders(tmp_path / "builders")
    packed, same = folder / "decoder.kpk", tmp_path / "same.kpk"
    assert kiln.pack(folder, packed) == packed.stat().st_size
    kiln.pack(folder / "decoder.onnx", same, decoder=True)
    assert packed.read_bytes() == same.read_bytes()
    same_decoder(kiln.Decoder(folder / "decoder.onnx"), kiln.Decoder(packed))
    assert kiln.pack(folder, packed, decoder=True) == same.stat().st_size


def test_the_files_of_an_encoder_and_a_decoder_are_packed_into_a_folder(tmp_path: Path) -> None:
    folder, packed = translator(tmp_path / "translator"), tmp_path / "far" / "packed"
    size = kiln.pack(folder, packed)
    files = {path.name: path.stat().st_size for path in packed.iterdir()}
    assert set(files) == {"encoder_model.kpk", "decoder_model.kpk", "decoder_with_past_model.kpk"}
    assert size == sum(files.values())
    plain, mapped = kiln.EncoderDecoder(folder), kiln.EncoderDecoder(packed)
    for source in ([[1, 5, 2, 11, 7]], [[3, 1]]):
        expected, found = (model.encode({"input_ids": source}) for model in (plain, mapped))
        caches = expected.cache(), found.cache()
        for token in (3, 0, 9):
            logits = plain.step(caches[0], [token]), mapped.step(caches[1], [token])
            np.testing.assert_array_equal(*logits, strict=True)
        assert said(expected, [3]) == said(found, [3])
    with pytest.raises(kiln.OptionError, match="decoder: .*translator has an encoder and a decoder"):
        kiln.pack(folder, packed, decoder=True)
    (tmp_path / "file").touch()
    with pytest.raises(kiln.ModelError, match="cannot make the folder"):
        kiln.pack(folder, tmp_path / "file")


def test_folders_without_a_model_to_pack_are_refused_by_name(tmp_path: Path) -> None:
    to = tmp_path / "model.kpk"
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(kiln.ModelNotFoundError, match=r"genai_config\.json") as found:
        kiln.pack(empty, to)
    assert found.value.filename == str(empty)
    with pytest.raises(kiln.UnsupportedError, match=r"model\.vision") as unsupported:
        kiln.pack(builders(tmp_path / "vision", vision={}), to)
    assert len(unsupported.value.problems) == 1
    for name, decoder, reason in [
        ("outside", {"filename": "../decoder.onnx"}, "outside of the folder"),
        ("nameless", {}, "filename is missing"),
    ]:
        with pytest.raises(kiln.ModelError, match=reason):
            kiln.pack(builders(tmp_path / name, decoder=decoder), to)
    with pytest.raises(kiln.ModelNotFoundError, match=r"none\.onnx"):
        kiln.pack(builders(tmp_path / "gone", decoder={"filename": "none.onnx"}), to)
    broken = builders(tmp_path / "broken")
    (broken / "genai_config.json").write_text("{")
    with pytest.raises(kiln.ModelError, match="no configuration"):
        kiln.pack(broken, to)
    half = translator(tmp_path / "half")
    (half / "decoder_with_past_model.onnx").unlink()
    with pytest.raises(kiln.ModelError, match=r"decoder_with_past_model\.onnx"):
        kiln.pack(half, to)
    assert not to.exists()
