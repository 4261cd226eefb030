"""Lists of execution providers, as programs give them: names, or names with options."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any


def pairs_of(providers: Any, provider_options: Any) -> list[tuple[str, dict[Any, Any]]]:
    """The name and the options of each provider. Raises :class:`ValueError` for lists of another form.

    >>> pairs_of(["A"], [{"device": 1}])
    [('A', {'device': 1})]
    """
    if providers is None:
        return []
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is None:
        pairs = [provider if isinstance(provider, tuple) else (provider, {}) for provider in providers]
    else:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        pairs = list(zip(providers, provider_options, strict=True))
    if any(len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], dict) for pair in pairs):
        raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    return pairs


def check_and_normalize_provider_args(
    providers: Any, provider_options: Any, available_provider_names: Sequence[str]
) -> tuple[list[str], list[dict[str, str]]]:
    """The names of the providers, and the options of each with texts as keys and values.

    ``providers`` is a list of names, or of pairs of a name and options; ``provider_options`` has options for a list of
    names. A provider that is not available, or that comes twice, is warned of. Raises :class:`ValueError` for other
    lists.

    >>> check_and_normalize_provider_args([("A", {"device": 1}), "B"], None, ["A", "B"])
    (['A', 'B'], [{'device': '1'}, {}])
    """
    named: dict[str, dict[str, str]] = {}
    for name, options in pairs_of(providers, provider_options):
        if name not in available_provider_names:
            listed = ", ".join(available_provider_names)
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers: '{listed}'",
                stacklevel=2,
            )
        if name in named:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=2)
            continue
        named[name] = {str(key): str(value) for key, value in options.items()}
    return list(named), list(named.values())
