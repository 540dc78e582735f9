"""Correlated noise in a run: its law, its price, what it refuses, checkpoints; and attacked from below."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.accounting import Adjacency, Event, Gaussian, MatrixMechanism, NoOp, ParameterError, Repeated, Sampled, account, from_json
from tacit.accounting import Composed as All
from tacit.accounting import Poisson as PoissonScheme
from tacit.accounting.strategies import (
    Buffered,
    SquareRoot,
    Stated,
    Strategy,
    Toeplitz,
    Tree,
    coefficients,
    inverse_coefficients,
    max_error,
    sensitivity,
)
from tacit.audit import Claim, Verdict, attack, judge
from tacit.deep import Allocation, FixedSize, FullBatch, PoissonBatches, TrainingError, adaptive, make_private, make_private_with_epsilon
from tacit.deep.correlated import Correlated, correlated_noise
from tacit.deep.ftrl import FTRL, CyclicPoisson, Passes
from tacit.deep.noise import step_noise
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode

ROWS = 60


def run(sampler: Any, noise: Any, *, clip: Any = 1.0, **how: Any) -> Any:
    net = nn.Linear(3, 1)
    data = torch.zeros(ROWS, 3), torch.zeros(ROWS, 1)
    optimizer = FTRL(net.parameters(), lr=0.1)
    return make_private(net, optimizer, data, clip=clip, sampler=sampler, noise=noise, **({"noise_multiplier": 2.0} | how))


def one_pass(private: Any) -> None:
    for x, y in private.loader:
        (private.model(x) - y).square().mean().backward()
        private.optimizer.step()


def draw(noise: Correlated, parameters: int) -> torch.Tensor:
    """What a step without a record publishes, in deviations."""
    noise.ready(parameters)
    return noise.add(torch.zeros(parameters), step_noise(1.0, 1.0, 0.0), 1.0)


# --- the law -----------------------------------------------------------------------------------------------------------------------


SIX = [Tree(6), Tree(6, True), SquareRoot(6), Toeplitz([1, 0.6, 0.2], 6), Buffered([0.3, 0.2], [0.9, 0.5], 6)]


@pytest.mark.parametrize("strategy", SIX, ids=["tree", "reduced tree", "square root", "banded", "buffered"])
def test_covariance_over_steps_and_restarts(strategy: Strategy) -> None:
    """Eight steps of 40,000 parameters; the first six have the covariance of C^-1 Z, the next two that of a new start, uncorrelated."""
    count, steps = 40_000, 8
    noise = Correlated(strategy, Passes(6, ROWS), restart=True)
    with test_mode(5):
        drawn = torch.stack([draw(noise, count) for _ in range(steps)]).numpy()
    if isinstance(strategy, Tree):
        assert_sums(drawn, strategy)
        return
    inverse = np.array([[inverse_coefficients(strategy)[i - j] if i >= j else 0.0 for j in range(6)] for i in range(6)])
    expected = np.zeros((steps, steps))
    expected[:6, :6] = inverse @ inverse.T
    expected[6:, 6:] = (inverse @ inverse.T)[:2, :2]
    # an entry's deviation is at most sqrt(2) * 1.6 / sqrt(count); six of them, fixed seed
    assert np.allclose(drawn @ drawn.T / count, expected, atol=6 * 2.3 / np.sqrt(count))
    assert not np.allclose(drawn @ drawn.T / count, np.eye(steps), atol=6 * 2.3 / np.sqrt(count)), "independent noise would be caught"


def assert_sums(drawn: NDArray[np.float64], tree: Tree) -> None:
    """Running sums of a tree: variance by bits, and those of a new start do not depend on what was before."""
    variances = (np.cumsum(drawn[:6], axis=0) ** 2).mean(axis=1)
    bits = np.array([[t >> i & 1 for i in range(3)] for t in range(1, 7)])
    assert np.allclose(variances, bits @ tree.block_variances(), rtol=6 * np.sqrt(2 / drawn.shape[1]))
    assert abs(np.mean(drawn[6] * drawn[:6].sum(axis=0))) < 6 * np.sqrt(2 / drawn.shape[1])


# --- the price ---------------------------------------------------------------------------------------------------------------------


def test_a_run_is_one_matrix_mechanism() -> None:
    passes = Passes(steps=5, size=ROWS)
    private = run(passes, Correlated(SquareRoot(15), passes), epochs=3)
    assert private.event == NoOp()
    one_pass(private)
    assert private.event == MatrixMechanism(2.0, SquareRoot(5), 1, 5, fixed=True)
    one_pass(private)
    one_pass(private)
    assert private.event == MatrixMechanism(2.0, SquareRoot(15), 3, 5, fixed=True)
    exact = account(Gaussian(2.0 / sensitivity(SquareRoot(15), 3, 5)), Adjacency.ADD_REMOVE).epsilon(1e-5)
    assert private.get_epsilon(1e-5).upper == pytest.approx(exact.upper, rel=1e-8)
    with pytest.raises(TrainingError, match="planned"):
        one_pass(private)


def test_restarts_compose_and_relations_are_stated() -> None:
    passes = Passes(steps=4, size=ROWS, adjacency=Adjacency.ZERO_OUT)
    noise = Correlated(Tree(4), passes, restart=True)
    whole = MatrixMechanism(3.0, Tree(4), 1, 4, fixed=True, adjacency=Adjacency.ZERO_OUT)
    assert noise.event(passes, 3.0, 4) == whole
    assert noise.event(passes, 3.0, 8) == Repeated(whole, 2)
    begun = MatrixMechanism(3.0, Tree(1), 1, 4, fixed=True, adjacency=Adjacency.ZERO_OUT)
    assert noise.event(passes, 3.0, 9) == All(Repeated(whole, 2), begun)
    assert account(noise.event(passes, 3.0, 8), Adjacency.ZERO_OUT).rho().upper == pytest.approx(2 * 3 / (2 * 9.0), rel=1e-9)


def test_a_full_batch_takes_part_in_every_step() -> None:
    everybody = FullBatch(ROWS)
    event = Correlated(Toeplitz([1, 0.5], 3), everybody).event(everybody, 1.0, 3)
    assert event == MatrixMechanism(1.0, Toeplitz([1, 0.5], 3), 3, 1, fixed=True)
    assert account(event, Adjacency.ADD_REMOVE).rho().upper == pytest.approx((1 + 1.5**2 + 1.5**2) / 2, rel=1e-9)


def test_bands_and_turns_are_amplified() -> None:
    """A column of norm sqrt(1.25) behind a coin of rate 1/3, five rounds."""
    turns = CyclicPoisson(expected_batch=10, size=ROWS, parts=2)
    noise = Correlated(Toeplitz([1, 0.5], 10), turns)
    event = noise.event(turns, 1.0, 9)
    inner = Gaussian(event.event.event.noise_multiplier)  # type: ignore[attr-defined]
    assert event == Repeated(Sampled(PoissonScheme(turns.rate), inner), 5)
    assert float(inner.noise_multiplier) == pytest.approx(1 / np.sqrt(1.25), rel=1e-10)
    unamplified = account(MatrixMechanism(1.0, Toeplitz([1, 0.5], 10), 5, 2), Adjacency.ADD_REMOVE).epsilon(1e-5)
    assert account(event, Adjacency.ADD_REMOVE).epsilon(1e-5).upper < unamplified.lower


def test_a_target_is_met() -> None:
    passes = Passes(steps=5, size=ROWS)
    net = nn.Linear(3, 1)
    private = make_private_with_epsilon(
        net,
        FTRL(net.parameters(), lr=0.1),
        (torch.zeros(ROWS, 3), torch.zeros(ROWS, 1)),
        epsilon=2.0,
        delta=1e-5,
        clip=1.0,
        sampler=passes,
        epochs=2,
        noise=correlated_noise(passes, epochs=2, kind="buffered", buffers=2),
    )
    one_pass(private)
    one_pass(private)
    assert 1.99 < private.get_epsilon(1e-5).upper <= 2.0


def test_an_adaptive_threshold_stays_within_the_price() -> None:
    """A step's multiplier z is split, z^-2 = z_g^-2 + (2 s)^-2; the run then costs sens^2 z_g^-2 + k (2 s)^-2 <= sens^2 z^-2."""
    passes = Passes(steps=5, size=ROWS)
    rule = adaptive(1.0, count_noise=3.0)
    private = run(passes, Correlated(SquareRoot(10), passes), epochs=2, clip=rule)
    one_pass(private)
    assert private.event == MatrixMechanism(2.0, SquareRoot(5), 1, 5, fixed=True)
    moved = sensitivity(SquareRoot(10), 2, 5)
    z, share = 2.0, 1 / (2 * rule.count_noise) ** 2
    gradient = rule.gradient_multiplier(z)
    assert moved**2 / gradient**2 + 2 * share <= moved**2 / z**2


