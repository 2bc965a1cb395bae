"""The steps of gpu-run that measure. What they compare with is noted where it is there, and why not
where it is not; speed is never judged, but a program of ours that fails is wrong."""

import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tests/bench"
LENGTH = 27  # source tokens, and target tokens, forced
# What, how many tokens are forced, beam, batch, sentences. One token: hardly more than encoding.
RUNS = (("greedy", LENGTH, 1, 1, 32), ("beam 4", LENGTH, 4, 32, 128),
        ("beam 4", LENGTH, 4, 256, 1024), ("encoding", 1, 1, 256, 4096))
AREA_WIDTH = 4
LIBRARIES = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def last_line(done):
    said = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
    return said.splitlines()[-1]


def has_module(run, name):
    """Whether python3 there can import it."""
    _, done = run.call(sys.executable, "-c", f"import {name}", PYTHONPATH=str(run.python))
    return done.returncode == 0


def library_folders(run):
    """Where NVIDIA's libraries may be: of the toolkit, and of Python packages."""
    find = "import site, sys; print(*site.getsitepackages(), *sys.path, sep=chr(10))"
    _, done = run.call(sys.executable, "-c", find)
    packages = {folder for path in set(done.stdout.split())
                for folder in Path(path).glob("nvidia/*/lib") if folder.is_dir()}
    home = os.environ.get("CUDA_HOME")
    known = [Path(path) for path in (f"{home}/lib64" if home else "", *LIBRARIES) if path]
    return [str(path) for path in (*known, *sorted(packages)) if path.is_dir()]


def search_path(run, *first):
    """NVIDIA's libraries behind what is given."""
    given = run.environment.get("LD_LIBRARY_PATH", "")
    return ":".join(str(path) for path in (*first, given, *library_folders(run)) if path)


# ---- Kernels -------------------------------------------------------------------------------------


def ceilings(run):
    """What memory gives: a large copy."""
    if run.emulated:
        run.note("a large copy", None, why="not on the emulator")
        return
    _, done = run.call(run.speed / "copy")
    if done.returncode != 0:
        run.note("a large copy", False, why=last_line(done))
    else:
        run.note("a large copy", None, gigabytes_per_second=float(done.stdout))


def products(run):
    tiny = ("tiny",) if run.emulated else ()
    folders = search_path(run, run.speed.parent / "lib")
    _, done = run.call(run.speed / "products", *tiny, LD_LIBRARY_PATH=folders)
    lines = json_lines(done.stdout)
    for line in lines:
        name = f"product {line.pop('m')}x{line.pop('n')}x{line.pop('k')}, and cuBLASLt's best"
        off = line.get("difference")
        run.note(name, None if off is None else off < 1e-2, **line)
    if done.returncode != 0 or not lines:
        run.note("products", False, why=last_line(done))


def attention_of(line):
    return f"attention of {line['sentences']} x {line['length']} tokens"


def attention(run):
    tiny = ("tiny",) if run.emulated else ()
    _, done = run.call(run.speed / "attention", *tiny)
    ours = json_lines(done.stdout)
    if done.returncode != 0 or not ours:
        run.note("attention", False, why=last_line(done))
    for line in ours:
        run.note(attention_of(line), None, **line)
    shapes = json.dumps([[line[key] for key in ("sentences", "heads", "length", "head_width")]
                         for line in ours])
    _, peer = run.call(sys.executable, ROOT / "tests/cuda/sdpa.py", shapes)
    theirs, why = json_lines(peer.stdout), last_line(peer)
    for i, line in enumerate(ours):
        facts = ({"sdpa_us": theirs[i]["us"], "sdpa_over_ours": theirs[i]["us"] / line["us"]}
                 if i < len(theirs) else {"no_sdpa": why})
        run.note(f"{attention_of(line)}, and PyTorch's", None, **facts)


# ---- Models --------------------------------------------------------------------------------------


