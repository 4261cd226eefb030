"""Language models a token at a time, and texts that go on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import WORDS, language_model, unary
from onnx import TensorProto, helper

import kiln

PROMPT = [1, 5, 2, 11, 7]


@pytest.fixture(scope="module")
def decoder() -> kiln.Decoder:
    return kiln.Decoder(language_model(), threads=1, cache_mode="off")


def said(decoder: kiln.Decoder, prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens, a step at a time."""
    cache, read, tokens = decoder.cache(room=1), prompt, []
    for _ in range(count):
        tokens.append(int(decoder.step(cache, [read]).argmax()))
        read = tokens[-1:]
    return tokens


def test_steps_give_what_a_request_over_the_whole_text_gives(decoder: kiln.Decoder) -> None:
    session = kiln.Session(language_model(), threads=1, cache_mode="off")
    past = np.zeros((1, 1, 0, 8), np.float32)
    cache = decoder.cache(room=2, most=64)
    for length in range(1, 20):
        text = [(at * 5 + 1) % WORDS for at in range(length)]
        logits = decoder.step(cache, [text[-1:]])
        whole = session.run(
            ["logits"],
            {
                "input_ids": [text],
                "attention_mask": [[1] * length],
                "past_key_values.0.key": past,
                "past_key_values.0.value": past,
            },
        )[0]
        assert logits.shape == (1, WORDS) and cache.lengths == [length]
        np.testing.assert_allclose(logits, whole[:, -1], rtol=1e-4, atol=1e-5)
    assert cache.room == 64 and cache.bytes == 2 * 64 * 8 * 4


def test_a_sequence_begins_as_another_and_shares_its_memory(decoder: kiln.Decoder) -> None:
    cache, text = decoder.cache(2, room=1), [(at * 5 + 1) % WORDS for at in range(200)]
    decoder.step(cache, [text, text[::-1]])
    cache.fork(0, 1, 195)
    assert cache.lengths == [200, 195]
    logits = decoder.step(cache, [[3], [4]])
    for row, (length, token) in zip(logits, [(200, 3), (195, 4)], strict=True):
        expected = decoder.step(decoder.cache(), [[*text[:length], token]])[0]
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(kiln.KilnError, match="sequence 1 has 196 positions, not 300"):
        cache.fork(1, 0, 300)


def test_sequences_have_lengths_of_their_own_and_forget(decoder: kiln.Decoder) -> None:
    cache = decoder.cache(2)
    decoder.step(cache, np.array([PROMPT, PROMPT[::-1]]))
    cache.rewind(1, 2)
    assert cache.lengths == [5, 2]
    both = decoder.step(cache, [[3], [4]])
    alone = decoder.cache()
    decoder.step(alone, [PROMPT[::-1][:2]])
    np.testing.assert_allclose(both[1], decoder.step(alone, [[4]])[0], rtol=1e-4, atol=1e-5)


def test_steps_of_any_length_plan_nothing_after_the_first(decoder: kiln.Decoder) -> None:
    cache = decoder.cache()
    decoder.step(cache, [[1]])
    before = decoder.stats()
    for token in range(60):
        decoder.step(cache, [[token % WORDS]])
    after = decoder.stats()
    assert after["cache"]["misses"] == before["cache"]["misses"]
    assert after["plans"]["misses"] == before["plans"]["misses"]


def test_an_announced_length_changes_no_text_of_a_model_that_reads_none(decoder: kiln.Decoder) -> None:
    plain, announced = decoder.cache(), decoder.cache()
    announced.announce(0, 9)
    with pytest.raises(kiln.RunError, match="there is no sequence 7"):
        announced.announce(7, 9)
    for part in ([1, 2, 3], [4, 5]):
        np.testing.assert_array_equal(decoder.step(plain, [part]), decoder.step(announced, [part]))


