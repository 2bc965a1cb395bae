"""Learning curves from the logs of runs."""

import json

import pytest

pytest.importorskip("matplotlib")

from models.train import __main__ as command_line  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.plot import Looks, read_curve  # noqa: E402


def report(step, loss=3.0, speed=1000):
    return {"time": 0, "step": step, "tokens": 3600 * step, "loss": loss, "rate": 0.001,
            "tokens_per_second": speed}


def evaluation(step, tatoeba, news):
    return {"time": 0, "step": step, "tokens": 3600 * step,
            "bleu": {"tatoeba": tatoeba, "newstest2013": news}, "samples": []}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Makes runs of such entries."""
    monkeypatch.setattr(command_line, "RUNS", tmp_path)

    def make(name, *entries):
        (tmp_path / name).mkdir(parents=True)
        lines = "".join(json.dumps(entry) + "\n" for entry in entries)
        (tmp_path / name / "log.jsonl").write_text(lines)
        return tmp_path / name

    return make


def test_a_curve_is_by_target_ids_and_hours_of_training(runs):
    run = runs("one", report(1000), evaluation(1500, 7.0, 1.0), report(2000, 2.0, 2000),
               evaluation(3000, 9.0, 2.0))
    curve = read_curve("one", run)
    assert curve.tokens["loss"] == [(3.6, 3.0), (7.2, 2.0)]
    assert curve.tokens["BLEU tatoeba"] == [(5.4, 7.0), (10.8, 9.0)]
    assert curve.hours["ids per second"] == [(1.0, 1000), (1.5, 2000)]
    assert curve.hours["BLEU newstest2013"] == [(1.25, 1.0), (2.0, 2.0)]


def test_hours_are_those_that_the_log_tells(runs):
    """After an older report, which tells its speed only."""
    run = runs("one", report(1000), report(2000) | {"seconds": 5400.0},
               evaluation(2000, 7.0, 1.0) | {"seconds": 5400.0})
    curve = read_curve("one", run)
    assert curve.hours["loss"] == [(1.0, 3.0), (1.5, 3.0)]
    assert curve.hours["BLEU tatoeba"] == [(1.5, 7.0)]


def test_what_was_undone_is_left_out(runs):
    """Steps 300 and 400 were a cool-down that --extend took back, 250 its last step before."""
    run = runs("one", report(100), report(200), report(300, 1.0), report(400, 1.0),
               evaluation(400, 9.0, 2.0), report(260), evaluation(300, 5.0, 1.0), report(500))
    curve = read_curve("one", run)
    assert [round(x / 0.0036) for x, _ in curve.tokens["loss"]] == [100, 200, 260, 500]
    assert [y for _, y in curve.tokens["BLEU tatoeba"]] == [5.0]


def test_runs_are_drawn_with_a_legend(runs, tmp_path, capsys):
    runs("one", report(1000), evaluation(1500, 7.0, 1.0), report(2000, 2.0))
    elsewhere = runs("two.adam", report(1000))
    for name in ("figure.svg", "again.svg"):
        assert main(["plot", "one", str(elsewhere), "-o", str(tmp_path / name)]) == 0
    figure = (tmp_path / "figure.svg").read_text()
    assert figure == (tmp_path / "again.svg").read_text()
    for words in ("one", str(elsewhere), "tatoeba", "development BLEU", "hours of training"):
        assert f"<!-- {words} -->" in figure
    assert "figure.svg: one, " in capsys.readouterr().out


def test_seeds_of_an_arm_have_its_colour(runs):
    names = [f"arm{arm}/{seed}" for arm in range(12) for seed in (1, 2)]
    for name in names:
        runs(name, report(1000), evaluation(1500, 7.0, 1.0))
    curves = [read_curve(name, command_line.RUNS / name) for name in names]
    looks = Looks([*curves, read_curve("alone", command_line.RUNS / names[0])])
    one, other = looks.of(curves[0]), looks.of(curves[1])
    assert one["color"] == other["color"] and one["linestyle"] != other["linestyle"]
    assert len(set(looks.colours.values())) == 13 and set(looks.dashes) == {"", "1", "2"}
    assert looks.of(curves[2])["linestyle"] == one["linestyle"]


@pytest.mark.parametrize("text, message", [
    (None, "one: no log.jsonl"),
    ("", "log.jsonl: expected reports with a loss, found 0 entries"),
    (json.dumps(evaluation(5, 1.0, 1.0)), "expected reports with a loss, found 1 entries"),
    ('{"step": 1', "log.jsonl:1: expected a JSON object, found '{\"step\": 1'"),
    ('{"step": 1, "loss": 2}', "log.jsonl:1: tokens: expected an integer, found"),
    ('{"step": 1, "tokens": 9, "loss": 2}\n{"\udcff": 1}', "log.jsonl:2: expected a JSON object, "),
    ('{"step": 1, "tokens": 9, "loss": 2}', "log.jsonl: tokens_per_second: expected a number in "),
    ('{"step": 1, "tokens": 9, "loss": 2, "tokens_per_second": 0}', "one above 0, found 0"),
    ('{"step": 1, "tokens": 9, "loss": 2, "tokens_per_second": "9"}', "above 0, found '9'"),
])
def test_what_is_wrong_with_a_log_is_said(runs, tmp_path, capsys, text, message):
    log = runs("one") / "log.jsonl"
    log.unlink() if text is None else log.write_text(text, errors="surrogateescape")
    assert main(["plot", "one", "-o", str(tmp_path / "figure.svg")]) == 1
    assert message in capsys.readouterr().err


def test_an_unknown_kind_of_figure_is_an_error(runs, tmp_path, capsys):
    runs("one", report(1000))
    assert main(["plot", "one", "-o", str(tmp_path / "figure.txt")]) == 1
    assert "'txt' is not supported" in capsys.readouterr().err
