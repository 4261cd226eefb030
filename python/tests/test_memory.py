"""Arrays go in and come out without being copied, and nothing leaks."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make_model, python, tensor, unary
from onnx import TensorProto, helper
from test_session import BAD_INPUTS, X

import kiln
import kiln.onnxruntime as ort

LARGE_X = np.ones((1000, 3), np.float32)

LARGE = """
import os, sys
import numpy as np, kiln
from conftest import make_model, tensor
from onnx import TensorProto, helper

def present():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def most():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))

model = make_model(
    [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)],
    [tensor("x", TensorProto.FLOAT, ("n", "m"))], [tensor("y", TensorProto.FLOAT, ("n",))],
)
session = kiln.Session(model)
x = np.ones((256, 65536), np.float32)
assert x.nbytes == 64 << 20
given = x
if sys.argv[1] == "torch":
    import torch
    given = torch.from_numpy(x)
session.run(None, {"x": given[:1]})
before = present()
with open("/proc/self/clear_refs", "w") as clear:
    clear.write("5")
[y] = session.run(None, {"x": given})
assert (y == 1).all()
grown = most() - before
assert grown < 16 << 20, grown
"""


@pytest.mark.parametrize("owner", ["numpy", "torch"])
def test_a_large_input_is_read_where_it_is(owner: str) -> None:
    pytest.importorskip(owner)
    python(LARGE, owner)


def test_inputs_are_never_written() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    session = kiln.Session(
        make_model(nodes, [tensor("x", TensorProto.FLOAT, ("n",))], [tensor("y", TensorProto.FLOAT, ("n",))])
    )
    x = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    before = x.tobytes()
    x.flags.writeable = False
    for _ in range(4):
        [y] = session.run(None, {"x": x})
        y[:] = 7
        assert x.tobytes() == before


def test_outputs_are_writable_and_outlive_the_session() -> None:
    session = kiln.Session(unary("Relu"))
    outputs = [session.run(None, {"x": np.full((rows, 3), rows, np.float32)})[0] for rows in (1, 50, 20_000)]
    addresses = {y.ctypes.data for y in outputs}
    assert len(addresses) == 3, "an output that is held keeps its memory"
    session.close()
    del session
    gc.collect()
    for y, rows in zip(outputs, (1, 50, 20_000)):
        assert y.flags.writeable and y.flags.c_contiguous and y.flags.aligned
        assert y.shape == (rows, 3) and (y == rows).all()
        view = y[::2]
        del y
        view += 1
        assert (view == rows + 1).all()


def test_outputs_go_on_by_dlpack_without_a_copy(relu: kiln.Session) -> None:
    [y] = relu.run(None, {"x": X})
    other = np.from_dlpack(y)
    assert other.ctypes.data == y.ctypes.data


def test_torchs_tensors_go_in_and_out_without_a_copy(relu: kiln.Session) -> None:
    torch = pytest.importorskip("torch")
    given, bound = torch.from_numpy(X.copy()), torch.zeros(2, 3)
    assert ort.OrtValue.from_dlpack(given).data_ptr() == given.data_ptr()
    [y] = relu.run(None, {"x": given})
    shared = torch.from_dlpack(y)
    assert shared.data_ptr() == y.ctypes.data
    relu.close()
    del y
    gc.collect()
    shared += 1
    np.testing.assert_array_equal(shared.numpy(), np.maximum(X, 0) + 1)
    # Computed in torch's memory.
    session = kiln.Session(unary("Relu"))
    [made] = session.run(None, {"x": given}, out={"y": np.from_dlpack(bound)})
    assert made.ctypes.data == bound.data_ptr()
    np.testing.assert_array_equal(bound.numpy(), np.maximum(X, 0))
    np.testing.assert_array_equal(given.numpy(), X)
    with pytest.raises(kiln.InputError, match="requires? grad"):
        session.run(None, {"x": given.clone().requires_grad_()})


def test_torchs_bfloat16_goes_in_and_out_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    given = torch.tensor([[1.5, -2.0, 3.0]], dtype=torch.bfloat16)
    [y] = kiln.Session(unary("Relu", TensorProto.BFLOAT16)).run(None, {"x": given})
    assert ort.OrtValue.from_dlpack(given).data_ptr() == given.data_ptr()
    made = torch.from_dlpack(ort.OrtValue.ortvalue_from_numpy(y))
    assert made.dtype == torch.bfloat16 and made.data_ptr() == y.ctypes.data and made.tolist() == [[1.5, 0, 3]]


def test_an_output_that_is_an_input_or_a_constant_is_a_copy() -> None:
    identity = kiln.Session(unary("Identity"))
    x = X.copy()
    [y] = identity.run(None, {"x": x})
    assert not np.shares_memory(x, y)
    y[:] = 9
    np.testing.assert_array_equal(x, X)

    constant = helper.make_tensor("c", TensorProto.FLOAT, (3,), [1.0, 2.0, 3.0])
    nodes = [
        helper.make_node("Identity", ["c"], ["y"]),
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
    ]
    outputs = [tensor("y", TensorProto.FLOAT, (3,)), tensor("a"), tensor("b")]
    session = kiln.Session(make_model(nodes, [tensor("x")], outputs, [constant]))
    for _ in range(3):
        y, a, b = session.run(None, {"x": X})
        np.testing.assert_array_equal(y, [1, 2, 3])
        assert not np.shares_memory(a, b)
        np.testing.assert_array_equal(a, b)
        y[:], a[:] = 0, 5


def test_parts_of_one_tensor_are_apart() -> None:
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=0)
    shape = TensorProto.FLOAT, (2, 3)
    outputs = [tensor("a", TensorProto.FLOAT, (1, 3)), tensor("b", TensorProto.FLOAT, (1, 3))]
    session = kiln.Session(make_model([node], [tensor("x", *shape)], outputs))
    x = X.copy()
    for _ in range(3):
        a, b = session.run(None, {"x": x})
        a[:] = 100
        np.testing.assert_array_equal(b, X[1:])
        np.testing.assert_array_equal(x, X)


def present() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def released() -> memoryview:
    """A view whose memory was given back."""
    view = memoryview(X.copy())
    view.release()
    return view


def bad_requests(relu: kiln.Session, folder: Path) -> dict[str, tuple[Callable[[], object], type[Exception]]]:
    """A bad request or load of every kind, with its error."""
    text = folder / "text.onnx"
    text.write_text("this is no model")
    no_model = unary("Relu")[:-5]

    def run(inputs: dict[Any, Any]) -> Callable[[], object]:
        return lambda: relu.run(None, inputs)

    bad: dict[str, tuple[Callable[[], object], type[Exception]]] = {
        f"input {at}": (run(inputs), error) for at, (inputs, error, _) in enumerate(BAD_INPUTS)
    }
    bad["not contiguous, of another shape"] = run({"x": np.ones((4, 8), np.float32).T}), kiln.InputError
    bad["not contiguous, of another type"] = run({"x": np.ones((6, 2))[::2].T}), kiln.InputError
    bad["freed"] = lambda: relu.run(None, {"x": released()}), kiln.InputError
    bad["no such output"] = lambda: relu.run(["z"], {"x": X}), kiln.OutputError
    bad["outputs of no names"] = lambda: relu.run([5], {"x": X}), TypeError  # type: ignore[list-item]
    bad["inputs of no names"] = lambda: relu.run(None, [X]), TypeError  # type: ignore[arg-type]
    bad["nan for a size"] = lambda: relu.warm({"x": (float("nan"), 3)}), TypeError  # type: ignore[dict-item]
    bad["a negative size"] = lambda: relu.warm({"x": (-1, 3)}), OverflowError
    bad["nan for a time"] = lambda: relu.run(None, {"x": X}, time_limit=float("nan")), kiln.OptionError
    bad["no option"] = lambda: kiln.Session(b"", speed=1), kiln.OptionError  # type: ignore[call-arg]
    bad["no file"] = lambda: kiln.Session(folder / "missing.onnx"), kiln.ModelNotFoundError
    bad["a file that is no model"] = lambda: kiln.Session(text), kiln.ModelError
    bad["a folder"] = lambda: kiln.Session(folder), kiln.ModelError
    bad["bytes that are no model"] = lambda: kiln.Session(no_model), kiln.ModelError
    return bad


def test_nothing_leaks_in_ten_thousand_bad_requests(relu: kiln.Session, tmp_path: Path) -> None:
    bad = list(bad_requests(relu, tmp_path).values())

    def rounds(count: int) -> None:
        for at in range(count):
            use, error = bad[at % len(bad)]
            with pytest.raises(error):
                use()
            if at % 8 == 0:
                relu.run(None, {"x": LARGE_X})

    def growth() -> int:
        gc.collect()
        before = present()
        rounds(10_000)
        gc.collect()
        return present() - before

    rounds(1500)
    gc.collect()
    objects, files = len(gc.get_objects()), len(os.listdir("/proc/self/fd"))
    # What leaks does so each time. Memory that threads of other tests' sessions take or give back comes once.
    assert any(growth() < 4 << 20 for _ in range(3))
    assert len(gc.get_objects()) - objects < 1000
    assert len(os.listdir("/proc/self/fd")) == files


def test_sessions_that_come_and_go_leave_nothing() -> None:
    model = unary("Relu")

    def round_() -> None:
        kiln.Session(model, cache_mode="memory").run(None, {"x": X})
        with pytest.raises(kiln.ModelError):
            kiln.Session(b"no model")

    for _ in range(30):
        round_()
    before = present()
    for _ in range(200):
        round_()
    assert present() - before < 8 << 20


def test_trim_gives_memory_back() -> None:
    session = kiln.Session(unary("Relu", TensorProto.FLOAT, ("n",)))
    x = np.ones(16 << 20, np.float32)
    session.run(None, {"x": x})
    kept = present()
    session.trim()
    assert kept - present() > 48 << 20
    [y] = session.run(None, {"x": x})
    assert (y == 1).all()