@pytest.mark.parametrize("kind", ["tree", "square_root", "banded", "buffered"])
@pytest.mark.parametrize("sampler", [Passes(8, ROWS), FullBatch(ROWS)], ids=["passes", "full batch"])
def test_made_to_measure(kind: Any, sampler: Any) -> None:
    noise = correlated_noise(sampler, steps=20, kind=kind)
    times, apart = -(-20 // sampler.epoch), sampler.epoch
    event = noise.event(sampler, 1.0, 20)
    if noise.restart:
        assert kind == "tree"
        assert event == All(
            Repeated(MatrixMechanism(1.0, Tree(8, True), 1, 8, fixed=True), 2), MatrixMechanism(1.0, Tree(4, True), 1, 8, fixed=True)
        )
    else:
        assert event == MatrixMechanism(1.0, noise.strategy, times, apart, fixed=True)
        better = max_error(noise.strategy, times, apart, True) < max_error(Toeplitz([1], 20), times, apart, True)
        assert better == (apart > 1 and kind != "tree"), "where everybody is in every step, independent noise is best"
    assert draw(noise, 4).shape == (4,)


# --- what it refuses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [PoissonBatches(5, ROWS), Allocation(5, ROWS), FixedSize(5, ROWS)], ids=lambda s: type(s).__name__)
def test_other_samplers_are_refused(sampler: Any) -> None:
    with pytest.raises(ParameterError, match="Passes"):
        Correlated(SquareRoot(10), sampler)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Correlated(Toeplitz([1, 0.5, 0.2], 10), CyclicPoisson(10, ROWS, 2)), "parts"),
        (lambda: Correlated(SquareRoot(10), CyclicPoisson(10, ROWS, 2)), "banded"),
        (lambda: Correlated(Stated(2, 10), Passes(5, ROWS)), "strategy"),
        (lambda: Correlated(SquareRoot(10), Passes(5, ROWS)).event(Passes(6, ROWS), 1.0, 5), "made for"),
        (lambda: Correlated(SquareRoot(10), Passes(5, ROWS)).event(Passes(5, ROWS), 1.0, 5), "very same"),
        (lambda: (p := Passes(5, ROWS)) and Correlated(SquareRoot(10), p).event(p, 1.0, 11), "steps"),
        (lambda: correlated_noise(Passes(5, ROWS), kind="tree"), "epochs"),
        (lambda: correlated_noise(Passes(5, ROWS), epochs=1, kind="oak"), "kind"),  # type: ignore[arg-type]
        (lambda: correlated_noise(CyclicPoisson(10, ROWS, 2), epochs=1, kind="tree"), "kind"),
        (lambda: correlated_noise(Passes(5, ROWS), epochs=1, kind="square_root", buffers=3), "buffers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(make: Any, names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        make()


def test_noise_serves_one_run() -> None:
    passes = Passes(steps=5, size=ROWS)
    noise = Correlated(SquareRoot(10), passes)
    first = run(passes, noise, epochs=1)
    one_pass(first)
    assert first.get_epsilon(1e-5).upper > 0
    second = run(passes, noise, epochs=1)
    with pytest.raises(TrainingError, match="two runs"):
        one_pass(second)
    with pytest.raises(TrainingError, match="one run"):
        _ = second.event
    with pytest.raises(TrainingError, match="other parameters"):
        draw(noise, 7)
    with pytest.raises(TrainingError, match="pickled"):
        pickle.dumps(noise)
    with pytest.raises(TrainingError, match="copied"):
        copy.deepcopy(noise)


def test_a_strategy_ends() -> None:
    noise = Correlated(SquareRoot(2), FullBatch(ROWS))
    draw(noise, 1)
    draw(noise, 1)
    with pytest.raises(TrainingError, match="used up"):
        draw(noise, 1)


def test_a_batch_without_its_step_comes_again() -> None:
    """A loop that breaks off with a batch in its hands gets the same one next, so that no record comes around sooner than was priced."""
    passes = Passes(steps=5, size=ROWS)
    private = run(passes, Correlated(SquareRoot(10), passes), epochs=2)
    for x, y in private.loader:
        (private.model(x) - y).square().mean().backward()
        break
    one_pass(private)
    assert private.steps == 5


def test_batches_drawn_in_advance_stop_the_run() -> None:
    passes = Passes(steps=5, size=ROWS)
    noise, batches = Correlated(SquareRoot(10), passes), passes.batches(ROWS)
    next(batches)
    draw(noise, 3)
    next(batches)
    next(batches)
    with pytest.raises(TrainingError, match="workers"):
        draw(noise, 3)


def test_a_loop_that_breaks_off_after_its_step_goes_on() -> None:
    passes = Passes(steps=5, size=ROWS)
    private = run(passes, Correlated(SquareRoot(10), passes), epochs=2)
    for x, y in private.loader:
        (private.model(x) - y).square().mean().backward()
        private.optimizer.step()
        break
    one_pass(private)
    assert private.steps == 6


# --- checkpoints -------------------------------------------------------------------------------------------------------------------


def test_a_resumed_run_pays_anew_with_fresh_noise() -> None:
    passes = Passes(steps=5, size=ROWS)
    first = run(passes, Correlated(SquareRoot(10), passes), epochs=2)
    one_pass(first)
    saved = first.state_dict()
    assert not any(isinstance(value, Tensor) for value in saved.values()), "no noise in the file"
    released = []
    for _ in range(2):
        again = Passes(steps=5, size=ROWS)
        resumed = run(again, Correlated(SquareRoot(10), again), epochs=2)
        resumed.load_state_dict(saved)
        one_pass(resumed)
        released.append(torch.cat([p.grad.reshape(-1) for p in resumed.model.parameters()]))
        part = MatrixMechanism(2.0, SquareRoot(5), 1, 5, fixed=True)
        assert resumed.event == All(part, part) == from_json(resumed.state_dict()["event"])
        # two strategies of five steps cost more than one of ten goes on to cost only where the record returns; never less than both
        assert account(resumed.event, Adjacency.ADD_REMOVE).rho().upper == pytest.approx(2 * sensitivity(SquareRoot(5)) ** 2 / 8, rel=1e-9)
    assert not torch.equal(*released)


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_the_ledger_is_paid_for_the_whole_plan(tmp_path: Path, currency: str) -> None:
    """Ten steps at noise 4 cost about rho = 0.14: three runs fit into the budget of rho, a fourth is refused before it begins."""
    budget = Budget(rho="0.5") if currency == "rho" else Budget(epsilon=6, delta="1e-5")
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("training", budget)
    done = 0
    for _ in range(6):
        passes = Passes(steps=5, size=ROWS)
        noise = Correlated(SquareRoot(10), passes)
        private = run(passes, noise, epochs=2, noise_multiplier=4.0, account=ledger, delta=1e-6)
        try:
            one_pass(private)
        except BudgetExceeded:
            assert private.steps == 0
            break
        done += 1
    whole = MatrixMechanism(4.0, SquareRoot(10), 2, 5, fixed=True)
    price = account(whole, Adjacency.ADD_REMOVE)
    each = price.rho().upper / 0.5 if currency == "rho" else price.epsilon(1e-6).upper / 6
    assert done == int(1 / each)
    assert 0 < done < 6


# --- from below --------------------------------------------------------------------------------------------------------------------

CANARIES = 3000


class Bank(nn.Module):
    """The output for e_i is the i-th weight, so its gradient is e_i."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * CANARIES, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(nn.functional.one_hot(x, 2 * CANARIES).float())


def whitened_scores(strategy: Strategy, passes: Passes, epochs: int, noise: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """White box: the attacker undoes the correlation, y -> C y, and knows each canary's place; outside, inside."""
    model = Bank()
    optimizer = FTRL(model.parameters(), lr=1e-9)
    private = make_private(
        model,
        optimizer,
        torch.arange(CANARIES),
        noise_multiplier=noise,
        clip=1.0,
        sampler=passes,
        epochs=epochs,
        noise=Correlated(strategy, passes),
        loss_reduction="sum",
    )
    seen, place = [], np.arange(2 * CANARIES) % passes.steps
    with test_mode(77):
        for _ in range(epochs):
            for step, (x,) in enumerate(private.loader):
                model(x).sum().backward()
                place[x.numpy()] = step
                optimizer.step()
                assert model.layer.weight.grad is not None
                seen.append(model.layer.weight.grad[0].double().numpy() * float(passes.divisor))
    n = len(seen)
    column = coefficients(strategy)
    c = np.array([[column[i - j] if 0 <= i - j < len(column) else 0.0 for j in range(n)] for i in range(n)])
    white = c @ np.array(seen)
    shift = np.stack([c[:, p :: passes.steps].sum(axis=1) for p in range(passes.steps)])[place]
    ratio = (white.T * shift - shift**2 / 2).sum(axis=1) / noise**2
    return ratio[CANARIES:], ratio[:CANARIES]


def verdict(event: Event, scores: tuple[NDArray[np.float64], NDArray[np.float64]]) -> Verdict:
    outside, inside = scores
    found = attack(lambda _: outside, lambda _: inside, len(inside), delta=1e-2, confidence=0.999, seed=1, game="correlated canaries")
    return judge(Claim(event, Adjacency.ADD_REMOVE), found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("strategy", [SquareRoot(4), Toeplitz([1, 0.5], 4), Buffered([0.5], [0.7], 4)], ids=lambda s: type(s).__name__)
def test_the_real_loop_stays_under_its_claim(strategy: Strategy) -> None:
    passes = Passes(steps=2, size=CANARIES)
    scores = whitened_scores(strategy, passes, epochs=2, noise=2.0)
    found = verdict(Correlated(strategy, passes).event(passes, 2.0, 4), scores)
    assert not found.broken
    assert found.share > 0.4, str(found)
    one = MatrixMechanism(6.0, strategy, 1, 4)  # sold with three times the noise there is
    assert verdict(one, scores).broken


def test_a_return_that_nobody_priced_is_caught() -> None:
    """Four full passes of one step, priced as if every record came once."""
    passes = Passes(steps=1, size=CANARIES)
    scores = whitened_scores(SquareRoot(4), passes, epochs=4, noise=3.0)
    assert not verdict(MatrixMechanism(3.0, SquareRoot(4), 4, 1), scores).broken
    assert verdict(MatrixMechanism(3.0, SquareRoot(4), 1, 1), scores).broken
