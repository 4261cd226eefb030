"""Images of no people, of several sizes."""

import numpy as np
from nudenet import NudeDetector


def images():
    random = np.random.default_rng(7)
    for height, width in ((320, 320), (480, 640), (200, 900)):
        coarse = random.integers(0, 256, (height // 20, width // 20, 3), np.uint8)
        yield np.ascontiguousarray(coarse.repeat(20, 0).repeat(20, 1))


def load():
    return NudeDetector()


def ask(detector):
    return [[found["class"] for found in detector.detect(image)] for image in images()]
