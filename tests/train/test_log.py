"""What the log of a run says once what was undone is left out."""

import json

import pytest

from models.train.log import mean_loss, read_entries


def report(step, loss):
    return {"step": step, "tokens": 10 * step, "loss": loss}


def evaluation(step):
    return {"step": step, "tokens": 10 * step, "bleu": {}}


def test_what_was_said_again_counts_once(tmp_path):
    """The run was killed at step 4, went on from 1, was killed at 2 and went on from there."""
    first = [report(2, 9.0), evaluation(2), report(4, 9.0)]
    again = [report(2, 3.0), evaluation(2), evaluation(2), report(4, 2.0), evaluation(4)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in first + again))
    assert read_entries(path) == again[:1] + again[2:]


def test_a_mean_loss_is_of_the_last_target_ids():
    entries = [report(10, 9.0), evaluation(10), report(20, 4.0), evaluation(20), report(50, 2.0)]
    assert mean_loss(entries, 10) == pytest.approx((4.0 * 100 + 2.0 * 300) / 400)
    assert mean_loss(entries, 20) == mean_loss(entries, 49) == 2.0
