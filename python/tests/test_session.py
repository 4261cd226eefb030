"""What a session does for a program that uses it as documented, and what it refuses."""

from __future__ import annotations

import gzip
import importlib.resources
import io
import mmap
import pickle
import weakref
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ENDLESS, SQUARE, apart, looping, make_model, tensor, unary
from onnx import TensorProto, helper

import kiln

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
Y = np.maximum(X, 0)


def one(session: kiln.Session, x: Any) -> Any:
    [y] = session.run(None, {"x": x})
    return y


def test_a_model_is_a_path_or_bytes(tmp_path: Path) -> None:
    model = unary("Relu")
    path = tmp_path / "relu.onnx"
    path.write_bytes(model)
    for given in (model, str(path), path, path.as_uri(), bytearray(model), memoryview(model)):
        np.testing.assert_array_equal(one(kiln.Session(given), X), Y)


def test_urls_are_decoded_and_other_hosts_refused(tmp_path: Path) -> None:
    path = tmp_path / "a model%.onnx"
    path.write_bytes(unary("Relu"))
    assert "%20" in path.as_uri()
    np.testing.assert_array_equal(one(kiln.Session(path.as_uri()), X), Y)
    with pytest.raises(kiln.ModelError, match="another host"):
        kiln.Session(f"file://elsewhere{path}")
    with pytest.raises(kiln.ModelNotFoundError, match="a file"):
        kiln.Session(f"file://{tmp_path}/a%20file")


@pytest.mark.parametrize("rows", [3, 50_000])
def test_a_model_of_bytes_may_have_its_files_handed_over(rows: int, tmp_path: Path) -> None:
    w = np.arange(rows, dtype=np.float32)
    model, raw = apart(w), w.tobytes()
    (tmp_path / "w.bin").write_bytes(raw)
    with open(tmp_path / "w.bin", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    on_disk = np.memmap(tmp_path / "w.bin", dtype=np.uint8, mode="r")
    for buffer in (raw, bytearray(raw), memoryview(raw), w, mapped, on_disk):
        session = kiln.Session(model, external_data={"./w.bin": buffer, "other": b""})
        np.testing.assert_array_equal(one(session, w), 2 * w)
        np.testing.assert_array_equal(one(pickle.loads(pickle.dumps(session)), w), 2 * w)
    for files in ({}, {"v.bin": raw}):
        with pytest.raises(kiln.ModelError, match="w.bin"):
            kiln.Session(model, external_data=files)
    with pytest.raises(kiln.ModelError, match="w.bin"):
        kiln.Session(model)
    with pytest.raises(kiln.ModelError, match="has 4 bytes"):
        kiln.Session(model, external_data={"w.bin": raw[:4]})
    for wrong in ({"w.bin": 5}, {"w.bin": "text"}, {5: raw}, {"w.bin": np.zeros((4, 4), np.float32)[:, 1:]}):
        with pytest.raises(kiln.OptionError, match="external_data"):
            kiln.Session(model, external_data=wrong)
    with pytest.raises(kiln.OptionError, match="external_data"):
        kiln.Session(tmp_path / "model.onnx", external_data={"w.bin": raw})


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "models.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("rows", [3, 50_000])
def test_a_model_is_read_where_it_lies_in_an_archive_and_so_are_its_files(rows: int, tmp_path: Path) -> None:
    w = np.arange(rows, dtype=np.float32)
    path = archive(tmp_path, {"a/model.onnx": apart(w), "a/w.bin": w.tobytes(), "b/model.onnx": apart(w)})
    session = kiln.Session(zipfile.Path(path, "a/model.onnx"))
    np.testing.assert_array_equal(one(session, w), 2 * w)
    np.testing.assert_array_equal(one(pickle.loads(pickle.dumps(session)), w), 2 * w)
    handed = kiln.Session(zipfile.Path(path, "b/model.onnx"), external_data={"w.bin": w})
    np.testing.assert_array_equal(one(pickle.loads(pickle.dumps(handed)), w), 2 * w)
    with pytest.raises(kiln.ModelError, match="w.bin"):
        kiln.Session(zipfile.Path(path, "b/model.onnx"))
    with pytest.raises(kiln.ModelError, match="zip archive"):
        kiln.Session(path)
    with pytest.raises(kiln.ModelError, match="nothing.onnx"):
        kiln.Session(zipfile.Path(path, "nothing.onnx"))


def test_an_archive_s_sizes_are_held_against_the_limit_of_memory(tmp_path: Path) -> None:
    path = archive(tmp_path, {"model.onnx": apart(X), "w.bin": bytes(64 << 20)})
    with pytest.raises(kiln.ModelError, match="more than 16777216 bytes"):
        kiln.Session(zipfile.Path(path, "model.onnx"), memory_bytes=16 << 20)


def test_a_model_in_a_package_that_is_an_archive_is_found_by_its_resources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, {"packed_models/__init__.py": b"", "packed_models/relu.onnx": unary("Relu")})
    monkeypatch.syspath_prepend(str(path))
    resource = importlib.resources.files("packed_models") / "relu.onnx"
    np.testing.assert_array_equal(one(kiln.Session(resource), X), Y)


