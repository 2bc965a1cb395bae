"""The log of a run, RUN/log.jsonl: an object a line of each report and of each evaluation."""

import json


def entry_of(data, where):
    """One object of the log, given the bytes of its line."""
    line = data.decode(errors="replace")
    try:
        entry = json.loads(data.decode())  # a UnicodeDecodeError is a ValueError, too
    except ValueError as error:
        raise ValueError(f"{where}: expected a JSON object, found {line[:40]!r}") from error
    for key in ("step", "tokens"):
        if not (isinstance(entry, dict) and isinstance(entry.get(key), int)):
            raise ValueError(f"{where}: {key}: expected an integer, found {line[:40]!r}")
    return entry


def is_undone(earlier, entry):
    """Whether a run that comes to `entry` did not come to it by what it wrote before.

    A step no higher than before means that it went back to an earlier state: after `--extend`, or
    because it was killed after its last checkpoint. A report and an evaluation may be of one step.
    """
    alike = ("loss" in earlier) == ("loss" in entry)
    return earlier["step"] > entry["step"] or (earlier["step"] == entry["step"] and alike)


def read_entries(path):
    """The entries of a log without those that were undone."""
    kept = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            entry = entry_of(line, f"{path}:{number}")
            kept = [earlier for earlier in kept if not is_undone(earlier, entry)] + [entry]
    if not any("loss" in entry for entry in kept):
        raise ValueError(f"{path}: expected reports with a loss, found {len(kept)} entries "
                         "without; the first report comes after a minute of training")
    return kept


def mean_loss(entries, start):
    """The mean over the target ids of the reports after step `start`."""
    total = count = tokens = 0
    for entry in entries:
        if "loss" not in entry:
            continue
        if entry["step"] > start:
            total += entry["loss"] * (entry["tokens"] - tokens)
            count += entry["tokens"] - tokens
        tokens = entry["tokens"]
    return total / count
