"""The names of onnxruntime: programs that are written for it run unmodified, and differences are reported."""

from __future__ import annotations

import json
import logging
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ENDLESS, SQUARE, apart, looping, make_model, python, tensor, unary
from onnx import TensorProto, helper, numpy_helper

import kiln
import kiln.onnxruntime as ort
from kiln.onnxruntime.capi import onnxruntime_inference_collection as collection
from kiln.onnxruntime.capi import onnxruntime_pybind11_state as state

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
Y = np.maximum(X, 0)


@pytest.fixture
def session() -> ort.InferenceSession:
    return ort.InferenceSession(unary("Relu"), providers=["CPUExecutionProvider"])


def test_sessions_say_what_programs_ask(session: ort.InferenceSession) -> None:
    [x], [y] = session.get_inputs(), session.get_outputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["n", 3])
    assert (y.name, y.type, y.shape) == ("y", "tensor(float)", ["n", 3])
    assert session.get_providers() == ort.get_available_providers() == ["CPUExecutionProvider"]
    assert (ort.get_device(), session.get_overridable_initializers()) == ("CPU", [])
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert tuple(int(part) for part in ort.__version__.split(".")) >= (1, 17)


def test_a_session_knows_its_path_and_options_by_the_names_that_programs_read(tmp_path: Path) -> None:
    path, options = tmp_path / "model.onnx", ort.SessionOptions()
    path.write_bytes(unary("Relu"))
    for given in (path, str(path)):
        session = ort.InferenceSession(given, options)
        assert session._model_path == str(path) and session._sess_options is options
    assert ort.InferenceSession(unary("Relu"))._model_path is None
    session.disable_fallback()
    assert session._enable_fallback is False
    session.enable_fallback()
    assert session._enable_fallback is True
    [y] = session._sess.run(["y"], {"x": np.float32([[-1, 2, 3]])}, None)
    np.testing.assert_array_equal(y, [[0, 2, 3]])
    # It refers to itself nowhere: it is gone with its last reference, and not at some collection later.
    gone = weakref.ref(session)
    del session
    assert gone() is None


def test_providers_are_selected_by_devices_and_policies() -> None:
    [device] = ort.get_ep_devices()
    assert (device.ep_name, device.device.type) == ("CPUExecutionProvider", ort.OrtHardwareDeviceType.CPU)
    by_device, by_policy, by_name = (ort.SessionOptions() for _ in range(3))
    assert not by_device.has_providers()
    by_device.add_provider_for_devices([device], {})
    by_policy.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.MAX_PERFORMANCE)
    by_name.add_provider("CPUExecutionProvider", {"use_arena": "0"})
    for options in (by_device, by_policy, by_name):
        assert options.has_providers()
        session = ort.InferenceSession(unary("Relu"), options)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)
    assert session.get_input_epdevices() == [device] and session.get_tuning_results() == []
    assert [info.name for info in session.get_output_memory_infos()] == ["Cpu"]
    with pytest.raises(RuntimeError, match="Unknown Provider Type: CUDAExecutionProvider"):
        by_name.add_provider("CUDAExecutionProvider", {})
    with pytest.raises(state.InvalidArgument):
        by_name.add_provider_for_devices([], {})


def test_values_are_copied_to_values() -> None:
    one, other = (ort.OrtValue.ortvalue_from_numpy(np.full((2, 3), number, np.float32)) for number in (1, 2))
    ort.copy_tensors([one], [other])
    np.testing.assert_array_equal(other.numpy(), one.numpy())
    for wrong in (np.ones((3, 2), np.float32), np.ones((2, 3), np.float64)):
        with pytest.raises(state.InvalidArgument, match="one type and shape"):
            ort.copy_tensors([one], [ort.OrtValue.ortvalue_from_numpy(wrong)])
    with pytest.raises(state.InvalidArgument, match="1 values to copy to 0"):
        ort.copy_tensors([one], [])


