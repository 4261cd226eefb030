"""Finds speech in a made-up recording of 20 seconds with sherpa-onnx's voice activity detector."""

import json
import sys
import time

import numpy as np
import sherpa_onnx

RATE = 16000
WINDOW = 512
#: When there is something like a voice, in seconds.
VOICED = [(1, 3.5), (5, 6.2), (8, 12), (14, 18.5)]


def recording() -> np.ndarray:
    """Harmonics of a changing pitch, in bursts, over faint noise."""
    at = np.arange(RATE * 20) / RATE
    sound = np.zeros_like(at)
    for number, (start, end) in enumerate(VOICED):
        here = (at >= start) & (at < end)
        pitch = 110 + 20 * number
        loud = 0.5 * (1 + np.sin(2 * np.pi * 3.3 * at[here]))
        for harmonic in range(1, 25):
            phase = 2 * np.pi * pitch * harmonic * at[here] + 0.5 * np.sin(2 * np.pi * 5 * at[here])
            sound[here] += loud * np.sin(phase) / harmonic**1.1
    noise = np.random.default_rng(3).standard_normal(len(at))
    return (0.15 * sound + 0.002 * noise).astype(np.float32)


def main() -> None:
    config = sherpa_onnx.VadModelConfig()
    config.silero_vad.model = sys.argv[1]
    config.silero_vad.min_silence_duration = 0.25
    config.sample_rate = RATE
    config.num_threads = 1
    sound = recording()
    begun = time.perf_counter()
    detector = sherpa_onnx.VoiceActivityDetector(config, buffer_size_in_seconds=60)
    loaded = time.perf_counter()
    for start in range(0, len(sound) - WINDOW, WINDOW):
        detector.accept_waveform(sound[start : start + WINDOW])
    detector.flush()
    done = time.perf_counter()
    segments = []
    while not detector.empty():
        segments.append([detector.front.start, len(detector.front.samples)])
        detector.pop()
    times = {"load_ms": round((loaded - begun) * 1e3, 1), "run_ms": round((done - loaded) * 1e3, 1)}
    print(json.dumps({"segments": segments, "times": times}))


if __name__ == "__main__":
    main()
