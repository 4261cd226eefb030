"""Outputs that a request has arrays for are computed in them, or copied there where they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conftest import WORDS, make_model, shared_cache, tensor, unary
from numpy.typing import NDArray
from onnx import TensorProto, helper
from test_session import X

import kiln
import kiln.onnxruntime as ort

WIDE = (1024, 1024)


def wide(**options: Any) -> kiln.Session:
    """y = x + rows of 1024 numbers, of 4 MiB for 1024 rows, in a session that may have no memory of that size."""
    rows = helper.make_tensor("rows", TensorProto.FLOAT, (1, 1024), np.arange(1024, dtype=np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("Add", ["x", "rows"], ["y"])]
    ports = tensor("x", TensorProto.FLOAT, ("n", 1)), tensor("y", TensorProto.FLOAT, ("n", 1024))
    return kiln.Session(make_model(nodes, ports[:1], ports[1:], [rows]), memory_bytes=1 << 20, **options)


def test_an_output_is_computed_where_its_array_is() -> None:
    session = wide()
    x, y = np.ones((1024, 1), np.float32), np.zeros(WIDE, np.float32)
    with pytest.raises(kiln.RunError, match="bytes, of which"):
        session.run(None, {"x": x})
    for value in range(4):
        x[:] = value
        [made] = session.run(["y"], {"x": x}, out={"y": y})
        assert made is y
        np.testing.assert_array_equal(y, np.arange(1024) + np.full(WIDE, value))
    assert (x == 3).all()


def cache() -> bytes:
    """present = past and another row; its sum beside it."""
    nodes = [
        helper.make_node("Concat", ["past", "row"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present"], ["sum"], keepdims=0),
    ]
    shapes = tensor("past", TensorProto.FLOAT, ("n", 1024)), tensor("row", TensorProto.FLOAT, (1, 1024))
    outputs = tensor("present", TensorProto.FLOAT, ("m", 1024)), tensor("sum", TensorProto.FLOAT, ())
    return make_model(nodes, shapes, outputs)


def test_a_bound_cache_is_not_copied() -> None:
    session = ort.InferenceSession(cache())
    session._session = kiln.Session(cache(), memory_bytes=1 << 20)
    buffers = np.zeros((1100, 1024), np.float32), np.zeros((1100, 1024), np.float32)
    binding = session.io_binding()
    for rows in range(1000, 1010):
        past, present = buffers[rows % 2][:rows], buffers[(rows + 1) % 2][: rows + 1]
        binding.bind_input("past", "cpu", 0, np.float32, past.shape, past.ctypes.data)
        binding.bind_cpu_input("row", np.full((1, 1024), rows, np.float32))
        if rows % 3:
            binding.bind_output("present", "cpu", 0, np.float32, present.shape, present.ctypes.data)
        else:
            binding.bind_ortvalue_output("present", ort.OrtValue.ortvalue_from_numpy(present))
        binding.bind_output("sum")
        session.run_with_iobinding(binding)
        value, total = binding.get_outputs()
        assert (value.data_ptr(), value.shape()) == (present.ctypes.data, [rows + 1, 1024])
        assert (present[1000:, 0] == np.arange(1000, rows + 1)).all()
        assert total.numpy() == sum(range(1000, rows + 1)) * 1024
        assert not np.shares_memory(total.numpy(), present)


VIEWS: list[tuple[list[onnx.NodeProto], tuple[int, ...]]] = [
    ([helper.make_node("Reshape", ["sum", "shape"], ["y"])], (1024 * 256, 4)),
    ([helper.make_node("Unsqueeze", ["sum", "first"], ["y"])], (1, *WIDE)),
    ([helper.make_node("Flatten", ["sum"], ["y"], axis=0)], (1, 1024 * 1024)),
    (
        [
            helper.make_node("Unsqueeze", ["sum", "first"], ["three"]),
            helper.make_node("Squeeze", ["three", "first"], ["two"]),
            helper.make_node("Identity", ["two"], ["same"]),
            helper.make_node("Reshape", ["same", "shape"], ["y"]),
        ],
        (1024 * 256, 4),
    ),
]


@pytest.mark.parametrize(("views", "shape"), VIEWS, ids=["reshape", "unsqueeze", "flatten", "four"])
def test_what_a_view_is_made_of_is_computed_where_its_array_is(
    views: list[onnx.NodeProto], shape: tuple[int, ...]
) -> None:
    """As the first test: a session that may have no memory of the output's size."""
    rows = np.arange(1024, dtype=np.float32)
    constants = [
        helper.make_tensor("rows", TensorProto.FLOAT, (1, 1024), rows.tobytes(), raw=True),
        helper.make_tensor("shape", TensorProto.INT64, (2,), [-1, 4]),
        helper.make_tensor("first", TensorProto.INT64, (1,), [0]),
    ]
    nodes = [helper.make_node("Add", ["x", "rows"], ["sum"]), *views]
    ports = tensor("x", TensorProto.FLOAT, ("n", 1)), tensor("y", TensorProto.FLOAT, [None] * len(shape))
    session = kiln.Session(make_model(nodes, ports[:1], ports[1:], constants), memory_bytes=1 << 20)
    y = np.zeros(shape, np.float32)
    for value in range(4):
        x = np.full((1024, 1), value, np.float32)
        with pytest.raises(kiln.OutputError, match="bound to memory for"):
            session.run(None, {"x": x}, out={"y": np.zeros((*shape, 1), np.float32)})
        [made] = session.run(None, {"x": x}, out={"y": y})
        assert made is y
        np.testing.assert_array_equal(y.reshape(WIDE), rows + np.full(WIDE, value))