def test_files_of_a_model_are_handed_over_by_options(tmp_path: Path) -> None:
    w = np.arange(50_000, dtype=np.float32)
    model, raw = apart(w), w.tobytes()
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    for buffer, length in ((raw, len(raw)), (bytearray(raw + b"more"), len(raw)), (w, w.nbytes)):
        options = ort.SessionOptions()
        options.add_external_initializers_from_files_in_memory(["w.bin"], [buffer], [length])
        for given in (model, path):
            [y] = ort.InferenceSession(given, options).run(None, {"x": w})
            np.testing.assert_array_equal(y, 2 * w)
    options = ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["v.bin"], [raw], [len(raw)])
    with pytest.raises(state.InvalidGraph, match="w.bin"):
        ort.InferenceSession(model, options)
    for names, lengths in ((["w.bin", "v.bin"], [4]), (["w.bin"], [len(raw) + 1]), (["w.bin"], [-1])):
        with pytest.raises(ValueError):
            options.add_external_initializers_from_files_in_memory(names, [raw], lengths)


def test_initializers_are_replaced_by_options(tmp_path: Path) -> None:
    w = np.float32([1, 2, 3])
    weighted = make_model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [tensor("x")],
        [tensor("y")],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [7, 7, 7])],
    )
    outside = apart(w)
    for model, x in ((weighted, X), (outside, w)):
        # The file of the second one's weights does not exist.
        path = tmp_path / "model.onnx"
        path.write_bytes(model)
        for given in (model, path):
            options = ort.SessionOptions()
            options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(w))
            [y] = ort.InferenceSession(given, options).run(None, {"x": x})
            np.testing.assert_array_equal(y, x + w)
    options = ort.SessionOptions()
    options.add_external_initializers(["w"], [ort.OrtValue.ortvalue_from_numpy(w[:2].copy())])
    with pytest.raises(state.InvalidGraph, match="w.*handed over to replace it"):
        ort.InferenceSession(outside, options)
    with pytest.raises(ValueError, match="1 names for 0 values"):
        options.add_external_initializers(["w"], [])


def test_names_that_are_unknown_are_refused_where_they_are_bound(session: ort.InferenceSession) -> None:
    binding = session.io_binding()
    value = ort.OrtValue.ortvalue_from_numpy(X)
    for bind in (
        lambda: binding.bind_cpu_input("z", X),
        lambda: binding.bind_ortvalue_input("z", value),
        lambda: binding.bind_input("z", "cpu", 0, np.float32, X.shape, value.data_ptr()),
    ):
        with pytest.raises(RuntimeError, match="name: z"):
            bind()


def test_feeds_that_are_none_say_what_is_expected(session: ort.InferenceSession) -> None:
    with pytest.raises(TypeError, match=r"input_feed is a dict of the inputs by name \(\['x'\]\), not list"):
        session.run(None, [X])
    for value, found in ((None, "None"), (np.array([[None] * 3]), "an array of objects"), (np.array([["a"] * 3]), "string")):
        with pytest.raises(state.InvalidArgument, match=f"expected float32, got {found}"):
            session.run(None, {"x": value})


def test_none_leaves_a_default_as_it_is() -> None:
    bias = helper.make_tensor("b", TensorProto.FLOAT, [3], [1, 2, 3])
    model = make_model([helper.make_node("Add", ["x", "b"], ["y"])], [tensor("x"), tensor("b", shape=(3,))], [tensor("y")], [bias])
    session = ort.InferenceSession(model)
    for feed in ({"x": X}, {"x": X, "b": None}):
        np.testing.assert_array_equal(session.run(None, feed)[0], X + np.float32([1, 2, 3]))


def test_lists_of_values_are_served(session: ort.InferenceSession) -> None:
    fetches: list[ort.OrtValue] = []
    value = ort.OrtValue.ortvalue_from_numpy(X)
    session.run_with_ortvaluevector(None, ["x"], [value], ["y"], fetches, [ort.OrtDevice.make()])
    np.testing.assert_array_equal(fetches[0].numpy(), Y)


