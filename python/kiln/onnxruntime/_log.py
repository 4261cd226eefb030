"""Messages about options that have no effect on Kiln: each once, to the logger ``kiln.onnxruntime``."""

import logging

LOGGER = logging.getLogger("kiln.onnxruntime")

_said: set[str] = set()


def once(what: str, *, level: int = logging.INFO) -> None:
    """Logs a message, unless it was logged before."""
    if what not in _said:
        _said.add(what)
        LOGGER.log(level, what)
