"""Training one model: steps, checkpoints, evaluations, the log.

    RUN/checkpoint.pt            the last state; training goes on from it
    RUN/before-cooldown.pt       the state at which the last cool-down began
    RUN/best.pt                  averaged weights of the best evaluation so far (development.py)
    RUN/log.jsonl                one JSON object per report and per evaluation

A run ends after its time limit or its cool-down; SIGTERM and SIGINT save and end it early.
"""

import json
import math
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from . import area, checkpoint
from .batches import Pairs, Position, Stream
from .build import begin, new_model
from .development import Development
from .device import choose_device, keep_freed_memory
from .files import drop_cut_line
from .loss import cross_entropy
from .optimiser import Optimiser
from .recipe import read_recipe
from .schedule import Cooldown, learning_rate
from .vocabulary import open_vocabulary

REPORT_SECONDS = 60
CHECKPOINT_SECONDS = 240
SHORTEST_COOLDOWN = 0.1  # of what the recipe asks for
STOPPING = signal.SIGTERM, signal.SIGINT


def may_go_on(recipe, hours, seconds):
    """Whether a run of so many hours is not to cool down after so many seconds."""
    return hours is None or seconds < (1 - recipe.cooldown_part) * hours * 3600


def extend(folder, recipe, hours, cooldown=None):
    """Undoes the cool-down that the run's checkpoint is in, unless it would begin again at once.

    Said again before the run has finished, as when training goes on after an interruption, it
    changes nothing. `hours` None: no time limit, or a cool-down of `cooldown` steps is asked for.
    """
    before, last = folder / "before-cooldown.pt", folder / "checkpoint.pt"
    asked = {"hours": hours, "cooldown": cooldown}
    if not before.exists():
        raise FileNotFoundError(f"{folder}: no before-cooldown.pt; the run never cooled down")
    state = checkpoint.load(before)
    if last.exists():
        found = checkpoint.load(last)
        if not found["cooldown"]:
            print("train: there is no cool-down to undo", flush=True)
            return
        if found.get("extended") == asked:
            return
        if found["cooldown"]["start"] != state["step"]:
            raise ValueError(f"{before}: step: expected {found['cooldown']['start']}, where the "
                             f"last cool-down began, found {state['step']}")
    if not may_go_on(recipe, hours, state["seconds"]):
        print(f"train: the cool-down is not undone: after {hours:g} hours it was time for it; "
              "--hours X gives the run more", flush=True)
        return
    checkpoint.save_atomically(state | {"extended": asked}, last)


class MovingAverage:
    """Exponential moving average of the weights: what is evaluated and exported."""

    def __init__(self, model, decay):
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model, step):
        decay = min(self.decay, (1 + step) / (10 + step))  # short memory while all is new
        parameters = [p.detach() for p in model.parameters()]
        torch._foreach_lerp_(list(self.weights.values()), parameters, 1 - decay)


class Every:
    """True once per so many seconds, or at every so many steps if they are given."""

    def __init__(self, seconds, steps=None):
        self.seconds, self.steps, self.last = seconds, steps, time.monotonic()

    def due(self, step):
        if self.steps:
            return step % self.steps == 0
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


@dataclass
class Meter:
    """Loss and speed since the last report; pauses between steps do not count."""

    loss: float = 0.0
    count: int = 0
    seconds: float = 0.0

    def add(self, loss, count, seconds):
        self.loss += loss
        self.count += count
        self.seconds += seconds


