"""Files as torch.save writes them, spelled out byte by byte: PyTorch is not needed, and damaged
and hostile ones can be made too."""

import zipfile

STORAGES = {"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage"}


def text(value):
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def number(value):
    if -(2**31) <= value < 2**31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def name(module, function):
    return f"c{module}\n{function}\n".encode()


def row(*items):
    return b"(" + b"".join(items) + b"t"


def storage(kind, key, n_items):
    return row(text("storage"), name("torch", kind), text(key), text("cpu"), number(n_items)) + b"Q"


def tensor(storage_bytes, offset, shape, stride, rebuild="_rebuild_tensor_v2"):
    empty = name("collections", "OrderedDict") + b")R"
    arguments = row(storage_bytes, number(offset), row(*map(number, shape)),
                    row(*map(number, stride)), b"\x89", empty)
    return name("torch._utils", rebuild) + arguments + b"R"


def state(values):
    """The pickle of a mapping of names to values that are pickled already."""
    pairs = b"".join(text(key) + value for key, value in values.items())
    return b"\x80\x02" + name("collections", "OrderedDict") + b")R(" + pairs + b"u."


def contiguous(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    return strides, step


def write_zip(path, pickle, storages, root="archive", compression=zipfile.ZIP_STORED, order=None):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"{root}/data.pkl", pickle)
        if order:
            archive.writestr(f"{root}/byteorder", order)
        for key, data in storages.items():
            archive.writestr(f"{root}/data/{key}", data)


def write_state(path, tensors):
    """A whole file: name -> (type, array), each in a storage of its own."""
    values, storages = {}, {}
    for key, (name_, (dtype, array)) in enumerate(tensors.items()):
        strides, n_items = contiguous(array.shape)
        stored = storage(STORAGES[dtype], str(key), n_items)
        values[name_] = tensor(stored, 0, array.shape, strides)
        storages[str(key)] = array.tobytes()
    write_zip(path, state(values), storages, order="little")
