"""BLEU of int8 and bf16 against f32, of every shipped model on newstest2014."""

import json
import subprocess

import material

TYPES = ("f32", "bf16", "int8")
QUICK_LINES = 40


def target_of(model):
    config = json.loads((model / "tokenizer_config.json").read_text())
    return config.get("target_lang", "")


def bleu(hypotheses, reference):
    command = [material.TEST_PYTHON, "-m", "sacrebleu", reference, "-i", hypotheses,
               "--metrics", "bleu", "--score-only", "--width", "2"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def files(settings, model):
    found = material.newstest(settings.eval, target_of(model))
    if not found or not settings.quick:
        return found
    return [material.some_lines(path, QUICK_LINES, f"quick{path.suffix}") for path in found]


def row(settings, model, source, reference):
    scores = {}
    for compute_type in TYPES:
        out = material.SCRATCH / f"{model.name}.{compute_type}.txt"
        out.write_text(settings.acre.translate(model, source, compute_type=compute_type))
        scores[compute_type] = bleu(out, reference)
        material.progress(f"  {model.name} {compute_type}: BLEU {scores[compute_type]:.2f}")
    f32 = scores["f32"]
    others = " | ".join(f"{scores[t]:.2f} | {scores[t] - f32:+.2f}" for t in TYPES[1:])
    return f"| {model.name} | {f32:.2f} | {others} |"


def report(settings):
    if not settings.eval:
        yield "Skipped: no EVAL=DIR with newstest2014 was given."
        return
    models = [model for model in settings.models() if settings.wants(model.name)]
    if not models:
        yield f"Skipped: there are no models in {settings.folder.name}/."
        return
    yield "| model | f32 | bf16 | difference | int8 | difference |"
    yield "|---|---|---|---|---|---|"
    for model in models:
        found = files(settings, model)
        yield row(settings, model, *found) if found else f"| {model.name} | no newstest2014 |||||"
