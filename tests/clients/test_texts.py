"""Triton's client streams texts of a language model, as it does from the vLLM backend."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from conftest import Server, save
from onnx import TensorProto, helper

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = len(SPECIAL) + 256
SIZE = 8


def alphabet(folder: Path) -> None:
    """A language model whose tokens are bytes: after each letter it says the next one, and ends after `z`."""
    following = np.full((WORDS, WORDS), -100, np.float32)
    for token in range(WORDS):
        letter = chr(max(token - len(SPECIAL), 0))
        after = ord(letter) + 1 + len(SPECIAL) if letter in ALPHABET[:-1] else SPECIAL.index("</s>")
        following[token, after] = 8
    constants = {
        "table": np.arange(WORDS * 3 * SIZE, dtype=np.float32).reshape(WORDS, 3 * SIZE) % 17 / 17,
        "following": following,
        "zeros": np.zeros((SIZE, WORDS), np.float32),
        "one": np.array([1], np.int64),
        "axis": np.array([1], np.int64),
        "place": np.array(1, np.int64),
    }
    attention = ["packed", "", "", "past_key_values.0.key", "past_key_values.0.value", "last", "total"]
    made = ["attended", "present.0.key", "present.0.value"]
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "axis"], ["sums"], keepdims=0),
        helper.make_node("Sub", ["sums", "one"], ["last64"]),
        helper.make_node("Cast", ["last64"], ["last"], to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "place"], ["total64"]),
        helper.make_node("Cast", ["total64"], ["total"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "input_ids"], ["packed"]),
        helper.make_node("GroupQueryAttention", attention, made, domain="com.microsoft", num_heads=1, kv_num_heads=1),
        helper.make_node("MatMul", ["attended", "zeros"], ["nothing"]),
        helper.make_node("Gather", ["following", "input_ids"], ["said"]),
        helper.make_node("Add", ["said", "nothing"], ["logits"]),
    ]

    def port(name: str, kind: int, dims: list[str | int]) -> Any:
        return helper.make_tensor_value_info(name, kind, dims)

    caches = ["key", "value"]
    inputs = [port("input_ids", TensorProto.INT64, ["batch", "new"])]
    inputs.append(port("attention_mask", TensorProto.INT64, ["batch", "total"]))
    inputs += [port(f"past_key_values.0.{part}", TensorProto.FLOAT, ["batch", 1, "past", SIZE]) for part in caches]
    outputs = [port("logits", TensorProto.FLOAT, ["batch", "new", WORDS])]
    outputs += [port(f"present.0.{part}", TensorProto.FLOAT, ["batch", 1, "total", SIZE]) for part in caches]
    save(folder / "model.onnx", nodes, inputs, outputs, constants)

    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False) | {"special": True}
    names = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": number, "content": name, **flags} for number, name in enumerate(SPECIAL)],
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": False,
            "byte_fallback": True,
            "vocab": {name: number for number, name in enumerate(names)},
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {
        "model": {
            "type": "alphabet",
            "bos_token_id": 1,
            "eos_token_id": 2,
            "context_length": 64,
            "decoder": {"filename": "model.onnx"},
        },
        "search": {"max_length": 48, "do_sample": False},
    }
    (folder / "genai_config.json").write_text(json.dumps(config))


def inputs(prompt: str, is_stream: bool, sampling: dict[str, Any] | None) -> list[Any]:
    """The inputs that clients of the vLLM backend send."""
    text = tritonclient.grpc.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([prompt.encode()], dtype=np.object_))
    stream = tritonclient.grpc.InferInput("stream", [1], "BOOL")
    stream.set_data_from_numpy(np.array([is_stream], dtype=bool))
    given = [text, stream]
    if sampling is not None:
        given.append(tritonclient.grpc.InferInput("sampling_parameters", [1], "BYTES"))
        given[-1].set_data_from_numpy(np.array([json.dumps(sampling).encode()], dtype=np.object_))
    return given


def test_tritons_client_streams_texts(serve: Callable[..., Server], tmp_path: Path) -> None:
    alphabet(tmp_path / "models" / "abc")
    server = serve(tmp_path / "models", "--threads", "1")
    client = tritonclient.grpc.InferenceServerClient(server.grpc)
    metadata = client.get_model_metadata("abc")
    assert [port.name for port in metadata.inputs][:3] == ["text_input", "stream", "sampling_parameters"]
    config = client.get_model_config("abc").config
    assert config.model_transaction_policy.decoupled and [port.optional for port in config.input][:2] == [False, True]
    with pytest.raises(tritonclient.grpc.InferenceServerException, match="ModelStreamInfer"):
        client.infer("abc", inputs("a", False, None))

    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    for letter in ALPHABET:
        for is_stream in (False, True):
            sampling = {"max_tokens": 5, "temperature": 0}
            given = inputs(letter, is_stream, sampling)
            client.async_stream_infer("abc", given, request_id=f"{letter} {is_stream}")
    said: dict[str, list[str]] = {}
    over: list[str] = []
    while len(over) < 2 * len(ALPHABET):
        result, error = answers.get(timeout=60)
        assert error is None, error
        answer = result.get_response()
        assert answer.id not in over
        said.setdefault(answer.id, []).extend(text.decode() for text in result.as_numpy("text_output"))
        if answer.parameters["triton_final_response"].bool_param:
            over.append(answer.id)
    for place, letter in enumerate(ALPHABET):
        text = ALPHABET[place + 1 : place + 6]
        assert said[f"{letter} False"] == [text]
        assert said[f"{letter} True"] == [*text, ""]

    # A wrong one is refused by its sentence, and the stream goes on.
    client.async_stream_infer("abc", inputs("a", True, {"logprobs": 3}), request_id="wrong")
    result, error = answers.get(timeout=60)
    assert result is None and "'logprobs'" in error.message()
    client.async_stream_infer("abc", inputs("y", False, None), request_id="right")
    result, error = answers.get(timeout=60)
    assert error is None and result.as_numpy("text_output").tolist() == [b"z"]
    client.stop_stream()
    client.close()