def test_the_native_half_takes_devices_and_capsules(session: ort.InferenceSession) -> None:
    """As programs exchange values with PyTorch."""
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    assert (device.device_type(), device.device_id(), device.mem_type(), device.vendor_id()) == (0, 0, 0, 0)
    gpu = state.OrtDevice(state.OrtDevice.cuda(), 0, 0)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="no device 1 here"):
        state.OrtValue.ortvalue_from_numpy(X, gpu)
    native = session._sess
    assert [port.name for port in native.inputs_meta] == ["x"] and [port.name for port in native.outputs_meta] == ["y"]
    assert native.overridable_initializers == [] and native.model_meta.graph_name == "graph"
    for value in (
        state.OrtValue.ortvalue_from_numpy(X, device),
        state.OrtValue.ortvalue_from_numpy_with_onnx_type(X, TensorProto.FLOAT),
        state.OrtValue.from_dlpack(X.copy().__dlpack__()),
        ort.OrtValue.ortvalue_from_numpy(X)._ortvalue,
    ):
        results = native.run_with_ort_values({"x": value}, ["y"], None)
        assert isinstance(results, state.OrtValueVector) and isinstance(results[0], state.OrtValue)
        np.testing.assert_array_equal(np.from_dlpack(results[0]), Y)
    flags = np.array([True, False])
    assert state.OrtValue.from_dlpack(flags.view(np.uint8), True).numpy().tolist() == [True, False]
    brief = state.OrtValue.ortvalue_from_numpy_with_onnx_type(np.uint16([0x3F80, 0x4000]), TensorProto.BFLOAT16)
    back = state.OrtValue.from_dlpack(brief.to_dlpack())
    assert back.element_type() == TensorProto.BFLOAT16 and back.numpy().tolist() == [1.0, 2.0], "numpy has no such capsule"
    fixed = X.copy()
    fixed.flags.writeable = False
    taken = state.OrtValue.from_dlpack(fixed).numpy()
    assert not taken.flags.writeable and taken.ctypes.data == fixed.ctypes.data
    with pytest.raises(TypeError, match="no DLPack capsule"):
        state.OrtValue.from_dlpack(5)
    empty = state.OrtValue.ortvalue_from_shape_and_onnx_type([2, 3], TensorProto.INT64, device)
    assert (empty.shape(), empty.data_type()) == ([2, 3], "tensor(int64)")

    feeds, fetches = state.OrtValueVector(), state.OrtValueVector()
    feeds.reserve(1)
    feeds.push_back_batch([X], [X.ctypes.data], [X.dtype], [X.shape], [device])
    native.run_with_ortvaluevector(None, ["x"], feeds, ["y"], fetches, [device])
    with pytest.raises(ValueError, match="2 names of inputs for 1 values"):
        native.run_with_ortvaluevector(None, ["x", "z"], feeds, ["y"], fetches, [device])
    fetches.push_back(flags.__dlpack__())
    fetches.push_back(feeds[0])
    fetches.shrink_to_fit()
    assert [fetches.element_type_at(place) for place in range(3)] == [1, 9, 1] and fetches.bool_tensor_indices() == [1]
    made = fetches.to_dlpacks(state.OrtValue.from_dlpack)
    np.testing.assert_array_equal(made[0].numpy(), Y)
    np.testing.assert_array_equal(state.OrtValue.from_dlpack(fetches.dlpack_at(2)).numpy(), X)
    assert len(fetches.to_dlpacks(None)) == 3


