"""Area attention by its definition (definition.py), inside transformers' own MarianMT, M2M100 and
mBART.

It is registered as an attention implementation, so that the modules, the cache, the masks and
`generate` are transformers' own. Without an `area` section in config.json transformers' eager
attention stays in place.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import (AttentionInterface, AttentionMaskInterface,
                          M2M100ForConditionalGeneration, MarianMTModel,
                          MBartForConditionalGeneration)
from transformers.masking_utils import eager_mask

import lstm
from definition import Area, settings


CLASSES = {"marian": MarianMTModel, "m2m_100": M2M100ForConditionalGeneration,
           "mbart": MBartForConditionalGeneration}


def area_mask(mask, width):
    """Additive item mask [B, 1, S, L] -> [B, 1, S, areas]: -inf where any item is masked."""
    widths = range(1, min(width, mask.shape[-1]) + 1)
    allowed = torch.cat([(mask == 0).unfold(-1, w, 1).all(-1) for w in widths], dim=-1)
    return torch.zeros(allowed.shape, dtype=mask.dtype).masked_fill(~allowed, -torch.inf)


def area_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    """query [B, H, S, d], key and value [B, H, L, d] -> output [B, S, H, d], weights."""
    area = module.area
    logits = query @ area.keys(key).transpose(2, 3) * scaling
    if attention_mask is not None:
        logits = logits + area_mask(attention_mask[..., : key.shape[2]], area.width)
    weights = area.weigh(logits / area.temperature)
    output = weights @ area.values(value)
    return output.transpose(1, 2).contiguous(), weights


AttentionInterface.register("area", area_attention)
AttentionMaskInterface.register("area", eager_mask)


def attentions(model):
    """The three kinds of attention of a model, as config.json's `area` names them."""
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    return {
        "encoder_self": [layer.self_attn for layer in encoder],
        "decoder_self": [layer.self_attn for layer in decoder],
        "decoder_cross": [layer.encoder_attn for layer in decoder],
    }


def set_area(model, area):
    for name, modules in attentions(model).items():
        widths = area.get(name, {}).get("width", [1] * len(modules))
        for module, width in zip(modules, widths, strict=True):
            module.area = Area(module.head_dim, width, **settings(area, name))
            module.area.to(module.q_proj.weight.dtype)


def load_areas(model, directory):
    """Parameters that transformers itself does not know."""
    found = {}
    for file in Path(directory).glob("model*.safetensors"):
        found |= {name: x for name, x in load_file(file).items() if ".area." in name}
    wanted = {name for name in model.state_dict() if ".area." in name}
    if set(found) != wanted:
        raise SystemExit(f"{directory}: {sorted(set(found) ^ wanted)}")
    model.load_state_dict(found, strict=False)


def set_numerics(model, config):
    """What config.json may say of models from Marian, in all positions and layer norms."""
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = config["layer_norm_epsilon"]
    for side in (model.model.encoder, model.model.decoder):
        weight = side.embed_positions.weight
        rates = 10000 ** (-torch.arange(weight.shape[1] // 2).double() / config["position_steps"])
        angles = torch.arange(weight.shape[0])[:, None] * rates
        weight.data = torch.cat([angles.sin(), angles.cos()], dim=1).to(weight.dtype)


def load(directory, dtype=torch.float64):
    """The model of a directory, with area attention where its config.json asks for it."""
    config = json.loads((Path(directory) / "config.json").read_text())
    if config["model_type"] == lstm.LstmConfig.model_type:
        return lstm.load(Path(directory), dtype)
    area = config.get("area")
    model = CLASSES[config["model_type"]].from_pretrained(
        directory, dtype=dtype, attn_implementation="area" if area else "eager"
    )
    if area:
        set_area(model, area)
        load_areas(model, directory)
    if "position_steps" in config:
        set_numerics(model, config)
    return model.eval()
