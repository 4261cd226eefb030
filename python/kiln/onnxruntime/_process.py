"""Functions of the whole process."""

import logging

from kiln import __version__ as kiln_version
from kiln.onnxruntime._log import LOGGER, once

#: The version of onnxruntime whose names these are.
__version__ = "1.32.0"

_PROVIDERS = ["CPUExecutionProvider"]

#: Python's levels of onnxruntime's severities: verbose, info, warning, error, fatal.
_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]


def get_available_providers() -> list[str]:
    """The providers: Kiln computes on the CPU.

    >>> get_available_providers()
    ['CPUExecutionProvider']
    """
    return list(_PROVIDERS)


def get_all_providers() -> list[str]:
    """As :func:`get_available_providers`.

    >>> get_all_providers()
    ['CPUExecutionProvider']
    """
    return list(_PROVIDERS)


def get_device() -> str:
    """``"CPU"``.

    >>> get_device()
    'CPU'
    """
    return "CPU"


def get_version_string() -> str:
    """As ``__version__``.

    >>> get_version_string() == ort.__version__
    True
    """
    return __version__


def get_build_info() -> str:
    """Kiln's version, and the version of onnxruntime whose names this package has.

    >>> get_build_info().startswith("Kiln ")
    True
    """
    return f"Kiln Build Info: version {kiln_version}, with the names of onnxruntime {__version__}"


def set_default_logger_severity(severity: int) -> None:
    """Sets the lowest severity that is logged: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.

    >>> set_default_logger_severity(2)
    """
    if not 0 <= severity < len(_LEVELS):
        raise ValueError(f"severity {severity} is not 0 to {len(_LEVELS) - 1}")
    LOGGER.setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Has no effect: there are no finer levels.

    >>> set_default_logger_verbosity(0)
    """
    once(f"set_default_logger_verbosity({verbosity}) means nothing here")


def has_collective_ops() -> bool:
    """False: there are no operators over several devices.

    >>> has_collective_ops()
    False
    """
    return False


def set_seed(seed: int) -> None:
    """Has no effect: nodes that draw random numbers have seeds of their own.

    >>> set_seed(7)
    """
    once("set_seed means nothing here: nodes that draw random numbers have seeds of their own")


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Has no effect: sessions share a pool for each number of threads.

    >>> set_global_thread_pool_sizes(2, 1)
    """
    once("set_global_thread_pool_sizes means nothing here: sessions share a pool for each number of threads")


def enable_telemetry_events() -> None:
    """Has no effect: there is no telemetry.

    >>> enable_telemetry_events()
    """


def disable_telemetry_events() -> None:
    """Has no effect: there is no telemetry.

    >>> disable_telemetry_events()
    """


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Has no effect: no library is loaded.

    >>> preload_dlls()
    """