def ours(run, model, text, length, beam, batch):
    kind = "f32" if run.emulated else "f16"
    _, done = run.call(run.acre, "bench", "--model", model, "--input", text, "--tokens", "--device",
                       "cuda", "--compute-type", kind, "--beam-size", beam, "--batch-size", batch,
                       "--min-length", length, "--max-length", length, "--repeat",
                       1 if run.emulated else 3, "--json")
    return json.loads(done.stdout)["tokens_per_second"] if done.returncode == 0 else last_line(done)


def theirs(run, model, text, length, beam, batch, links):
    kind = ("cpu", "float32") if run.emulated else ("cuda", "float16")
    _, done = run.call(sys.executable, BENCH / "peer.py", "bench", model, text, "--device", kind[0],
                       "--compute-type", kind[1], "--length", length, "--beam-size", beam,
                       "--batch-size", batch, "--repeat", 3, PYTHONPATH=str(run.python),
                       LD_LIBRARY_PATH=search_path(run, str(links)))
    return json.loads(done.stdout)["tokens_per_second"] if done.returncode == 0 else last_line(done)


def link_cublas(run):
    """CTranslate2 opens libcublas.so.12: where there is only the one of CUDA 13, which has what it
    asks for, by a link."""
    links = run.scratch / "links"
    links.mkdir(exist_ok=True)
    for folder in library_folders(run):
        newer, older = Path(folder) / "libcublas.so.13", Path(folder) / "libcublas.so.12"
        if older.exists():
            break
        if newer.exists():
            (links / "libcublas.so.12").symlink_to(newer)
            break
    return links


def make_models(run):
    """A random Transformer, for Acre and for CTranslate2, and the same with areas, which that one
    has not; why not, if not."""
    preset = "tiny" if run.emulated else "base"
    made = [run.scratch / name for name in (preset, f"{preset}-ctranslate2", f"{preset}-areas")]
    for command in ((BENCH / "random_model.py", made[0], "--preset", preset),
                    (BENCH / "random_model.py", made[2], "--preset", preset, "--width", AREA_WIDTH),
                    (BENCH / "peer.py", "convert", made[0], made[1])):
        _, done = run.call(sys.executable, *command, PYTHONPATH=str(run.python))
        if done.returncode != 0:
            return *made, last_line(done)
    return *made, None


def write_tokens(text, sentences, length):
    text.write_text("".join(" ".join(f"▁made{1000 + (i * length + j) * 37 % 6000}up"
                                     for j in range(length)) + "\n" for i in range(sentences)))


def compare(run, name, us, other, them):
    """In turns: our tokens per second, noted before the other one is asked; then the best of ours
    beside what the other one had in that turn."""
    rounds = []
    for turn in range(1 if run.emulated else 2):
        value = us()
        run.note(name, None if is_number(value) else False, turn=turn, tokens_per_second=value)
        rounds.append((value, them()))
    best, beside = max(rounds, key=lambda each: each[0] if is_number(each[0]) else -1)
    ratio = {f"over_{other}": best / beside} if is_number(best) and is_number(beside) else {}
    run.note(f"{name}, and {other}", None, tokens_per_second=best, **{other: beside}, **ratio)


def is_number(value):
    """Or what a program has said that failed."""
    return not isinstance(value, str)


def translation(run):
    """Base with random weights, forced lengths: tokens per second, in turns with CTranslate2; and
    with areas in every layer, in turns with that."""
    if not has_module(run, "numpy"):
        run.note("translation", None, why="this Python has no numpy, to make models with")
        return
    missing = None if has_module(run, "ctranslate2") else "this Python has no ctranslate2"
    model, peer, areas, why = make_models(run)
    links, text = link_cublas(run), run.scratch / "tokens.txt"
    for name, length, beam, batch, sentences in RUNS[:1] if run.emulated else RUNS:
        how = (3 if run.emulated else length, beam, batch)
        write_tokens(text, 1 if run.emulated else sentences, 3 if run.emulated else LENGTH)
        compare(run, f"Base, {name}, batch {batch}", lambda: ours(run, model, text, *how),
                "ctranslate2", lambda: missing or why or theirs(run, peer, text, *how, links))
    how = (3, 1, 1) if run.emulated else (LENGTH, 4, 32)
    write_tokens(text, *((1, 3) if run.emulated else (128, LENGTH)))
    compare(run, f"Base with areas, beam {how[1]}, batch {how[2]}",
            lambda: ours(run, areas, text, *how), "regular", lambda: ours(run, model, text, *how))


