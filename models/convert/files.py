"""Reading the small files of a source: its own, bounded, whole, and with errors that name them."""

import json

from .errors import ConvertError, missing, shown, unlike

LARGEST_TEXT = 64 << 20
POINTER = b"version https://git-lfs"


def check_place(path):
    """Refuses a link that leads elsewhere: what is behind it may be nobody else's business. In the
    cache of huggingface_hub every file is a link, from snapshots/ID to blobs."""
    folder = path.parent.resolve()
    places = [folder]
    if folder.parent.name == "snapshots":
        places.append(folder.parents[1] / "blobs")
    if not any(path.resolve().is_relative_to(place) for place in places):
        raise unlike(path.name, "a file of the source", "a link to one elsewhere")


def check_fetched(path):
    """Refuses what git leaves in a file's place until Git LFS has fetched that."""
    with open(path, "rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise unlike(path.name, "the file itself",
                         "a pointer of Git LFS; fetch the file with git lfs pull")


def read_bytes(path):
    if not path.is_file():
        raise missing(path.name, "this file")
    check_place(path)
    check_fetched(path)
    if path.stat().st_size > LARGEST_TEXT:
        raise unlike(path.name, f"at most {LARGEST_TEXT} bytes", f"{path.stat().st_size}")
    return path.read_bytes()


def read_text(path):
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise unlike(path.name, "text in UTF-8", f"byte {error.object[error.start]:#04x} at "
                     f"{error.start}") from None


def no_number(name):
    raise ValueError(f"{name}, which is no number")


def without_duplicates(pairs):
    """Acre refuses keys that are there twice, and here the second would win in silence."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key that is there twice")
    return mapping


def read_json(path):
    """The object that a JSON file holds."""
    text = read_text(path)
    try:
        value = json.loads(text, object_pairs_hook=without_duplicates, parse_constant=no_number)
        # Half of a surrogate pair can be escaped in JSON, but neither written nor be a text.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise ConvertError(f"{path.name}: expected JSON, found: {error}") from None
    if not isinstance(value, dict):
        raise unlike(path.name, "a JSON object", shown(value))
    return value


def json_bytes(value):
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
