"""Batches drawn of prepared pairs: the mix, phases, grids, where a stream goes on."""

import dataclasses

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train.batches import Pairs, Position, Sampler, Stream  # noqa: E402
from models.train.recipe import Group, Phase  # noqa: E402
from models.train.sets import whole_rows  # noqa: E402
from models.train.vocabulary import open_vocabulary  # noqa: E402


def test_chunks_follow_the_mix_and_the_batch_size(pairs, recipe):
    sampler = Sampler(pairs, recipe.phases[0], seed=1)
    batches = sampler.chunk(0)
    totals = {}
    for batch in batches:
        assert sampler.lengths[batch].max() * len(batch) <= recipe.phases[0].batch_tokens
        for index in batch:
            name = pairs.origins[pairs.origin[index]]
            totals[name] = totals.get(name, 0) + pairs.target_lengths[index]
    assert totals["tatoeba"] / sum(totals.values()) == pytest.approx(0.7, abs=0.02)


def test_every_pair_has_its_turn_before_any_returns(pairs, recipe):
    sampler = Sampler(pairs, recipe.phases[0], seed=1)
    drawn = np.concatenate([sampler.drawn(0, chunk) for chunk in range(2)])
    size = len(sampler.members[0])
    assert sorted(drawn[:size]) == sorted(sampler.members[0])


def test_short_phase_holds_short_pairs(pairs):
    sampler = Sampler(pairs, Phase(max_length=20, batch_tokens=200), seed=1)
    assert all(sampler.lengths[batch].max() <= 20 for batch in sampler.chunk(0))


def test_batches_of_a_grid_have_whole_rows(run, recipe):
    grid = dataclasses.replace(recipe, area={"encoder_self": {"memory_height": 3},
                                             "decoder_cross": {"memory_height": 2}})
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    pairs = Pairs(run / "prepared", grid)
    sampler = Sampler(pairs, grid.phases[0], seed=1)
    batches = sampler.chunk(0)
    for batch in batches:
        (length,) = set(pairs.source_lengths[batch])
        assert length % 6 == 0
        assert sampler.lengths[batch].max() * len(batch) <= grid.phases[0].batch_tokens
    whole = set(np.flatnonzero((pairs.source_lengths % 6 == 0) & (sampler.lengths <= 96)))
    assert set(np.concatenate(batches)) == whole
    source, _ = Stream(pairs, grid, vocabulary, Position()).next()
    assert source.shape[1] % 6 == 0 and (source != vocabulary.pad).all()


def test_a_grid_that_no_pair_fills_is_an_error(run, recipe):
    grid = dataclasses.replace(recipe, area={"decoder_cross": {"memory_height": 97}})
    pairs = Pairs(run / "prepared", grid)
    with pytest.raises(ValueError, match="phases: expected pairs of at most 96 ids .* of 97 "):
        Sampler(pairs, grid.phases[0], seed=1)


@pytest.mark.parametrize("mix", [
    {"everyday": {"share": 1, "corpora": {"tatoeba": 0}}, "it": {"share": 0, "corpora": {"*": 1}}},
    {"everyday": {"share": 1, "corpora": {"none": 1}}, "it": {"share": 0, "corpora": {"*": 1}}},
    {"everyday": {"share": 1, "corpora": {"*": 0}}},
])
def test_a_mix_that_no_pair_is_drawn_from_is_an_error(run, recipe, mix):
    mix = {name: Group(**group) for name, group in mix.items()}
    pairs = Pairs(run / "prepared", dataclasses.replace(recipe, mix=mix))
    with pytest.raises(ValueError, match="mix: expected a share and a weight above 0 of a corpus"):
        Sampler(pairs, recipe.phases[0], seed=1)


def test_evaluations_of_a_grid_leave_out_what_has_no_whole_rows(run, recipe):
    vocabulary = open_vocabulary("char", run / "prepared")
    sides = ["a", "bc", "def", "ghij"], "1234"
    for rows, kept in ((1, [0, 1, 2, 3]), (2, [0, 2]), (3, [1]), (9, [])):
        grid = dataclasses.replace(recipe, area={"decoder_cross": {"memory_height": rows}})
        assert whole_rows(sides, vocabulary, grid) == [[side[i] for i in kept] for side in sides]


def test_stream_continues_at_any_position(run, pairs, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    stream = Stream(pairs, recipe, vocabulary, Position())
    for _ in range(3):
        stream.next()
    other = Stream(pairs, recipe, vocabulary, dataclasses.replace(stream.position))
    for ours, theirs in zip(stream.next(), other.next()):
        assert torch.equal(ours, theirs)


def test_pairs_made_by_machines_need_a_tag(run, pairs, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    pairs.tagged[0] = True
    if recipe.level == "token" and recipe.norm == "post":
        with pytest.raises(ValueError, match=".back: expected the vocabulary of a pre-norm model"):
            Stream(pairs, recipe, vocabulary, Position())
    else:
        Stream(pairs, recipe, vocabulary, Position()).next()