def test_a_model_is_read_from_an_open_file(tmp_path: Path) -> None:
    model = unary("Relu")
    packed = tmp_path / "relu.onnx.gz"
    packed.write_bytes(gzip.compress(model))
    (tmp_path / "relu.onnx").write_bytes(model)
    with gzip.open(packed) as unpacked, open(tmp_path / "relu.onnx", "rb") as file:
        for given in (unpacked, file, io.BytesIO(model)):
            session = kiln.Session(given)
            np.testing.assert_array_equal(one(session, X), Y)
            np.testing.assert_array_equal(one(pickle.loads(pickle.dumps(session)), X), Y)
    with pytest.raises(kiln.ModelError, match="mode 'rb'"):
        kiln.Session(io.StringIO("a text"))
    with pytest.raises(kiln.ModelError, match="an open file"):
        kiln.Session(5)
    with pytest.raises(ValueError, match="closed"):
        kiln.Session(file)



def test_shapes_change_from_request_to_request(relu: kiln.Session) -> None:
    for rows in (1, 7, 1, 0, 300):
        x = np.random.default_rng(rows).standard_normal((rows, 3), np.float32)
        np.testing.assert_array_equal(one(relu, x), np.maximum(x, 0))


def test_outputs_are_those_that_are_named_in_that_order() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"])]
    session = kiln.Session(make_model(nodes, [tensor("x")], [tensor("a"), tensor("b")]))
    for names in (None, [], ("a", "b")):
        a, b = session.run(names, {"x": X})
        np.testing.assert_array_equal(a, Y)
        np.testing.assert_array_equal(b, -X)
    b, a, again = session.run(["b", "a", "b"], {"x": X})
    np.testing.assert_array_equal(a, Y)
    assert again is b
    with pytest.raises(kiln.OutputError, match="output 'c': .*a, b"):
        session.run(["c"], {"x": X})


