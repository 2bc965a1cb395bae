"""What happens to replicas while requests come, and what must be true of the answers.

SCENARIOS has them by name: each disturbs a fleet beside a load. A pace says how long things take,
short in `make test`, long in `make deploy-test`.
"""

import time
from dataclasses import dataclass

import traffic
from balancers import open_balancer
from fleet import LOSING, Fleet, status_of, wait_until


@dataclass(frozen=True)
class Pace:
    requests: int  # at least so many in a scenario
    rounds: int  # rolling restarts
    settle: float  # seconds between two replicas that are restarted: balancers find them again
    kills: int
    every: float  # seconds between two kills
    away: float  # seconds until a killed one is started again
    frozen: float  # seconds that a replica is stopped
    overload: float  # seconds of too much
    factor: float  # how much too much


SHORT = Pace(requests=500, rounds=1, settle=0.5, kills=3, every=0.5, away=0.5, frozen=2, overload=2,
             factor=4)
LONG = Pace(requests=100_000, rounds=3, settle=2, kills=12, every=4, away=1, frozen=20, overload=60,
            factor=2)


# Tiny models, so that many requests take little time; and one for which too much is some hundreds
# a second, so that it is the replicas that have too much, not the balancer or the generator.
TINY = ("tests/golden/models/tiny-token", "tests/golden/models/tiny-area")
HEAVY = ("models/en-de-char",)


class Stage:
    """A fleet behind a balancer, with files in a folder of its own; the first model is served."""

    def __init__(self, balancer, folder, pace, models=TINY, n_replicas=3):
        self.name, self.pace = balancer, pace
        self.models = [traffic.make_models(folder, model) for model in models]
        self.old, self.new = self.models[0], self.models[-1]
        self.cases = folder / "cases.json"
        assert traffic.make_cases(self.cases, *self.models) >= 10
        self.fleet = Fleet(folder, self.old, n_replicas)
        self.balancer = None
        try:
            self.fleet.start()
            self.balancer = open_balancer(balancer, self.fleet, folder)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.balancer:
            self.balancer.close()
        self.fleet.close()

    def restart(self, replica, **how):
        replica.stop()
        replica.start(**how)
        replica.wait_ready()
        time.sleep(self.pace.settle)

    def heal(self):
        """Every replica runs the old model, and the balancer uses all."""
        for replica in self.fleet:
            if replica.models != self.old:
                replica.models = self.old
                self.restart(replica)
        wait_until(self.balancer.is_ready, "the balancer to see every replica")

    def capacity(self, seconds, clients=64):
        """Answers a second, when each of many clients sends as soon as it has its answer."""
        load = traffic.Load(self.balancer.port, self.cases, (clients, seconds), clients=True)
        result = traffic.summarise(load.finish())
        assert result["answered"] == result["requests"], result["outcomes"]
        return result["answered"] / seconds


# ---- What happens -----------------------------------------------------------------------------


def rolling_restart(stage):
    for _ in range(stage.pace.rounds):
        for replica in stage.fleet:
            stage.restart(replica)


def rolling_upgrade(stage):
    for replica in stage.fleet:
        replica.models = stage.new
        stage.restart(replica)


def kills(stage):
    for i in range(stage.pace.kills):
        replica = stage.fleet[i % len(stage.fleet)]
        replica.kill()
        time.sleep(stage.pace.away)
        replica.start()
        replica.wait_ready()
        time.sleep(stage.pace.every)


def freeze(stage):
    stage.fleet[0].freeze()
    time.sleep(stage.pace.frozen)
    stage.fleet[0].thaw()


def full_disk(stage):
    """The first replica's log takes nothing more, and all the time there is something to log."""
    replica = stage.fleet[0]
    stage.restart(replica, log="/dev/full")
    for _ in range(round(20 * stage.pace.every)):
        replica.make_log()
        time.sleep(0.05)
    stage.restart(replica)


def lost_device(stage):
    """The first replica's device is lost; the replica is away until somebody restarts it."""
    replica = stage.fleet[0]
    stage.restart(replica, acre=LOSING, ACRE_LOSE_AFTER_S=str(stage.pace.every))
    url = f"http://127.0.0.1:{replica.port}/health/ready"
    wait_until(lambda: status_of(url) == 503, "a lost device to be told")
    time.sleep(stage.pace.settle)
    stage.restart(replica)


# ---- What must be true ------------------------------------------------------------------------


def check_upgrade(done, ended_s):
    told = [(due, took / 1e3, outcome) for due, took, outcome in done if outcome.isdigit()]
    first_new = min(due + took for due, took, outcome in told if outcome == "1")
    assert any(due < first_new for due, _, outcome in told if outcome == "0")
    last_old = max(due for due, _, outcome in told if outcome == "0")
    assert last_old < ended_s, "the old model answered after the upgrade"


SCENARIOS = {
    "rolling restart": rolling_restart,
    "rolling upgrade": rolling_upgrade,
    "kill -9": kills,
    "SIGSTOP": freeze,
    "full disk for logs": full_disk,
    "lost device": lost_device,
}


def run(stage, name, rate):
    """Lets it happen under load. Returns the row of the table; whatever must be true was so."""
    stage.heal()
    before = stage.balancer.retries()
    load = traffic.Load(stage.balancer.port, stage.cases, (rate, 86400))
    try:
        time.sleep(0.3)
        SCENARIOS[name](stage)
        ended_s = load.seconds()
        time.sleep(max(0.3, 1.02 * stage.pace.requests / rate - ended_s))
        load.stop()
        done = load.finish()
    finally:
        load.close()
    result = row(stage, name, rate, done, before)
    assert result["lost"] == result["wrong"] == 0, result["outcomes"]
    if name == "rolling upgrade":
        check_upgrade(done, ended_s)
    return result


def row(stage, name, rate, done, retries_before):
    return {"scenario": name, "balancer": stage.name, "rate": round(rate),
            "retries": stage.balancer.retries() - retries_before, **traffic.summarise(done)}


# ---- Too much ---------------------------------------------------------------------------------

RECOVERY_S = 5
MOST_SURPLUS = 10_000  # requests a second; of more, two cores lose count before they are refused


# What happens meanwhile; the first one is also measured on how soon all is well after it.
OVERLOADS = {"overload": None, "overload, kill -9": kills}


def overload(stage, capacity, name="overload"):
    """More than the fleet can do: the surplus is told when to come again, the rest is answered."""
    stage.heal()
    before = stage.balancer.retries()
    calm = 0.3 * capacity
    much = min(stage.pace.factor * capacity, capacity + MOST_SURPLUS)
    load = traffic.Load(stage.balancer.port, stage.cases, (calm, 1), (much, stage.pace.overload),
                        (calm, RECOVERY_S + 3))
    try:
        if OVERLOADS[name]:
            time.sleep(1)
            OVERLOADS[name](stage)
        done = load.finish()
    finally:
        load.close()
    result = row(stage, name, much, done, before)
    if not OVERLOADS[name]:
        result["recovery_s"] = recovery_s(done, 1 + stage.pace.overload)
    assert result["lost"] == result["wrong"] == 0, result["outcomes"]
    assert result["refused"] > 0, "that was not too much"
    return result


def recovery_s(done, since_s):
    """How long after the overload the last request was due that was refused or took a second."""
    late = [due - since_s for due, took, outcome in done
            if due >= since_s and (outcome == "refused" or took > 1000)]
    return max(late, default=0.0)