def test_the_native_half_binds_arrays_and_addresses(session: ort.InferenceSession) -> None:
    device, at = state.OrtDevice(), np.empty_like(Y)
    binding = state.SessionIOBinding(session._sess)
    binding.bind_input("x", X)
    binding.bind_output("y", device)
    session._sess.run_with_iobinding(binding, None)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), Y)
    binding.bind_input("x", device, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("y", device, np.float32, at.shape, at.ctypes.data)
    session._sess.run_with_iobinding(binding, None)
    np.testing.assert_array_equal(at, Y)
    binding = session.io_binding()
    assert binding._iobinding.get_outputs_as_ortvaluevector() == []


def test_containers_hold_what_they_are_made_of() -> None:
    assert ort.OrtArenaCfg(1, 2, 3, 4).max_dead_bytes_per_chunk == 4
    with pytest.raises(RuntimeError, match="Invalid OrtArenaCfg option: bad"):
        ort.OrtArenaCfg({"bad": 1})
    with pytest.raises(state.InvalidArgument, match="no device Cuda"):
        ort.OrtMemoryInfo("Cuda", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    values, device = np.float32([1, 2]), ort.OrtDevice.make()
    rows = ort.SparseTensor.sparse_csr_from_numpy([2, 3], values, [0, 2], [0, 1, 2], device)
    assert rows.as_csrc_view().outer().tolist() == [0, 1, 2] and rows.data_type() == "sparse_tensor(float)"
    assert rows.format() == ort.OrtSparseFormat.ORT_SPARSE_CSRC and not rows.values().flags.writeable
    with pytest.raises(RuntimeError, match="of ORT_SPARSE_CSRC, not ORT_SPARSE_COO"):
        rows.as_coo_view()
    with pytest.raises(RuntimeError, match="no GPU"):
        rows.to_cuda(device)
    value = ort.OrtValue.ort_value_from_sparse_tensor(rows)
    assert value.is_sparse_tensor() and not value.is_tensor() and value.as_sparse_tensor() is rows
    assert (value.shape(), value.element_type()) == ([2, 3], TensorProto.FLOAT)
    with pytest.raises(RuntimeError, match="no sparse tensor"):
        ort.OrtValue.ortvalue_from_numpy(values).as_sparse_tensor()
    with pytest.raises(state.InvalidArgument, match="2 values have no coordinates"):
        ort.SparseTensor.sparse_coo_from_numpy([2, 3], values, [0, 1, 2], device)


def test_ports_state_overridden_sizes_and_providers_are_names_of_some() -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    session = ort.InferenceSession(unary("Relu"), options)
    assert session.get_inputs()[0].shape == session.get_outputs()[0].shape == [4, 3]
    session.set_providers(["CUDAExecutionProvider"])
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Invalid"):
        session.set_providers(["Invalid"])


def test_lists_of_providers_are_normalised() -> None:
    check = collection.check_and_normalize_provider_args
    assert check(None, None, ["A"]) == ([], [])
    assert check(["A", "B"], [{1: 2}, {}], ["A", "B"]) == (["A", "B"], [{"1": "2"}, {}])
    with pytest.warns(UserWarning, match="Duplicate provider 'A'"):
        assert check(["A", "A"], None, ["A"]) == (["A"], [{}])
    with pytest.warns(UserWarning, match="'B' is not in available"):
        assert check([("B", {"x": 1})], None, ["A"]) == (["B"], [{"x": "1"}])
    for providers, options in ((3, None), ([3], None), (["A"], 3), (["A"], ["x"]), (["A"], []), ([("A", {})], [{}])):
        with pytest.raises(ValueError, match="provider"):
            check(providers, options, ["A"])


def test_texts_may_be_blocks_of_memory() -> None:
    texts = np.array([b"must", b"have"], dtype=np.void)
    [same] = ort.InferenceSession(unary("Identity", TensorProto.STRING, ["n"])).run(None, {"x": texts})
    assert same.tolist() == ["must", "have"]


def adapter(path: Path, **parameters: Any) -> ort.LoraAdapter:
    written = ort.AdapterFormat()
    written.set_adapter_version(3)
    written.set_model_version(7)
    written.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()})
    written.export_adapter(path)
    made = ort.LoraAdapter()
    made.Load(path)
    return made


