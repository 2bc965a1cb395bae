"""Acre translates: sentences in, sentences out, on the threads of this process.

    import acre

    with acre.Translator("models/en-de-token") as translator:
        print(translator.translate(["Where is the train station?"]))
"""

from ._library import Error
from .results import Alignment, Area, Attention, Translation
from .translator import Translator

__version__ = "0.1.0"
__all__ = ["Alignment", "Area", "Attention", "Error", "Translation", "Translator"]
