"""Real replicas behind HAProxy and nginx, disturbed under load: nothing may be lost or wrong.

The short form, at a rate that any machine can serve; `make deploy-test` is the long one.
"""

import shutil

import pytest
import scenarios
from balancers import NAMES, SYSTEM_PATH
from fleet import PATIENCE

RATE = 200 if PATIENCE == 1 else 50  # a second


def open_stage(balancer, factory, models):
    if not shutil.which(balancer, path=SYSTEM_PATH):
        pytest.skip(f"{balancer} is not installed")
    return scenarios.Stage(balancer, factory.mktemp(balancer), scenarios.SHORT, models)


@pytest.fixture(scope="module", params=NAMES)
def stage(request, tmp_path_factory):
    made = open_stage(request.param, tmp_path_factory, scenarios.TINY)
    yield made
    made.close()


@pytest.fixture(params=NAMES)
def heavy_stage(request, tmp_path_factory):
    made = open_stage(request.param, tmp_path_factory, scenarios.HEAVY)
    yield made
    made.close()


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_nothing_is_lost(stage, name):
    result = scenarios.run(stage, name, RATE)
    assert result["refused"] == 0 and result["requests"] > 0.8 * scenarios.SHORT.requests
    if name == "lost device":
        assert result["retries"] > 0, "nothing was sent again: was anything disturbed?"


def test_what_is_too_much_is_told_when_to_come_again(heavy_stage):
    result = scenarios.overload(heavy_stage, heavy_stage.capacity(1))
    assert result["recovery_s"] < scenarios.RECOVERY_S + 2 * PATIENCE  # two on busy machines


def test_kills_under_too_much_lose_nothing(heavy_stage):
    scenarios.overload(heavy_stage, heavy_stage.capacity(1), "overload, kill -9")