def test_adapters_are_written_read_and_active_in_requests(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx_adapter"
    twenty, five = adapter(path, w=np.float32([20, 20])), adapter(tmp_path / "b.onnx_adapter", x=np.float32([5, 5]))
    read = ort.AdapterFormat.read_adapter(path)
    assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (1, 3, 7)
    np.testing.assert_array_equal(read.get_parameters()["w"].numpy(), np.float32([20, 20]))
    default = numpy_helper.from_array(np.float32([10, 10]), "w")
    inputs = [tensor("x", TensorProto.FLOAT, [2]), tensor("w", TensorProto.FLOAT, [2])]
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], inputs, [tensor("y")], [default])
    session = ort.InferenceSession(model)

    def run(*adapters: ort.LoraAdapter, **more: Any) -> list[float]:
        options = ort.RunOptions()
        for active in adapters:
            options.add_active_adapter(active)
        [y] = session.run(None, {"x": np.float32([1, 2]), **more}, options)
        return list(y)

    assert run() == [11, 12] and run(twenty) == [21, 22] and run(twenty, five) == [25, 25]
    assert run(twenty, w=np.float32([40, 40])) == [21, 22] and run() == [11, 12]
    with pytest.raises(state.InvalidArgument, match="'z'"):
        run(adapter(path, z=np.float32([1])))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(RuntimeError, match="cut off"):
        ort.LoraAdapter().Load(path)
    with pytest.raises(RuntimeError, match="none"):
        ort.AdapterFormat.read_adapter(tmp_path / "none")


def test_types_have_onnxruntimes_names() -> None:
    for number, name in (
        (TensorProto.INT64, "int64"),
        (TensorProto.DOUBLE, "double"),
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.STRING, "string"),
        (TensorProto.BOOL, "bool"),
    ):
        session = ort.InferenceSession(unary("Identity", number))
        assert session.get_inputs()[0].type == session.get_outputs()[0].type == f"tensor({name})"
    part = helper.make_tensor_sequence_value_info("parts", TensorProto.INT64, None)
    model = make_model(
        [helper.make_node("SplitToSequence", ["x"], ["parts"])], [tensor("x", TensorProto.INT64)], [part]
    )
    assert ort.InferenceSession(model).get_outputs()[0].type == "seq(tensor(int64))"


def test_what_is_no_text_is_served_as_its_text() -> None:
    """As onnxruntime takes columns of texts in which some are missing."""
    session = ort.InferenceSession(unary("Identity", TensorProto.STRING))
    for value in ([["a", 1, 2.5]], np.array([["a", np.nan, None], [True, ["b"], b"c"]], object), np.empty((0, 3), object)):
        [texts] = session.run(None, {"x": value})
        expected = [part.decode() if isinstance(part, bytes) else str(part) for part in np.asarray(value, object).flat]
        assert texts.shape == np.asarray(value, object).shape and texts.ravel().tolist() == expected


def test_requests_are_served_as_programs_make_them(session: ort.InferenceSession) -> None:
    for names in (None, [], ["y"]):
        [y] = session.run(names, {"x": X})
        np.testing.assert_array_equal(y, Y)
        assert y.flags.writeable
    np.testing.assert_array_equal(session.run(None, {"x": X.tolist()})[0], Y)
    np.testing.assert_array_equal(session.run(None, {"x": X}, ort.RunOptions())[0], Y)


def test_models_come_as_programs_have_them(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(unary("Relu"))
    options = ort.SessionOptions()
    for session in (
        ort.InferenceSession(path),
        ort.InferenceSession(str(path), options),
        ort.InferenceSession(path_or_bytes=unary("Relu"), sess_options=options, providers=[]),
        ort.InferenceSession(path, providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]),
        ort.InferenceSession(path, options, ["CPUExecutionProvider"], [{}]),
    ):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)


def test_the_class_can_be_built_on() -> None:
    class Own(ort.InferenceSession):
        def __init__(self, model: bytes, **options: Any) -> None:
            super().__init__(model, **options)
            self.mine = 1

    session = Own(unary("Relu"), providers=["CPUExecutionProvider"])
    assert isinstance(session, ort.InferenceSession) and session.mine == 1
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], Y)


