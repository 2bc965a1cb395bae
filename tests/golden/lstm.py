#!/usr/bin/env python3
"""The LSTM model by its definition (engine/nn/lstm.h), on PyTorch's own LSTM cells, in a form that
transformers' `generate` takes; and the two small random models of tests/golden/models/.

    lstm.py        writes tiny-lstm and tiny-lstm-heads; make_golden.py then computes their answers
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

MODELS = Path(__file__).resolve().parent / "models"
TOKENIZER = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")


class LstmConfig(PretrainedConfig):
    model_type = "acre-lstm"


class Ids(nn.Module):
    """Stands for the encoder in `generate`, which only passes its output on: the ids themselves."""

    def forward(self, input_ids, **_):
        return BaseModelOutput(last_hidden_state=input_ids[..., None].double())


class Lstm(PreTrainedModel, GenerationMixin):
    config_class = LstmConfig
    main_input_name = "input_ids"
    _supports_cache_class = False

    def __init__(self, config):
        super().__init__(config)
        c, heads = config.d_model, config.decoder_attention_heads
        fed = [c * (1 + heads)] + [c] * (config.decoder_layers - 1)
        self.ids = Ids()
        self.table = nn.Parameter(torch.zeros(config.vocab_size, c))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.encoder_cells = nn.ModuleList(nn.LSTMCell(c, c) for _ in range(config.encoder_layers))
        self.decoder_cells = nn.ModuleList(nn.LSTMCell(inputs, c) for inputs in fed)
        self.keys = nn.ModuleList(nn.Linear(c, c, bias=False) for _ in range(heads))
        self.mix = nn.ModuleList(nn.Linear(2 * c, c, bias=False) for _ in range(heads))
        self.out = nn.Linear(heads * c, c) if heads > 1 else nn.Identity()
        self.post_init()

    def get_encoder(self):
        return self.ids

    def _init_weights(self, module):
        """Weights come from a file."""

    def can_generate(self):
        return True

    def prepare_inputs_for_generation(self, decoder_input_ids, encoder_outputs=None, **kwargs):
        return {"decoder_input_ids": decoder_input_ids, "encoder_outputs": encoder_outputs}

    # ---- The model ----

    def encode(self, ids):
        """Outputs [S, C] of one sentence and the last states of the layers."""
        zero = self.table.new_zeros(self.config.d_model)
        states, outputs = [(zero, zero)] * len(self.encoder_cells), []
        for x in self.table[ids]:
            for i, cell in enumerate(self.encoder_cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            outputs.append(x)
        return torch.stack(outputs), states

    def attend(self, head, memory, query):
        """Softmax over all areas: keys are means of their items' keys, values sums of outputs."""
        keys, values = [], []
        for width in range(1, self.config.area["decoder_cross"]["width"][0] + 1):
            for first in range(len(memory) - width + 1):
                items = memory[first : first + width]
                keys.append(self.keys[head](items).mean(0))
                values.append(items.sum(0))
        context = torch.softmax(torch.stack(keys) @ query, 0) @ torch.stack(values)
        return self.mix[head](torch.cat([query, context]))

    def decode(self, memory, states, ids):
        """Logits [T, V] of the tokens that follow each of ids [T]."""
        states, logits = list(states), []
        attended = [self.table.new_zeros(self.config.d_model)] * len(self.keys)
        for token in ids:
            x = torch.cat([self.table[token], *attended])
            for i, cell in enumerate(self.decoder_cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            attended = [self.attend(head, memory, x) for head in range(len(self.keys))]
            logits.append(self.table @ self.out(torch.cat(attended)) + self.bias)
        return torch.stack(logits)

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None,
                encoder_outputs=None, **_):
        if encoder_outputs is not None:
            input_ids = encoder_outputs.last_hidden_state[..., 0].long()
        rows = [self.decode(*self.encode(source), target)
                for source, target in zip(input_ids, decoder_input_ids)]
        return Seq2SeqLMOutput(logits=torch.stack(rows))


# ---- Files ----