class Trainer:
    def __init__(self, folder, hours=None):
        self.folder = Path(folder)
        self.recipe = read_recipe(self.folder / "prepared" / "recipe.json")
        self.hours = self.recipe.hours if hours is None else hours
        self.vocabulary = open_vocabulary(self.recipe.level, self.folder / "prepared")
        self.development = Development(self.folder, self.recipe, self.vocabulary)
        self.device, self.bf16 = choose_device()
        keep_freed_memory()
        torch.manual_seed(self.recipe.seed)
        self.model = new_model(self.recipe, self.vocabulary).to(self.device)
        self.model.reserve(self.recipe.longest)
        if not (self.folder / "checkpoint.pt").exists():
            begin(self.model, self.vocabulary, self.recipe)
        self.average = MovingAverage(self.model, self.recipe.ema_decay)
        self.optimiser = Optimiser(self.model, self.bf16)
        self.step = self.tokens = 0
        self.seconds = 0.0  # of work on steps, over every start of the run
        self.cooldown = None
        self.extended = None  # what `extend` was asked for; of a run that has finished, nothing
        self.stopping = False
        self.meter = Meter()
        position = self.resume(self.folder / "checkpoint.pt")
        pairs = Pairs(self.folder / "prepared", self.recipe)
        self.stream = Stream(pairs, self.recipe, self.vocabulary, position)

    # ---- State ----

    def resume(self, path):
        """Takes the state from a checkpoint, if there is one; returns the data position."""
        drop_cut_line(self.folder / "log.jsonl")
        if not path.exists():
            return Position()
        state = checkpoint.load(path, self.vocabulary)
        self.model.load_state_dict(state["model"])
        for name, weight in state["average"].items():
            self.average.weights[name].copy_(weight)
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["rng"])
        self.step, self.tokens = state["step"], state["tokens"]
        self.seconds = state["seconds"]
        self.meter = Meter(**state.get("meter", {}))  # absent in older checkpoints
        self.development.resume(state)
        self.extended = state.get("extended")
        self.cooldown = Cooldown(**state["cooldown"]) if state["cooldown"] else None
        print(f"train: going on from step {self.step}", flush=True)
        return Position(**state["position"])

    def state(self):
        return {
            "model": self.model.state_dict(),
            "average": self.average.weights,
            "optimiser": self.optimiser.state_dict(),
            "rng": torch.get_rng_state(),
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "meter": asdict(self.meter),
            "extended": self.extended,
            "cooldown": asdict(self.cooldown) if self.cooldown else None,
            "position": asdict(self.stream.position),
            "vocabulary": self.vocabulary.fingerprint,
        } | self.development.state()

    def save(self):
        checkpoint.save_atomically(self.state(), self.folder / "checkpoint.pt")

    # ---- Steps ----

    def loss(self, source, target):
        """Summed label-smoothed cross-entropy of the target ids that are no padding."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            states = self.model.decode(*self.model.encode(source), self.model.inputs(target))
            real = target != self.model.pad
            return cross_entropy(states[real], *self.model.output(), target[real],
                                 self.recipe.label_smoothing)

    def work_seconds(self):
        """A clock that does not run while the process is stopped or others have the CPUs.

        This thread takes part in all that is computed, however many there are: alone on a machine
        its CPU time is wall time. The time of all threads counts them as they wait for each other.
        """
        return time.thread_time() if self.device.type == "cpu" else time.monotonic()

    def train_step(self):
        """One update of the weights on the next batch."""
        started = self.work_seconds()
        self.stream.enter_phase(self.recipe.phase_at(self.step))
        source, target = self.stream.next()
        count = int((target != self.model.pad).sum())
        loss = self.loss(source.to(self.device), target.to(self.device))
        (loss / count).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        summed, norm = torch.stack((loss.detach(), norm)).tolist()  # waits for a GPU
        self.check_finite(norm)
        self.optimiser.step(learning_rate(self.recipe, self.step, self.cooldown))
        self.model.clear_pad()
        self.step += 1
        self.tokens += count
        self.average.update(self.model, self.step)
        worked = self.work_seconds() - started
        self.seconds += worked
        self.meter.add(summed, count, worked)

    def check_finite(self, norm):
        """Ends the run before a gradient that is no number gets into the weights and is saved."""
        if not math.isfinite(norm):
            raise ValueError(f"{self.folder}: step {self.step + 1}: expected a finite gradient, "
                             f"found one of norm {norm}. The same command goes on from the last "
                             "checkpoint, which is as it was; if it comes to this again, set a "
                             "lower learning_rate in prepared/recipe.json")

    # ---- The run ----

    def check_time(self):
        """Refuses to end a run that had more hours before than it is given now: in nearly no time
        its rate cannot come down, and what comes out is worse than it could be."""
        if self.cooldown or may_go_on(self.recipe, self.hours, self.seconds):
            return
        part, had = self.recipe.cooldown_part, self.seconds / 3600
        if self.hours - had < SHORTEST_COOLDOWN * part * self.hours:
            raise ValueError(f"{self.folder}: the run has had {had:.2f} hours, which leaves of "
                             f"{self.hours:g} no time to cool down; give it --hours "
                             f"{had / (1 - part):.2f} or --cooldown {self.usual_cooldown()}")

    def run(self, cooldown_steps=None):
        """Trains until the run is finished (true) or a signal interrupts it (false)."""
        if not cooldown_steps:
            self.check_time()
        handlers = {number: signal.signal(number, self.stop) for number in STOPPING}
        try:
            return self.train_to_the_end(cooldown_steps)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def train_to_the_end(self, cooldown_steps):
        """What `run` does while a signal only asks it to stop."""
        self.announce()
        if self.device.type == "cuda" and shutil.which("c++"):  # torch.compile needs a compiler
            area.fuse()
            self.model.fuse()
            self.warm_up()
        if cooldown_steps and not self.cooldown:
            self.begin_cooldown(cooldown_steps)
        report = Every(REPORT_SECONDS, self.recipe.report_steps)
        evaluate = Every(self.recipe.evaluation_seconds, self.recipe.evaluation_steps)
        save = Every(CHECKPOINT_SECONDS)
        self.model.train()
        while not self.stopping and not self.finished():
            self.train_step()
            if self.cooldown and self.step == self.cooldown.start:  # it was settled before
                self.keep_before_cooldown()
            self.cool_down_in_time()
            if self.finished():
                break  # to the last report and evaluation, whatever is due
            if report.due(self.step):
                self.report()
            if evaluate.due(self.step):
                self.evaluate()
                self.cool_down_early()
            if save.due(self.step):
                self.save()
        if self.finished() and not self.stopping:
            self.extended = None
            self.report()
            self.evaluate()
        self.save()
        return self.finished() and not self.stopping

    def warm_up(self):
        """Compiles, on sentences of ends, before the clock of the steps runs."""
        multiple = self.stream.pairs.multiple
        length = max(1, min(24, self.recipe.longest) // multiple) * multiple
        source = torch.full((8, length), self.vocabulary.end, device=self.device)
        self.loss(source, source[:, : max(1, length - 4)]).backward()
        self.model.zero_grad()

    def stop(self, *_):
        self.stopping = True

    def finished(self):
        return self.cooldown is not None and self.step >= self.cooldown.ends_at()

    def keep_before_cooldown(self):
        """What `extend` goes back to, as if no cool-down had been asked for."""
        self.development.waited = 0  # a run that is extended has all its patience again
        checkpoint.save_atomically(self.state() | {"cooldown": None},
                                   self.folder / "before-cooldown.pt")

    def begin_cooldown(self, steps):
        self.keep_before_cooldown()
        self.cooldown = Cooldown(self.step, max(1, steps))
        print(f"train: cooling down from step {self.step} for {steps} steps", flush=True)

    def cool_down_in_time(self):
        """Starts the cool-down so that it ends about when the time limit does."""
        if self.cooldown or may_go_on(self.recipe, self.hours, self.seconds):
            return
        left = max(0.0, self.hours * 3600 - self.seconds)
        self.begin_cooldown(round(left * self.step / self.seconds))

    def cool_down_early(self):
        """Ends a run whose development scores rise no more, as if its time were over."""
        patience, waited = self.recipe.patience, self.development.waited
        if self.cooldown or not patience or waited < patience:
            return
        print(f"train: no better score in {waited} evaluations", flush=True)
        self.begin_cooldown(self.usual_cooldown())

    def usual_cooldown(self):
        """Steps, if the run were to end as soon as it can with the recipe's part of it cooled."""
        part = self.recipe.cooldown_part
        return max(1, round(self.step * part / (1 - part)))

    # ---- Reports ----

    def log(self, entry):
        entry = {"time": round(time.time()), "step": self.step, "tokens": self.tokens,
                 "seconds": round(self.seconds, 2)} | entry
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def announce(self):
        count = sum(p.numel() for p in self.model.parameters())
        arithmetic = "bf16" if self.bf16 else "f32"
        preset = self.recipe.preset
        if isinstance(preset, dict):
            preset = "{encoder_layers}+{decoder_layers} layers of {width}".format(**preset)
        print(f"train: {self.recipe.name}, {preset}, {count / 1e6:.1f} M parameters, "
              f"{self.device}, {arithmetic}, {torch.get_num_threads()} threads, "
              f"process {os.getpid()}", flush=True)
        pairs = self.stream.pairs
        if pairs.multiple > 1:
            print(f"train: only sentences of a multiple of {pairs.multiple} ids, end included, "
                  f"also in evaluations; {(~pairs.whole).sum():,} of {len(pairs.whole):,} pairs "
                  "are left out", flush=True)

    def time_left(self):
        """What is left of the run, in words."""
        if self.cooldown:
            hours = (self.cooldown.ends_at() - self.step) * self.seconds / self.step / 3600
            words = "cooling down, " if self.step >= self.cooldown.start else ""
            return f"{words}{hours:.2f} h left"
        if self.hours is None:
            return "no time limit"
        return f"{self.hours - self.seconds / 3600:.2f} h left"

    def report(self):
        """Says what the steps since the last report were like, if there were any."""
        if not self.meter.count:
            return
        loss, speed = self.meter.loss / self.meter.count, self.meter.count / self.meter.seconds
        rate = learning_rate(self.recipe, self.step, self.cooldown)
        self.meter = Meter()
        self.log({"loss": round(loss, 4), "tokens_per_second": round(speed), "rate": rate})
        print(f"{time.strftime('%H:%M')}  step {self.step}  loss {loss:.3f}  {speed:.0f} ids/s  "
              f"{self.tokens / 1e6:.1f} M ids  rate {rate:.1e}  {self.time_left()}", flush=True)

    def evaluate(self):
        """Scores the averaged weights on the development sets, which keep the best."""
        model = new_model(self.recipe, self.vocabulary).to(self.device).eval()
        model.load_state_dict(self.average.weights)
        scores = self.development.scores(model)
        samples = self.development.translations(model, self.development.samples)
        self.log({"bleu": scores, "samples": samples})
        print(f"{time.strftime('%H:%M')}  step {self.step}  BLEU {scores}  {samples}", flush=True)
        self.development.keep({"step": self.step, "tokens": self.tokens, "bleu": scores},
                              {"average": self.average.weights, "seconds": self.seconds})