def test_ports_say_what_the_model_declares() -> None:
    nodes = [helper.make_node("Add", ["x", "bias"], ["y"])]
    bias = helper.make_tensor("bias", TensorProto.FLOAT, (3,), [1.0, 2.0, 3.0])
    shape = ("n", 3)
    inputs = [tensor("x", TensorProto.FLOAT, shape), tensor("bias", TensorProto.FLOAT, (3,))]
    session = kiln.Session(make_model(nodes, inputs, [tensor("y", TensorProto.FLOAT, [None, 3])], [bias]))
    x, default = session.inputs
    assert (x.name, x.dtype, x.shape, x.kind, x.has_default) == ("x", "float32", ("n", 3), "tensor", False)
    assert (default.name, default.has_default) == ("bias", True)
    assert session.outputs[0].shape == (None, 3)
    assert "x" in repr(session) and "Port" in repr(x)
    np.testing.assert_array_equal(one(session, X), X + [1, 2, 3])
    [y] = session.run(None, {"x": X, "bias": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(y, X)


def test_metadata_is_what_the_file_says() -> None:
    model = make_model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x")],
        [tensor("y")],
        producer_name="a tool",
        model_version=7,
        doc_string="what it is",
        properties={"character": "a\nb\nc", "empty": ""},
    )
    metadata = kiln.Session(model).metadata
    assert metadata.properties == {"character": "a\nb\nc", "empty": ""}
    assert (metadata.producer_name, metadata.version, metadata.description) == ("a tool", 7, "what it is")
    assert metadata.graph_name == "graph"


@pytest.mark.parametrize(
    "x",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        X.astype(">f4"),
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape),
        X.tolist(),
        [row for row in X],
        memoryview(X),
    ],
    ids=["fortran", "strided", "twice reversed", "big endian", "misaligned", "lists", "list of arrays", "buffer"],
)
def test_arrays_of_any_layout_and_what_becomes_one_are_taken(relu: kiln.Session, x: Any) -> None:
    np.testing.assert_array_equal(one(relu, x), Y)


def test_what_offers_dlpack_is_taken(relu: kiln.Session) -> None:
    class Offers:
        def __dlpack__(self, **options: Any) -> Any:
            return X.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()

    np.testing.assert_array_equal(one(relu, Offers()), Y)


def test_scalars_become_what_the_model_declares() -> None:
    session = kiln.Session(unary("Neg", TensorProto.INT64, ()))
    for x in (5, np.int32(5), np.array(5), True + 4):
        y = one(session, x)
        assert y.shape == () and y.dtype == np.int64 and y == -5


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (TensorProto.FLOAT, np.float32),
        (TensorProto.DOUBLE, np.float64),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.INT8, np.int8),
        (TensorProto.INT16, np.int16),
        (TensorProto.INT32, np.int32),
        (TensorProto.INT64, np.int64),
        (TensorProto.UINT8, np.uint8),
        (TensorProto.UINT16, np.uint16),
        (TensorProto.UINT32, np.uint32),
        (TensorProto.UINT64, np.uint64),
        (TensorProto.BOOL, np.bool_),
    ],
)
def test_every_type_of_numpys_goes_in_and_comes_out(number: int, dtype: Any) -> None:
    session = kiln.Session(unary("Identity", number))
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    y = one(session, x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)
    assert session.inputs[0].dtype == np.dtype(dtype).name


@pytest.mark.parametrize("name", ["bfloat16", "int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_types_of_ml_dtypes_go_in_and_come_out(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    number = {
        "bfloat16": TensorProto.BFLOAT16,
        "int4": TensorProto.INT4,
        "uint4": TensorProto.UINT4,
        "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
        "float8_e5m2": TensorProto.FLOAT8E5M2,
    }[name]
    # Through a Reshape, which moves elements of any type.
    shape = helper.make_tensor("shape", TensorProto.INT64, (1,), [-1])
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "graph",
        [tensor("x", number, (2, 3))],
        [tensor("y", number, (6,))],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([[0, 1, 2], [3, 4, 7]]).astype(getattr(ml_dtypes, name))
    y = one(kiln.Session(model.SerializeToString()), x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), x.reshape(-1).astype(np.float32))


@pytest.mark.parametrize(
    "x", [np.array([["a", "bc"]]), np.array([["a", "bc"]], object), [["a", "bc"]], [[b"a", b"bc"]]]
)
def test_texts_go_in_and_come_out(x: Any) -> None:
    session = kiln.Session(unary("Identity", TensorProto.STRING, ("n", "m")))
    y = one(session, x)
    assert y.dtype == object and y.tolist() == [["a", "bc"]]