def test_a_decoder_that_reads_embeddings_has_the_model_that_makes_them_before(
    decoder: kiln.Decoder, tmp_path: Path
) -> None:
    whole = onnx.load_from_string(language_model())
    embeds = next(node for node in whole.graph.node if "input_ids" in node.input)
    rest, first = onnx.ModelProto(), onnx.ModelProto()
    rest.CopyFrom(whole)
    first.CopyFrom(whole)
    rest.graph.node.remove(embeds)
    for node in rest.graph.node:
        node.input[:] = ["inputs_embeds" if name == "hidden" else name for name in node.input]
    del rest.graph.input[0]
    made = helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, ["batch", "new", 16])
    rest.graph.input.insert(0, made)
    del first.graph.node[:], first.graph.input[1:], first.graph.output[:]
    first.graph.node.append(embeds)
    first.graph.node[0].output[0] = "inputs_embeds"
    first.graph.output.append(made)
    for name, model in {"text.onnx": rest, "embedding.onnx": first}.items():
        onnx.save(model, tmp_path / name)
    parts = kiln.Decoder(tmp_path / "text.onnx", embedding=tmp_path / "embedding.onnx", threads=1, cache_mode="off")
    tokens = [[1, 2, 3]]
    expected = decoder.step(decoder.cache(), tokens)
    np.testing.assert_allclose(parts.step(parts.cache(), tokens), expected, atol=1e-5)
    with pytest.raises(kiln.ModelError, match="inputs_embeds"):
        kiln.Decoder(tmp_path / "text.onnx", cache_mode="off")
    with pytest.raises(kiln.OptionError, match="embedding"):
        kiln.Decoder(language_model(), embedding=tmp_path / "embedding.onnx")


def test_a_text_goes_on_until_it_ends(decoder: kiln.Decoder) -> None:
    expected = said(decoder, PROMPT, 12)
    generator = kiln.Generator(decoder, max_tokens=12)
    generator.append(np.array(PROMPT))
    assert generator.ended is None and list(generator) == expected and generator.ended == "max_tokens"
    assert generator.text == PROMPT + expected and next(generator, None) is None
    generator.append([])
    assert [next(generator)] == said(decoder, PROMPT + expected, 1)
    end = expected[3]
    generator = kiln.Generator(decoder, ends=[end])
    generator.append(PROMPT)
    assert list(generator) == expected[: expected.index(end)] and generator.ended == "token"
    generator = kiln.Generator(decoder, context=8)
    generator.append(PROMPT)
    assert list(generator) == expected[:3] and generator.ended == "context"


def test_the_same_seed_draws_the_same_text(decoder: kiln.Decoder) -> None:
    def drawn(seed: int) -> list[int]:
        generator = kiln.Generator(decoder, max_tokens=40, temperature=1.5, top_k=5, seed=seed)
        generator.append(PROMPT)
        return list(generator)

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_look_up_changes_no_text_and_is_counted(decoder: kiln.Decoder) -> None:
    prompt = PROMPT * 4
    plain, ahead = (kiln.Generator(decoder, max_tokens=30, lookup=tokens) for tokens in (0, 4))
    for generator in (plain, ahead):
        generator.append(prompt)
    assert list(ahead) == list(plain)
    proposed, kept = ahead.lookup_stats
    assert 0 < proposed and kept <= proposed and plain.lookup_stats == (0, 0)


def test_a_search_finds_the_likeliest_of_all_texts(decoder: kiln.Decoder) -> None:
    def likely(text: list[int]) -> np.ndarray:
        logits = decoder.step(decoder.cache(), [text])[0].astype(np.float64)
        return logits - np.log(np.exp(logits).sum())

    first = likely(PROMPT)
    all_texts = [
        ([one, other], first[one] + second)
        for one in range(WORDS)
        for other, second in enumerate(likely([*PROMPT, one]))
    ]
    all_texts.sort(key=lambda text: -text[1])
    found = decoder.search(PROMPT, beams=WORDS, max_tokens=2, length_penalty=0)
    assert [text.tokens for text in found] == [tokens for tokens, _ in all_texts[:WORDS]]
    np.testing.assert_allclose([text.score for text in found], [score for _, score in all_texts[:WORDS]], rtol=1e-4)
    assert {text.ended for text in found} == {"max_tokens"}
    # Where the likeliest first token ends a text, that text is the likeliest one by each rule of transformers.
    end = int(first.argmax())
    for rule in (True, False, "never"):
        best = decoder.search(PROMPT, beams=2, ends=[end], max_tokens=9, length_penalty=0, early_stopping=rule)[0]
        assert (best.tokens, best.ended) == ([], "token")
    others = decoder.search(PROMPT, beams=2, max_tokens=5, no_repeat_ngram=1, ends=[3], min_tokens=5)[0].tokens
    assert len({*PROMPT, *others}) == len(PROMPT) + len(others) == 10 and 3 not in others


