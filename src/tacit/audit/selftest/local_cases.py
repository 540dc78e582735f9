"""Cases and mutants of local reports: every randomiser for frequencies, numbers and vectors, a device's memory, and the shuffler.

The cases attack single reports of two values, a year of reports of one device, and counts of a shuffled batch. The mutants are the ways
in which such software has gone wrong: coins of floating point, hash functions chosen by the value, a memory that is lost, flips in the
wrong direction, batches smaller than was priced, and a person who reports twice.

>>> [mutant.name for mutant in mutants()][:2]
['local: floating-point noise', 'local: hash chosen by the value']
>>> mutants()[2].caught() != "", mutants()[2].caught(broken=False)
(True, '')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, LocalReport, RandomizedResponse, Shuffled
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.outputs import Sampler
from tacit.audit.selftest.case import Case, Mutant, promise
from tacit.local import (
    BlockHadamard,
    Device,
    Duchi,
    Hadamard,
    Hybrid,
    LocalHash,
    LocalLaplace,
    Piecewise,
    PlanarLaplace,
    Projective,
    Randomiser,
    Rappor,
    Response,
    SampledCoordinates,
    Shuffler,
    Subset,
    SymmetricUnary,
    Unary,
    as_batch,
    frequencies,
    noisy_degrees,
    read_batch,
)

Outcomes = NDArray[np.int64]
REPLACE = Adjacency.REPLACE_ONE
ONE = Claim.of(epsilon=1, adjacency=REPLACE)
CROWD = 50  # reports of a shuffled batch
SMALL = 10  # of one that goes through the shuffler itself
LOUD = 2  # the epsilon of each, so that a batch tells something
LOST = 1e-3  # the delta at which it is priced
DAYS = 365


# --- cases -----------------------------------------------------------------------------------------------------


def _told(randomiser: Randomiser, reports: NDArray[Any]) -> Outcomes:
    """What reports say of values 0 and 1, as one number each; all that the two laws differ in."""
    if isinstance(randomiser, LocalHash):
        a, b = reports["a"], reports["b"]
        said = [randomiser.hashed(a, b, np.full(len(a), v, dtype=np.uint64)) == reports["symbol"] for v in (0, 1)]
        return np.asarray(said[0] + 2 * said[1], dtype=np.int64)
    if reports.ndim == 2:
        bits = np.unpackbits(reports.astype(np.uint8), axis=1)
        return np.asarray(bits[:, 0] + 2 * bits[:, 1].astype(np.int64))
    return reports.astype(np.int64)


def _reports(randomiser: Randomiser, value: int) -> Sampler:
    def sample(n: int) -> Outcomes:
        return _told(randomiser, randomiser.privatise(np.full(n, value)))

    return sample


def _year(value: str) -> Sampler:
    """The bits of a year of one device's reports, added up: its permanent answer shows, and no more."""
    rappor = Rappor(bits=8, hashes=1, cohorts=1, f=0.5, p=0.5, q=0.75)

    def once() -> int:
        device = Device(rappor)
        _, first = device.report(value)
        # the other days' reports at once, of what the device keeps
        kept = np.tile(next(iter(device._memo.values())), (DAYS - 1, 1))
        total = first + rappor.instantaneous(kept).sum(axis=0)
        return int(np.packbits(total > 0.625 * DAYS)[0])

    return lambda n: np.array([once() for _ in range(n)])


def _ones(value: int, crowd: int = CROWD, own: int = 1) -> Callable[[int], Outcomes]:
    """How many ones a batch has, in which all others hold 0 and one person sends so many reports."""
    oracle = Response(2, LOUD)

    def sample(n: int) -> Outcomes:
        held = np.zeros((n, crowd - 1 + own), dtype=np.int64)
        held[:, :own] = value
        return np.asarray(oracle.privatise(held.ravel()).reshape(held.shape).sum(axis=1, dtype=np.int64))

    return sample


