"""A whole run in small: prepare, train, be interrupted, go on, cool down, export."""

import argparse
import dataclasses
import json
import os
import shutil
import signal
import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train import checkpoint, evaluate, export  # noqa: E402
from models.train import development, trainer as training  # noqa: E402
from models.train.__main__ import main, say_what_is_ignored  # noqa: E402
from models.train.batches import Pairs  # noqa: E402
from models.train.lock import alone  # noqa: E402
from models.train.log import read_entries  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import Phase, read_recipe  # noqa: E402
from models.train.schedule import Cooldown, learning_rate  # noqa: E402
from models.train.trainer import Trainer, extend  # noqa: E402
from models.train.vocabulary import PieceVocabulary, open_vocabulary  # noqa: E402
from small import RECIPE, train, weights  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_and_quick")


def test_interrupted_run_equals_uninterrupted(run):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    whole = train(Trainer(run), 6)
    first = Trainer(run)
    train(first, 3)
    first.save()
    second = Trainer(run)
    assert second.step == 3
    assert torch.equal(train(second, 3), whole)


def test_a_run_is_changed_by_one_process_at_a_time(tmp_path, corpora, capsys):
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE | {"level": "char"}))
    commands = (["prepare", "--corpora", str(corpora), "--eval", str(corpora / "eval")],
                ["train", "--cooldown", "1"], ["train", "--extend", "--cooldown", "2"])
    for first, *more in commands:
        command = [first, str(tmp_path / "recipe.json"), "--run", str(tmp_path / "run"), *more]
        with alone(tmp_path / "run"):
            assert main(command) == 1
        assert f"{tmp_path / 'run'}: another process is at it" in capsys.readouterr().err
        assert main(command) == 0


def test_reports_by_steps_are_the_same_after_interruptions(tmp_path, corpora, monkeypatch):
    recipe, step = tmp_path / "recipe.json", Trainer.train_step
    recipe.write_text(json.dumps(
        RECIPE | {"level": "char", "report_steps": 2, "evaluation_steps": 3}))
    prepare(recipe, corpora, corpora / "eval", tmp_path / "whole" / "prepared")
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")

    def stopped(trainer):
        step(trainer)
        if trainer.step in (1, 3):
            trainer.stop()

    assert Trainer(tmp_path / "whole").run(cooldown_steps=5)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", stopped)
        assert [Trainer(tmp_path / "parts").run(5) for _ in range(2)] == [False, False]
    assert Trainer(tmp_path / "parts").run()
    logs = [[{key: entry.get(key) for key in ("step", "tokens", "loss", "bleu")}
             for entry in read_entries(tmp_path / name / "log.jsonl")]
            for name in ("whole", "parts")]
    assert logs[0] == logs[1]
    assert [(entry["step"], entry["loss"] is None) for entry in logs[0]] == [
        (2, False), (3, True), (4, False), (5, False), (5, True)]
    seconds = [entry["seconds"] for entry in read_entries(tmp_path / "parts" / "log.jsonl")]
    assert seconds == sorted(seconds) and seconds[-1] > 0


