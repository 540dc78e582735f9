"""DP-SGD against 30 digits: the accountant's bracket holds the truth of an independent computation and is narrow.

The table was printed by `python -m tests.accounting.reference`, which integrates in high precision and imports nothing from Tacit.
Here some of its rows are computed again, on a contour that runs elsewhere and must give the same digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from mpmath import mp, mpf
from tests.accounting import reference
from tests.accounting.reference import fraction

from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled, account
from tacit.accounting.engines.proof import ExactMixture, certified_epsilon, exact_poisson_gaussian


@dataclass(frozen=True)
class Truth:
    """epsilon at delta of T Poisson-sampled Gaussian steps, in either direction, correct to 30 digits."""

    q: str
    sigma: str
    steps: int
    delta: str
    remove: str
    add: str

    def __str__(self) -> str:
        return f"q={self.q},sigma={self.sigma},T={self.steps},delta={self.delta}"

    @property
    def case(self) -> tuple[str, str, int, str]:
        return self.q, self.sigma, self.steps, self.delta

    @property
    def epsilon(self) -> mpf:
        with mp.workdps(40):
            return max(mpf(self.remove), mpf(self.add))

    @property
    def event(self) -> Repeated:
        """With floats, as most users write it; exact fractions only where the rate is written as one."""
        rate = fraction(self.q) if "/" in self.q else float(self.q)
        return Repeated(Sampled(Poisson(rate), Gaussian(float(self.sigma))), self.steps)


TRUTHS = (
    Truth("0.01", "1", 1000, "1e-5", "1.82823666651657684261443818323", "1.41666194803617510681610692512"),
    Truth("0.01", "1", 1000, "1e-10", "3.29044375089529836167578006165", "2.11853384315829220672609521949"),
    Truth("0.01", "1", 1000, "1e-15", "4.85453775060492398667439877564", "2.59278039299937122065170551228"),
    Truth("0.01", "1", 1000, "1e-20", "6.36170020407935009058002559656", "2.96058487376437300226414052140"),
    Truth("256/60000", "1.1", 14062, "1e-5", "2.38159692142439725468842921352", "2.24355937269898071738657204204"),
    Truth("256/60000", "1.1", 14062, "1e-10", "3.73583859849617997755065287510", "3.41975125749603833318736950528"),
    Truth("256/60000", "1.1", 14062, "1e-15", "4.77167413314995712417652960665", "4.27105363280435210904345831844"),
    Truth("256/60000", "1.1", 14062, "1e-20", "5.68046082548068587643326823038", "4.96496206925631750900205402873"),
    Truth("0.001", "0.8", 100000, "1e-5", "2.57495930935261105954182112296", "2.42433545926041376837910964157"),
    Truth("0.001", "0.8", 100000, "1e-10", "4.06916730699626787210268338023", "3.68657707604499204875825952305"),
    Truth("0.001", "0.8", 100000, "1e-15", "5.69782727207392777753622772893", "4.60367719135263638652482159795"),
    Truth("0.001", "0.8", 100000, "1e-20", "7.44017605906210963996428662994", "5.35340000971585253310106636050"),
    Truth("0.0001", "0.6", 1000000, "1e-5", "1.61084799820868809489069376172", "1.44358702380418553906432020260"),
    Truth("0.0001", "0.6", 1000000, "1e-10", "3.95346485967438057881214136751", "2.24313017936021643975571232085"),
    Truth("0.0001", "0.6", 1000000, "1e-15", "6.45933320997357344740046830740", "2.81930313622957727100411519671"),
    Truth("0.0001", "0.6", 1000000, "1e-20", "8.67014782865669062101543088859", "3.28875388079212847754380020199"),
    Truth("0.9", "0.3", 10000000, "1e-20", "47523507.9169219579719080512359", "19140637.6684636545144278953827"),
    Truth("0.999", "0.3", 10000000, "1e-20", "55549000.2048470038858862199472", "46329102.8590918835750135239489"),
    Truth("0.9", "1", 1000, "1e-5", "533.536536065567481264845481101", "477.533079323031936109478351930"),
    Truth("0.999", "1", 1000, "1e-5", "632.868586668451513598218758630", "631.831608102328721226252924159"),
    Truth("0.01", "0.3", 1000, "1e-5", "69.8157107130009073157329386054", "8.54155526319649194762527988519"),
    Truth("0.01", "1", 10000000, "1e-5", "1014.06707283561483232206720689", "988.399273994245029693387930146"),
    Truth("0.01", "1", 1000, "1e-30", "9.34189563270514857459411454452", "3.52437640835080235555635697698"),
    Truth("0.001", "1", 1000000, "1e-5", "6.02613125676265844400575940953", "5.96036231368560278629480696627"),
    Truth("0.0001", "1", 10000000, "1e-5", "1.61963417406131590301792412764", "1.61507627525048341125545602157"),
    Truth("0.001", "5", 10000000, "1e-5", "2.62421245886808892729823744871", "2.62342603829889433958304415747"),
    Truth("0.9", "5", 100, "1e-5", "8.82966672991809383721631444184", "8.72473962155083069105142486887"),
    Truth("0.99", "5", 100, "1e-5", "9.87907365208449941079108941223", "9.86679785052586774018898692215"),
    Truth("1e-6", "1", 1000000, "1e-5", "0.00268102783294950891000347130656", "0.00266774319839993583173779317944"),
    Truth("0.01", "4", 10000, "1e-5", "0.946866800764380448455130166305", "0.937036425402057883535648174986"),
    Truth("0.1", "2", 100, "1e-6", "2.67503508167132338057481288630", "2.10108945105763152959217761340"),
)
# The rare-loss corner: everything hangs on single steps of probability 1e-6, and the bracket is honest but wider.
WIDTH = {("1e-6", "1", 1_000_000, "1e-5"): 1e-4}


def digits(value: mpf) -> str:
    return str(mp.nstr(value, 30, strip_zeros=False))


def test_the_table_has_every_case_of_the_reference() -> None:
    assert tuple(truth.case for truth in TRUTHS) == reference.CASES


@pytest.mark.parametrize("index", [0, 26])
def test_the_table_is_honest(index: int) -> None:
    truth = TRUTHS[index]
    assert digits(reference.epsilon(*truth.case, "remove", lean=0.8)) == truth.remove
    assert digits(reference.epsilon(*truth.case, "add", lean=0.8)) == truth.add


@pytest.mark.slow
@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_all_of_the_table_is_honest(truth: Truth) -> None:
    assert digits(reference.epsilon(*truth.case, "remove", lean=0.65)) == truth.remove
    assert digits(reference.epsilon(*truth.case, "add", lean=0.65)) == truth.add


def test_the_reference_gives_the_gaussian_closed_form_without_sampling() -> None:
    with mp.workdps(40):
        mu, eps = mp.sqrt(1000) / 40, mpf(3)
        closed = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)
        for direction in ("remove", "add"):
            assert abs(reference.delta(1, 40, 1000, 3, direction) / closed - 1) < mpf(10) ** -30


@pytest.mark.one_in(2)
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("q", "sigma", "epsilon"), [("0.9", "5", "0.5"), ("0.7", "4", "0.25")])
def test_the_contour_agrees_with_quadrature_over_two_steps(q: str, sigma: str, epsilon: str, direction: reference.Direction) -> None:
    with mp.workdps(40):
        direct = reference.two_steps(q, sigma, mpf(epsilon), direction)
        assert abs(reference.by_contour(q, sigma, 2, epsilon, direction) / direct - 1) < mpf(10) ** -30


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("epsilon", "expected"),
    # The notes of the specification end in 285 and 296 for the last two: their quadrature was good to eight digits there.
    [("0.5", "0.004605896109805103"), ("1", "0.0005141604293965028"), ("2", "6.944861264848251e-6")],
)
def test_two_steps_of_a_tenth(epsilon: str, expected: str) -> None:
    with mp.workdps(40):
        truth = reference.two_steps("0.1", "1", mpf(epsilon))
        assert mp.nstr(truth, 16) == expected
    found = account(Repeated(Sampled(Poisson(Fraction(1, 10)), Gaussian(1)), 2), Adjacency.ADD_REMOVE).delta(float(epsilon))
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-6 * found.upper


@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_the_truth_is_in_the_bracket(truth: Truth) -> None:
    found = account(truth.event, Adjacency.ADD_REMOVE).epsilon(float(truth.delta))
    assert found.lower <= truth.epsilon <= found.upper
    assert found.width <= WIDTH.get(truth.case, 1e-8) * found.upper


@pytest.mark.one_in(3)
@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_the_proof_holds_the_truth_in_both_directions(truth: Truth) -> None:
    remove = exact_poisson_gaussian(fraction(truth.q), fraction(truth.sigma))
    for mixture, text in ((remove, truth.remove), (ExactMixture(remove.down, remove.up), truth.add)):
        found = certified_epsilon([(mixture, truth.steps)], fraction(truth.delta))
        with mp.workdps(40):
            assert found.lower <= mpf(text) <= found.upper
        assert found.width <= 1e-12 * found.upper


@pytest.mark.parametrize("truth", [TRUTHS[k] for k in (0, 4, 5, 8, 12, 16, 17)], ids=str)
def test_certify_is_narrow(truth: Truth) -> None:
    # A float stands for its binary value, so the truth at the decimal may lie a few units in the last place outside.
    found = account(truth.event, Adjacency.ADD_REMOVE).epsilon(float(truth.delta), certify=True)
    assert found.width <= 1e-12 * found.upper
    assert abs(found.upper - float(truth.epsilon)) <= 1e-15 * found.upper