def test_memory_that_the_request_uses_elsewhere_is_copied_to() -> None:
    two = [helper.make_node("Add", ["x", "x"], ["sum"]), helper.make_node("Mul", ["x", "x"], ["square"])]
    session = kiln.Session(make_model(two, [tensor("x")], [tensor("sum"), tensor("square")]))
    for _ in range(3):
        x = X.copy()
        [made, square] = session.run(None, {"x": x}, out={"sum": x})
        assert made is x
        np.testing.assert_array_equal(x, X + X)
        np.testing.assert_array_equal(square, X * X)
        memory = np.zeros(7, np.float32)
        x, shifted = memory[:6].reshape(2, 3), memory[1:].reshape(2, 3)
        x[:] = X
        session.run(["sum"], {"x": x}, out={"square": shifted})
        np.testing.assert_array_equal(shifted, X * X)
        both = np.zeros((2, 3), np.float32)
        first, second = session.run(["square", "sum"], {"x": X}, out={"sum": both, "square": both})
        assert first is both and second is both
        assert (both == X * X).all() or (both == X + X).all()


def test_arrays_of_any_layout_are_written() -> None:
    session = kiln.Session(unary("Relu"))
    wanted = np.maximum(X, 0)
    layouts: list[NDArray[Any]] = [
        np.zeros((2, 3), np.float32),
        np.zeros((2, 3), np.float32, order="F"),
        np.zeros((4, 6), np.float32)[::2, ::2],
        np.zeros((2, 3), np.float32)[::-1],
        np.zeros((2, 3), np.dtype(">f4")),
        np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3),
    ]
    for y in layouts:
        assert session.run(None, {"x": X}, out={"y": y})[0] is y
        np.testing.assert_array_equal(y, wanted)
    empty = np.zeros((0, 3), np.float32)
    assert session.run(None, {"x": empty.copy()}, out={"y": empty})[0] is empty
    texts = kiln.Session(unary("Identity", TensorProto.STRING))
    y = np.full((1, 3), "", object)
    texts.run(None, {"x": [["a", "b", "c"]]}, out={"y": y})
    assert y.tolist() == [["a", "b", "c"]]


def test_what_is_passed_on_is_copied_there() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Reshape", ["x", "s"], ["z"])]
    flat = helper.make_tensor("s", TensorProto.INT64, (1,), [-1])
    outputs = [tensor("y"), tensor("z", TensorProto.FLOAT, ("m",))]
    session = kiln.Session(make_model(nodes, [tensor("x")], outputs, [flat]))
    y, z = np.zeros((2, 3), np.float32), np.zeros(6, np.float32)
    for _ in range(3):
        x = X.copy()
        session.run(None, {"x": x}, out={"y": y, "z": z})
        x[:] = 0
        np.testing.assert_array_equal(y, X)
        np.testing.assert_array_equal(z, X.ravel())


BAD: list[tuple[Any, str]] = [
    ({"z": np.zeros((2, 3), np.float32)}, "no such output"),
    ({"y": [[0.0] * 3] * 2}, "arrays of numpy's only"),
    ({"y": np.zeros((2, 3), "M8[s]")}, "there are no tensors of numpy's"),
    ({"y": np.broadcast_to(np.float32(0), (2, 3))}, "read-only"),
    ({"y": np.zeros((3, 2), np.float32)}, r"it is float32 \[2, 3\], bound to memory for float32 \[3, 2\]"),
    ({"y": np.zeros((3, 2), np.float32).T[:1]}, r"it is float32 \[2, 3\], bound to memory for float32 \[1, 3\]"),
    ({"y": np.zeros((2, 3), np.float64)}, r"it is float32 \[2, 3\], bound to memory for float64 \[2, 3\]"),
]


@pytest.mark.parametrize(("out", "text"), BAD, ids=[text for _, text in BAD])
def test_what_cannot_be_bound_is_an_error(relu: kiln.Session, out: Any, text: str) -> None:
    with pytest.raises(kiln.OutputError, match=text):
        relu.run(None, {"x": X}, out=out)
    [y] = relu.run(None, {"x": X})
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_a_request_that_fails_lets_the_array_go(relu: kiln.Session) -> None:
    y = np.zeros((2, 3), np.float32)
    with pytest.raises(kiln.TimeLimitError):
        relu.run(None, {"x": X}, out={"y": y}, time_limit=0.0)
    y = np.zeros((2, 3), np.float32)
    relu.run(None, {"x": X}, out={"y": y})
    y.resize((1, 3))  # Refused by numpy while anything refers to the array.


