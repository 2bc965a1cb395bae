"""Areas by their definition: the key and the value of every area are built as vectors of its items
(unfold, then features of the items), and one softmax or normalised sigmoid runs over all areas.

No scores identity, no integral images, which is what the engine relies on. reference.py puts this
into transformers' MarianMT, lstm.py into LSTMs.
"""

import torch
from torch import nn


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
            sizes = head_width // 2 * 2
            inputs = len(features) * head_width + sizes if side_by_side else head_width
            self.height_embedding = nn.Embedding(1, head_width // 2)
            self.width_embedding = nn.Embedding(width, head_width // 2)
            self.fc1 = nn.Linear(inputs, head_width)
            self.fc2 = nn.Linear(head_width, head_width)

    @torch.no_grad()
    def magnify(self, factor):
        """Makes of items `factor` times smaller what it makes of the items as they are."""
        features, side_by_side = COMBINED[self.key]
        columns = len(features) * self.fc1.out_features if side_by_side else None
        self.fc1.weight[:, :columns] *= factor
        if not side_by_side:
            self.height_embedding.weight /= factor
            self.width_embedding.weight /= factor

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
        parts.append(size.expand(*parts[0].shape[:-1], -1))
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


def settings(area, name):
    """What config.json's `area` says of the attention called `name`, but its widths."""
    section = area.get(name, {})
    found = {k: area[k] for k in ("key", "value", "weights", "top_k", "temperature") if k in area}
    return found | {k: section[k] for k in ("key", "value", "weights") if k in section}
