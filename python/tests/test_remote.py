"""Records that sessions share through a store elsewhere: an object of the program's own, or a URL."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import python, unary

import kiln

SHAPES = [{"x": (8, 3)}, {"x": (700, 3)}]


class Shared:
    """A store in this process, which notes who calls it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.threads: set[str] = set()

    def get(self, name: str) -> bytes | None:
        self.threads.add(threading.current_thread().name)
        return self.kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def test_what_one_session_publishes_another_has(tmp_path: Path) -> None:
    store, model = Shared(), unary("Softmax")
    with kiln.Session(model, cache_dir=tmp_path / "one", remote=store) as first:
        first.warm(SHAPES)
        first.publish()
        [(name, data)] = store.kept.items()
        assert name.endswith(".kiln") and len(data) > 100
        assert first.stats()["records"]["remote_puts"] >= 1
    with kiln.Session(model, cache_dir=tmp_path / "two", remote=store, rehearse=False) as second:
        second.warm(SHAPES)
        stats = second.stats()
    assert stats["session"]["misses"] == 0 and stats["session"]["record_hits"] > 0
    assert stats["records"]["remote_taken"] > 0
    assert threading.current_thread().name not in store.threads


def test_a_store_that_is_only_read_gets_nothing(tmp_path: Path) -> None:
    store = Shared()
    with kiln.Session(unary("Relu"), cache_dir=tmp_path, remote=store, remote_read_only=True) as session:
        session.warm(SHAPES)
        with pytest.raises(kiln.RecordsError, match="may write"):
            session.publish()
    assert not store.kept
    with kiln.Session(unary("Relu"), cache_dir=tmp_path) as session, pytest.raises(kiln.RecordsError):
        session.publish()


class Broken(Shared):
    """A store that is down, or gives what no store gives."""

    def __init__(self, gives: object) -> None:
        super().__init__()
        self.gives = gives

    def get(self, name: str) -> bytes | None:
        if self.gives is None:
            raise ConnectionError("the line is dead")
        return self.gives  # type: ignore[return-value]


@pytest.mark.parametrize("gives", [None, "text", 7, b"x" * (25 << 20)], ids=["down", "text", "number", "too long"])
def test_a_store_that_fails_is_an_error_of_publishing_alone(tmp_path: Path, gives: object) -> None:
    store = Broken(gives)
    with kiln.Session(unary("Relu"), cache_dir=tmp_path, remote=store) as session:
        [y] = session.run(None, {"x": -np.ones((2, 3), np.float32)})
        assert (y == 0).all()
        with pytest.raises(kiln.RecordsError) as refused:
            session.publish()
        if gives is None:
            assert "the line is dead" in str(refused.value)
        assert session.stats()["records"]["remote_failures"] >= 1


def test_machines_share_records_through_a_server(tmp_path: Path, redis_url: str) -> None:
    model = unary("Softmax")
    with kiln.Session(model, cache_dir=tmp_path / "one", remote=redis_url) as first:
        first.warm(SHAPES)
        first.publish()
        assert first.stats()["records"]["remote_puts"] >= 1
    with kiln.Session(model, cache_dir=tmp_path / "two", remote=redis_url, rehearse=False) as second:
        second.warm(SHAPES)
        stats = second.stats()
    assert stats["session"]["misses"] == 0 and stats["records"]["remote_taken"] > 0


def test_what_names_no_store_is_an_error_that_names_the_option() -> None:
    for remote in ("ftp://somewhere/else", "redis://user:secret@host/", 5, object()):
        with pytest.raises(kiln.OptionError, match="^remote: ") as refused:
            kiln.Session(unary("Relu"), remote=remote)  # type: ignore[arg-type]
        assert "secret" not in str(refused.value)
    with pytest.raises(kiln.OptionError, match="^timeout: "):
        kiln.Session(unary("Relu")).publish(timeout=-1.0)


def test_a_process_ends_while_its_store_is_asked() -> None:
    program = """
import time, kiln, numpy as np
from conftest import unary
class Slow(dict):
    def get(self, name):
        time.sleep(1)
    def put(self, name, data):
        self[name] = data
session = kiln.Session(unary("Relu"), remote=Slow())
session.run(None, {"x": np.ones((2, 3), np.float32)})
"""
    python(program)
