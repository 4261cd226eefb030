"""Kiln's exceptions. Each is a :class:`KilnError`, and also Python's own exception for its cause, if there is one."""


class KilnError(Exception):
    """The base class of Kiln's exceptions.

    >>> try:
    ...     kiln.Session(b"no model")
    ... except kiln.KilnError as error:
    ...     print(type(error).__name__)
    ModelError
    """


class ModelError(KilnError, ValueError):
    """The file or the bytes are not a readable model, or a node breaks its operator's rules.

    >>> issubclass(kiln.ModelError, ValueError)
    True
    """


class ModelNotFoundError(ModelError, FileNotFoundError):
    """The model's file does not exist; ``filename`` is its path.

    >>> try:
    ...     kiln.Session("missing.onnx")
    ... except FileNotFoundError as error:
    ...     print(error.filename)
    missing.onnx
    """

    def __init__(self, message: str, filename: str) -> None:
        super().__init__(message)
        self.filename = filename

    def __reduce__(self) -> tuple[type["ModelNotFoundError"], tuple[str, str]]:
        return type(self), (str(self), str(self.filename))

    def __str__(self) -> str:
        return str(self.args[0])


class UnsupportedError(KilnError, NotImplementedError):
    """The model needs something that Kiln does not support; ``problems`` lists all of it.

    >>> issubclass(kiln.UnsupportedError, NotImplementedError)
    True
    """

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message, problems)
        self.problems = problems

    def __str__(self) -> str:
        return str(self.args[0])


class OptionError(KilnError, ValueError):
    """An option does not exist or cannot have that value.

    >>> kiln.Session(model, threads=-1)
    Traceback (most recent call last):
    kiln._errors.OptionError: threads: ...
    """


class InputError(KilnError, ValueError):
    """An input is missing, unknown, or not of the type or shape that the model declares.

    >>> kiln.Session(model).run(None, {})
    Traceback (most recent call last):
    kiln._errors.InputError: input 'x': not given
    """


class OutputError(KilnError, ValueError):
    """The model has no such output.

    >>> kiln.Session(model).run(["z"], {"x": [[1, 2, 3]]})
    Traceback (most recent call last):
    kiln._errors.OutputError: output 'z': the model has no such output; it has y
    """


class RunError(KilnError, RuntimeError):
    """A node failed: the message says which, and why.

    >>> issubclass(kiln.RunError, RuntimeError)
    True
    """


class TimeLimitError(RunError, TimeoutError):
    """A request, or the loading of a model, took longer than its time limit.

    >>> kiln.Session(model, load_time_limit=0.0)
    Traceback (most recent call last):
    kiln._errors.TimeLimitError: ...
    """


class CancelledError(RunError):
    """A request was cancelled.

    >>> cancel = kiln.Cancel()
    >>> cancel.cancel()
    >>> kiln.Session(model).run(None, {"x": [[1, 2, 3]]}, cancel=cancel)
    Traceback (most recent call last):
    kiln._errors.CancelledError: ...
    """


class ClosedError(KilnError, ValueError):
    """The session was closed.

    >>> session = kiln.Session(model)
    >>> session.close()
    >>> session.run(None, {"x": [[1, 2, 3]]})
    Traceback (most recent call last):
    kiln._errors.ClosedError: the session was closed
    """


class RecordsError(KilnError, OSError):
    """A file of records could not be read or written, or a shared store did not accept them.

    >>> issubclass(kiln.RecordsError, OSError)
    True
    """


class InternalError(RunError):
    """A fault in Kiln itself, whatever the model and the request are. Please report it.

    >>> issubclass(kiln.InternalError, kiln.RunError)
    True
    """