def test_sequences_are_lists() -> None:
    part = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    session = kiln.Session(
        make_model([helper.make_node("SequenceLength", ["parts"], ["n"])], [part], [tensor("n", TensorProto.INT64, ())])
    )
    assert (session.inputs[0].kind, session.inputs[0].dtype) == ("sequence", "float32")
    [n] = session.run(None, {"parts": [X, X[:1]]})
    assert n == 2
    assert session.run(None, {"parts": [[1, 2], [3]]}) == [2], "lists become what the model declares"
    with pytest.raises(kiln.InputError, match="expected a list of arrays"):
        session.run(None, {"parts": X})
    with pytest.raises(kiln.InputError, match="expected elements of type float32, got int32"):
        session.run(None, {"parts": [X, X.astype(np.int32)]})
    split = make_model([helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0)], [tensor("x")], [part])
    parts = one(kiln.Session(split), X)
    assert [array.shape for array in parts] == [(1, 3), (1, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), X)


def test_an_optional_value_is_an_array_or_none() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    maybe = helper.make_value_info("x", kind)
    model = make_model(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])], [maybe], [tensor("y", TensorProto.BOOL, ())]
    )
    session = kiln.Session(model)
    assert (session.inputs[0].kind, session.inputs[0].dtype) == ("optional", "float32")
    with pytest.raises(kiln.InputError, match="expected elements of type float32, got int64"):
        one(session, np.ones(2, np.int64))
    assert one(session, np.ones(2, np.float32)) and not one(session, None)


BAD_INPUTS: list[tuple[dict[Any, Any], type[Exception], str]] = [
    ({}, kiln.InputError, "'x': not given"),
    ({"z": X}, kiln.InputError, "'z': the model has no such input; it has x"),
    ({"x": X.astype(np.float64)}, kiln.InputError, "expected elements of type float32, got float64"),
    ({"x": X.astype(np.int32)}, kiln.InputError, "got int32"),
    ({"x": X.astype(np.complex64)}, kiln.InputError, "no tensors of numpy's complex64"),
    ({"x": np.zeros((2, 3), "datetime64[s]")}, kiln.InputError, "no tensors of numpy's"),
    ({"x": np.array([["a", "b", "c"]])}, kiln.InputError, "float32, got string"),
    ({"x": np.array([[None, 1, 2]], object)}, kiln.InputError, "expected float32, got an array of objects"),
    ({"x": X[0]}, kiln.InputError, r"expected shape \[n, 3\], got \[3\]"),
    ({"x": X[:, :2]}, kiln.InputError, r"expected shape \[n, 3\], got \[2, 2\]"),
    ({"x": [[1, 2], [3]]}, kiln.InputError, "no array can be made of list"),
    ({"x": "text"}, kiln.InputError, "no array can be made of str"),
    ({"x": object()}, kiln.InputError, "'x'"),
    ({"x": None}, kiln.InputError, "'x': expected float32, got None"),
    ({1: X}, TypeError, "str"),
]


