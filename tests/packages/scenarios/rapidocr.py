"""Lines of text in images of several sizes."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR

LINES = ["Kernels are not built twice", "Shapes: 1 x 3 x 224 x 224", "Invoice No. 20261123", "total 1,024.50"]


def images():
    for width, height, lines in ((640, 320, 2), (800, 480, 4), (320, 96, 1)):
        image = Image.new("RGB", (width, height), "white")
        for at, line in enumerate(LINES[:lines]):
            font = ImageFont.load_default(20 + 4 * at)
            ImageDraw.Draw(image).text((20, 20 + 100 * at), line, fill="black", font=font)
        yield np.asarray(image)


def load():
    return RapidOCR()


def ask(engine):
    return [list(engine(image).txts or []) for image in images()]