def test_what_a_search_cannot_do_is_refused(decoder: kiln.Decoder) -> None:
    with pytest.raises(kiln.OptionError, match="beams is 0"):
        decoder.search(PROMPT, beams=0)
    with pytest.raises(kiln.OptionError, match="early_stopping"):
        decoder.search(PROMPT, early_stopping="soon")
    with pytest.raises(kiln.OptionError, match="length_penalty"):
        decoder.search(PROMPT, length_penalty=float("nan"))
    for other in ({"temperature": 1.0}, {"seed": 3}, {"lookup": 2}, {"width": 4}):
        with pytest.raises(TypeError, match=next(iter(other))):
            decoder.search(PROMPT, **other)
    with pytest.raises(TypeError, match="beams"):
        decoder.search(PROMPT, beams="four")
    with pytest.raises(kiln.InputError, match="none to go on from"):
        decoder.search([])
    with pytest.raises(kiln.TimeLimitError):
        decoder.search(PROMPT, time_limit=1e-9)
    cancel = kiln.Cancel()
    cancel.cancel()
    with pytest.raises(kiln.CancelledError):
        decoder.search(PROMPT, cancel=cancel)


def test_texts_of_a_batch_say_what_each_says_alone(decoder: kiln.Decoder) -> None:
    batch = kiln.Batch(decoder, texts=3, context=512)
    prompts = {batch.push(PROMPT[at:], max_tokens=9): PROMPT[at:] for at in range(5)}
    long = batch.push(PROMPT * 60, max_tokens=4)
    tokens: dict[int, list[int]] = {}
    while not batch.idle:
        for text, token in batch.step():
            tokens.setdefault(text, []).append(token)
    assert tokens.pop(long) == said(decoder, PROMPT * 60, 4)
    assert tokens == {text: said(decoder, prompt, 9) for text, prompt in prompts.items()}
    finished = {text.id: text for text in batch.finished()}
    assert [finished[text].tokens for text in prompts] == [prompts[text] + tokens[text] for text in prompts]
    assert {text.ended for text in finished.values()} == {"max_tokens"} and batch.finished() == []


def test_a_text_that_fails_ends_alone_and_one_that_is_forgotten_says_no_more(decoder: kiln.Decoder) -> None:
    batch = kiln.Batch(decoder, texts=2)
    wrong, right = batch.push([WORDS + 1]), batch.push(PROMPT, max_tokens=2)
    assert [text for text, _ in batch.step()] == [right]
    [ended] = batch.finished()
    assert ended.id == wrong and ended.ended == "failed" and isinstance(ended.error, kiln.RunError)
    assert batch.forget(right) and not batch.forget(right) and batch.idle and batch.step() == []


def test_a_step_out_of_time_leaves_its_texts(decoder: kiln.Decoder) -> None:
    batch = kiln.Batch(decoder, texts=1)
    batch.push(PROMPT, max_tokens=3)
    with pytest.raises(kiln.TimeLimitError):
        batch.step(time_limit=0.0)
    assert [token for _ in range(3) for _, token in batch.step()] == said(decoder, PROMPT, 3)


def test_options_of_a_text_are_refused_by_name(decoder: kiln.Decoder) -> None:
    batch = kiln.Batch(decoder)
    for wrong, error in (
        ({"temprature": 1.0}, TypeError),
        ({"max_tokens": "many"}, TypeError),
        ({"top_p": 1.5}, kiln.OptionError),
        ({"lookup": 2}, kiln.InputError),
    ):
        with pytest.raises(error, match=next(iter(wrong)).replace("lookup", "look-up")):
            batch.push(PROMPT, **wrong)  # type: ignore[arg-type]
    assert batch.idle


def test_texts_go_on_side_by_side_in_asyncio(decoder: kiln.Decoder) -> None:
    async def text(prompt: list[int]) -> list[int]:
        generator = kiln.Generator(decoder, max_tokens=9)
        generator.append(prompt)
        return [token async for token in generator]

    async def texts() -> list[list[int]]:
        return await asyncio.gather(*(text(PROMPT[at:]) for at in range(4)))

    assert asyncio.run(texts()) == [said(decoder, PROMPT[at:], 9) for at in range(4)]


def test_a_cancelled_task_leaves_a_text_that_goes_on(decoder: kiln.Decoder) -> None:
    async def halted() -> kiln.Generator:
        generator = kiln.Generator(decoder, max_tokens=1_000_000, context=1 << 20)
        generator.append(PROMPT)

        async def read() -> None:
            async for _ in generator:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return generator

    generator = asyncio.run(halted())
    text = generator.text
    generator.append([])
    assert isinstance(next(generator), int) and generator.text[: len(text)] == text


