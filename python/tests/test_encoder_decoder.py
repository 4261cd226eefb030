"""Encoders and decoders: an encoder's result, and texts that are decoded from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from conftest import WORDS, translator

import kiln

SOURCE = [[1, 5, 2, 11, 7]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translator(tmp_path_factory.mktemp("models") / "translator")


@pytest.fixture(scope="module")
def model(folder: Path) -> kiln.EncoderDecoder:
    return kiln.EncoderDecoder(folder, threads=1, cache_mode="off")


def whole(folder: Path, source: list[list[int]], text: list[int]) -> np.ndarray:
    """The logits behind a text that the decoder without a cache reads at once."""
    encoder = kiln.Session(folder / "encoder_model.onnx", threads=1, cache_mode="off")
    decoder = kiln.Session(folder / "decoder_model.onnx", threads=1, cache_mode="off")
    [states] = encoder.run(None, {"input_ids": source})
    [logits] = decoder.run(["logits"], {"input_ids": [text] * len(source), "encoder_hidden_states": states})
    return np.asarray(logits[:, -1])


def test_steps_give_what_a_decoder_over_the_whole_text_gives(folder: Path, model: kiln.EncoderDecoder) -> None:
    for source in (SOURCE, [[3, 1], [9, 4]]):
        encoded = model.encode({"input_ids": np.array(source)})
        assert encoded.sequences == len(source) and encoded.bytes > 0
        cache = encoded.cache(room=2, most=64)
        text = [(at * 5 + 1) % WORDS for at in range(20)]
        for length in range(1, 20):
            logits = model.step(cache, text[length - 1 : length] * len(source))
            assert cache.lengths == [length] * len(source)
            np.testing.assert_allclose(logits, whole(folder, source, text[:length]), rtol=1e-4, atol=1e-4)


def test_steps_of_any_length_plan_nothing_after_the_first(folder: Path) -> None:
    model = kiln.EncoderDecoder(folder, threads=1, cache_mode="memory")

    def misses() -> list[int]:
        return [each[kind]["misses"] for each in model.stats().values() for kind in ("plans", "cache")]

    cache = model.encode({"input_ids": SOURCE}).cache()
    for token in (1, 2):
        model.step(cache, [token])
    before = misses()
    assert sum(before) > 0
    for token in range(40):
        model.step(cache, [token % WORDS])
    assert misses() == before


def test_the_likeliest_of_some_tokens_follows_the_first(folder: Path, model: kiln.EncoderDecoder) -> None:
    source = [[3, 1], [9, 4]]
    encoded = model.encode({"input_ids": np.array(source)})
    logits = whole(folder, source, [3])
    for among in ([5, 2, 8], list(range(WORDS))):
        assert encoded.likeliest(3, among) == [among[place] for place in logits[:, among].argmax(axis=1)]
    for among in ([5, WORDS], [-1], []):
        with pytest.raises(kiln.InputError, match="token"):
            encoded.likeliest(3, among)


def test_texts_are_said_about_what_was_read_once(folder: Path, model: kiln.EncoderDecoder) -> None:
    expected = [3]
    for _ in range(12):
        expected.append(int(whole(folder, SOURCE, expected).argmax()))
    encoded = model.encode({"input_ids": SOURCE})
    for _ in range(2):
        generator = kiln.Generator(encoded, max_tokens=12)
        generator.append([3])
        assert list(generator) == expected[1:] and generator.text == expected
    never = kiln.Generator(encoded, max_tokens=12, suppress=[expected[1]])
    never.append([3])
    assert expected[1] not in list(never)
    other = kiln.Generator(encoded, max_tokens=1, begin_suppress=[expected[1]])
    other.append([3])
    assert list(other) != [expected[1]]

    async def text() -> list[int]:
        generator = kiln.Generator(encoded, max_tokens=12)
        generator.append([3])
        return [token async for token in generator]

    async def texts() -> list[list[int]]:
        return await asyncio.gather(text(), text())

    assert asyncio.run(texts()) == [expected[1:]] * 2


def test_a_search_finds_the_likeliest_of_all_texts(folder: Path, model: kiln.EncoderDecoder) -> None:
    def likely(text: list[int]) -> np.ndarray:
        logits = whole(folder, SOURCE, text)[0].astype(np.float64)
        return logits - np.log(np.exp(logits).sum())

    all_texts = [
        ([one, other], first + second)
        for one, first in enumerate(likely([3]))
        for other, second in enumerate(likely([3, one]))
    ]
    all_texts.sort(key=lambda text: -text[1])
    encoded = model.encode({"input_ids": SOURCE})
    found = encoded.search([3], beams=WORDS, max_tokens=2)
    assert [text.tokens for text in found] == [tokens for tokens, _ in all_texts[:WORDS]]
    halves = [score / 2 for _, score in all_texts[:WORDS]]
    np.testing.assert_allclose([text.score for text in found], halves, rtol=1e-4)
    counted = encoded.search([3], beams=WORDS, max_tokens=2, counted=2)
    np.testing.assert_allclose([text.score for text in counted], np.array(halves) / 2, rtol=1e-4)
    two = model.encode({"input_ids": [[3, 1], [9, 4]]})
    with pytest.raises(kiln.InputError, match="2 texts"):
        two.search([3])


def test_texts_have_timestamps_by_whispers_rules(model: kiln.EncoderDecoder) -> None:
    encoded = model.encode({"input_ids": SOURCE})
    # Words are below 6, which says that there are no times; times begin at 7.
    rules = {"timestamp_begin": 7, "max_initial_timestamp": 2, "ends": [5], "max_tokens": 12}
    generator = kiln.Generator(encoded, context=64, **rules)
    generator.append([3])
    for said in (list(generator), *(text.tokens for text in encoded.search([3], beams=3, **rules))):
        times = [token for token in said if token >= 7]
        assert 7 <= said[0] <= 9 and 6 not in said and times == sorted(times)
        assert all(token < 7 for token in said[1:2]), "a word follows the first time"
    with pytest.raises(TypeError, match="timestamp_begin"):
        kiln.Generator(encoded, timestamp_begin="zero")


def test_files_are_a_folder_or_a_list(folder: Path, tmp_path: Path) -> None:
    files = [folder / f"{name}.onnx" for name in ("encoder_model", "decoder_model", "decoder_with_past_model")]
    for given in (str(folder), files, [str(file) for file in files]):
        model = kiln.EncoderDecoder(given, threads=1, cache_mode="off")
        assert [port.name for port in model.inputs] == ["input_ids"]
    with pytest.raises(kiln.ModelNotFoundError, match=r"no file .*encoder_model\.onnx") as missing:
        kiln.EncoderDecoder(tmp_path)
    assert missing.value.filename == str(tmp_path / "encoder_model.onnx")
    with pytest.raises(kiln.ModelNotFoundError):
        kiln.EncoderDecoder([files[0], files[1], tmp_path / "none.onnx"])
    with pytest.raises(kiln.ModelError, match="use_cache_branch"):
        kiln.EncoderDecoder(files[:2])
    for wrong in ([], files[:1], 5):
        with pytest.raises(kiln.ModelError, match="a folder, or a list"):
            kiln.EncoderDecoder(wrong)  # type: ignore[arg-type]
    with pytest.raises(kiln.OptionError, match="alias"):
        kiln.EncoderDecoder(folder, alias=["a.* -> b.*"])  # type: ignore[call-arg]


def test_requests_that_do_not_fit_are_refused(model: kiln.EncoderDecoder) -> None:
    with pytest.raises(kiln.InputError, match="no such input"):
        model.encode({"features": SOURCE})
    with pytest.raises(kiln.KilnError, match="input_ids"):
        model.encode({})
    cancel = kiln.Cancel()
    cancel.cancel()
    with pytest.raises(kiln.CancelledError):
        model.encode({"input_ids": SOURCE}, cancel=cancel)
    with pytest.raises(kiln.TimeLimitError):
        model.encode({"input_ids": SOURCE}, time_limit=0.0)
    encoded = model.encode({"input_ids": SOURCE})
    cache = encoded.cache(room=1, most=2)
    with pytest.raises(kiln.InputError, match="tokens"):
        model.step(cache, [1, 2])
    with pytest.raises(kiln.InputError, match="tokens"):
        model.step(cache, [[1]])  # type: ignore[list-item]
    assert cache.lengths == [0]
    for token in (1, 2):
        model.step(cache, [token])
    with pytest.raises(kiln.RunError, match="cache"):
        model.step(cache, [3])
    with pytest.raises(kiln.InputError, match="2 texts"):
        kiln.Generator(model.encode({"input_ids": [[1], [2]]}))
    with pytest.raises(kiln.InputError, match=r"kiln\.Decoder or a kiln\.Encoded"):
        kiln.Generator(model)  # type: ignore[arg-type]
