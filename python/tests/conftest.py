"""Models for tests, made as they are needed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import kiln

Model = Callable[..., bytes]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    **about: Any,
) -> bytes:
    """The bytes of a model of these nodes."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    properties = about.pop("properties", {})
    for name, value in about.items():
        setattr(model, name, value)
    helper.set_model_props(model, properties)
    return model.SerializeToString()


def tensor(name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[Any] | None = ("n", 3)) -> onnx.ValueInfoProto:
    """A declared tensor."""
    return helper.make_tensor_value_info(name, dtype, shape)


def unary(op: str, dtype: int = TensorProto.FLOAT, shape: Sequence[Any] | None = ("n", 3)) -> bytes:
    """y = op(x)."""
    return make_model([helper.make_node(op, ["x"], ["y"])], [tensor("x", dtype, shape)], [tensor("y", dtype, shape)])


def apart(weights: Any) -> bytes:
    """y = x + w, whose w is in a file of the name w.bin."""
    model = onnx.load_model_from_string(
        make_model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [tensor("x", shape=weights.shape)],
            [tensor("y", shape=weights.shape)],
            [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)],
        )
    )
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "w.bin")
    model.graph.initializer[0].ClearField("raw_data")
    return bytes(model.SerializeToString())


#: Tokens that the small language model knows.
WORDS = 13

#: Parts of a cache.
PARTS = ("key", "value")