def preset_command(run, preset, batch, *options):
    kind = "f32" if run.emulated else "f16"
    small = ("--length", 3, "--vocabulary", 64, "--repeat", 1) if run.emulated else options
    return (run.acre, "bench", "--preset", "tiny" if run.emulated else preset, "--device", "cuda",
            "--compute-type", kind, "--batch-size", batch, "--json", *small)


def bench_preset(run, name, preset, batch, **environment):
    _, done = run.call(*preset_command(run, preset, batch), **environment)
    if done.returncode != 0:
        run.note(name, False, why=last_line(done))
    else:
        run.note(name, None, bench=json.dumps(json.loads(done.stdout))[:2000])


def presets(run):
    for preset in ("tiny",) if run.emulated else ("base", "small", "lstm-256"):
        for batch in (1,) if run.emulated else (1, 32, 256):
            bench_preset(run, f"preset {preset}, batch {batch}", preset, batch)


def launches(run):
    """What graphs save, and kernels that begin early: these alone ask for one share of memory for
    blocks, so that where they are slower than graphs that may be why."""
    for how in ("plain", "graphs", "overlap"):
        for batch in (1,) if run.emulated else (1, 32):
            bench_preset(run, f"launches {how}, batch {batch}", "base", batch, ACRE_GPU=how)


def shipped(run):
    """The pack has the model where a thin checkout has not."""
    model = next((folder / "models/en-de-token" for folder in (run.speed.parent, ROOT)
                  if (folder / "models/en-de-token/model.safetensors").exists()), None)
    if not model:
        run.note("en-de-token", None, why="neither packed nor checked out")
        return
    text = run.scratch / "input.txt"
    text.write_text("Yes.\n" if run.emulated else "".join(
        f"Sentence number {i} is where the train station is.\n" for i in range(2048)))
    for device, batch in (("cpu", 32), ("cuda", 1), ("cuda", 32), ("cuda", 256)):
        if run.emulated and (device, batch) != ("cuda", 1):
            continue
        _, done = run.call(run.acre, "bench", "--model", model, "--input", text, "--device", device,
                           "--batch-size", batch, "--beam-size", 1 if run.emulated else 4,
                           "--json", "--repeat", 1)
        name = f"en-de-token, {device}, batch {batch}"
        if done.returncode != 0:
            run.note(name, False, why=last_line(done))
            continue
        facts = json.loads(done.stdout)
        run.note(name, None, tokens_per_second=facts["tokens_per_second"], seconds=facts["seconds"])


def profile(run):
    """Which kernels take the time, and what they wait for, where Nsight Compute is."""
    tool, command = shutil.which("ncu"), preset_command(run, "base", 32, "--repeat", 1)
    if run.emulated:
        _, done = run.call(*command)
        run.note("what ncu would see", done.returncode == 0, says=last_line(done))
        return
    if not tool:
        run.note("ncu", None, why="not on this machine")
        return
    metrics = ("gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,"
               "sm__throughput.avg.pct_of_peak_sustained_elapsed,"
               "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active,"
               "sm__warps_active.avg.pct_of_peak_sustained_active")
    _, done = run.call(tool, "--clock-control", "none", "--csv", "--metrics", metrics,
                       "--launch-skip", 2000, "--launch-count", 150, *command)
    (run.out / "kernels.csv").write_text(done.stdout)
    run.note("ncu", None, lines=len(done.stdout.splitlines()),
             says=last_line(done) if done.returncode != 0 else "kernels.csv")
