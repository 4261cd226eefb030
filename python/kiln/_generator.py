"""Texts of language models as iterators, in asyncio too."""

from __future__ import annotations

import asyncio
from typing import Self

from kiln._kiln import _Generator


class Generator(_Generator):
    """One text that a language model continues: an iterator of tokens, with a cache of its own.

    ``decoder`` is a :class:`kiln.Decoder`, which many texts may share, or the :class:`kiln.Encoded` of one text or
    sound. The text ends with one of the tokens ``ends``, with ``max_tokens`` tokens after the last ones that were
    appended, or with ``context`` tokens in all; :attr:`ended` says which.

    The likeliest token is taken each time unless ``temperature`` is above 0. Then a token is drawn that is one of the
    ``top_k`` likeliest (0: of all), is one of the likeliest that together have ``top_p`` of the probability, and has at
    least ``min_p`` of the likeliest token's probability. The random numbers begin at ``seed``: the same logits and seed
    choose the same token on every machine. ``repetition_penalty`` applies to both ways. Tokens of ``suppress`` are
    never chosen, and tokens of ``begin_suppress`` are never the first chosen token. With ``no_repeat_ngram`` above 0 the
    text has no sequence of that many tokens twice, and at least ``min_tokens`` tokens are chosen before one of ``ends``.

    With ``timestamp_begin``, the token of the time 0, texts of Whisper have timestamps by its rules: around what is said,
    in pairs, not decreasing, the first one at most ``max_initial_timestamp`` tokens behind that of 0. Times come where
    all of them together are likelier than any word. The first one of ``ends`` is the one that ends a text.

    With ``lookup`` above 0, up to ``lookup`` tokens are proposed: those that followed the text's last ``lookup_ngram``
    tokens when these occurred before. The model reads the proposed tokens in one step; :attr:`lookup_stats` counts
    them. The text is the same as without ``lookup``: always if the decoder has ``numerics="invariant"``, and otherwise
    unless two tokens are almost equally likely.

    ``time_limit`` is in seconds and applies to each step: one token, or up to 256 of the appended tokens. ``cancel`` is
    a :class:`kiln.Cancel` for all steps. A failed step is tried again after :meth:`append`, even of no tokens.

    >>> generator = kiln.Generator(kiln.Decoder(language_model), max_tokens=4)
    >>> generator.append([1, 2, 3])
    >>> len([token for token in generator])
    4

    In asyncio, other tasks run while the model computes, and a task that is cancelled cancels its step:

    >>> import asyncio
    >>> async def said():
    ...     generator = kiln.Generator(kiln.Decoder(language_model), max_tokens=4)
    ...     generator.append([1, 2, 3])
    ...     return [token async for token in generator]
    >>> len(asyncio.run(said()))
    4
    """

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        step = asyncio.ensure_future(asyncio.to_thread(next, self, None))
        try:
            token = await asyncio.shield(step)
        except asyncio.CancelledError:
            self.cancel()
            # No other code awaits the step's result.
            await asyncio.gather(step, return_exceptions=True)
            raise
        if token is None:
            raise StopAsyncIteration
        return token
