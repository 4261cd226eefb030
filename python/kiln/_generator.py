"""Texts of language models as iterators, in asyncio too."""

from __future__ import annotations

import asyncio
from typing import Self

from kiln._kiln import _Generator


class Generator(_Generator):
    """One text that a language model continues: an iterator of tokens, over a cache of its own.

    ``decoder`` is a :class:`kiln.Decoder`, which many texts share, or what an encoder has read: the :class:`kiln.Encoded`
    of one text or sound. The text ends with one of the tokens ``ends``, after
    ``max_tokens`` behind what was appended last, or with as many tokens in all as ``context``; :attr:`ended` says which.

    The likeliest token is taken each time unless ``temperature`` is above 0: then one is drawn among the ``top_k``
    likeliest (0: of all), those that have ``top_p`` of the probability, and those that have ``min_p`` of the likeliest
    one's, by random numbers that begin at ``seed``. ``repetition_penalty`` goes with both. The same logits and seed choose
    the same token on every machine. Tokens of ``suppress`` are never chosen, and those of ``begin_suppress`` are not the
    first one.

    With ``lookup`` above 0, up to as many tokens are proposed from where the text's last ``lookup_ngram`` tokens stood
    before, and the model reads them in one step; :attr:`lookup_stats` counts them. The text is the one that it is
    without: always with ``numerics="invariant"`` of the decoder, and else but where two tokens are as good as equal.

    ``time_limit`` is in seconds and for each step: one token, or up to 256 of what was appended. ``cancel`` is a
    :class:`kiln.Cancel` for all steps. A step that failed is tried again after :meth:`append`, also of no tokens.

    >>> generator = kiln.Generator(kiln.Decoder(language_model), max_tokens=4)
    >>> generator.append([1, 2, 3])
    >>> len([token for token in generator])
    4

    In asyncio other tasks go on while the model computes, and a task that is cancelled has its step called off:

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
            # Nobody else asks what it has ended with.
            await asyncio.gather(step, return_exceptions=True)
            raise
        if token is None:
            raise StopAsyncIteration
        return token
