"""pytorch_model.bin: what PyTorch wrote is read, what nobody should run is not run."""

import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch_layout as torch
from safetensors_file import read_tensors

from models.convert.errors import ConvertError
from models.convert.tensor import ITEM_TYPES
from models.convert.torch_file import read_torch_file

ROUNDS = 100
FLOATS = np.arange(24, dtype="<f4")


def write(path, values, storages=None, **options):
    storages = {"0": FLOATS.tobytes()} if storages is None else storages
    torch.write_zip(path, torch.state(values), storages, **options)
    return path


def floats(shape, stride, offset=0, n_items=24):
    return torch.tensor(torch.storage("FloatStorage", "0", n_items), offset, shape, stride)


@pytest.mark.parametrize("layout", ("zip", "legacy"))
def test_files_of_pytorch_are_read(fixtures, golden, layout):
    found = read_torch_file(fixtures / f"{layout}.bin")
    expected = read_tensors(golden / "two-vocabs")
    assert set(expected) <= set(found)
    for name, (dtype, array) in expected.items():
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name].load(), array)


def test_views_of_one_storage(tmp_path):
    path = write(tmp_path / "a.bin", {"rows": floats((4, 6), (6, 1)),
                                      "transposed": floats((6, 4), (1, 6)),
                                      "part": floats((2, 3), (6, 2), offset=7),
                                      "scalar": floats((), (), offset=5)})
    found = read_torch_file(path)
    rows = FLOATS.reshape(4, 6)
    np.testing.assert_array_equal(found["rows"].load(), rows)
    np.testing.assert_array_equal(found["transposed"].load(), rows.T)
    np.testing.assert_array_equal(found["part"].load(), rows[1:3, 1::2])
    assert found["scalar"].load() == 5


@pytest.mark.parametrize("shape, stride", (
    ((1, 4), (2**61, 1)),
    ((4, 1), (1, 2**61)),
    ((1,), (2**61,)),
    ((0, 4), (2**61, 2**61)),
))
def test_strides_between_no_items_are_of_no_account(tmp_path, shape, stride):
    found = read_torch_file(write(tmp_path / "a.bin", {"w": floats(shape, stride)}))["w"].load()
    np.testing.assert_array_equal(found, FLOATS[: found.size].reshape(shape))


def test_a_parameter_is_its_tensor(tmp_path):
    parameter = (torch.name("torch._utils", "_rebuild_parameter")
                 + torch.row(floats((24,), (1,)), b"\x88", b"N") + b"R")
    found = read_torch_file(write(tmp_path / "a.bin", {"p": parameter}))
    np.testing.assert_array_equal(found["p"].load(), FLOATS)


class Attack:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", (2, 4))
@pytest.mark.parametrize("function, argument, shown", (
    (os.system, "touch {}", "posix.system"),
    (eval, "open('{}', 'w')", "eval"),
    (getattr, "{}", "getattr"),
))
def test_nothing_of_a_file_is_run(tmp_path, refused, function, argument, shown, protocol):
    trace = tmp_path / "trace"
    attack = pickle.dumps({"w": Attack(function, argument.format(trace))}, protocol)
    path = tmp_path / "a.bin"
    torch.write_zip(path, attack, {})
    refused(read_torch_file, path, words=["a.bin: data.pkl", shown, "no state dict needs"])
    path.write_bytes(attack)
    refused(read_torch_file, path, words=["a.bin", shown])
    assert not trace.exists()


