"""Where onnxruntime keeps what its native half defines."""
