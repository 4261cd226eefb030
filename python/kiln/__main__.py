"""The command: ``python -m kiln run model.onnx``, or ``kiln run model.onnx`` where the package is installed."""

from __future__ import annotations

import signal
import sys

from kiln._kiln import command


def main() -> int:
    """Runs the command with this process's arguments."""
    # The command ends at once on Ctrl-C, as programs do that are no interpreter.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command([sys.executable, "-m", "kiln"], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