@pytest.mark.parametrize("pickled, words", (
    (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", ["'os.system'"]),
    (b"\x80\x02ccollections\nOrderedDict\nX\x02\x00\x00\x00ls\x85R.", ["OrderedDict"]),
    (b"\x80\x02ctorch\nFloatStorage\n)R.", ["no function"]),
    (b"\x80\x02(ios\nsystem\n.", ["instruction INST"]),
    (b"\x80\x02ccollections\nOrderedDict\n)\x81.", ["instruction NEWOBJ"]),
    (b"\x80\x02}X\x01\x00\x00\x00wX\x01\x00\x00\x00vs.", ["data.pkl: w", "a tensor", "a str"]),
    (b"\x80\x02].", ["a mapping", "a list"]),
    (b"\x80\x02R.", ["without operands"]),
    (b"\x80\x02t.", ["without mark"]),
    (b"\x80\x02h\x07.", ["never stored"]),
    (b"\x80\x02}J\x01\x00\x00\x00Ns.", ["keys are not texts"]),
    (b"\x80\x02X\xff\xff\xff\x7fabc", ["a pickle"]),
    (b"\x80\x02}", ["a pickle"]),
    (b"\x80\x02}(", ["a pickle"]),
    (b"not a pickle", ["a pickle"]),
))
def test_other_pickles_are_refused(tmp_path, refused, pickled, words):
    path = tmp_path / "a.bin"
    torch.write_zip(path, pickled, {})
    refused(read_torch_file, path, words=words)


@pytest.mark.parametrize("value, words", (
    (floats((4, 7), (7, 1)), ["ends at item 27", "'0'", "24"]),
    (floats((24,), (1,), offset=1), ["ends at item 24"]),
    (floats((2,), (2**60,)), ["ends at item"]),
    (floats((2, 1), (2**61, 1)), ["ends at item"]),
    (floats((25,), (0,)), ["at most the 24 items", "[25]"]),
    (floats((-1,), (1,)), ["not numbers"]),
    (floats((1,), (-1,)), ["not numbers"]),
    (floats((1,), (1, 1)), ["not numbers"]),
    (floats((1,), (1,), offset=-1), ["without storage"]),
    (floats((30,), (1,), n_items=30), ["data/0", "expected 120 bytes", "found 96"]),
    (floats((1,), (1,), n_items=2**62), ["without type, key and size"]),
    (torch.tensor(torch.storage("DoubleStorage", "0", 24), 0, (1,), (1,)), ["expected 192 bytes"]),
    (torch.tensor(torch.storage("FloatStorage", "9", 24), 0, (1,), (1,)), ["data/9", "nothing"]),
    (torch.tensor(torch.storage("FloatStorage", "../data.pkl", 24), 0, (1,), (1,)), ["nothing"]),
    (torch.tensor(b"N", 0, (1,), (1,)), ["without storage"]),
    (floats((1,), (1,)).replace(b"_v2", b"_v9"), ["torch._utils._rebuild_tensor_v9"]),
    (torch.storage("UntypedStorage", "0", 24), ["torch.UntypedStorage"]),
    (torch.row(text := torch.text("module"), text) + b"Q", ["no storage"]),
))
def test_tensors_stay_within_their_storages(tmp_path, refused, value, words):
    refused(read_torch_file, write(tmp_path / "a.bin", {"w": value}), words=["a.bin", *words])


@pytest.mark.parametrize("shape", ((0, 2**61), (2**40, 0, 2**40), (1,) * 65))
def test_shapes_of_no_array_are_refused(tmp_path, refused, shape):
    path = write(tmp_path / "a.bin", {"w": floats(shape, (1,) * len(shape))})
    refused(lambda: read_torch_file(path)["w"].load(),
            words=["a.bin: w", "a shape that an array can have"])


def test_other_zip_files_are_refused(tmp_path, refused):
    good = {"w": floats((24,), (1,))}
    path = tmp_path / "a.bin"
    write(path, good, order="big")
    refused(read_torch_file, path, words=["byteorder", "little", "big"])
    write(path, good, compression=zipfile.ZIP_DEFLATED)
    refused(read_torch_file, path, words=["data.pkl", "not compressed"])
    write(path, good, root="a/b")
    refused(read_torch_file, path, words=["one data.pkl", "0 of them"])
    path.write_bytes(b"\x1f\x8b a tar or something")
    refused(read_torch_file, path, words=["a file that torch.save wrote"])
    path.write_bytes(b"")
    refused(read_torch_file, path, words=["a file that torch.save wrote"])


def test_a_wrong_checksum_is_noticed(tmp_path, refused):
    path = write(tmp_path / "a.bin", {"w": floats((24,), (1,))})
    data = bytearray(path.read_bytes())
    data[data.index(FLOATS.tobytes()) + 5] ^= 1
    path.write_bytes(data)
    refused(read_torch_file(path)["w"].load, words=["data/0", "CRC"])


@pytest.mark.parametrize("layout", ("zip", "legacy"))
@pytest.mark.parametrize("part", (0.001, 0.1, 0.5, 0.9, 0.999))
def test_truncated_files_are_refused(fixtures, tmp_path, refused, layout, part):
    data = (fixtures / f"{layout}.bin").read_bytes()
    path = tmp_path / "a.bin"
    path.write_bytes(data[: int(part * len(data))])
    refused(read_torch_file, path, words=["a.bin", "expected", "found"])


@pytest.mark.parametrize("layout", ("zip", "legacy"))
def test_damage_anywhere_gives_our_error_or_none(fixtures, tmp_path, layout):
    """Most of it in the pickles, at the beginning, and in the zip's list of members, at the end."""
    whole, chance = (fixtures / f"{layout}.bin").read_bytes(), random.Random(3)
    path = tmp_path / "a.bin"
    for _ in range(ROUNDS):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(-6000, 14000)] = chance.randrange(256)
        path.write_bytes(data)
        try:
            for tensor in read_torch_file(path).values():
                if tensor.dtype in ITEM_TYPES:
                    tensor.load()
        except ConvertError:
            pass