def language_model() -> bytes:
    """A language model of one layer as onnxruntime-genai's builder writes them."""
    generator = np.random.default_rng(5)
    weights = {
        name: generator.standard_normal(shape, np.float32) * np.float32(0.3)
        for name, shape in {"table": (WORDS, 16), "qkv": (16, 32), "back": (16, 16), "head": (16, WORDS)}.items()
    }
    numbers = {"one": np.array([1]), "axis": np.array([1]), "place": np.array(1)}
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "axis"], ["sums"], keepdims=0),
        helper.make_node("Sub", ["sums", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "place"], ["longest"]),
        helper.make_node("Cast", ["longest"], ["total"], to=TensorProto.INT32),
        helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "qkv"], ["packed"]),
        helper.make_node(
            "GroupQueryAttention",
            ["packed", "", "", "past_key_values.0.key", "past_key_values.0.value", "seqlens", "total"],
            ["attended", "present.0.key", "present.0.value"],
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
        ),
        helper.make_node("MatMul", ["attended", "back"], ["passed"]),
        helper.make_node("Add", ["hidden", "passed"], ["sum"]),
        helper.make_node("MatMul", ["sum", "head"], ["logits"]),
    ]
    cached = ["batch", 1, "past", 8]
    graph = helper.make_graph(
        nodes,
        "language model",
        [
            tensor("input_ids", TensorProto.INT64, ["batch", "new"]),
            tensor("attention_mask", TensorProto.INT64, ["batch", "total"]),
            *(tensor(f"past_key_values.0.{part}", shape=cached) for part in ("key", "value")),
        ],
        [
            tensor("logits", shape=["batch", "new", WORDS]),
            *(tensor(f"present.0.{part}", shape=["batch", 1, "total", 8]) for part in ("key", "value")),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in {**weights, **numbers}.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def translator(folder: str | Path) -> Path:
    """A folder of an encoder and a decoder of one layer and one head, in three files as optimum writes them."""
    generator = np.random.default_rng(7)
    square = ("query", "key", "value", "cross_query", "cross_key", "cross_value")
    shapes = {"table": (WORDS, 8), "head": (8, WORDS), **dict.fromkeys(square, (8, 8))}
    weights = {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    lists = {"axis": np.array([1]), "place": np.array(1), "first": np.array([0]), "hidden": np.float32(-1e9)}
    sizes = ["batch_size", "encoder_sequence_length"]

    def node(op: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [output], **attributes)

    def rows(of: str, name: str, output: str) -> list[onnx.NodeProto]:
        return [node("MatMul", [of, name], f"{name}_rows"), node("Unsqueeze", [f"{name}_rows", "axis"], output)]

    def attention(name: str, query: str, keys: str, values: str, mask: str | None) -> list[onnx.NodeProto]:
        return [
            node("Transpose", [keys], f"{name}_columns", perm=[0, 1, 3, 2]),
            node("MatMul", [query, f"{name}_columns"], f"{name}_scores"),
            node("Add", [f"{name}_scores", mask], f"{name}_masked") if mask else None,
            node("Softmax", [f"{name}_masked" if mask else f"{name}_scores"], f"{name}_weights", axis=-1),
            node("MatMul", [f"{name}_weights", values], f"{name}_heads"),
            node("Squeeze", [f"{name}_heads", "axis"], f"{name}_result"),
        ]

    def write(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> None:
        arrays = {**weights, **lists}.items()
        constants = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays]
        model = make_model([node for node in nodes if node], inputs, outputs, constants)
        (Path(folder) / f"{name}.onnx").write_bytes(model)

    def decoder(has_past: bool) -> None:
        length = "past_decoder_sequence_length"
        own = [tensor(f"past_key_values.0.decoder.{part}", shape=["batch_size", 1, length, 8]) for part in PARTS]
        cross = [tensor(f"past_key_values.0.encoder.{part}", shape=["batch_size", 1, sizes[1], 8]) for part in PARTS]
        states = tensor("encoder_hidden_states", shape=[*sizes, 8])
        tokens = tensor("input_ids", TensorProto.INT64, ["batch_size", "new"])
        nodes = [node("Gather", ["table", "input_ids"], "embedded"), *rows("embedded", "query", "query_heads")]
        for part in PARTS:
            present = f"present.0.decoder.{part}"
            if has_past:
                nodes += rows("embedded", part, f"new_{part}")
                nodes += [node("Concat", [f"past_key_values.0.decoder.{part}", f"new_{part}"], present, axis=2)]
            else:
                nodes += rows("embedded", part, present)
                nodes += rows("encoder_hidden_states", f"cross_{part}", f"present.0.encoder.{part}")
        if not has_past:
            nodes += [
                node("Shape", ["input_ids"], "shape"),
                node("Gather", ["shape", "axis"], "length"),
                node("Concat", ["length", "length"], "square", axis=0),
                node("Expand", ["hidden", "square"], "full"),
                node("Trilu", ["full", "place"], "later", upper=1),
            ]
        side = "past_key_values" if has_past else "present"
        presents = [f"present.0.decoder.{part}" for part in PARTS]
        nodes += attention("own", "query_heads", *presents, None if has_past else "later")
        nodes += [node("Add", ["embedded", "own_result"], "sum"), *rows("sum", "cross_query", "cross_heads")]
        nodes += attention("other", "cross_heads", *(f"{side}.0.encoder.{part}" for part in PARTS), None)
        nodes += [node("Add", ["sum", "other_result"], "all"), node("MatMul", ["all", "head"], "logits")]
        outputs = ["logits", *presents, *([] if has_past else [f"present.0.encoder.{part}" for part in PARTS])]
        write(
            "decoder_with_past_model" if has_past else "decoder_model",
            nodes,
            [tokens, *own, *cross] if has_past else [tokens, states],
            [tensor(name, shape=None) for name in outputs],
        )

    Path(folder).mkdir()
    tokens = tensor("input_ids", TensorProto.INT64, sizes)
    states = tensor("last_hidden_state", shape=[*sizes, 8])
    write("encoder_model", [node("Gather", ["table", "input_ids"], "last_hidden_state")], [tokens], [states])
    decoder(False)
    decoder(True)
    return Path(folder)


def shared_cache(flag: int, fails: bool = False) -> bytes:
    """The layer of a language model whose past and present cache may be one buffer, with or without
    `past_present_share_buffer`. A node after the cache may fail in every request.
    """
    generator = np.random.default_rng(5)
    weights = {
        name: generator.standard_normal(shape, np.float32) * np.float32(0.3)
        for name, shape in {"table": (WORDS, 16), "qkv": (16, 32), "head": (16, WORDS)}.items()
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "qkv"], ["packed"]),
        helper.make_node(
            "GroupQueryAttention",
            ["packed", "", "", "past.key", "past.value", "seqlens", "total"],
            ["attended", "present.key", "present.value"],
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
            past_present_share_buffer=flag,
        ),
        helper.make_node("MatMul", ["attended", "head"], ["scores"]),
    ]
    if fails:
        weights["many"] = np.array([1000], np.float32)
        nodes += [
            helper.make_node("ReduceMax", ["scores"], ["most"], keepdims=0),
            helper.make_node("Add", ["most", "many"], ["far"]),
            helper.make_node("Cast", ["far"], ["place"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "place"], ["logits"]),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["scores"], ["logits"]))
    cached, one = ["batch", 1, "room", 8], ["batch"]
    graph = helper.make_graph(
        nodes,
        "shared cache",
        [
            tensor("input_ids", TensorProto.INT64, ["batch", "new"]),
            tensor("seqlens", TensorProto.INT32, one),
            tensor("total", TensorProto.INT32, [1]),
            *(tensor(f"past.{part}", shape=cached) for part in ("key", "value")),
        ],
        [tensor("logits", shape=None), *(tensor(f"present.{part}", shape=["batch", 1, "after", 8]) for part in ("key", "value"))],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def looping() -> bytes:
    """A product of 256x256 matrices, n times over: a request that takes as long as it is asked to."""
    square = (256, 256)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["inner", "w"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            tensor("turn", TensorProto.INT64, ()),
            tensor("go", TensorProto.BOOL, ()),
            tensor("inner", TensorProto.FLOAT, square),
        ],
        [tensor("on", TensorProto.BOOL, ()), tensor("next", TensorProto.FLOAT, square)],
    )
    weights = helper.make_tensor("w", TensorProto.FLOAT, square, np.eye(256, dtype=np.float32).tobytes(), raw=True)
    yes = helper.make_tensor("yes", TensorProto.BOOL, (), [True])
    return make_model(
        [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        [tensor("n", TensorProto.INT64, ()), tensor("x", TensorProto.FLOAT, square)],
        [tensor("y", TensorProto.FLOAT, square)],
        [weights, yes],
    )


#: More turns than any test waits for, and no more than a loop may have.
ENDLESS = np.array(1_000_000, np.int64)
SQUARE = np.ones((256, 256), np.float32)


@pytest.fixture(autouse=True)
def _records_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's records."""
    monkeypatch.setenv("KILN_CACHE_DIR", str(tmp_path / "records"))


@pytest.fixture
def relu() -> kiln.Session:
    """y = relu(x) of n by 3."""
    return kiln.Session(unary("Relu"))


@contextlib.contextmanager
def store_server(program: str | None, name: str, *arguments: str, at: str = "--port") -> Iterator[int]:
    """A server of records on a free port, where one is installed and the package has clients."""
    if program is None:
        pytest.skip(f"there is no {name}")
    try:
        kiln.Session(unary("Relu"), cache_mode="memory", remote="redis://127.0.0.1:1/0").close()
    except kiln.OptionError as refused:
        if "--features remote" not in str(refused):
            raise
        pytest.skip(str(refused))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, at, str(port), *arguments]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """The URL of a redis-server of this test's."""
    arguments = ("--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
    with store_server(shutil.which("redis-server"), "redis-server", *arguments) as port:
        yield f"redis://127.0.0.1:{port}/0"


#: What moto takes for credentials.
S3_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@pytest.fixture
def s3_url() -> Iterator[str]:
    """The URL of a bucket of a moto_server of this test's, for processes that have its credentials."""
    beside = Path(sys.executable).with_name("moto_server")
    program = str(beside) if beside.exists() else shutil.which("moto_server")
    with store_server(program, "moto_server", "-H", "127.0.0.1", at="-p") as port:
        made = urllib.request.Request(f"http://127.0.0.1:{port}/records", method="PUT")
        urllib.request.urlopen(made, timeout=30).close()
        yield f"s3://records/kiln?endpoint=http://127.0.0.1:{port}&region=us-east-1"


def threads_beside_janitor() -> int:
    """Threads of this process, in which a session was loaded, but for the one thread that gives memory back.

    That thread runs from the first load until all sessions have rested, and gets its name when it first runs.
    """
    deadline = time.monotonic() + 4
    while True:
        names = []
        for comm in Path("/proc/self/task").glob("*/comm"):
            # A thread may have ended meanwhile.
            with contextlib.suppress(OSError):
                names.append(comm.read_text().strip())
        others = sum(name != "kiln-janitor" for name in names)
        if others < len(names) or time.monotonic() > deadline:
            return others
        time.sleep(0.001)


def python(program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a program in a Python process of its own."""
    folder = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300, env=environment
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done
