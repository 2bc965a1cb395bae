"""The pickle of a state dict, run by a machine that knows only what torch.save writes there.

Python's own unpickler calls whatever a file names. This one has no way to: its instructions are
the methods of Machine, and a name outside of GLOBALS ends the run. What comes out are mappings,
lists, tuples, numbers, texts and StoredTensor.
"""

import pickletools
from dataclasses import dataclass

from .errors import ConvertError, unlike

# Storage class of PyTorch -> (type as safetensors names it, bytes of an item)
STORAGE_TYPES = {
    "FloatStorage": ("F32", 4), "HalfStorage": ("F16", 2), "BFloat16Storage": ("BF16", 2),
    "DoubleStorage": ("F64", 8), "LongStorage": ("I64", 8), "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2), "CharStorage": ("I8", 1), "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
LARGEST_NUMBER = 2**62


@dataclass(frozen=True)
class StorageType:
    dtype: str
    item_bytes: int


@dataclass(frozen=True)
class Storage:
    type: StorageType
    key: str
    n_items: int


@dataclass(frozen=True)
class StoredTensor:
    """A view of a storage: item i, j, ... is at offset + i * stride[0] + j * stride[1] ..."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Damaged(Exception):
    """The pickle asks for what no state dict needs; the text says what was found."""


def is_count(value):
    return type(value) is int and 0 <= value < LARGEST_NUMBER


def are_counts(value):
    return type(value) is tuple and all(map(is_count, value))


def steps_of(shape, stride):
    """The strides as far as they matter, 1 elsewhere: where there is no second item to step to, a
    file may say anything, also what no array can have."""
    return tuple(step if n > 1 and 0 not in shape else 1 for n, step in zip(shape, stride))


def rebuild_tensor(storage, offset, shape, stride, *rest):
    if not isinstance(storage, Storage) or not is_count(offset) or len(rest) not in (2, 3):
        raise Damaged("a tensor without storage")
    if not are_counts(shape) or not are_counts(stride) or len(shape) != len(stride):
        raise Damaged("a tensor whose sizes and strides are not numbers")
    stride = steps_of(shape, stride)
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride))
    if 0 not in shape and last >= storage.n_items:
        raise Damaged(f"a tensor that ends at item {last} of storage {storage.key!r}, which has "
                      f"{storage.n_items}")
    return StoredTensor(storage, offset, shape, stride)


def rebuild_parameter(tensor, *_):
    if not isinstance(tensor, StoredTensor):
        raise Damaged("a parameter without tensor")
    return tensor


def ordered_dict(*arguments):
    if arguments:
        raise Damaged("an OrderedDict made from something else")
    return {}


FUNCTIONS = {
    "collections OrderedDict": ordered_dict,
    "torch._utils _rebuild_tensor_v2": rebuild_tensor,
    "torch._utils _rebuild_parameter": rebuild_parameter,
}
GLOBALS = FUNCTIONS | {f"torch {name}": StorageType(*what) for name, what in STORAGE_TYPES.items()}


def find_storage(identity):
    """torch.save's persistent ids: ("storage", type, key, device, items), older ones with a view
    of another storage, or None, behind."""
    if type(identity) is not tuple or len(identity) not in (5, 6) or identity[0] != "storage":
        raise Damaged("a persistent id that is no storage")
    _, kind, key, _, n_items, *view = identity
    if not isinstance(kind, StorageType) or type(key) is not str or not is_count(n_items):
        raise Damaged("a storage without type, key and size")
    if view not in ([], [None]):
        raise Damaged("a storage that is a view of another")
    return Storage(kind, key, n_items)


class Machine:
    """One method for each instruction; `stack` holds values, `marks` where MARK was met."""

    def __init__(self):
        self.stack, self.marks, self.memo = [], [], {}

    def push(self, value):
        self.stack.append(value)

    def pop(self, n):
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < n:
            raise Damaged("an instruction without operands")
        values = self.stack[len(self.stack) - n:]
        del self.stack[len(self.stack) - n:]
        return values

    def pop_mark(self):
        if not self.marks:
            raise Damaged("an instruction without mark")
        begin = self.marks.pop()
        values = self.stack[begin:]
        del self.stack[begin:]
        return values

    def top(self, kind):
        """The value that an instruction changes, or reads and leaves."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise Damaged("an instruction for a value of another kind")
        return self.stack[-1]

    def set_items(self, values):
        target = self.top(dict)
        if len(values) % 2 or not all(isinstance(key, str) for key in values[::2]):
            raise Damaged("a mapping whose keys are not texts")
        target.update(zip(values[::2], values[1::2]))

    def op_nothing(self, _):
        pass

    op_proto = op_frame = op_nothing

    def op_constant(self, argument):
        self.push(argument)

    op_binint = op_binint1 = op_binint2 = op_long1 = op_binfloat = op_constant
    op_binunicode = op_short_binunicode = op_constant

    def op_none(self, _):
        self.push(None)

    def op_newtrue(self, _):
        self.push(True)

    def op_newfalse(self, _):
        self.push(False)

    def op_empty_dict(self, _):
        self.push({})

    def op_empty_list(self, _):
        self.push([])

    def op_empty_tuple(self, _):
        self.push(())

    def op_mark(self, _):
        self.marks.append(len(self.stack))

    def op_tuple(self, _):
        self.push(tuple(self.pop_mark()))

    def op_tuple1(self, _):
        self.push(tuple(self.pop(1)))

    def op_tuple2(self, _):
        self.push(tuple(self.pop(2)))

    def op_tuple3(self, _):
        self.push(tuple(self.pop(3)))

    def op_binput(self, place):
        self.memo[place] = self.top(object)

    op_long_binput = op_binput

    def op_memoize(self, _):
        self.memo[len(self.memo)] = self.top(object)

    def op_binget(self, place):
        if place not in self.memo:
            raise Damaged("a value that was never stored")
        self.push(self.memo[place])

    op_long_binget = op_binget

    def op_append(self, _):
        self.extend_list(self.pop(1))

    def op_appends(self, _):
        self.extend_list(self.pop_mark())

    def extend_list(self, values):
        self.top(list).extend(values)

    def op_setitem(self, _):
        self.set_items(self.pop(2))

    def op_setitems(self, _):
        self.set_items(self.pop_mark())

    def op_global(self, name):
        if name not in GLOBALS:
            where = name.replace(" ", ".", 1)
            raise Damaged(f"a reference to {where!r}, which no state dict needs")
        self.push(GLOBALS[name])

    def op_stack_global(self, _):
        names = self.pop(2)
        if not all(isinstance(name, str) for name in names):
            raise Damaged("a reference without name")
        self.op_global(" ".join(names))

    def op_binpersid(self, _):
        self.push(find_storage(*self.pop(1)))

    def op_reduce(self, _):
        function, arguments = self.pop(2)
        if function not in FUNCTIONS.values() or type(arguments) is not tuple:
            raise Damaged("a call of something that is no function")
        try:
            self.push(function(*arguments))
        except TypeError:
            raise Damaged("a tensor with other arguments than PyTorch writes") from None

    def op_build(self, _):
        """What follows an OrderedDict are its attributes, versions of modules: not needed."""
        self.pop(1)
        self.top(dict)


def run_pickle(where, file):
    """The value of the pickle at the file's position, which then is behind it."""
    machine = Machine()
    try:
        for instruction, argument, _ in pickletools.genops(file):
            if instruction.name == "STOP":
                return machine.pop(1)[0]
            method = getattr(machine, "op_" + instruction.name.lower(), None)
            if method is None:
                raise Damaged(f"instruction {instruction.name}, which no state dict needs")
            method(argument)
    except Damaged as error:
        raise unlike(where, "a state dict", str(error)) from None
    except ValueError as error:
        raise ConvertError(f"{where}: expected a pickle, found: {error}") from None
    raise unlike(where, "a pickle", "its beginning only")


def tensors_of(where, value):
    """Checks that the value is a mapping of names to tensors."""
    if not isinstance(value, dict):
        raise unlike(where, "a mapping of names to tensors", f"a {type(value).__name__}")
    for name, tensor in value.items():
        if not isinstance(tensor, StoredTensor):
            raise unlike(f"{where}: {name}", "a tensor", f"a {type(tensor).__name__}")
    return value