def test_steps_are_called_off_and_limited(decoder: kiln.Decoder) -> None:
    cancel = kiln.Cancel()
    cancel.cancel()
    cache = decoder.cache()
    with pytest.raises(kiln.CancelledError):
        decoder.step(cache, [PROMPT], cancel=cancel)
    with pytest.raises(kiln.TimeLimitError):
        decoder.step(cache, [PROMPT], time_limit=0.0)
    assert cache.lengths == [0]
    generator = kiln.Generator(decoder, cancel=cancel)
    generator.append(PROMPT)
    with pytest.raises(kiln.CancelledError):
        next(generator)
    assert generator.ended == "failed" and generator.text == PROMPT


def test_one_text_is_of_one_thread_at_a_time(decoder: kiln.Decoder) -> None:
    generator = kiln.Generator(decoder, max_tokens=2_000, context=1 << 13)
    generator.append(PROMPT)
    refusals: list[str] = []

    def read() -> None:
        try:
            for _ in generator:
                pass
        except kiln.RunError as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(refusal == "the text is in use by a step of another thread" for refusal in refusals)
    assert generator.ended == "max_tokens" and len(generator.text) == 2_005


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([[WORDS]], "index 13 is outside of 0..13"),
        ([[1], [2]], "2 lists of them for 1 sequences"),
        ([[]], "not as many each and some"),
        ([["a"]], "expected a list of integers, got list"),
        ([[0.5]], "expected a list of integers, got list"),
        ([1, 2], "expected a list of integers, got int"),
        (5, "expected a list of integers, got int"),
    ],
)
def test_tokens_that_cannot_be_are_refused(decoder: kiln.Decoder, tokens: object, said: str) -> None:
    cache = decoder.cache()
    with pytest.raises(kiln.KilnError, match=said):
        decoder.step(cache, tokens)  # type: ignore[arg-type]
    assert cache.lengths == [0]


def test_what_is_no_decoder_is_refused(decoder: kiln.Decoder, tmp_path: Path) -> None:
    with pytest.raises(kiln.ModelError, match="no decoder"):
        kiln.Decoder(unary("Relu"))
    with pytest.raises(kiln.ModelNotFoundError):
        kiln.Decoder(tmp_path / "missing.onnx")
    with pytest.raises(kiln.OptionError, match="taps"):
        kiln.Decoder(language_model(), taps=["logits"])  # type: ignore[call-arg]
    with pytest.raises(kiln.OptionError, match="top_p"):
        kiln.Generator(decoder, top_p=1.5)
    with pytest.raises(kiln.RunError, match="no sequence"):
        decoder.cache(0)


def test_a_cache_that_is_full_says_so_and_stays(decoder: kiln.Decoder) -> None:
    cache = decoder.cache(room=2, most=4)
    decoder.step(cache, [[1, 2, 3, 4]])
    with pytest.raises(kiln.RunError, match="5 positions, where 4 are the most"):
        decoder.step(cache, [[5]])
    assert cache.lengths == [4]


def test_a_path_and_its_external_data(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = onnx.load_model_from_string(language_model())
    onnx.save_model(model, str(path), save_as_external_data=True, location="model.bin", size_threshold=0)
    expected = said(kiln.Decoder(language_model()), PROMPT, 5)
    assert said(kiln.Decoder(path), PROMPT, 5) == expected
    handed = kiln.Decoder(path.read_bytes(), external_data={"model.bin": (tmp_path / "model.bin").read_bytes()})
    assert said(handed, PROMPT, 5) == expected
    with pytest.raises(kiln.OptionError, match="external_data"):
        kiln.Decoder(path, external_data={"model.bin": b""})


def test_names_of_the_cache_are_given_as_alias() -> None:
    with pytest.raises(kiln.ModelError, match="is not OUTPUT -> INPUT"):
        kiln.Decoder(language_model(), alias=["present"])
    with pytest.raises(kiln.OptionError, match="alias"):
        kiln.Decoder(language_model(), alias=3)  # type: ignore[arg-type]
    with pytest.raises(kiln.OptionError, match="it is for kiln.Decoder"):
        kiln.Session(language_model(), alias=["present.* -> past_key_values.*"])  # type: ignore[call-arg]
