"""Contents of files of several kinds."""

from magika import Magika

CONTENTS = [
    b"import numpy as np\n\ndef relu(x):\n    return np.maximum(x, 0)\n\n"
    b"if __name__ == '__main__':\n    print(relu(3))\n",
    b"<!DOCTYPE html><html><head><title>Kiln</title></head><body><p>Text &amp; more</p></body></html>\n" * 4,
    b'{"name": "kiln", "shapes": [[1, 3, 224, 224], [8, 3, 96, 96]], "records": true}\n' * 20,
    b"#include <stdio.h>\nint main(void) {\n  puts(\"hello\");\n  return 0;\n}\n",
    b"fn main() {\n    let mut total: u64 = 0;\n    for i in 0..10 { total += i; }\n    println!(\"{total}\");\n}\n",
]


def load():
    return Magika()


def ask(magika):
    return [str(magika.identify_bytes(content).output.label) for content in CONTENTS]