def _released(value: int) -> Sampler:
    """The same through the shuffler: what a released batch holds, by its first report and its sum."""
    protocol = frequencies(2, epsilon=LOUD)

    def once() -> int:
        held = np.zeros(SMALL, dtype=np.int64)
        held[0] = value
        batch = as_batch(protocol, protocol.randomiser.privatise(held))
        read = read_batch(protocol, Shuffler(protocol, at_least=SMALL).add(batch).release())
        return int(read.reports[0]) * 64 + int(read.reports.sum())

    return lambda n: np.array([once() for _ in range(n)])


def _planar(place: float) -> Sampler:
    law = PlanarLaplace(epsilon=1, step=1)
    return lambda n: np.array([law.privatise((place, 0.0))[0] for _ in range(n)])


def _degree(neighbours: int) -> Sampler:
    def sample(n: int) -> Outcomes:
        return np.array([noisy_degrees([range(1, 1 + neighbours), [], []], epsilon=1)[0] for _ in range(n)])

    return sample


def cases() -> list[Case]:
    """Single reports of every randomiser, a year of a device's reports, and shuffled batches."""
    oracles: list[Randomiser] = [
        Response(4, 1), SymmetricUnary(5, 1), Unary(5, 1), LocalHash(100, 1), Hadamard(4, 1), BlockHadamard(6, 1, 2), Subset(6, 1),
        Projective(5, 1, 2, 3),
    ]  # fmt: skip
    scalars: list[Randomiser] = [Duchi(3, 1), Piecewise(3, 1), Hybrid(3, 1), LocalLaplace(3, 1)]
    found = [
        Case(f"local: {one.kind}", promise(one.event, REPLACE), _reports(one, 0), _reports(one, 1), 0.75, trials=100_000)
        for one in oracles
    ]
    found += [
        Case(f"local: {one.kind} of a number", promise(one.event, REPLACE), _reports(one, 0), _reports(one, 2), 0.6, trials=100_000)
        for one in scalars
    ]
    vectors = SampledCoordinates(3, 1, 2, "duchi")
    ends = [lambda n, v=value: vectors.privatise(np.full((n, 2), v)).astype(np.int64) for value in (0, 2)]
    found.append(Case("local: sampled coordinates", promise(vectors.event, REPLACE), ends[0], ends[1], 0.75, trials=100_000))
    rappor = Rappor(bits=8, hashes=1, cohorts=1, f=0.5, p=0.5, q=0.75)
    batch = Claim(Shuffled(RandomizedResponse(LOUD), CROWD), REPLACE, "shuffled")
    small = Claim(Shuffled(RandomizedResponse(LOUD), SMALL), REPLACE, "shuffled")
    near = promise(PlanarLaplace(epsilon=1, step=1).event(1), REPLACE)
    return [
        *found,
        Case("local: a year of one device", promise(rappor.lifetime, REPLACE), _year("a"), _year("b"), 0.15, trials=2000, why=FEW),
        Case("local: shuffled batch", batch, _ones(0), _ones(1), 0.3, trials=100_000, delta=LOST, why=BELOW),
        Case("local: shuffler", small, _released(0), _released(1), 0.15, trials=3000, delta=LOST, why=FEW),
        Case("local: planar Laplace", near, _planar(0.0), _planar(1.0), 0.15, trials=5000, why=ROUNDED),
        Case("local: noisy degree", promise(noisy_degree_event(), REPLACE), _degree(1), _degree(2), 0.4, trials=6000, why=FEW),
    ]


FEW = "few samples: every one takes a whole device or batch"
BELOW = "the sum of ones is not all that a batch tells, and the price is an upper bound"
ROUNDED = "the price allows for places that rounding moves apart, and these two lie on the lattice"


def noisy_degree_event() -> LocalReport:
    """The price of one entry of a person's list of neighbours, as a pure one."""
    return LocalReport(1)


