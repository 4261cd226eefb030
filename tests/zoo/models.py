"""The list models.toml, read: what a model's requests are."""
import pathlib
import tomllib
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class Input:
    """An input as the list has it."""

    name: str
    dtype: str
    dimensions: list
    values: list

    @staticmethod
    def of(text):
        name, dtype, dimensions, *values = text.split()
        return Input(name, dtype, [] if dimensions == "-" else dimensions.split(","), values)

    def shape(self, sizes):
        """Its shape, where the letters have these sizes."""
        return [sizes[one] if one in sizes else int(one) for one in self.dimensions]


@dataclass(frozen=True)
class Model:
    """A model of the list."""

    name: str
    packages: list
    file: str
    inputs: list
    shapes: list
    # The values that the model is cut at, and those that they are rounded of.
    cuts: list

    def requests(self):
        """Its requests in their order, as (number of the shape, draw): each shape comes twice with other values, two
        shapes later, and the first one once more at the end with its first values."""
        count, order = len(self.shapes), []
        for index in range(count):
            order.append((index, "a"))
            if index >= 2:
                order.append((index - 2, "b"))
        if count > 1:
            order.append((count - 2, "b"))
            return order + [(0, "a"), (count - 1, "b")]
        return order + [(0, "b"), (0, "a")]


def read():
    """All models by their names."""
    sizes = lambda text: {name: int(size) for name, size in (one.split("=") for one in text.split())}
    with open(HERE / "models.toml", "rb") as file:
        listed = tomllib.load(file)
    return {
        name: Model(
            name=name,
            packages=one["packages"],
            file=one["file"],
            inputs=list(map(Input.of, one["inputs"])),
            shapes=list(map(sizes, one["shapes"])),
            cuts=one.get("cuts", []),
        )
        for name, one in listed.items()
    }