def stored(model):
    """The tensors as Acre names them."""
    tensors = {"model.shared.weight": model.table, "final_logits_bias": model.bias[None]}
    for side, cells in (("encoder", model.encoder_cells), ("decoder", model.decoder_cells)):
        for i, cell in enumerate(cells):
            prefix = f"model.{side}.layers.{i}."
            tensors[prefix + "weight_ih"] = cell.weight_ih
            tensors[prefix + "weight_hh"] = cell.weight_hh
            tensors[prefix + "bias"] = cell.bias_ih + cell.bias_hh
    prefix = "model.decoder.attention."
    tensors[prefix + "k_proj.weight"] = torch.cat([head.weight for head in model.keys])
    tensors[prefix + "a_proj.weight"] = torch.cat([head.weight for head in model.mix])
    if len(model.keys) > 1:
        tensors[prefix + "out_proj.weight"] = model.out.weight
        tensors[prefix + "out_proj.bias"] = model.out.bias
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


@torch.no_grad()
def restore(model, tensors):
    model.table.copy_(tensors["model.shared.weight"])
    model.bias.copy_(tensors["final_logits_bias"][0])
    for side, cells in (("encoder", model.encoder_cells), ("decoder", model.decoder_cells)):
        for i, cell in enumerate(cells):
            prefix = f"model.{side}.layers.{i}."
            cell.weight_ih.copy_(tensors[prefix + "weight_ih"])
            cell.weight_hh.copy_(tensors[prefix + "weight_hh"])
            cell.bias_ih.copy_(tensors[prefix + "bias"])
            cell.bias_hh.zero_()
    for name, heads in (("k_proj", model.keys), ("a_proj", model.mix)):
        parts = tensors[f"model.decoder.attention.{name}.weight"].chunk(len(heads))
        for head, part in zip(heads, parts):
            head.weight.copy_(part)
    if len(model.keys) > 1:
        model.out.weight.copy_(tensors["model.decoder.attention.out_proj.weight"])
        model.out.bias.copy_(tensors["model.decoder.attention.out_proj.bias"])


def load(directory, dtype=torch.float64):
    model = Lstm(LstmConfig.from_pretrained(directory)).to(dtype)
    restore(model, load_file(directory / "model.safetensors"))
    model.generation_config = GenerationConfig.from_pretrained(directory, use_cache=False)
    return model.eval()


def configuration(size, pad, heads, width):
    return {
        "model_type": "acre-lstm", "is_encoder_decoder": True, "d_model": 24,
        "encoder_layers": 2, "decoder_layers": 2, "decoder_attention_heads": heads,
        "vocab_size": size, "max_position_embeddings": 64,
        "share_encoder_decoder_embeddings": True, "pad_token_id": pad, "eos_token_id": 0,
        "decoder_start_token_id": pad, "forced_eos_token_id": 0,
        "area": {"key": "mean", "value": "sum", "decoder_cross": {"width": [width]}},
    }


def make(name, heads, width, seed, dtype, end):
    directory = MODELS / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in TOKENIZER:
        shutil.copyfile(MODELS / "odd-sizes" / file, directory / file)
    ids = json.loads((directory / "vocab.json").read_text())
    config = configuration(len(ids), ids["<pad>"], heads, width)
    generation = {"num_beams": 4, "bad_words_ids": [[ids["<pad>"]]], "max_length": 26,
                  "decoder_start_token_id": ids["<pad>"], "eos_token_id": 0,
                  "forced_eos_token_id": 0, "pad_token_id": ids["<pad>"]}
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=1))
    torch.manual_seed(seed)
    model = Lstm(LstmConfig(**config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5)
        model.bias[0] += end  # such that some sentences end and others do not
        model.table[config["pad_token_id"]] = 0
    save_file({n: t.to(dtype) for n, t in stored(model).items()}, directory / "model.safetensors",
              metadata={"format": "pt"})


if __name__ == "__main__":
    make("tiny-lstm", heads=1, width=2, seed=21, dtype=torch.float32, end=0.4)
    make("tiny-lstm-heads", heads=4, width=3, seed=22, dtype=torch.bfloat16, end=0.3)