@pytest.mark.parametrize(("inputs", "error", "message"), BAD_INPUTS)
def test_an_input_that_does_not_fit_is_an_error_that_says_so(
    relu: kiln.Session, inputs: dict[Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        relu.run(None, inputs)
    np.testing.assert_array_equal(one(relu, X), Y)


def test_what_is_no_model_is_an_error_that_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "missing.onnx"
    with pytest.raises(kiln.ModelNotFoundError, match="missing.onnx") as caught:
        kiln.Session(missing)
    assert isinstance(caught.value, FileNotFoundError) and caught.value.filename == str(missing)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    text = tmp_path / "text.onnx"
    text.write_text("this is no model")
    for given in (b"", b"\xff\xff\xff", unary("Relu")[:-5], text, tmp_path):
        with pytest.raises(kiln.ModelError):
            kiln.Session(given)
    for given in (None, 5, X, ["a"]):
        with pytest.raises(kiln.ModelError, match="a path, bytes, an open file"):
            kiln.Session(given)  # type: ignore[arg-type]
    with pytest.raises(kiln.UnsupportedError) as refused:
        kiln.Session(make_model([helper.make_node("Nonsense", ["x"], ["y"])], [tensor("x")], [tensor("y")]))
    assert any("Nonsense" in problem for problem in refused.value.problems)
    assert isinstance(refused.value, NotImplementedError)
    assert pickle.loads(pickle.dumps(refused.value)).problems == refused.value.problems


@pytest.mark.parametrize(
    "options",
    [
        {"threads": -1},
        {"threads": "two"},
        {"threads": 1 << 40},
        {"pool": 3},
        {"cache_mode": "sometimes"},
        {"cache_dir": 5},
        {"precision": "f8"},
        {"numerics": "exact"},
        {"max_isa": "sse"},
        {"tune": "yes"},
        {"pack": "always"},
        {"pack_verify": 1},
        {"pack_bytes": -1},
        {"time_limit": -1.0},
        {"time_limit": float("nan")},
        {"load_time_limit": "soon"},
        {"taps": 7},
        {"speed": "high"},
    ],
)
def test_an_option_that_cannot_be_is_an_error_that_names_it(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(kiln.OptionError, match=f"^{name}: "):
        kiln.Session(unary("Relu"), **options)


def test_options_are_those_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session = kiln.Session(
        unary("Relu"), threads=2, cache_mode="memory", numerics="strict", max_isa="avx2", profile=True, rehearse=False
    )
    one(session, X)
    [row] = session.profile()
    assert (row["op"], row["calls"]) == ("Relu", 1) and row["execute_seconds"] > 0
    monkeypatch.setenv("KILN_NUM_THREADS", "0")
    with pytest.raises(kiln.OptionError, match="KILN_NUM_THREADS=0"):
        kiln.Session(unary("Relu"))


def test_a_value_on_the_way_can_be_had() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["middle"]), helper.make_node("Neg", ["middle"], ["y"])]
    model = make_model(nodes, [tensor("x")], [tensor("y")])
    y, middle = kiln.Session(model, taps=["middle"]).run(None, {"x": X})
    np.testing.assert_array_equal(middle, Y)
    np.testing.assert_array_equal(y, -Y)
    with pytest.raises(kiln.ModelError, match="midle.*middle"):
        kiln.Session(model, taps=["midle"])


def test_a_request_has_a_time_limit_and_can_be_called_off() -> None:
    session = kiln.Session(looping(), time_limit=0.2)
    with pytest.raises(kiln.TimeLimitError) as caught:
        session.run(None, {"n": ENDLESS, "x": SQUARE})
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(kiln.TimeLimitError, match="10ms"):
        session.run(None, {"n": ENDLESS, "x": SQUARE}, time_limit=0.01)
    cancel = kiln.Cancel()
    assert not cancel.cancelled
    cancel.cancel()
    with pytest.raises(kiln.CancelledError):
        session.run(None, {"n": ENDLESS, "x": SQUARE}, cancel=cancel)
    [y] = session.run(None, {"n": np.array(0, np.int64), "x": SQUARE})
    np.testing.assert_array_equal(y, SQUARE)
    with pytest.raises(kiln.TimeLimitError):
        kiln.Session(looping(), load_time_limit=0.0)


def test_pickles_open_the_same_model_with_the_same_options(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(unary("Relu"))
    for model in (unary("Relu"), path):
        session = kiln.Session(model, profile=True, pool=kiln.Pool(2))
        copy = pickle.loads(pickle.dumps(session))
        np.testing.assert_array_equal(one(copy, X), Y)
        assert len(copy.profile()) == 1


class Counting(kiln.Session):
    """A session of a program's own class."""

    count = 0

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        self.count += 1
        return super().run(*args, **kwargs)


def test_the_class_can_be_built_on() -> None:
    session = Counting(unary("Relu"), threads=1)
    np.testing.assert_array_equal(one(session, X), Y)
    assert session.count == 1
    assert isinstance(pickle.loads(pickle.dumps(session)), Counting)
    weak = weakref.ref(session)
    del session
    assert weak() is None


def test_a_closed_session_is_an_error_and_its_outputs_stay() -> None:
    with kiln.Session(unary("Relu")) as session:
        y = one(session, X)
    assert session.closed
    np.testing.assert_array_equal(y, Y)
    for use in (
        lambda: session.run(None, {"x": X}),
        lambda: session.inputs,
        lambda: session.stats(),
        lambda: session.trim(),
        lambda: session.save_records(),
    ):
        with pytest.raises(kiln.ClosedError):
            use()
    session.close()
    assert "closed" in repr(session)


def test_records_go_into_files_and_out_of_them(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.FLOAT, (64, 64), np.ones(64 * 64, np.float32))
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ("n", 64))],
        [tensor("y", TensorProto.FLOAT, ("n", 64))],
        [weights],
    )
    first = kiln.Session(model, cache_mode="memory", rehearse=False)
    assert first.warm({"x": (4, 64)}) == 1
    assert first.warm([{"x": (8, 64)}, {"x": (16, 64)}]) == 2
    before = first.stats()["session"]["misses"]
    assert before > 0
    one(first, np.ones((8, 64), np.float32))
    assert first.stats()["session"]["misses"] == before, "a warmed shape builds nothing"
    path = tmp_path / "records.kiln"
    assert first.save_records(path) > 0
    second = kiln.Session(model, cache_mode="memory", rehearse=False)
    assert second.load_records(path) > 0
    one(second, np.ones((8, 64), np.float32))
    stats = second.stats()["session"]
    assert stats["misses"] == 0 and stats["record_hits"] > 0
    with pytest.raises(kiln.RecordsError):
        second.load_records(tmp_path / "missing.kiln")
    for bad, error in (
        ({"x": (4, 63)}, kiln.InputError),
        ({"z": (4, 64)}, kiln.InputError),
        ({"x": (-1, 64)}, OverflowError),
    ):
        with pytest.raises(error):
            second.warm(bad)