def test_metadata_is_what_the_file_says() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], [tensor("x")], [tensor("y")], producer_name="tool", properties={"character": "a\nb"})
    metadata = ort.InferenceSession(model).get_modelmeta()
    assert metadata.custom_metadata_map["character"].split("\n") == ["a", "b"]
    assert (metadata.producer_name, metadata.graph_name) == ("tool", "graph")


def test_options_that_mean_nothing_are_accepted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kiln.onnxruntime"):
        for _ in range(2):
            options = ort.SessionOptions()
            options.intra_op_num_threads = 2
            options.inter_op_num_threads = 3
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
            options.enable_cpu_mem_arena = False
            options.log_severity_level = 4
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            ort.InferenceSession(unary("Relu"), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    said = [record.getMessage() for record in caplog.records]
    for part in ("inter_op_num_threads", "execution_mode", "enable_cpu_mem_arena", "allow_spinning", "CUDAExecution"):
        assert sum(part in line for line in said) <= 1
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(AttributeError):
        options.intra_op_num_thread = 2  # type: ignore[attr-defined]


def test_errors_are_those_that_programs_catch(session: ort.InferenceSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing"):
        session.run(None, {})
    with pytest.raises(state.InvalidArgument, match=r"^\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT : "):
        session.run(None, {"x": X.astype(np.float64)})
    with pytest.raises(state.InvalidArgument, match=r"expected shape \[n, 3\]"):
        session.run(None, {"x": X[0]})
    with pytest.raises(ValueError, match=r"are missing from input feed \(\['z'\]\)"):
        session.run(None, {"z": X})
    with pytest.raises(state.InvalidArgument, match="no such input"):
        session.run(None, {"x": X, "z": X})
    with pytest.raises(TypeError, match="Unable to load from type"):
        ort.InferenceSession(5)  # type: ignore[arg-type]
    with pytest.raises(state.InvalidArgument):
        session.run(["z"], {"x": X})
    with pytest.raises(state.NoSuchFile):
        ort.InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(state.InvalidProtobuf):
        ort.InferenceSession(b"\xff\xff no model")
    with pytest.raises(state.NotImplemented, match="Nonsense"):
        ort.InferenceSession(make_model([helper.make_node("Nonsense", ["x"], ["y"])], [tensor("x")], [tensor("y")]))


def test_values_are_arrays() -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", TensorProto.FLOAT)
    assert (value.device_name(), value.is_tensor(), value.has_value()) == ("cpu", True, True)
    assert value.data_ptr() == X.ctypes.data and value.tensor_size_in_bytes() == X.nbytes
    assert np.shares_memory(np.from_dlpack(value), X)
    empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    empty.update_inplace(X)
    np.testing.assert_array_equal(empty.numpy(), X)
    with pytest.raises(state.InvalidArgument, match="no device cuda"):
        ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
    session = ort.InferenceSession(unary("Relu"))
    [y] = session.run_with_ort_values(["y"], {"x": value})
    np.testing.assert_array_equal(y.numpy(), Y)
    np.testing.assert_array_equal(session.run(None, {"x": value})[0], Y)


def test_bound_outputs_are_written_where_they_are(session: ort.InferenceSession) -> None:
    binding = session.io_binding()
    out = np.zeros((2, 3), np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(out, Y)
    binding.clear_binding_outputs()
    binding.bind_output("y", "cpu")
    binding.bind_input("x", "cpu", 0, TensorProto.FLOAT, X.shape, X.ctypes.data)
    session.run_with_iobinding(binding)
    [y] = binding.get_outputs()
    np.testing.assert_array_equal(y.numpy(), Y)
    assert binding.copy_outputs_to_cpu()[0] is y.numpy()
    binding.bind_ortvalue_input("x", y)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(out[:1]))
    with pytest.raises(state.InvalidArgument, match=r"\[2, 3\], bound to memory for float32 \[1, 3\]"):
        session.run_with_iobinding(binding)
    with pytest.raises(state.InvalidArgument, match="name: z"):
        binding.bind_output("z")


def test_another_thread_terminates_a_request() -> None:
    session, options = ort.InferenceSession(looping()), ort.RunOptions()
    timer = threading.Timer(0.2, setattr, (options, "terminate", True))
    timer.start()
    with pytest.raises(state.RuntimeException, match="cancelled"):
        session.run(None, {"n": ENDLESS, "x": SQUARE}, options)
    timer.join()
    options.terminate = False
    session.run(None, {"n": np.array(1, np.int64), "x": SQUARE}, options)


def test_requests_on_threads_of_their_own(session: ort.InferenceSession) -> None:
    done, got = threading.Event(), []

    def callback(outputs: list[Any], user_data: Any, error: str) -> None:
        got.append((outputs, user_data, error))
        done.set()

    session.run_async(None, {"x": X}, callback, 5)
    assert done.wait(30)
    [(outputs, user_data, error)] = got
    assert (user_data, error) == (5, "")
    np.testing.assert_array_equal(outputs[0], Y)


def test_profiling_writes_a_trace(tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile_")
    session = ort.InferenceSession(unary("Relu"), options)
    session.run(None, {"x": X})
    events = {event["name"]: event for event in json.loads(Path(session.end_profiling()).read_text())}
    node = events.pop("Relu:y_kernel_time")
    assert node["args"]["op_name"] == "Relu" and node["args"]["provider"] == "CPUExecutionProvider"
    assert set(events) == {"session_initialization", "model_run", "SequentialExecutor::Execute"}
    assert events["model_run"]["dur"] == pytest.approx(node["dur"]) and node["dur"] > 0


INSTALLED = """
import sys
import kiln.onnxruntime
assert not kiln.onnxruntime.is_installed()
kiln.onnxruntime.install(fallback=len(sys.argv) > 1)
import onnxruntime
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
import numpy as np
from conftest import unary, make_model, tensor
from onnx import helper
assert kiln.onnxruntime.is_installed() and onnxruntime is kiln.onnxruntime
assert InferenceSession is kiln.onnxruntime.InferenceSession and OrtValue is onnxruntime.OrtValue
assert InvalidArgument is C.InvalidArgument
session = InferenceSession(unary("Relu"))
assert session.run(None, {"x": -np.ones((1, 3), np.float32)})[0].sum() == 0
"""


def test_every_later_import_finds_it_once_it_is_installed() -> None:
    python(INSTALLED)


def test_tools_are_the_real_packages() -> None:
    pytest.importorskip("onnxruntime.quantization")
    python(INSTALLED + "from onnxruntime.quantization import QuantType, quantize_dynamic\n")
    # They call the native half of the real package, which has names that Kiln lacks.
    python(INSTALLED + NATIVE)
    python(INSTALLED + NATIVE, "fallback")
    python(INSTALLED.split("kiln.onnxruntime.install")[0] + "from kiln.onnxruntime.capi import _pybind_state as C\n" + NATIVE)


NATIVE = """
import numpy as np
packed, scales = np.zeros((4, 1, 16), np.uint8), np.zeros(4, np.float32)
C.quantize_matmul_4bits(packed, np.eye(32, 4, dtype=np.float32), scales, np.zeros(2, np.uint8), 32, 4, 32, True)
assert (np.abs(scales) > 0).all() and packed.any()
import onnxruntime.capi.onnxruntime_validation
for absent in ("quantize_matmul_9bits", "InferenceSession", "SessionObjectInitializer"):
    try:
        getattr(C, absent)
    except AttributeError as error:
        assert absent in str(error)
    else:
        raise AssertionError(absent)
"""


REFUSED = """
def refused():
    nodes = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"),
             helper.make_node("BiasGelu", ["y", "b"], ["z"], domain="com.microsoft"),
             helper.make_node("BifurcationDetector", ["i", "i", "k"], ["w", "l"], domain="com.microsoft")]
    inputs = [tensor("x"), tensor("b", 1, (3,)), tensor("i", 7, ("n",)), tensor("k", 7, ())]
    graph = helper.make_graph(nodes, "g", inputs, [tensor("w", 7, ("m",))])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
"""


def test_operators_of_own_domains_fail_as_where_their_library_is_missing() -> None:
    for domain, kind in (("ai.onnx.contrib", state.Fail), ("com.microsoft", state.NotImplemented), ("", state.NotImplemented)):
        nodes = [helper.make_node("Solve", ["x"], ["y"], domain=domain)]
        model = make_model(nodes, [tensor("x")], [tensor("y")])
        with pytest.raises(kind, match="Solve"):
            ort.InferenceSession(model)


def test_a_refused_model_is_refused_or_runs_on_the_real_one() -> None:
    pytest.importorskip("onnxruntime")
    refused = python(INSTALLED + REFUSED + "InferenceSession(refused())\n", check=False)
    assert refused.returncode != 0 and "NOT_IMPLEMENTED" in refused.stderr and "BifurcationDetector" in refused.stderr
    served = python(INSTALLED + REFUSED + "print(InferenceSession(refused()).get_inputs()[0].name)\n", "fallback")
    assert served.stdout.strip() == "x"
    assert "BifurcationDetector" in served.stderr, "what was missing is logged"


def test_a_program_runs_unmodified(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "print(__name__, session.run(None, {'x': numpy.ones((1, 3), numpy.float32)})[0].tolist(), len(sys.argv))\n"
        "print(type(session).__module__)\n"
    )
    model = tmp_path / "neg.onnx"
    model.write_bytes(unary("Neg"))
    start = "import runpy; runpy.run_module('kiln.onnxruntime', run_name='__main__', alter_sys=True)"
    done = python(start, str(program), str(model), "more")
    assert done.stdout.splitlines() == ["__main__ [[-1.0, -1.0, -1.0]] 3", "kiln.onnxruntime._session"]


def test_it_answers_as_the_real_one_does() -> None:
    real = pytest.importorskip("onnxruntime")
    model = make_model(
        [helper.make_node("Gemm", ["x", "w", "b"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])],
        [tensor("x")],
        [tensor("y", TensorProto.FLOAT, ("n", 4)), tensor("h", TensorProto.FLOAT, ("n", 4))],
        [
            helper.make_tensor("w", TensorProto.FLOAT, (3, 4), np.linspace(-1, 1, 12)),
            helper.make_tensor("b", TensorProto.FLOAT, (4,), [0.5, -0.5, 0, 1]),
        ],
    )
    ours, theirs = ort.InferenceSession(model), real.InferenceSession(model, providers=["CPUExecutionProvider"])
    for ask in ("get_inputs", "get_outputs"):
        for mine, other in zip(getattr(ours, ask)(), getattr(theirs, ask)()):
            assert (mine.name, mine.type, mine.shape) == (other.name, other.type, other.shape)
    for x in (X, X.tolist(), np.asfortranarray(X), X[:0]):
        for names in (None, [], ["h"], ["h", "y"]):
            for mine, other in zip(ours.run(names, {"x": x}), theirs.run(names, {"x": x})):
                assert mine.dtype == other.dtype and mine.shape == other.shape
                np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
    for feed in ({}, {"x": X.astype(np.float64)}, {"x": X[0]}, {"z": X}):
        with pytest.raises(Exception) as mine:
            ours.run(None, feed)
        with pytest.raises(Exception) as other:
            theirs.run(None, feed)
        assert type(mine.value).__name__ == type(other.value).__name__, (feed, mine.value, other.value)


def test_pickling_says_which_class_can() -> None:
    import pickle

    with pytest.raises(TypeError, match="kiln.Session"):
        pickle.dumps(ort.InferenceSession(unary("Relu")))
    assert kiln.Session.__reduce__ is not None
