"""Values of inputs that look like what users send.

    picture LOW HIGH     light paper with dark strokes in lines; channels are the smaller side
    sound LEVEL          a voice: harmonics that swell, and noise; time is the longer side
    normal MEAN SPREAD   normal numbers
    uniform LOW HIGH     even numbers
    whole LOW HIGH       whole numbers, HIGH left out
    chance P             ones and zeros, or true and false
    all VALUE            the same number everywhere
    list VALUE...        these numbers
    lengths SIZE         lengths of sequences: SIZE, and others down to half of it
    mask SIZE            ones where a sequence of those lengths is

A number may be a letter of the shape.
"""
import numpy as np


def picture(rng, shape, low, high):
    count, *rest = shape
    last = len(rest) == 3 and rest[2] <= 4 < rest[0]
    height, width, channels = rest if last else (rest[1], rest[2], rest[0])
    paper = rng.uniform(0.7, 1.0, (count, height // 32 + 2, width // 32 + 2, channels))
    rows, columns = np.arange(height) / 32, np.arange(width) / 32
    top, left = rows.astype(int), columns.astype(int)
    down, right = (rows - top)[None, :, None, None], (columns - left)[None, None, :, None]
    mixed = lambda row: paper[:, row][:, :, left] * (1 - right) + paper[:, row][:, :, left + 1] * right
    image = mixed(top) * (1 - down) + mixed(top + 1) * down
    for one in image:
        for row in range(4, height - 8, max(10, height // 16)):
            column = 4
            while column < width - 10:
                stroke, size = rng.integers(2, 8), rng.integers(3, 8)
                if rng.random() < 0.8:
                    one[row : row + size, column : column + 2] *= 0.2
                    one[row + size // 2, column : column + stroke] *= 0.3
                column += stroke + rng.integers(2, 5)
    image = np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1) * (high - low) + low
    return image if last else image.transpose(0, 3, 1, 2)


def sound(rng, shape, level):
    axis = int(np.argmax(shape))
    count, length = int(np.prod(shape)) // shape[axis], shape[axis]
    time = np.arange(length) / 16000
    rows = []
    for _ in range(count):
        pitch = rng.uniform(80, 400)
        harmonics = sum(np.sin(2 * np.pi * pitch * k * time + rng.uniform(0, 6)) / k for k in range(1, 7))
        swell = 0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(2, 5) * time)
        rows.append(level * (0.3 * harmonics * swell + 0.02 * rng.normal(size=length)))
    order = [size for at, size in enumerate(shape) if at != axis] + [length]
    return np.moveaxis(np.reshape(rows, order), -1, axis)


def build(spec, sizes, rng, lengths):
    """The values of one input. `lengths` has the lengths of sequences that other inputs of the request have."""
    shape = spec.shape(sizes)
    kind, *words = spec.values
    numbers = [sizes[word] if word in sizes else float(word) for word in words]
    if kind in ("lengths", "mask"):
        longest = numbers[0]
        others = rng.integers(max(1, longest // 2), longest + 1, shape[0] - 1)
        found = lengths.setdefault(words[0], np.concatenate([[longest], others]))
        values = found if kind == "lengths" else np.arange(shape[1])[None, :] < found[:, None]
    else:
        values = {
            "picture": lambda: picture(rng, shape, *numbers),
            "sound": lambda: sound(rng, shape, *numbers),
            "normal": lambda: rng.normal(*numbers, shape),
            "uniform": lambda: rng.uniform(*numbers, shape),
            "whole": lambda: rng.integers(*map(int, numbers), shape),
            "chance": lambda: rng.random(shape) < numbers[0],
            "all": lambda: np.full(shape, numbers[0]),
            "list": lambda: np.array(numbers),
        }[kind]()
    return np.ascontiguousarray(values, dtype=spec.dtype).reshape(shape)
