"""The exceptions of Kiln. All of them are :class:`KilnError`, and those that Python has a word for are that too."""


class KilnError(Exception):
    """Whatever Kiln raises."""


class ModelError(KilnError, ValueError):
    """The file or the bytes are no model that can be read, or a node breaks its operator's rules."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """There is no such file; ``filename`` says which."""

    def __init__(self, message: str, filename: str) -> None:
        super().__init__(message)
        self.filename = filename

    def __reduce__(self) -> tuple[type["ModelNotFoundError"], tuple[str, str]]:
        return type(self), (str(self), str(self.filename))

    def __str__(self) -> str:
        return str(self.args[0])


class UnsupportedError(KilnError, NotImplementedError):
    """The model uses what Kiln does not do; ``problems`` has every such thing."""

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message, problems)
        self.problems = problems

    def __str__(self) -> str:
        return str(self.args[0])


class OptionError(KilnError, ValueError):
    """An option does not exist or cannot have that value."""


class InputError(KilnError, ValueError):
    """An input is missing, unknown, or not of the type or shape that the model declares."""


class OutputError(KilnError, ValueError):
    """The model has no such output."""


class RunError(KilnError, RuntimeError):
    """A node failed: the message says which, and why."""


class TimeLimitError(RunError, TimeoutError):
    """A request, or the loading of a model, took longer than it may."""


class CancelledError(RunError):
    """A request was called off."""


class ClosedError(KilnError, ValueError):
    """The session was closed."""


class RecordsError(KilnError, OSError):
    """A file of records could not be read or written."""


class InternalError(RunError):
    """A fault of Kiln's own, whatever the model and the request were: please report it."""