# --- mutants ---------------------------------------------------------------------------------------------------


def _float_noise(value: int, n: int) -> NDArray[np.float64]:
    """Laplace noise of floating point on a number: which floats can come out shows the number."""
    random = np.random.default_rng(noise.words(4).tolist())
    return np.asarray(value / 3 + random.laplace(0, 1, n))


def _lattice_noise(value: int, n: int) -> NDArray[np.float64]:
    """The same on a lattice."""
    return np.asarray(LocalLaplace(3, 1).privatise(np.full(n, 2 * value)).astype(np.float64))


def _hash(value: int, n: int, *, chosen: bool) -> Outcomes:
    """What a local hash says of values 0 and 1; a device that is `chosen` by the fault draws functions that hash its value to 0."""
    oracle = LocalHash(100, 1)
    reports = oracle.privatise(np.full(n, value))
    if chosen:
        wrong = oracle.hashed(reports["a"], reports["b"], np.full(n, value, dtype=np.uint64)) != 0
        again = oracle.privatise(np.full(n, value))
        reports = np.where(wrong, again, reports)
    zero = [oracle.hashed(reports["a"], reports["b"], np.full(n, v, dtype=np.uint64)) == 0 for v in (0, 1)]
    return np.asarray(zero[0] + 2 * zero[1] + 4 * _told(oracle, reports))


def _days(value: int, n: int, *, draws: int) -> Outcomes:
    """How often a device that should remember said 1, in so many draws."""
    return np.asarray(Response(2, 1).privatise(np.full(n * draws, value)).reshape(n, draws).sum(axis=1, dtype=np.int64))


def _bits(value: int, n: int, *, true: int) -> Outcomes:
    """Unary reports whose true bit is kept with odds e to 1 instead of evenly, or not."""
    others = ~noise.odds_bits(1, 2 * n).reshape(n, 2)
    kept = noise.odds_bits(1, n) if true else noise.uniform_integers(2, n).astype(np.bool_)
    others[:, value] = kept
    return np.asarray(others[:, 0] + 2 * others[:, 1].astype(np.int64))


def mutants() -> list[Mutant]:
    """One fault each, beside the same without it."""
    mutant = partial(Mutant, pair=(0, 1), bulk=True)
    priced = Claim(Shuffled(RandomizedResponse(LOUD), 1000), REPLACE, "shuffled")
    batch = Claim(Shuffled(RandomizedResponse(LOUD), CROWD), REPLACE, "shuffled")
    return [
        mutant("local: floating-point noise", _float_noise, _lattice_noise, claim=ONE, trials=20_000),
        mutant(
            "local: hash chosen by the value", partial(_hash, chosen=True), partial(_hash, chosen=False), claim=ONE,
            trials=20_000, fault="The hash function is drawn until the person's value has a wanted symbol, once.",
        ),
        mutant(
            "local: memory lost at a restart", partial(_days, draws=12), partial(_days, draws=1), claim=ONE, trials=20_000,
            fault="Every month the device draws its memorised answer anew, priced once.",
        ),
        mutant(
            "local: flips in the wrong direction", partial(_bits, true=1), partial(_bits, true=0), claim=ONE, trials=20_000,
            fault="The true bit is kept with e/(1+e) instead of 1/2: both kinds of bits tell epsilon.",
        ),
        mutant(
            "local: batch smaller than priced", lambda value, n: _ones(value, SMALL)(n), lambda value, n: _ones(value, 1000)(n),
            claim=priced, trials=8000, delta=LOST, fault="Ten reports are released at the price of a thousand.",
        ),
        mutant(
            "local: one person twice", lambda value, n: _ones(value, CROWD, 2)(n), lambda value, n: _ones(value)(n),
            claim=batch, trials=60_000, delta=LOST, fault="One person has two reports in a batch priced for one each.",
        ),
    ]  # fmt: skip
