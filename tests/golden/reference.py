"""Area attention by its definition, inside transformers' own MarianMT.

Every area's key and value are built as vectors (unfold, then mean, sum or maximum over the items),
and one softmax runs over all areas: no use of the scores identity the engine relies on. It is
registered as an attention implementation, so that the modules, the cache, the masks and `generate`
are transformers' own. Width 1 everywhere leaves transformers' eager attention in place.
"""

import json
from pathlib import Path

import torch
from transformers import AttentionInterface, AttentionMaskInterface, MarianMTModel
from transformers.masking_utils import eager_mask

REDUCE = {
    "mean": lambda items: items.mean(-1),
    "sum": lambda items: items.sum(-1),
    "max": lambda items: items.amax(-1),
}


def areas(items, width, reduce):
    """[B, H, L, d] -> [B, H, areas, d], ordered by width, then by position."""
    widths = range(1, min(width, items.shape[2]) + 1)
    return torch.cat([REDUCE[reduce](items.unfold(2, w, 1)) for w in widths], dim=2)


def area_mask(mask, width):
    """Additive item mask [B, 1, S, L] -> [B, 1, S, areas]: -inf where any item is masked."""
    widths = range(1, min(width, mask.shape[-1]) + 1)
    allowed = torch.cat([(mask == 0).unfold(-1, w, 1).all(-1) for w in widths], dim=-1)
    return torch.zeros(allowed.shape, dtype=mask.dtype).masked_fill(~allowed, -torch.inf)


def area_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    """query [B, H, S, d], key and value [B, H, L, d] -> output [B, S, H, d], weights."""
    width, key_mode, value_mode = module.area
    logits = query @ areas(key, width, key_mode).transpose(2, 3) * scaling
    if attention_mask is not None:
        logits = logits + area_mask(attention_mask[..., : key.shape[2]], width)
    weights = logits.softmax(-1)
    output = weights @ areas(value, width, value_mode)
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
        section = area.get(name, {})
        widths = section.get("width", [1] * len(modules))
        for module, width in zip(modules, widths, strict=True):
            modes = [section.get(mode, area.get(mode)) for mode in ("key", "value")]
            module.area = (width, modes[0] or "mean", modes[1] or "sum")


def load(directory, dtype=torch.float64):
    """The model of a directory, with area attention where its config.json asks for it."""
    config = json.loads((Path(directory) / "config.json").read_text())
    area = config.get("area")
    model = MarianMTModel.from_pretrained(
        directory, dtype=dtype, attn_implementation="area" if area else "eager"
    )
    if area:
        set_area(model, area)
    return model.eval()
