"""The learning rate: warm-up, a long plateau, and a cool-down that may start at any step.

Nothing before the cool-down depends on how long the run will be, so a run is extended by going
on and finished by cooling down.
"""

from dataclasses import dataclass


@dataclass
class Cooldown:
    start: int
    steps: int

    def ends_at(self):
        return self.start + self.steps


def learning_rate(recipe, step, cooldown=None):
    """The rate of step `step`, counted from 0."""
    rate = recipe.learning_rate * min(1.0, (step + 1) / recipe.warmup_steps)
    if step > recipe.flat_steps:
        rate *= (recipe.flat_steps / step) ** 0.5
    if cooldown and step >= cooldown.start:
        rate *= max(0.0, 1.0 - (step - cooldown.start) / cooldown.steps)
    return rate
