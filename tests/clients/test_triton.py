"""Triton's client asks for all that it can, by REST and by gRPC, and gets the bits of `kiln run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc
import tritonclient.http
from conftest import Server
from typed import TYPES, expected, same, server, typed, values

__all__ = ["expected", "server"]


@pytest.mark.parametrize("is_binary", [True, False])
def test_tritons_client_by_rest(server: Server, expected: dict[str, Any], is_binary: bool) -> None:
    client = tritonclient.http.InferenceServerClient(server.http)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("typed")
    assert client.get_server_metadata()["name"] == "kiln"
    metadata = client.get_model_metadata("typed")
    assert {port["name"]: port["datatype"] for port in metadata["inputs"]} == {f"x_{name}": name for name in TYPES}
    assert [model["name"] for model in client.get_model_repository_index()] == ["typed"]
    inputs = []
    for name, value in values().items():
        # FP16 has no form in JSON.
        binary = is_binary or name == "x_FP16"
        inputs.append(tritonclient.http.InferInput(name, value.shape, name.removeprefix("x_")))
        inputs[-1].set_data_from_numpy(value, binary_data=binary)
    outputs = [
        tritonclient.http.InferRequestedOutput(name, binary_data=is_binary or name == "y_FP16") for name in expected
    ]
    answer = client.infer("typed", inputs, outputs=outputs, request_id="seven")
    assert answer.get_response()["id"] == "seven"
    for name, value in expected.items():
        same(answer.as_numpy(name), value)
    client.close()


def triton_grpc_inputs() -> list[Any]:
    inputs = []
    for name, value in values().items():
        inputs.append(tritonclient.grpc.InferInput(name, value.shape, name.removeprefix("x_")))
        inputs[-1].set_data_from_numpy(value)
    return inputs


def test_tritons_client_by_grpc(server: Server, expected: dict[str, Any]) -> None:
    client = tritonclient.grpc.InferenceServerClient(server.grpc)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("typed")
    assert client.get_server_metadata().name == "kiln"
    assert {port.name: port.datatype for port in client.get_model_metadata("typed").inputs} == {
        f"x_{name}": name for name in TYPES
    }
    assert [model.name for model in client.get_model_repository_index().models] == ["typed"]
    answer = client.infer("typed", triton_grpc_inputs())
    for name, value in expected.items():
        same(answer.as_numpy(name), value)
    with pytest.raises(tritonclient.grpc.InferenceServerException, match="none"):
        client.infer("none", triton_grpc_inputs())

    answers: list[Any] = []
    client.start_stream(callback=lambda result, error: answers.append((result, error)))
    for number in range(20):
        client.async_stream_infer("typed", triton_grpc_inputs(), request_id=str(number))
    client.stop_stream()
    assert [error for _, error in answers] == [None] * 20
    assert [result.get_response().id for result, _ in answers] == [str(number) for number in range(20)]
    for result, _ in answers:
        same(result.as_numpy("z"), expected["z"])
    client.close()


def test_tritons_client_unloads_and_loads(serve: Callable[..., Server], tmp_path: Path) -> None:
    typed(tmp_path / "models" / "typed.onnx")
    server = serve(tmp_path / "models", "--threads", "1")
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        client = module.InferenceServerClient(address)
        client.unload_model("typed")
        assert not client.is_model_ready("typed")
        client.load_model("typed")
        assert client.is_model_ready("typed")
        client.close()
