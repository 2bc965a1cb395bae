"""A model as its recipe says, and the weights that it begins with."""

from .inherit import inherit, inherit_pieces
from .lstm import Lstm
from .model import Transformer
from .parent import check_there, output_scales
from .recipe import MODELS
from .shape import LstmShape


def new_model(recipe, vocabulary):
    shape = recipe.shape()
    kind = Lstm if isinstance(shape, LstmShape) else Transformer
    return kind(shape, vocabulary.size, vocabulary.pad, vocabulary.end)


def begin(model, vocabulary, recipe):
    """Gives a new model the weights of the models that the recipe starts from, if it names any."""
    parent, second = recipe.start_from, recipe.pieces_from
    if not parent:
        return
    check_there("start_from", MODELS / parent)
    if second:
        check_there("pieces_from", MODELS / second)
    shared = inherit(model, vocabulary, MODELS / parent)
    print(f"train: starting from {parent}, which has {shared} of {vocabulary.size} pieces",
          flush=True)
    scales = output_scales(model.shape, MODELS / parent)
    if scales:
        print(f"train: {len(scales)} attentions have other areas there; what they give is "
              "scaled to begin as large", flush=True)
    if second:
        added = inherit_pieces(model, vocabulary, MODELS / parent, MODELS / second)
        print(f"train: {added} other pieces begin as in {second}", flush=True)