#: Sequences of a cache that is larger than the memory that attention computes with.
SEQUENCES = 64


def bound_step(binding: Any, length: int, tokens: list[int]) -> None:
    """Binds one step of a language model, with the same tokens for every sequence, after `length` positions."""
    new = len(tokens)
    binding.bind_cpu_input("input_ids", np.array([tokens] * SEQUENCES, np.int64))
    binding.bind_cpu_input("seqlens", np.array([length + new - 1] * SEQUENCES, np.int32))
    binding.bind_cpu_input("total", np.array([length + new], np.int32))


@pytest.mark.parametrize("flag", [0, 1])
def test_a_cache_that_is_past_and_present_is_written_where_it_is(flag: int) -> None:
    """The form of onnxruntime-genai, in a session that may have no memory of the cache's size: 2 MiB each."""
    room, text = 1 << 10, [(at * 5 + 1) % WORDS for at in range(12)]
    model = shared_cache(flag)
    plain = kiln.Session(model)
    session = ort.InferenceSession(model)
    session._session = kiln.Session(model, memory_bytes=1 << 20)
    caches = [ort.OrtValue.ortvalue_from_shape_and_type([SEQUENCES, 1, room, 8], np.float32) for _ in range(2)]
    for cache in caches:
        cache.numpy()[:] = 7
    addresses = [cache.data_ptr() for cache in caches]
    binding, length = session.io_binding(), 0
    for name, cache in zip(("key", "value"), caches, strict=True):
        binding.bind_ortvalue_input(f"past.{name}", cache)
    binding.bind_output("logits")
    for name, cache in zip(("key", "value"), caches, strict=True):
        binding.bind_ortvalue_output(f"present.{name}", cache)
    for count in (5, 1, 1, 1, 2, 1):
        before = [cache.numpy().copy() for cache in caches]
        bound_step(binding, length, [WORDS])
        with pytest.raises(Exception, match="Gather"):
            session.run_with_iobinding(binding)
        for cache, old in zip(caches, before, strict=True):
            np.testing.assert_array_equal(cache.numpy(), old)
        bound_step(binding, length, text[length : length + count])
        session.run_with_iobinding(binding)
        length += count
        logits, *presents = binding.get_outputs()
        assert [value.data_ptr() for value in presents] == addresses
        empty = np.zeros((1, 1, 0, 8), np.float32)
        whole, keys, values = plain.run(
            None,
            {
                "input_ids": [text[:length]],
                "seqlens": np.array([length - 1], np.int32),
                "total": np.array([length], np.int32),
                "past.key": empty,
                "past.value": empty,
            },
        )
        wanted = np.repeat(whole[:, -1], SEQUENCES, axis=0)
        np.testing.assert_allclose(logits.numpy()[:, -1], wanted, rtol=1e-4, atol=1e-5)
        for cache, rows in zip(caches, (keys, values), strict=True):
            wanted = np.repeat(rows, SEQUENCES, axis=0)
            np.testing.assert_allclose(cache.numpy()[:, :, :length], wanted, rtol=1e-4, atol=1e-5)
            assert (cache.numpy()[:, :, length:] == 7).all(), "a step writes its own rows"


def test_a_step_that_fails_behind_the_cache_leaves_what_was_in_it() -> None:
    model = shared_cache(1, fails=True)
    session = kiln.Session(model)
    caches = [np.full((1, 1, 64, 8), 7, np.float32) for _ in range(2)]
    given = {
        "input_ids": [[1]],
        "seqlens": np.array([9], np.int32),
        "total": np.array([10], np.int32),
        "past.key": caches[0],
        "past.value": caches[1],
    }
    with pytest.raises(kiln.RunError):
        session.run(None, given, out={"present.key": caches[0], "present.value": caches[1]})
    for cache in caches:
        assert (np.delete(cache, 9, axis=2) == 7).all(), "no row but the step's own is touched"


def test_an_array_that_two_inputs_or_outputs_are_is_copied_to() -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["y"]), helper.make_node("Neg", ["z"], ["w"])]
    session = kiln.Session(make_model(nodes, [tensor("x"), tensor("z")], [tensor("y"), tensor("w")]))
    for _ in range(3):
        x = X.copy()
        assert session.run(["y"], {"x": x, "z": x}, out={"y": x})[0] is x
        np.testing.assert_array_equal(x, X + X)
        x, z = X.copy(), X.copy() + 1
        session.run(None, {"x": x, "z": z}, out={"y": z, "w": x})
        np.testing.assert_array_equal(z, X + X + 1)
        np.testing.assert_array_equal(x, -(X + 1))
