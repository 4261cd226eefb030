"""Notes out of recordings of chords of several lengths."""

import tempfile
import wave
from pathlib import Path

import numpy as np
from basic_pitch import ICASSP_2022_MODEL_PATH
from basic_pitch.inference import Model, predict

RATE = 22_050


def recording(folder, seconds):
    time = np.arange(int(RATE * seconds)) / RATE
    sound = sum(
        np.sin(2 * np.pi * frequency * harmonic * time) / harmonic**2
        for frequency in (220.0, 277.18, 329.63)
        for harmonic in (1, 2, 3)
    )
    sound *= np.exp(-2 * (time % 1.0))
    path = Path(folder) / f"{seconds}.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound / np.abs(sound).max() * 20_000).astype("<i2").tobytes())
    return path


def load():
    return Model(ICASSP_2022_MODEL_PATH)


def ask(model):
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        for seconds in (2.0, 5.0):
            _, _, events = predict(recording(folder, seconds), model)
            notes.append(sorted(int(event[2]) for event in events))
    return notes
