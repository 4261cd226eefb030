"""Speech-like sound between silences, in windows whose state goes from one to the next."""

import numpy as np
import torch
from silero_vad import get_speech_timestamps, load_silero_vad

RATE = 16_000


def sound():
    random = np.random.default_rng(3)
    time = np.arange(RATE * 4) / RATE
    pitch = 120 + 30 * np.sin(2 * np.pi * 2 * time)
    voice = sum(np.sin(2 * np.pi * np.cumsum(pitch * harmonic) / RATE) / harmonic for harmonic in range(1, 20))
    loud = ((time % 2) > 0.7) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * time))
    return torch.from_numpy((0.1 * voice * loud + 0.002 * random.standard_normal(time.size)).astype(np.float32))


def load():
    return load_silero_vad(onnx=True)


def ask(model):
    return get_speech_timestamps(sound(), model, sampling_rate=RATE)
