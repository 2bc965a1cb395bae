#!/usr/bin/env python3
"""The LSTM model by its definition (engine/nn/lstm.c), on PyTorch's own LSTM cells, in a form that
transformers' `generate` takes; and the small random models of tests/golden/models/.

    lstm.py [MODEL]...    writes them; make_golden.py then computes their answers
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from definition import COMBINED, Area, settings

MODELS = Path(__file__).resolve().parent / "models"
TOKENIZER = ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json")
SHRINK = 512
BF16 = torch.bfloat16
# Arguments of make().
RECIPES = {
    "tiny-lstm": dict(heads=1, seed=21, end=0.4, area={
        "key": "mean", "value": "sum", "decoder_cross": {"width": [2]}}),
    "tiny-lstm-heads": dict(heads=4, seed=22, end=0.3, dtype=BF16, area={
        "key": "mean", "value": "sum", "decoder_cross": {"width": [3]}}),
    "lstm-concat": dict(heads=4, seed=23, end=1.15, dtype=BF16, area={
        "key": "concat", "value": "sum", "temperature": 0.8, "decoder_cross": {"width": [2]}}),
    "lstm-sum": dict(heads=1, seed=24, end=0.9, dtype=BF16, area={
        "key": "sum", "value": "mean", "weights": "sigmoid", "temperature": 2.0,
        "decoder_cross": {"width": [4]}}),
}


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
        (width,) = config.area["decoder_cross"]["width"]
        self.area = Area(c, width, **settings(config.area, "decoder_cross"))  # of all heads
        self.source, self.known = None, {}
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

    def areas(self, memory):
        """Keys and values [1, 1, areas, C] of each head."""
        values = self.area.values(memory[None, None])
        return [(self.area.keys(key(memory)[None, None]), values) for key in self.keys]

    def attend(self, head, areas, query):
        """One head over all areas."""
        keys, values = areas
        weights = self.area.weigh(query[None, None, None] @ keys.mT / self.area.temperature)
        context = (weights @ values)[0, 0, 0]
        return self.mix[head](torch.cat([query, context]))

    def step(self, areas, states, attended, token):
        """(states, what the heads give) after one more token."""
        states, x = list(states), torch.cat([self.table[token], *attended])
        for i, cell in enumerate(self.decoder_cells):
            states[i] = cell(x, states[i])
            x = states[i][0]
        return states, [self.attend(head, of_head, x) for head, of_head in enumerate(areas)]

    def after(self, source, target):
        """(areas, states, what the heads give) after the tuples of ids; prefixes are remembered."""
        if source != self.source:
            memory, states = self.encode(list(source))
            nothing = [self.table.new_zeros(self.config.d_model)] * len(self.keys)
            self.source, self.known = source, {(): (self.areas(memory), states, nothing)}
        if target not in self.known:
            areas, *seen = self.after(source, target[:-1])
            self.known[target] = areas, *self.step(areas, *seen, target[-1])
        return self.known[target]

    def decode(self, source, target):
        """Logits [T, V] of the tokens that follow each of target's, [T]."""
        source, target = tuple(source.tolist()), tuple(target.tolist())
        attended = [self.after(source, target[: t + 1])[2] for t in range(len(target))]
        outputs = torch.stack([self.out(torch.cat(heads)) for heads in attended])
        return outputs @ self.table.T + self.bias

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None,
                encoder_outputs=None, **_):
        if encoder_outputs is not None:
            input_ids = encoder_outputs.last_hidden_state[..., 0].long()
        rows = map(self.decode, input_ids, decoder_input_ids)
        return Seq2SeqLMOutput(logits=torch.stack(list(rows)))


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
    tensors |= {f"{prefix}area.{name}": x for name, x in model.area.named_parameters()}
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
    for name, parameter in model.area.named_parameters():
        parameter.copy_(tensors[f"model.decoder.attention.area.{name}"])


def load(directory, dtype=torch.float64):
    model = Lstm(LstmConfig.from_pretrained(directory)).to(dtype)
    restore(model, load_file(directory / "model.safetensors"))
    model.generation_config = GenerationConfig.from_pretrained(directory, use_cache=False)
    return model.eval()


def configuration(size, pad, heads, area, cells=24, layers=2):
    return {
        "model_type": "acre-lstm", "is_encoder_decoder": True, "d_model": cells,
        "encoder_layers": layers, "decoder_layers": layers, "decoder_attention_heads": heads,
        "vocab_size": size, "max_position_embeddings": 64,
        "share_encoder_decoder_embeddings": True, "pad_token_id": pad, "eos_token_id": 0,
        "decoder_start_token_id": pad, "forced_eos_token_id": 0, "area": area,
    }


@torch.no_grad()
def randomize(model, end):
    """The end token's bias is such that some sentences end and others do not."""
    for parameter in model.parameters():
        parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5)
    model.bias[0] += end
    model.table[model.config.pad_token_id] = 0
    if model.area.key in COMBINED:
        shrink_keys(model)


def shrink_keys(model):
    """As in make_models.py: what float32 rounding leaves of the variance of alike items shrinks."""
    for head in model.keys:
        head.weight /= SHRINK
    model.area.magnify(SHRINK)


def make(directory, heads, area, seed, dtype=torch.float32, end=0.4, **sizes):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in TOKENIZER:
        shutil.copyfile(MODELS / "odd-sizes" / file, directory / file)
    ids = json.loads((directory / "vocab.json").read_text())
    config = configuration(len(ids), ids["<pad>"], heads, area, **sizes)
    generation = {"num_beams": 4, "bad_words_ids": [[ids["<pad>"]]], "max_length": 26,
                  "decoder_start_token_id": ids["<pad>"], "eos_token_id": 0,
                  "forced_eos_token_id": 0, "pad_token_id": ids["<pad>"]}
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=1))
    torch.manual_seed(seed)
    model = Lstm(LstmConfig(**config))
    randomize(model, end)
    save_file({n: t.to(dtype) for n, t in stored(model).items()}, directory / "model.safetensors",
              metadata={"format": "pt"})


if __name__ == "__main__":
    for name in sys.argv[1:] or RECIPES:
        make(MODELS / name, **RECIPES[name])
