"""The steps of gpu-run that judge: translations against the CPU's and the golden ones, attention
against its definition, and the same bits however passes are batched and launched."""

import itertools
import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted(path.parent for path in (ROOT / "tests/golden/models").glob("*/golden.json"))
# Before the others: Transformers with areas and without, an LSTM, odd widths.
FIRST = ("tiny-area", "tiny-token", "tiny-lstm-heads", "odd-sizes", "tiny-area-mean", "tiny-lstm")
# How near golden translations are as probable as in f32, relative to 1 + |score|: mean, at most.
NEAR = {"f16": (1e-3, 5e-3), "bf16": (5e-3, 1e-2), "int8": (1e-2, 2e-2)}
BEAMS = (("greedy", "1"), ("beam", "4"))
LAUNCHES = ("plain", "graphs", "overlap")
# Rows of 256 beams of 4 take the largest tiles.
MANY_BATCH, MANY_SENTENCES = 256, 1000
MANY = (("tiny-area", ("f16", "int8", "f32", "bf16")), ("tiny-token", ("f16", "int8")),
        ("tiny-lstm-heads", ("f16", "int8")))


def golden(model, n=None):
    """Its shortest sentences, or all."""
    sentences = json.loads((model / "golden.json").read_text("utf-8"))["sentences"]
    return sorted(sentences, key=lambda each: len(each["source"]))[:n]


def models(run, n):
    """All, those that tell most first; the first n where the device is emulated."""
    known = {model.name: model for model in GOLDEN}
    ordered = [known.pop(name) for name in FIRST] + list(known.values())
    return ordered[:n] if run.emulated else ordered


def command(run, model, device, kind, *options):
    return (run.acre, "translate", "--model", model, "--tokens", "--json", "--device", device,
            "--compute-type", kind, "--threads", "1", *options)


def translate(run, model, lines, device, kind, beam, batch, **environment):
    """(what is printed, what is said where that fails)"""
    options = ("--beam-size", beam, "--num-hypotheses", beam, "--batch-size", batch)
    return printed(run, command(run, model, device, kind, *options), lines, **environment)


def printed(run, words, lines, **environment):
    _, done = run.call(*words, text="".join(line + "\n" for line in lines), **environment)
    if done.returncode != 0:
        return [], f"status {done.returncode}: {done.stderr[-200:]}"
    return done.stdout.splitlines(), ""


def judge(run, name, is_right, says, one, other, **facts):
    """Where two outputs part, if that is wrong; what is said where something fails."""
    said = "; ".join(filter(None, says))
    parting = {} if is_right else first_difference(one, other)
    run.note(name, is_right, **facts, **({"says": said} if said else {}), **parting)


def first_difference(one, other):
    for i, (a, b) in enumerate(itertools.zip_longest(one, other)):
        if a != b:
            return {"line": i + 1, "found": str(a)[:2000], "wanted": str(b)[:2000]}
    return {}


def tokens(lines):
    return [[h["tokens"] for h in json.loads(line)["hypotheses"]] for line in lines]


def scores(lines):
    return [h["score"] for line in lines for h in json.loads(line)["hypotheses"]]


def near_the_cpu(run, model, lines):
    """The CPU's translations, and nearly its scores."""
    for name, beam in BEAMS:
        (found, *said), (cpu, *why) = (translate(run, model, lines, device, "f32", beam, 8)
                                       for device in ("cuda", "cpu"))
        same = len(found) == len(lines) and tokens(found) == tokens(cpu)
        off = max(abs(a - b) for a, b in zip(scores(found), scores(cpu))) if same else None
        judge(run, f"{model.name} f32 {name}: the CPU's translations", same and off < 1e-4,
              said + why, found, cpu, largest_score_error=off)


def near_f32(run, model, sentences, kind):
    """Golden translations are as probable as in f32 on the CPU."""
    targets = run.scratch / "targets"
    targets.write_text("".join(s["runs"]["greedy"][0][0] + "\n" for s in sentences), "utf-8")
    lines = [s["source"] for s in sentences]
    (found, *said), (wanted, *why) = (
        printed(run, command(run, model, *how, "--score", targets), lines)
        for how in (("cuda", kind), ("cpu", "f32")))
    a, b = ([json.loads(line)["normalized_score"] for line in output] for output in (found, wanted))
    errors = [abs(x - y) / (1 + abs(y)) for x, y in zip(a, b)] or [float("nan")]
    mean, most = NEAR[kind]
    is_right = (len(a) == len(b) == len(sentences) and sum(errors) / len(errors) <= mean
                and max(errors) <= most)
    judge(run, f"{model.name} {kind}: golden translations score as in f32", is_right, said + why,
          found, wanted, mean=sum(errors) / len(errors), largest=max(errors))


