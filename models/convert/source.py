"""What a SOURCE is: a Hugging Face directory, a Marian folder, or a Marian model's .npz."""

import re

from .errors import ConvertError, missing, unlike
from .files import check_place, read_text
from .hugging_face import MULTILINGUAL, read_hugging_face
from .marian import read_marian
from .yaml_text import read_mapping

LANGUAGE = re.compile("[a-z]{2,3}")
CODE = re.compile("[A-Za-z]{2,8}([_-][A-Za-z]{2,4})?")
NAME = re.compile(r"(?:opus-mt-(?:tc-(?:big|base)-)?)?([a-z]{2,3})-([a-z]{2,3})(?![a-z0-9])")


def find_npz(folder):
    """The model that decoder.yml names, or the only one."""
    found = sorted(path for path in folder.glob("*.npz") if ".optimizer." not in path.name)
    decoder = folder / "decoder.yml"
    if len(found) > 1 and decoder.is_file():
        named = read_mapping(decoder.name, read_text(decoder)).get("models")
        names = {str(path).rsplit("/", 1)[-1] for path in named} if isinstance(named, list) else ()
        found = [path for path in found if path.name in names] or found
    if len(found) > 1:
        raise unlike(folder.name, "one .npz, or the path of one of them as SOURCE",
                     ", ".join(path.name for path in found[:4]))
    return found[0] if found else None


def read_source(path):
    """The Model that SOURCE holds."""
    if path.is_file() and path.suffix == ".npz":
        return read_marian(path)
    if not path.exists():
        raise missing(path.name, "a folder or an .npz")
    if not path.is_dir():
        raise unlike(path.name, "a folder or an .npz", "another file; give its folder, unpacked")
    if (path / "config.json").is_file():
        return read_hugging_face(path)
    npz = find_npz(path)
    if npz is None:
        raise ConvertError(f"{path.name}: expected config.json and pytorch_model.bin (Hugging "
                           "Face) or an .npz (Marian), found neither")
    check_place(npz)
    return read_marian(npz)


def set_defaults(tokenizer, source, target):
    """What a model of many languages translates where nobody says."""
    for key, said in (("src_lang", source), ("tgt_lang", target)):
        if said and not CODE.fullmatch(said):
            raise unlike(f"--{'source' if key == 'src_lang' else 'target'}-lang",
                         "a language of the model, as it calls it", said)
        if said:
            tokenizer[key] = said


def set_languages(model, path, source, target):
    """What the user says, else what the source says, else what its name says."""
    tokenizer = model.documents["tokenizer_config.json"]
    if tokenizer["tokenizer_class"] in MULTILINGUAL:
        set_defaults(tokenizer, source, target)
        return
    folder = path if path.is_dir() else path.parent
    named = NAME.match(folder.resolve().name)
    for key, said, place in (("source_lang", source, 1), ("target_lang", target, 2)):
        if said and not LANGUAGE.fullmatch(said):
            raise unlike(f"--{key.replace('_', '-')}", "a code of two or three letters", said)
        code = said or tokenizer.get(key) or (named and named[place])
        if code:
            tokenizer[key] = code
    if not (tokenizer.get("source_lang") and tokenizer.get("target_lang")):
        model.notes.append("no languages found: Acre takes them from the folder's name, or give "
                           "--source-lang and --target-lang")
