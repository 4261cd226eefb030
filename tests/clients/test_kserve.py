"""KServe's client asks for all that it can, by REST and by gRPC, and gets the bits of `kiln run`."""

from __future__ import annotations

import asyncio
from typing import Any

from conftest import Server
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from typed import expected, same, server, values

__all__ = ["expected", "server"]


def kserve_request() -> Any:
    inputs = []
    for name, value in values().items():
        inputs.append(InferInput(name, list(value.shape), name.removeprefix("x_")))
        inputs[-1].set_data_from_numpy(value, binary_data=True)
    # FP16 has no form in JSON.
    return InferRequest("typed", inputs, parameters={"binary_data_output": True})


def test_kserves_client_by_rest(server: Server, expected: dict[str, Any]) -> None:
    async def ask() -> Any:
        client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))
        url = f"http://{server.http}"
        assert await client.is_server_live(url) and await client.is_server_ready(url)
        assert await client.is_model_ready(url, "typed")
        return await client.infer(url, kserve_request(), model_name="typed")

    answer = asyncio.run(ask())
    found = {output.name: output.as_numpy() for output in answer.outputs}
    for name, value in expected.items():
        same(found[name], value)


def test_kserves_client_by_grpc(server: Server, expected: dict[str, Any]) -> None:
    async def ask() -> Any:
        client = InferenceGRPCClient(server.grpc, timeout=60)
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("typed")
        answer = await client.infer(kserve_request())
        await client.close()
        return answer

    answer = asyncio.run(ask())
    found = {output.name: output.as_numpy() for output in answer.outputs}
    for name, value in expected.items():
        same(found[name], value)
