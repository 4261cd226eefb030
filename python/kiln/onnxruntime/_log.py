"""What is said of options that mean nothing here: once each, to the logger ``kiln.onnxruntime``."""

import logging

LOGGER = logging.getLogger("kiln.onnxruntime")

_said: set[str] = set()


def once(what: str, *, level: int = logging.INFO) -> None:
    """Logs that, unless it was logged before."""
    if what not in _said:
        _said.add(what)
        LOGGER.log(level, what)
