"""libacre.so and its Python declarations against acre.h, and the wheel against what it promises."""

import ctypes
import re
import subprocess
import sys
import zipfile

from conftest import BUILD, MODELS, ROOT

# Of the system: what the manylinux rules say is everywhere. The interpreter brings its own.
SYSTEM = re.compile(r"(libc|libm|libpthread|libdl|librt|libutil|ld-linux-x86-64|libstdc\+\+"
                    r"|libgcc_s)[-.]")
STRUCTS = {"Err": "acre_err", "Options": "acre_options", "Decoding": "acre_decoding",
           "ModelInfo": "acre_model_info", "Language": "acre_language", "Request": "acre_request",
           "Range": "acre_range", "Alignment": "acre_alignment", "Part": "acre_part",
           "Hypothesis": "acre_hypothesis", "Result": "acre_result", "Area": "acre_area",
           "Attention": "acre_attention"}


def layout(acre):
    """Lines of C that print what ctypes believes, and what it believes."""
    for name, tag in STRUCTS.items():
        struct = getattr(acre._library, name)
        yield f"sizeof(struct {tag})", ctypes.sizeof(struct)
        for field, kind in struct._fields_:
            yield f"offsetof(struct {tag}, {field})", getattr(struct, field).offset
            yield f"sizeof(((struct {tag} *)0)->{field})", ctypes.sizeof(kind)


def test_structs_are_those_of_the_header(acre, tmp_path):
    believed = dict(layout(acre))
    prints = "".join(f'printf("%zu\\n", {expression});' for expression in believed)
    source = tmp_path / "layout.c"
    source.write_text(f'#include <acre.h>\n#include <stdio.h>\nint main(void){{{prints}}}\n')
    subprocess.run(["gcc", f"-I{ROOT}/engine", source, "-o", tmp_path / "layout"], check=True)
    printed = subprocess.check_output([tmp_path / "layout"], text=True).split()
    assert believed == dict(zip(believed, map(int, printed), strict=True))


def test_fields_are_all_there(acre):
    both = "".join((ROOT / "engine" / name).read_text() for name in ("acre.h", "acre_result.h"))
    header = re.sub(r"/\*.*?\*/", "", both, flags=re.DOTALL)
    for name, tag in STRUCTS.items():
        body = re.search(rf"struct {tag} \{{(.*?)\}};", header, re.DOTALL)[1]
        declared = re.findall(r"(\w+)(?:\[\w+\])?\s*[;,]", body)
        assert [field for field, _ in getattr(acre._library, name)._fields_] == declared


def test_only_the_header_is_exported(wheel):
    assert wheel
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "engine/acre.h").read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"\b(acre_\w+)\(", header)) - {"acre_log_fn", "acre_done_fn"}
    symbols = subprocess.check_output(["nm", "-D", "--defined-only", BUILD / "libacre.so"],
                                      text=True)
    assert {line.split()[-1] for line in symbols.splitlines()} == declared


def test_versions_are_one(acre, wheel):
    header = (ROOT / "engine/acre.h").read_text()
    version = re.search(r'#define ACRE_VERSION "(.*)"', header)[1]
    assert acre.__version__ == version
    assert wheel.name.startswith(f"acre-{version}-py3-none-manylinux_2_")


def test_code_of_the_wheel_is_that_of_the_tree(installed):
    for path in (ROOT / "engine/python/acre").glob("*.py"):
        assert (installed / "acre" / path.name).read_text() == path.read_text()


def test_glibc_is_as_old_as_the_name_says(wheel, installed):
    least = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)", wheel.name).groups()))
    for library in installed.glob("acre*/*.so*"):
        text = subprocess.check_output(["objdump", "-T", library], text=True)
        needed = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", text)}
        assert max(needed, default=(2, 0)) <= least, library.name


def test_nothing_else_of_the_system_is_loaded(python):
    done = python("""
import contextlib, ctypes, os, pathlib, threading, time, typing, weakref
def loaded():
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
before = loaded()
import acre
with acre.Translator(sys.argv[1], threads=1) as translator:
    assert translator.translate(["Hello there. It is late."])[0]
print(*loaded() - before, sep="\\n")
""", MODELS / "tiny-token")
    assert done.returncode == 0, done.stderr
    libraries = done.stdout.split()
    assert any("acre.libs/libsentencepiece" in path for path in libraries)
    assert not [path for path in libraries
                if "/site-packages" not in path and not SYSTEM.match(path.rsplit("/", 1)[1])]


def test_another_protobuf_is_no_matter(python, tmp_path):
    """One that all libraries see, of a program that is linked to it or preloads it."""
    library = next(line.split()[2] for line in subprocess.check_output(
        ["ldd", BUILD / "libacre.so"], text=True).splitlines() if "libsentencepiece.so" in line)
    symbols = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    functions = set(re.findall(r" [TW] (\w*6google8protobuf\w*)$", symbols, re.MULTILINE))
    source, other = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("#include <stdlib.h>\n" + "".join(
        f"void {name}(void) {{ abort(); }}\n" for name in functions))
    subprocess.run(["gcc", "-shared", source, "-o", other], check=True)
    done = python("""
import ctypes
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
import acre
with acre.Translator(sys.argv[2], threads=1) as translator:
    assert translator.translate(["Hello there."])[0]
""", other, MODELS / "tiny-token")
    assert done.returncode == 0, done.stderr


def test_wheel_says_that_it_is_typed(wheel):
    assert "acre/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_types_hold(acre, tmp_path):
    """mypy, strictly, over the package and over a program that uses it."""
    program = tmp_path / "program.py"
    program.write_text("""\
import acre
with acre.Translator("model", threads=1) as translator:
    best: list[acre.Translation] = translator.translate(["a"], beam_size=2, scores=True)
    words: list[str] = [text.upper() for text in translator.stream(iter(["a"]))]
    lists: list[list[acre.Translation]] = list(translator.stream_batches([["a"], ("b", "c")]))
    weight: float = translator.attention("a")[0].layers[0][0][0][0].weight
""")
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}",
               ROOT / "engine/python/acre", program]
    done = subprocess.run(command, env={"MYPYPATH": str(ROOT / "engine/python")},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