def test_saved_records_warm_the_next_session(tmp_path: Path) -> None:
    first = kiln.Session(unary("Softmax"), cache_dir=tmp_path)
    one(first, X)
    assert first.save_records() > 0
    first.close()
    second = kiln.Session(unary("Softmax"), cache_dir=tmp_path)
    assert second.stats()["records"]["loaded"] > 0
    one(second, X)
    assert second.stats()["session"]["misses"] == 0


def test_the_bench_has_a_request_without_python(relu: kiln.Session) -> None:
    # The least of some: on a busy machine, one request may wait longer than 2000 take.
    few, many = (min(relu._seconds_in_rust({"x": X}, count) for _ in range(20)) for count in (1, 2000))
    assert 0 < few < many
    with pytest.raises(kiln.InputError):
        relu._seconds_in_rust({"x": X[0]}, 1)


def test_requests_side_by_side_are_what_they_are_alone() -> None:
    session = kiln.Session(unary("Sigmoid", shape=("n",)), threads=2)
    requests = [{"x": np.linspace(-4, 4, size, dtype=np.float32)} for size in (7, 1, 300, 0, 64)]
    for request, answer in zip(requests, session.run_many(None, requests), strict=True):
        np.testing.assert_array_equal(answer, session.run(None, request))
    assert session.run_many(None, []) == []


def test_a_request_side_by_side_fails_alone() -> None:
    session = kiln.Session(unary("Relu", shape=("n",)), threads=2)
    requests = [{"x": np.ones(3, np.float32)}, {"x": np.ones((3, 1), np.float32)}, {"z": np.ones(3, np.float32)}]
    [[good], *bad] = session.run_many(None, requests, return_exceptions=True)
    assert good.tolist() == [1, 1, 1]
    assert all(isinstance(error, kiln.InputError) for error in bad)
    with pytest.raises(kiln.InputError):
        session.run_many(None, requests)
    cancel = kiln.Cancel()
    cancel.cancel()
    [ended, also] = session.run_many(None, requests[:1] * 2, return_exceptions=True, cancel=cancel)
    assert isinstance(ended, kiln.CancelledError) and isinstance(also, kiln.CancelledError)
    with pytest.raises(kiln.TimeLimitError):
        session.run_many(None, requests[:1], time_limit=0)