def test_a_killed_run_goes_on_from_its_last_checkpoint(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    step = Trainer.train_step

    def killed(trainer):
        if trainer.step == 2:
            raise KeyboardInterrupt
        step(trainer)

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(Trainer, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        Trainer(run).run(cooldown_steps=5)
    assert Trainer(run).step == 2


def test_a_line_that_was_cut_off_does_not_spoil_the_log(run):
    """As by a full disk."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    (run / "log.jsonl").write_text('{"step": 1, "tokens": 9, "loss": 2.5}\n{"step": 2, "tok')
    trainer = Trainer(run)
    train(trainer, 2)
    trainer.report()
    first, second = (run / "log.jsonl").read_text().splitlines()
    assert json.loads(first)["loss"] == 2.5 and json.loads(second)["step"] == 2


def test_stalls_do_not_count_as_hours(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    if trainer.device.type != "cpu":
        pytest.skip("hours on a GPU are wall time")
    before, started, following = trainer.seconds, time.monotonic(), trainer.stream.next

    def stalled():
        time.sleep(0.5)
        return following()

    monkeypatch.setattr(trainer.stream, "next", stalled)
    train(trainer, 1)
    assert 0 < trainer.seconds - before < time.monotonic() - started - 0.4
    assert trainer.meter.seconds == pytest.approx(trainer.seconds - before)


@pytest.mark.parametrize("found", ["nan", "inf"])
def test_a_gradient_that_is_no_number_ends_the_run(run, monkeypatch, found):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    before, loss = weights(trainer), trainer.loss
    trainer.save()
    monkeypatch.setattr(trainer, "loss", lambda *sides: loss(*sides) * float(found))
    with pytest.raises(ValueError, match="step 1: expected a finite gradient, found one of norm "):
        trainer.run(cooldown_steps=2)
    assert torch.equal(weights(trainer), before) and trainer.step == 0
    assert all(w.isfinite().all() for w in checkpoint.load(run / "checkpoint.pt")["model"].values())


def test_killed_while_saving_keeps_the_old_checkpoint(run, monkeypatch):
    checkpoint.save_atomically({"step": 1}, run / "kill.pt")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_atomically({"step": 2}, run / "kill.pt")
    assert checkpoint.load(run / "kill.pt")["step"] == 1


def test_a_checkpoint_of_another_vocabulary_is_refused(run, recipe, tmp_path):
    shutil.copytree(run / "prepared", tmp_path / "prepared")
    trainer = Trainer(tmp_path)
    trainer.evaluate()
    trainer.save()
    assert Trainer(tmp_path).step == 0
    if recipe.level == "char":
        return
    path = tmp_path / "prepared" / "vocab.json"
    ids = json.loads(path.read_text())
    names = {number: piece for piece, number in ids.items()}
    ids[names[5]], ids[names[6]] = 6, 5
    path.write_text(json.dumps(ids))
    known, found = trainer.vocabulary.fingerprint, PieceVocabulary(path.parent).fingerprint
    message = f"vocabulary: expected {found}, that of {path.parent}, found {known}: "
    with pytest.raises(ValueError, match=f"checkpoint.pt: {message}"):
        Trainer(tmp_path)
    with pytest.raises(ValueError, match=f"best.pt: {message}"):
        export.export(tmp_path, tmp_path / "model")
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    del state["vocabulary"]  # as in older checkpoints
    checkpoint.save_atomically(state, tmp_path / "checkpoint.pt")
    assert Trainer(tmp_path).step == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_run_prepared_anew_is_judged_anew(run, tmp_path, monkeypatch, known):
    """By its own development set; a checkpoint that does not say which it had is believed."""
    scores = iter((9.0, 8.0, 7.0, 3.0))
    monkeypatch.setattr(development, "bleu", lambda *_: next(scores))
    monkeypatch.setattr(development, "DEVELOPMENT_SETS", ("heldout/tatoeba",))
    shutil.copytree(run / "prepared", tmp_path / "prepared")
    trainer = Trainer(tmp_path)
    trainer.evaluate()
    trainer.evaluate()
    trainer.save()
    if not known:
        for name in ("checkpoint.pt", "best.pt"):
            state = checkpoint.load(tmp_path / name)
            state.pop("development", None)
            checkpoint.save_atomically(state, tmp_path / name)
    path = tmp_path / "prepared/heldout/tatoeba.de"
    path.write_text(path.read_text().upper())
    trainer = Trainer(tmp_path)
    assert trainer.development.waited == (0 if known else 1)
    trainer.evaluate()
    trainer.evaluate()
    assert trainer.development.waited == (1 if known else 3)
    assert checkpoint.load(tmp_path / "best.pt")["bleu"]["tatoeba"] == (7.0 if known else 9.0)


def test_a_run_that_gets_no_better_cools_down(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    scores = iter((3.0, 4.0, 2.0, 2.0, 2.0))
    monkeypatch.setattr(development, "bleu", lambda *_: next(scores))
    monkeypatch.setattr(development, "DEVELOPMENT_SETS", ("heldout/tatoeba",))
    trainer = Trainer(run)
    trainer.recipe = dataclasses.replace(trainer.recipe, patience=3, cooldown_part=0.2)
    train(trainer, 8)
    waited = []
    for _ in range(5):
        trainer.evaluate()
        trainer.cool_down_early()
        waited.append(trainer.development.waited)
        trainer.save()
        assert (trainer.cooldown is None) == (len(waited) < 5)
        trainer.resume(run / "checkpoint.pt")
    assert waited == [0, 0, 1, 2, 0]  # once it cools down, it waits no more
    assert (trainer.cooldown.start, trainer.cooldown.steps) == (8, 2)
    trainer.resume(run / "before-cooldown.pt")
    assert trainer.cooldown is None and trainer.development.waited == 0


def test_a_cool_down_is_undone_once(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 1)
    trainer.begin_cooldown(3)
    train(trainer, 1)
    trainer.save()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        extend(run, trainer.recipe, None)
    assert checkpoint.load(run / "checkpoint.pt")["step"] == 2
    trainer.recipe = dataclasses.replace(trainer.recipe, cooldown_part=0.5)
    hours = checkpoint.load(run / "before-cooldown.pt")["seconds"] / 3600
    extend(run, trainer.recipe, 1.9 * hours)
    assert Trainer(run).step == 2  # it would begin again at once
    extend(run, trainer.recipe, 2.1 * hours)
    trainer = Trainer(run)
    assert trainer.step == 1 and trainer.cooldown is None
    train(trainer, 2)
    trainer.save()
    extend(run, trainer.recipe, None)
    assert Trainer(run).step == 3


@pytest.mark.parametrize("asked, other", [((None, 3), (None, 4)), ((9.0, None), (10.0, None))])
def test_a_cool_down_that_was_extended_into_is_not_undone(run, asked, other):
    """An interrupted command, said again, goes on; another, or after the end, undoes it."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 1)
    trainer.begin_cooldown(2)
    train(trainer, 1)
    trainer.save()
    for given, step in ((asked, 1), (asked, 2), (other, 1), (other, 2), (asked, 1)):
        extend(run, trainer.recipe, *given)
        trainer = Trainer(run)
        assert trainer.step == step
        if step == 1:
            trainer.begin_cooldown(3)
            train(trainer, 1)
            trainer.save()
    assert trainer.run()
    extend(run, trainer.recipe, *asked)
    assert Trainer(run).step == 1


@pytest.mark.parametrize("step, state", [(7, "is cooling down"), (11, "has cooled down")])
def test_what_a_cool_down_ignores_is_said(capsys, step, state):
    def say(hours, cooldown, extend=False):
        say_what_is_ignored(argparse.Namespace(hours=hours, cooldown=cooldown, extend=extend),
                            trainer)

    trainer = argparse.Namespace(cooldown=Cooldown(7, 4), finished=lambda: step == 11)
    said = f"train: --hours 2.5 and --cooldown 300 ignored: the run {state}, from step 7 to 11"
    for extended in (False, True):
        say(2.5, 300, extended)
        hint = "" if extended else "; --extend undoes that"
        assert capsys.readouterr().out == f"{said}{hint}\n"
    say(None, None)
    trainer.cooldown = None
    say(2.5, None)
    assert capsys.readouterr().out == ""


def test_a_run_that_had_more_hours_is_not_ended_at_once(run, monkeypatch):
    """Its recipe has fewer than it was given when it began."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 8)
    trainer.save()
    for hours in (0.5, 1.0):
        trainer = Trainer(run, hours)
        trainer.seconds = 3600
        with pytest.raises(ValueError, match="the run has had 1.00 hours, .* of (0.5|1) no time to "
                                             "cool down; give it --hours 1.25 or --cooldown 2$"):
            trainer.run()
        assert trainer.cooldown is None
    trainer.hours = 1.1  # shorter than the recipe says, but asked for
    trainer.check_time()
    assert trainer.run(cooldown_steps=2) and trainer.step == 10


@pytest.mark.parametrize("command, option", [
    ("prepare", "--hours"), ("overlap", "--corpora"), ("train", "--eval"), ("evaluate", "--out"),
    ("export", "--cooldown")])
def test_every_command_has_its_own_options(capsys, command, option):
    with pytest.raises(SystemExit):
        main([command, "en-de-token", option, "1"])
    assert f"unrecognized arguments: {option} 1" in capsys.readouterr().err


@pytest.mark.parametrize("option, text, message", [
    ("--hours", "0", "expected a positive number, found 0"),
    ("--hours", "nan", "expected a positive number, found nan"),
    ("--hours", "long", "invalid float value: 'long'"),
    ("--cooldown", "-4", "expected a positive number, found -4"),
    ("--cooldown", "1.5", "invalid int value: '1.5'"),
])
def test_times_are_positive(capsys, option, text, message):
    with pytest.raises(SystemExit):
        main(["train", "en-de-token", f"{option}={text}"])
    assert f"argument {option}: {message}" in capsys.readouterr().err


def test_another_cool_down_is_not_undone(tmp_path):
    with pytest.raises(FileNotFoundError, match="no before-cooldown.pt; the run never cooled"):
        extend(tmp_path, None, None)
    checkpoint.save_atomically({"step": 5, "cooldown": None}, tmp_path / "before-cooldown.pt")
    checkpoint.save_atomically({"step": 9, "cooldown": {"start": 7, "steps": 4}},
                               tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="before-cooldown.pt: step: expected 7, .* found 5"):
        extend(tmp_path, None, None)


def test_what_an_undone_cool_down_reached_is_kept(run, monkeypatch):
    """Patience counts what came before the cool-down: plain steps score less than its end."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    scores = iter((3.0, 9.0, 4.0, 8.0, 10.0))
    monkeypatch.setattr(development, "bleu", lambda *_: next(scores))
    monkeypatch.setattr(development, "DEVELOPMENT_SETS", ("heldout/tatoeba",))
    trainer = Trainer(run)
    trainer.evaluate()
    train(trainer, 1)
    trainer.begin_cooldown(3)
    trainer.evaluate()
    trainer.save()
    extend(run, trainer.recipe, None)
    trainer, kept = Trainer(run), []
    for _ in range(3):
        train(trainer, 1)
        trainer.evaluate()
        assert trainer.development.waited == 0
        kept.append(checkpoint.load(run / "best.pt")["bleu"]["tatoeba"])
        trainer.begin_cooldown(1)
    assert kept == [9.0, 9.0, 10.0]


def test_loss_falls_then_the_run_cools_down_and_exports(run, recipe):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    trainer.recipe = dataclasses.replace(recipe, learning_rate=3e-3, warmup_steps=5)
    train(trainer, 2)
    early = trainer.meter.loss / trainer.meter.count
    train(trainer, 30)
    trainer.report()  # so that the last one is of the cool-down alone
    assert trainer.run(cooldown_steps=4)
    assert trainer.step == 36 and (run / "before-cooldown.pt").exists()
    assert Trainer(run).finished()
    report, last = map(json.loads, (run / "log.jsonl").read_text().splitlines()[-2:])
    assert report["step"] == 36 and report["loss"] < early - 0.2
    assert last["step"] == 36 and "tatoeba" in last["bleu"]
    check_export(run, recipe)


@pytest.mark.parametrize("method", ["train_step", "evaluate"])
def test_a_run_that_is_stopped_at_its_end_is_not_finished(run, monkeypatch, method):
    """The last step and the final evaluation are done, and what is left is done another time."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer, before = Trainer(run), signal.getsignal(signal.SIGTERM)
    original = getattr(trainer, method)

    def stopped():
        original()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(trainer, method, stopped)
    assert not trainer.run(cooldown_steps=1)
    assert signal.getsignal(signal.SIGTERM) == before
    (run / "best.pt").unlink(missing_ok=True)
    again = Trainer(run)
    assert again.finished() and again.run()
    assert checkpoint.load(run / "best.pt")["step"] == 1


def check_export(run, recipe):
    from safetensors.torch import load_file

    export.export(run, run / "model")
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["area"]["decoder_cross"] == {"width": [5, 5]}
    assert config["area"]["key"] == {"token": "mean", "char": "concat"}[recipe.level]
    tensors = load_file(run / "model" / "model.safetensors")
    assert tensors["model.shared.weight"].shape == (config["vocab_size"], config["d_model"])
    if recipe.norm == "post":
        assert tensors["final_logits_bias"].shape == (1, config["vocab_size"])
        assert config["decoder_start_token_id"] == config["pad_token_id"]
    else:
        assert "final_logits_bias" not in tensors
        assert tensors["model.decoder.layer_norm.weight"].shape == (config["d_model"],)
        assert config["decoder_start_token_id"] == config["eos_token_id"]
    assert config["model_type"] == {"post": "marian", "pre": "m2m_100"}[recipe.norm]
    assert not tensors["model.shared.weight"][config["pad_token_id"]].any()
    assert all(tensor.dtype == torch.bfloat16 for tensor in tensors.values())
    files = {path.name for path in (run / "model").iterdir()}
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    assert files == {"config.json", "generation_config.json", "model.safetensors", "README.md",
                     "tokenizer_config.json", *vocabulary.files}
    tokenizer = json.loads((run / "model" / "tokenizer_config.json").read_text())
    assert (tokenizer["source_lang"], tokenizer["target_lang"]) == (recipe.source, recipe.target)
    part = {"token": 2 / 3, "char": 6 / 7}[recipe.level]
    assert tokenizer["model_max_length"] == round(recipe.phases[-1].max_length * part)


def test_one_command_does_everything(tmp_path, corpora, monkeypatch):
    monkeypatch.setattr(evaluate, "LONGEST_TRANSLATION", {"char": 10})
    recipe, run = tmp_path / "recipe.json", tmp_path / "run"
    recipe.write_text(json.dumps(RECIPE | {"level": "char"}))
    assert main(["all", str(recipe), "--run", str(run), "--corpora", str(corpora), "--eval",
                 str(corpora / "eval"), "--cooldown", "2"]) == 0
    assert json.loads((run / "scores.json").read_text())["step"] == 2
    assert (run / "model" / "model.safetensors").exists()


@pytest.mark.parametrize("command", ["train", "all"])
def test_an_interrupted_command_does_not_say_that_it_is_done(tmp_path, corpora, monkeypatch, capsys,
                                                             command):
    """Nor does it score or export what is half trained."""
    recipe, run, step = tmp_path / "recipe.json", tmp_path / "run", Trainer.train_step
    recipe.write_text(json.dumps(RECIPE | {"level": "char"}))
    data = ["--corpora", str(corpora), "--eval", str(corpora / "eval")]
    assert main(["prepare", str(recipe), "--run", str(run), *data]) == 0

    def last(trainer):
        step(trainer)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Trainer, "train_step", last)
    assert main([command, str(recipe), "--run", str(run), "--cooldown", "2"]) == 130
    assert f"{command}: interrupted; the same command goes on\n" in capsys.readouterr().out
    assert checkpoint.load(run / "checkpoint.pt")["step"] == 1
    assert not (run / "scores.json").exists() and not (run / "model").exists()
    monkeypatch.setattr(Trainer, "train_step", step)
    assert main(["train", str(recipe), "--run", str(run)]) == 0


def test_lstms_are_trained_by_the_same_commands(tmp_path, corpora, monkeypatch):
    monkeypatch.setattr(training, "REPORT_SECONDS", 0)
    recipe, run = tmp_path / "recipe.json", tmp_path / "run"
    recipe.write_text(json.dumps(RECIPE | {
        "level": "char", "preset": "lstm-256", "heads": 4, "area": "eq9",
        "learning_rate": 3e-3, "warmup_steps": 5}))
    for command in (["prepare", "--corpora", str(corpora), "--eval", str(corpora / "eval")],
                    ["train", "--cooldown", "20"], ["export"]):
        assert main([command[0], str(recipe), "--run", str(run), *command[1:]]) == 0
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0]
    assert "tatoeba" in log[-1]["bleu"]
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["model_type"] == "acre-lstm"
    assert config["area"]["key"] == "concat"
    card = (run / "model" / "README.md").read_text()
    assert "A small LSTM sequence-to-sequence model with area attention" in card
    assert "Preset lstm-256: 2 encoder and 2 decoder layers, 4 heads" in card


def test_grids_are_trained_by_the_same_commands(tmp_path, corpora, monkeypatch, capsys):
    monkeypatch.setattr(training, "REPORT_SECONDS", 0)
    monkeypatch.setattr(evaluate, "LONGEST_TRANSLATION", {"token": 10})
    recipe, run = tmp_path / "recipe.json", tmp_path / "run"
    cross = {"memory_height": 3, "height": [2, 2], "width": [3, 1]}
    recipe.write_text(json.dumps(RECIPE | {
        "area": {"encoder_self": {"memory_height": 2}, "decoder_cross": cross, "key": "concat"},
        "learning_rate": 3e-3, "warmup_steps": 5}))
    for command in (["prepare", "--corpora", str(corpora), "--eval", str(corpora / "eval")],
                    ["train", "--cooldown", "20"], ["evaluate"], ["export"]):
        assert main([command[0], str(recipe), "--run", str(run), *command[1:]]) == 0
    said = capsys.readouterr().out
    lengths = Pairs(run / "prepared", read_recipe(recipe)).source_lengths
    assert (f"train: only sentences of a multiple of 6 ids, end included, also in evaluations; "
            f"{(lengths % 6 != 0).sum():,} of {len(lengths):,} pairs are left out") in said
    assert "evaluate: only sentences of a multiple of 6 ids, end included" in said
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0]
    scores = json.loads((run / "scores.json").read_text())
    assert scores["step"] == checkpoint.load(run / "best.pt")["step"]
    assert 0 < scores["sets"]["newstest2013"]["sentences"] < 100
    assert "| newstest2013 | " in (run / "model" / "README.md").read_text()
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["area"]["decoder_cross"] == cross
    Trainer(run).warm_up()  # what a GPU does first


def test_a_model_of_the_shortest_sentences_is_warmed_up(run, recipe):
    trainer = Trainer(run)
    trainer.recipe = dataclasses.replace(recipe, phases=[Phase(max_length=3, batch_tokens=400)])
    trainer.model.positions = trainer.model.positions[:3]
    trainer.warm_up()


def test_rate_warms_up_holds_and_cools_down(recipe):
    top, warm, flat = recipe.learning_rate, recipe.warmup_steps, recipe.flat_steps
    assert learning_rate(recipe, 0) == pytest.approx(top / warm)
    assert learning_rate(recipe, warm) == learning_rate(recipe, flat) == top
    assert learning_rate(recipe, 4 * flat) == pytest.approx(top / 2)
    cooldown = Cooldown(start=warm, steps=100)
    assert learning_rate(recipe, warm + 50, cooldown) == pytest.approx(top / 2)
    assert learning_rate(recipe, warm + 100, cooldown) == 0


@pytest.mark.parametrize("arguments, message", [
    (["prepare", "en-de-token"], "prepare needs --corpora DIR and --eval DIR"),
    (["prepare", "en-xx-token"], "en-xx-token: no such recipe; there are de-en-token"),
    (["prepare", "en-fr-token", "--corpora", "/nowhere", "--eval", "/nowhere"], "/nowhere: no"),
    (["train", "en-de-token"], "nothing is prepared"),
])
def test_command_line_errors_say_what_is_wrong(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "all", "export", "evaluate", "overlap"])
def test_a_misspelt_recipe_is_not_taken_for_a_run(command, capsys):
    assert main([command, "nosuch"]) == 1
    assert "nosuch: no such recipe; there are de-en-token, " in capsys.readouterr().err
