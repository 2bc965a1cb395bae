"""Area attention by its definition, inside transformers' own MarianMT.

Every area's key and value are built as vectors (unfold, then features of the items), and one
softmax or normalised sigmoid runs over all areas: no scores identity, no integral images, which is
what the engine relies on. It is registered as an attention implementation, so that the modules, the
cache, the masks and `generate` are transformers' own. Without an `area` section in config.json
transformers' eager attention stays in place.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, MarianMTModel
from transformers.masking_utils import eager_mask

import lstm


def deviation(items):
    variance = items.square().mean(-1) - items.mean(-1).square()
    return (variance.abs() + 1e-6).sqrt()


FEATURES = {
    "mean": lambda items: items.mean(-1),
    "sum": lambda items: items.sum(-1),
    "max": lambda items: items.amax(-1),
    "std": deviation,
}
# What the dense layers of a key read besides the embeddings of the size, and whether all that
# stands side by side or is added up.
COMBINED = {
    "concat": (["mean", "std"], True),
    "max_concat": (["max"], True),
    "sample_concat": (["mean"], True),
    "sum": (["mean", "std"], False),
    "sample_sum": (["mean"], False),
}


class Area(nn.Module):
    """Settings and parameters of the areas of one attention, as interface.md names them. Width 1
    is regular attention, in which only the kind of weights differs."""

    # How near a tie top_k has been anywhere: the least relative distance so far of the last weight
    # that it kept from the first that it dropped.
    margin = 1.0

    def __init__(self, head_width, width, key="mean", value="sum", weights="softmax", top_k=0,
                 temperature=1.0):
        super().__init__()
        regular = width == 1
        self.width = width
        self.key = "mean" if regular or key == "sample" else key
        self.value = "sum" if regular else value
        self.weights = weights
        self.top_k = 0 if regular else top_k
        self.temperature = 1.0 if regular else temperature
        if self.key in COMBINED:
            features, side_by_side = COMBINED[self.key]
            inputs = (len(features) + 1) * head_width if side_by_side else head_width
            self.height_embedding = nn.Embedding(1, head_width // 2)
            self.width_embedding = nn.Embedding(width, head_width // 2)
            self.fc1 = nn.Linear(inputs, head_width)
            self.fc2 = nn.Linear(head_width, head_width)

    def windows(self, items):
        """[B, H, L, d] -> for every width, [B, H, L - w + 1, d, w]."""
        return [items.unfold(2, w, 1) for w in range(1, min(self.width, items.shape[2]) + 1)]

    def key_of(self, items):
        """The keys of all areas of one width."""
        if self.key not in COMBINED:
            return FEATURES[self.key](items)
        features, side_by_side = COMBINED[self.key]
        parts = [FEATURES[feature](items) for feature in features]
        size = torch.cat([self.height_embedding.weight[0],
                          self.width_embedding.weight[items.shape[-1] - 1]])
        parts.append(size.expand(parts[0].shape))
        inputs = torch.cat(parts, -1) if side_by_side else sum(parts)
        return self.fc2(self.fc1(inputs).relu())

    def keys(self, items):
        """[B, H, L, d] -> [B, H, areas, d], ordered by width, then by position."""
        return torch.cat([self.key_of(window) for window in self.windows(items)], dim=2)

    def values(self, items):
        return torch.cat([FEATURES[self.value](window) for window in self.windows(items)], dim=2)

    def weigh(self, logits):
        if self.weights == "sigmoid":
            weights = logits.sigmoid()
            weights = weights / weights.sum(-1, keepdim=True)
        else:
            weights = logits.softmax(-1)
        if 0 < self.top_k < weights.shape[-1]:
            best = weights.topk(self.top_k + 1, dim=-1).values
            least, dropped = best[..., -2:-1], best[..., -1:]
            distance = torch.where(least > 0, (least - dropped) / least, 1.0)
            Area.margin = min(Area.margin, distance.min().item())
            weights = weights.masked_fill(weights < least, 0)
            weights = weights / weights.sum(-1, keepdim=True)
        return weights


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
        section = area.get(name, {})
        widths = section.get("width", [1] * len(modules))
        settings = {k: area[k] for k in ("key", "value", "weights", "top_k", "temperature")
                    if k in area}
        settings |= {k: section[k] for k in ("key", "value", "weights") if k in section}
        for module, width in zip(modules, widths, strict=True):
            module.area = Area(module.head_dim, width, **settings).to(module.q_proj.weight.dtype)


def load_areas(model, directory):
    """Parameters that MarianMT itself does not know."""
    found = {}
    for file in Path(directory).glob("model*.safetensors"):
        found |= {name: x for name, x in load_file(file).items() if ".area." in name}
    wanted = {name for name in model.state_dict() if ".area." in name}
    if set(found) != wanted:
        raise SystemExit(f"{directory}: {sorted(set(found) ^ wanted)}")
    model.load_state_dict(found, strict=False)


def load(directory, dtype=torch.float64):
    """The model of a directory, with area attention where its config.json asks for it."""
    config = json.loads((Path(directory) / "config.json").read_text())
    if config["model_type"] == lstm.LstmConfig.model_type:
        return lstm.load(Path(directory), dtype)
    area = config.get("area")
    model = MarianMTModel.from_pretrained(
        directory, dtype=dtype, attn_implementation="area" if area else "eager"
    )
    if area:
        set_area(model, area)
        load_areas(model, directory)
    return model.eval()
