"""Models of transformers with random weights, exported and run by optimum: a classifier, and texts of a causal model and
of an encoder with a decoder, greedy and by beams."""

import tempfile
from pathlib import Path

import torch
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSeq2SeqLM, ORTModelForSequenceClassification
from optimum.onnxruntime.configuration import AutoQuantizationConfig, OptimizationConfig
from optimum.onnxruntime.optimization import ORTOptimizer
from optimum.onnxruntime.quantization import ORTQuantizer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
)

WORDS = 500
SIZES = {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
BART = {"vocab_size": WORDS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128}


def exported(folder, name, model, kind):
    """A model with weights that make choices clear, as optimum exports it."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    home = Path(folder, name)
    model.eval().save_pretrained(home)
    made = kind.from_pretrained(home, export=True)
    made.save_pretrained(home / "onnx")
    return kind.from_pretrained(home / "onnx"), home / "onnx"


def load():
    torch.manual_seed(3)
    folder = tempfile.mkdtemp()
    classifier, home = exported(
        folder,
        "bert",
        BertForSequenceClassification(BertConfig(**SIZES, intermediate_size=128, num_labels=7)),
        ORTModelForSequenceClassification,
    )
    ORTOptimizer.from_pretrained(home).optimize(OptimizationConfig(optimization_level=1), save_dir=home / "optimized")
    vnni = AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True)
    ORTQuantizer.from_pretrained(home).quantize(quantization_config=vnni, save_dir=home / "quantized")
    llama = LlamaForCausalLM(LlamaConfig(**SIZES, intermediate_size=128, num_key_value_heads=2))
    bart = BartForConditionalGeneration(
        BartConfig(**BART, decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4)
    )
    return {
        "classifiers": [
            classifier,
            ORTModelForSequenceClassification.from_pretrained(home / "optimized", file_name="model_optimized.onnx"),
            ORTModelForSequenceClassification.from_pretrained(home / "quantized", file_name="model_quantized.onnx"),
        ],
        "llama": exported(folder, "llama", llama, ORTModelForCausalLM)[0],
        "bart": exported(folder, "bart", bart, ORTModelForSeq2SeqLM)[0],
    }


def ask(models):
    said = []
    for length in (3, 17):
        tokens = torch.arange(5, 5 + length)[None] * 7 % WORDS
        mask = torch.ones_like(tokens)
        kinds = torch.zeros_like(tokens)
        for classifier in models["classifiers"]:
            logits = classifier(input_ids=tokens, attention_mask=mask, token_type_ids=kinds).logits
            said.append(int(logits.argmax()))
        for name in ("llama", "bart"):
            for beams in (1, 3):
                text = models[name].generate(
                    input_ids=tokens, attention_mask=mask, num_beams=beams, max_new_tokens=12, do_sample=False
                )
                said.append(text.tolist())
    return said