def same_bits(run, model, lines, kind):
    """Twice, in different company, and alone."""
    (together, *said), (alone, *why) = (translate(run, model, text, "cuda", kind, "4", batch)
                                        for text, batch in ((lines * 2, 8), (lines, 1)))
    is_right = len(alone) == len(lines) and together == alone * 2
    judge(run, f"{model.name} {kind}: twice, and alone, the same bits", is_right, said + why,
          together, alone * 2)


def check(run, kinds, n):
    for model in models(run, n):
        sentences = golden(model, 2 if run.emulated else None)
        lines = [each["source"] for each in sentences]
        for kind in kinds:
            if kind == "f32":
                near_the_cpu(run, model, lines)
            else:
                near_f32(run, model, sentences, kind)
            same_bits(run, model, lines, kind)


def check_models(run):
    check(run, ("f32", "f16"), 2)


def check_types(run):
    check(run, ("bf16", "int8"), 1)


def check_launches(run):
    """However passes are launched, and in batches whose products take the largest tiles."""
    known = {model.name: model for model in GOLDEN}
    for name, kinds in MANY[:1] if run.emulated else MANY:
        model = known[name]
        lines = [each["source"] for each in golden(model, 2 if run.emulated else None)]
        times = 2 if run.emulated else MANY_SENTENCES // len(lines) + 1
        batch = 4 if run.emulated else MANY_BATCH
        for kind in kinds[:1] if run.emulated else kinds:
            alone, *why = translate(run, model, lines, "cuda", kind, "4", 1)
            for how in LAUNCHES:
                found, *said = translate(run, model, lines * times, "cuda", kind, "4", batch,
                                         ACRE_GPU=how)
                is_right = len(alone) == len(lines) and found == alone * times
                judge(run, f"{name} {kind} {how}: in large batches as alone", is_right, said + why,
                      found, alone * times)


def check_attention(run):
    _, done = run.call(run.area, ROOT / "tests/golden/area-attention", DEVICE="cuda")
    run.note("golden cases of area attention", done.returncode == 0, says=told(done)[-1])
    for form, few, many in (("modes", 20, 1000), ("f16", 2, 60), ("f32", 2, 60)):
        seconds, done = run.call(run.shapes, "cuda", few if run.emulated else many, 1, form)
        off = [line for line in told(done) if line.startswith("FAILED")][:20]
        run.note(f"random shapes against the definition, {form}", done.returncode == 0,
                 seconds=seconds, says=told(done)[-1], **({"off": off} if off else {}))


def told(done):
    return (done.stdout + done.stderr).splitlines() or [f"nothing, status {done.returncode}"]


def sanitize(run):
    tool = shutil.which("compute-sanitizer")
    if not tool:
        run.note("compute-sanitizer", None, why="not on this machine")
        return
    known = {model.name: model for model in GOLDEN}
    short = ("--beam-size", "2", "--num-hypotheses", "2", "--batch-size", "1", "--max-length", "3")
    programs = [("shapes", (run.shapes, "cuda", "12"), "")]
    for name, kind in (("tiny-area", "f16"), ("tiny-lstm-heads", "int8")):
        words = command(run, known[name], "cuda", kind, *short)
        programs.append((f"{name} {kind}", words, golden(known[name], 1)[0]["source"] + "\n"))
    for what in ("memcheck", "racecheck", "initcheck", "synccheck"):
        for name, words, text in programs:
            seconds, done = run.call(tool, "--tool", what, "--error-exitcode", "9", *words,
                                     text=text, CUDA_MODULE_LOADING="LAZY")
            is_able = "device not supported" not in (done.stdout + done.stderr).lower()
            run.note(f"compute-sanitizer {what}, {name}", done.returncode == 0 if is_able else None,
                     seconds=seconds, says=told(done)[-1])
            if not is_able:
                return
