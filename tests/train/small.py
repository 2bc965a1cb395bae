"""A recipe and models so small that a test can train them."""

import json

import torch

from models.train.build import new_model
from models.train.recipe import read_recipe
from models.train.vocabulary import ByteVocabulary

RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "token", "preset": "tiny",
    "vocabulary": 350, "held_out_sentences": 20, "samples": ["A dog sees the house."],
    "mix": {"everyday": {"share": 0.7, "corpora": {"tatoeba": 1}},
            "it": {"share": 0.3, "corpora": {"*": 1}}},
    "phases": [{"max_length": 96, "batch_tokens": 400}],
}
DEEPER_THAN_TINY = {"encoder_layers": 4, "decoder_layers": 3, "width": 128, "heads": 4,
                    "inner": 512}


def of_bytes(folder, **changes):
    """(recipe, random model, vocabulary) of tiny pre-norm layers."""
    path = folder / "recipe.json"
    path.write_text(json.dumps(RECIPE | {"level": "char", "norm": "pre"} | changes))
    recipe, vocabulary = read_recipe(path), ByteVocabulary(folder)
    return recipe, new_model(recipe, vocabulary), vocabulary


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def train(trainer, steps):
    trainer.model.train()
    for _ in range(steps):
        trainer.train_step()
    return weights(trainer)
