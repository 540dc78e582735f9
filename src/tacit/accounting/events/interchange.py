"""Events as text and as other packages' events: what was done to the data survives the process that did it.

`to_json` and `from_json` are exact inverses: the event that is read back equals the one that was written, fractions and infinities
included. Reading checks everything: whatever the text, the outcome is an event or an `AccountingError` that says where the fault is.

>>> from fractions import Fraction
>>> from tacit.accounting.events.tree import Repeated, Sampled
>>> from tacit.accounting.events.leaves import Gaussian
>>> from tacit.accounting.events.tree import Poisson
>>> training = Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(1.1)), 14062)
>>> from_json(to_json(training)) == training
True
>>> print(to_json(training))
{"type": "Repeated", "event": {"type": "Sampled", "scheme": {"type": "Poisson", "rate": "8/1875"}, "event": {"type": "Gaussian",
 "adjacency": "add-remove", "noise_multiplier": 1.1}}, "count": 14062}

`to_dp_event` and `from_dp_event` do the same for the trees of the package dp-accounting, for the nodes that both have.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.accounting.events import leaves
from tacit.accounting.events import tree as events
from tacit.accounting.events.tree import Adjacency, Event, Leaf, Scheme
from tacit.errors import AccountingError, PackageMissing, ParameterError, UnsupportedError
from tacit.parameters import Number, count, nonnegative, positive, probability

if TYPE_CHECKING:
    from tacit.accounting.strategies import Strategy

_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(events.Composed, events.Group, events.NoOp, events.NonPrivate, events.Repeated, events.Sampled, events.Selection),
        *(events.Shuffled, events.Worst),
        *(leaves.ApproxDP, leaves.DiscreteGaussian, leaves.DiscreteLaplace, leaves.Exponential, leaves.GDP, leaves.Gaussian),
        *(leaves.DistributedDiscreteGaussian, leaves.Skellam),
        *(leaves.Laplace, leaves.LeakyRandomizedResponse, leaves.LocalReport, leaves.MatrixMechanism, leaves.MixtureOfGaussians),
        *(leaves.PrivacyProfile, leaves.PureDP),
        *(leaves.RandomizedResponse, leaves.RenyiDP, leaves.Staircase, leaves.TruncatedCDP, leaves.ZCDP),
    )
}
_SCHEMES: dict[str, type[Scheme]] = {
    kind.__name__: kind
    for kind in (events.Poisson, events.RandomAllocation, events.TruncatedPoisson, events.WithReplacement, events.WithoutReplacement)
}
_T = TypeVar("_T")
_DEPTH = 100  # deeper trees are accidents, and Python's own stack ends at about ten times this
_FRACTION = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")


@cache
def _strategies() -> dict[str, type[Strategy]]:
    """Strategies by name; their module is loaded by events that have one, or by a value that nothing else explains."""
    from tacit.accounting import strategies as at

    return {kind.__name__: kind for kind in (at.Buffered, at.SquareRoot, at.Stated, at.Toeplitz, at.Tree)}


# --- JSON -----------------------------------------------------------------------------------------------------------------------


def to_json(event: Event) -> str:
    """One line of JSON for any event; a fraction is written as "p/q", an infinity as "inf", a relation by its name.

    >>> from tacit.accounting.events.leaves import Laplace
    >>> to_json(Laplace(Fraction(1, 3)))
    '{"type": "Laplace", "adjacency": "add-remove", "noise_multiplier": "1/3"}'
    """
    return json.dumps(_encode(event, "event", 1), allow_nan=False)


def from_json(text: str) -> Event:
    """The event that `to_json` wrote. Fields with a default may be left out, which helps where the text is written by hand.

    >>> from_json('{"type": "Laplace", "noise_multiplier": "1/3"}')
    Laplace(noise_multiplier=Fraction(1, 3))
    >>> from_json('{"type": "Laplace", "noise_multiplier": -1}')
    Traceback (most recent call last):
    tacit.errors.ParameterError: event: noise_multiplier must be positive and finite, not -1
    """
    if not isinstance(text, str):
        raise ParameterError(f"text must be a string of JSON, not {type(text).__name__}")
    try:
        tree = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ParameterError(f"the JSON is nested too deeply; an event has at most {_DEPTH} levels") from None
    except AccountingError:
        raise
    except ValueError as error:  # malformed JSON, and integers of thousands of digits
        raise ParameterError(f"the text is not JSON: {error}") from None
    return _event(tree, "event", 1)


def _encode(value: object, path: str, depth: int) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, Adjacency):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (int, Fraction)):
        _number(value, path)
        return value if isinstance(value, int) else str(value)
    if isinstance(value, tuple):
        return [_encode(item, f"{path}[{i}]", depth) for i, item in enumerate(value)]
    if type(value) in (*_EVENTS.values(), *_SCHEMES.values()) or type(value) in _strategies().values():
        if depth > _DEPTH:
            raise ParameterError(f"the event is nested too deeply; it may have at most {_DEPTH} levels")
        inside = {f.name: _encode(getattr(value, f.name), f"{path}.{f.name}", depth + 1) for f in _fields(type(value)).values()}
        return {"type": type(value).__name__, **inside}
    if callable(value) and not isinstance(value, type) and path.endswith(".curve"):
        raise ParameterError(
            f"{path} is a function, and JSON carries no functions; give a table instead: "
            "PrivacyProfile([(e, curve(e)) for e in epsilons])"
        )
    raise ParameterError(f"{path} has no JSON form: {type(value).__name__}; use the events and schemes of tacit.accounting")


def _fields(kind: type) -> dict[str, Field[Any]]:
    """The fields of an event, a scheme or a strategy, by name."""
    assert is_dataclass(kind)
    return {f.name: f for f in fields(kind)}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members; a repeated name would silently lose one of its values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ParameterError(f"the field {next(n for n in names if names.count(n) > 1)!r} is given twice in one object")
    return found


def _event(tree: object, path: str, depth: int) -> Event:
    return _record(tree, path, depth, _EVENTS, "an event", '{"type": "Gaussian", "noise_multiplier": 1.1}')


def _scheme(tree: object, path: str, depth: int) -> Scheme:
    return _record(tree, path, depth, _SCHEMES, "a sampling scheme", '{"type": "Poisson", "rate": "1/100"}')


def _record(tree: object, path: str, depth: int, known: dict[str, type[_T]], what: str, example: str) -> _T:
    """An object with a `type`, read into the dataclass of that name."""
    if depth > _DEPTH:
        raise ParameterError(f"{path[:60]}... is nested too deeply; an event has at most {_DEPTH} levels")
    if not isinstance(tree, dict):
        raise ParameterError(f"{path} must be {what}, an object such as {example}, not {_shown(tree)}")
    if "type" not in tree:
        raise ParameterError(f"{path} has no field type; {what} is an object such as {example}")
    name = tree["type"]
    if not isinstance(name, str) or name not in known:
        raise ParameterError(f"{path}.type must be one of {', '.join(sorted(known))}, not {_shown(name)}")
    kind = known[name]
    expected = _fields(kind)
    if unknown := [key for key in tree if key != "type" and key not in expected]:
        raise ParameterError(f"{path} has an unknown field {_shown(unknown[0])}; {name} has {', '.join(expected) or 'no fields'}")
    if missing := [f.name for f in expected.values() if f.name not in tree and f.default is MISSING]:
        raise ParameterError(f"{path} lacks the field {missing[0]}; {name} has {', '.join(expected)}")
    values = {key: _field(key, value, f"{path}.{key}", depth + 1) for key, value in tree.items() if key != "type"}
    try:
        return kind(*values["events"]) if kind in (events.Composed, events.Worst) else kind(**values)
    except AccountingError as error:
        raise type(error)(f"{path}: {error}") from None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ParameterError(f"{path}: {name} cannot be read: {error}") from None


def _field(name: str, value: object, path: str, depth: int) -> Any:
    """One field, by its name: the names mean the same in every event."""
    if name == "event":
        return _event(value, path, depth)
    if name == "scheme":
        return _scheme(value, path, depth)
    if name == "strategy":
        return _record(value, path, depth, _strategies(), "a strategy", '{"type": "Tree", "steps": 1000}')
    if name == "adjacency":
        allowed = {a.value: a for a in Adjacency}
        if not isinstance(value, str) or value not in allowed:
            raise ParameterError(f"{path} must be one of {', '.join(allowed)}, not {_shown(value)}")
        return allowed[value]
    if name in ("monotone", "fixed", "reduced"):
        if not isinstance(value, bool):
            raise ParameterError(f"{path} must be true or false, not {_shown(value)}")
        return value
    if name in ("events", "sensitivities", "weights", "curve", "coefficients", "scales", "decays"):
        if not isinstance(value, list):
            raise ParameterError(f"{path} must be a list, not {_shown(value)}")
        read: Callable[[object, str], object] = {"events": lambda v, p: _event(v, p, depth), "curve": _point}.get(name, _number)
        return tuple(read(item, f"{path}[{i}]") for i, item in enumerate(value))
    return _number(value, path)


def _point(value: object, path: str) -> tuple[Number, ...]:
    if not isinstance(value, list) or len(value) != 2:
        raise ParameterError(f"{path} must be a pair of numbers, not {_shown(value)}")
    return tuple(_number(item, f"{path}[{i}]") for i, item in enumerate(value))


def _number(value: object, path: str) -> Number:
    """A JSON number, "p/q" or "inf"; always within the range of floating point."""
    if isinstance(value, str):
        if value in ("inf", "-inf"):
            return float(value)
        if not _FRACTION.fullmatch(value):
            raise ParameterError(f'{path} must be a number, a fraction such as "256/60000" or "inf", not {_shown(value)}')
        numerator, _, denominator = value.partition("/")
        if not int(denominator or 1):
            raise ParameterError(f"{path} divides by zero: {_shown(value)}")
        value = Fraction(int(numerator), int(denominator or 1))
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise ParameterError(f"{path} must be a number, not {_shown(value)}")
    if isinstance(value, float):
        if math.isnan(value):
            raise ParameterError(f"{path} is NaN; give a number")
        if math.isinf(value):
            raise ParameterError(f'{path} is too large for a number; write "inf" if infinity is meant')
        return value
    try:
        float(value)
    except OverflowError:
        raise ParameterError(f"{path} is outside the range of floating point") from None
    return value


def _shown(value: object) -> str:
    """A value for an error message: short and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- dp-accounting --------------------------------------------------------------------------------------------------------------


def _peer() -> ModuleType:
    try:
        from dp_accounting import dp_event
    except ImportError as error:
        raise PackageMissing(code="package-missing", package="dp-accounting", install="dp-accounting") from error
    module: ModuleType = dp_event
    return module


def to_dp_event(event: Event) -> Any:
    """The tree of dp-accounting's DpEvents that describes the same computation; `UnsupportedError` names a node they have no word for.

    A DpEvent carries no relation. Their noise multipliers are relative to the largest contribution of one record, which is the
    sensitivity under add/remove and zero-out, so leaves stated for replace-one are refused; randomised response is stated for nothing else.
    Fractions are rounded to floating point towards the higher cost.

    >>> from tacit.accounting.events.tree import Repeated
    >>> to_dp_event(Repeated(leaves.Gaussian(2), 3))
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=3)
    """
    if not isinstance(event, Event):
        raise ParameterError(f"event must be an event of tacit.accounting, not {type(event).__name__}")
    return _to_peer(event, _peer(), 1)


def _to_peer(event: Event, peer: ModuleType, depth: int) -> Any:
    if depth > _DEPTH:
        raise ParameterError(f"the event is nested too deeply; it may have at most {_DEPTH} levels")
    local = isinstance(event, leaves.RandomizedResponse)
    if isinstance(event, Leaf) and (event.adjacency is Adjacency.REPLACE_ONE) != local:
        raise UnsupportedError(
            f"{type(event).__name__} stated for {event.adjacency.value} has no DpEvent: their noise is relative to the largest "
            "contribution of one record, and their randomised response to a replacement; state it with "
            f"adjacency=Adjacency.{'REPLACE_ONE' if local else 'ADD_REMOVE'}"
        )
    match event:
        case leaves.Gaussian():
            return peer.GaussianDpEvent(_down(event.noise_multiplier))
        case leaves.MatrixMechanism():
            return peer.GaussianDpEvent(_down(event.gaussian.noise_multiplier))
        case leaves.Laplace():
            return peer.LaplaceDpEvent(_down(event.noise_multiplier))
        case leaves.DiscreteLaplace():
            return peer.DiscreteLaplaceDpEvent(1 / _down(event.scale), event.sensitivity)
        case leaves.RandomizedResponse():
            # e^epsilon = (1 - p + p/k) / (p/k), since their mechanism draws from all k answers and ours from the other k - 1
            others = math.expm1(float(event.epsilon)) if event.epsilon < 700 else math.inf
            return peer.RandomizedResponseDpEvent(event.categories / (others + event.categories), event.categories)
        case leaves.ZCDP():
            return peer.ZCDpEvent(_up(event.rho))
        case leaves.MixtureOfGaussians():
            sensitivities, weights = [_up(s) for s in event.sensitivities], [float(w) for w in event.weights]
            return peer.MixtureOfGaussiansDpEvent(_down(event.sigma), sensitivities, weights)
        case events.Composed():
            return peer.ComposedDpEvent([_to_peer(child, peer, depth + 1) for child in event.events])
        case events.Repeated():
            return peer.SelfComposedDpEvent(_to_peer(event.event, peer, depth + 1), event.count)
        case events.Selection():
            return peer.RepeatAndSelectDpEvent(_to_peer(event.event, peer, depth + 1), float(event.mean), float(event.shape))
        case events.Sampled():
            return _sampled_to_peer(event, peer, depth)
        case events.NoOp():
            return peer.NoOpDpEvent()
        case events.NonPrivate():
            return peer.NonPrivateDpEvent()
    raise UnsupportedError(f"{type(event).__name__} has no DpEvent in dp-accounting; price it with tacit.accounting.account")


def _sampled_to_peer(event: events.Sampled, peer: ModuleType, depth: int) -> Any:
    scheme = event.scheme
    if isinstance(scheme, events.TruncatedPoisson) and isinstance(event.event, leaves.Gaussian):
        sigma = _to_peer(event.event, peer, depth + 1).noise_multiplier
        return peer.TruncatedSubsampledGaussianDpEvent(scheme.size, _up(scheme.rate), scheme.batch, sigma)
    match scheme:
        case events.Poisson():
            return peer.PoissonSampledDpEvent(_up(scheme.rate), _to_peer(event.event, peer, depth + 1))
        case events.WithoutReplacement():
            return peer.SampledWithoutReplacementDpEvent(scheme.size, scheme.sample, _to_peer(event.event, peer, depth + 1))
        case events.WithReplacement():
            return peer.SampledWithReplacementDpEvent(scheme.size, scheme.sample, _to_peer(event.event, peer, depth + 1))
    what = f"{type(scheme).__name__} sampling of {type(event.event).__name__}"
    raise UnsupportedError(f"{what} has no DpEvent in dp-accounting; price it with tacit.accounting.account")


def _up(value: Number) -> float:
    """The smallest float that is not below the value."""
    near = float(value)
    return near if near == math.inf or Fraction(near) >= Fraction(value) else math.nextafter(near, math.inf)


def _down(value: Number) -> float:
    """The largest float that is not above the value."""
    near = float(value)
    return near if Fraction(near) <= Fraction(value) else math.nextafter(near, 0.0)


def from_dp_event(dp_event: Any, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Event:
    """The event that a tree of dp-accounting's DpEvents describes; `UnsupportedError` names a node that has no counterpart.

    Leaves are stated for `adjacency`, add/remove or zero-out, since a DpEvent's noise multiplier is relative to the largest contribution
    of one record; for replacement ask `account(event, Adjacency.REPLACE_ONE)`, which counts the record that goes and the one that comes.

    >>> from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    >>> from_dp_event(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)))
    Sampled(scheme=Poisson(rate=0.01), event=Gaussian(noise_multiplier=1.0))
    """
    if adjacency not in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT):
        raise ParameterError(
            "adjacency must be Adjacency.ADD_REMOVE or Adjacency.ZERO_OUT: a DpEvent's noise is relative to the largest contribution "
            "of one record; for replacement convert with add/remove and ask account(event, Adjacency.REPLACE_ONE)"
        )
    peer = _peer()
    if not isinstance(dp_event, peer.DpEvent):
        raise ParameterError(f"dp_event must be a DpEvent of dp-accounting, not {type(dp_event).__name__}")
    return _from_peer(dp_event, adjacency, 1)


def _from_peer(node: Any, adjacency: Adjacency, depth: int) -> Event:
    """By the name of the class, so that a subclass which means something else is refused."""
    if depth > _DEPTH:
        raise ParameterError(f"the DpEvent is nested too deeply; it may have at most {_DEPTH} levels")
    match type(node).__name__:
        case "NoOpDpEvent":
            return events.NoOp()
        case "NonPrivateDpEvent":
            return events.NonPrivate()
        case "GaussianDpEvent":
            return leaves.Gaussian(node.noise_multiplier, adjacency=adjacency) if node.noise_multiplier != 0 else events.NonPrivate()
        case "LaplaceDpEvent":
            return leaves.Laplace(node.noise_multiplier, adjacency=adjacency) if node.noise_multiplier != 0 else events.NonPrivate()
        case "DiscreteLaplaceDpEvent":
            return leaves.DiscreteLaplace(1 / positive("noise_parameter", node.noise_parameter), node.sensitivity, adjacency=adjacency)
        case "RandomizedResponseDpEvent":
            return _randomised_response(node.noise_parameter, node.num_buckets)
        case "ZCDpEvent":
            if node.xi != 0:
                return _shifted_zcdp(node.xi, node.rho, adjacency)
            return leaves.ZCDP(node.rho, adjacency=adjacency)
        case "MixtureOfGaussiansDpEvent":
            return leaves.MixtureOfGaussians(
                node.standard_deviation, tuple(node.sensitivities), tuple(node.sampling_probs), adjacency=adjacency
            )
        case "ComposedDpEvent":
            children = [_from_peer(child, adjacency, depth + 1) for child in node.events]
            return events.Composed(*children) if children else events.NoOp()
        case "SelfComposedDpEvent":
            return events.Repeated(_from_peer(node.event, adjacency, depth + 1), node.count) if node.count != 0 else events.NoOp()
        case "RepeatAndSelectDpEvent":
            return events.Selection(_from_peer(node.event, adjacency, depth + 1), node.mean, node.shape)
        case "PoissonSampledDpEvent":
            return events.Sampled(events.Poisson(node.sampling_probability), _from_peer(node.event, adjacency, depth + 1))
        case "SampledWithoutReplacementDpEvent":
            chosen = events.WithoutReplacement(node.source_dataset_size, node.sample_size)
            return events.Sampled(chosen, _from_peer(node.event, adjacency, depth + 1))
        case "SampledWithReplacementDpEvent":
            drawn = events.WithReplacement(node.source_dataset_size, node.sample_size)
            return events.Sampled(drawn, _from_peer(node.event, adjacency, depth + 1))
        case "TruncatedSubsampledGaussianDpEvent":
            cut = events.TruncatedPoisson(node.sampling_probability, node.dataset_size, node.truncated_batch_size)
            return events.Sampled(cut, leaves.Gaussian(node.noise_multiplier, adjacency=adjacency))
        case "SingleEpochTreeAggregationDpEvent":
            return _tree_aggregation(node.noise_multiplier, node.step_counts, adjacency)
    raise UnsupportedError(
        f"{type(node).__name__} has no counterpart in tacit.accounting; state its guarantee, for example as RenyiDP or PrivacyProfile"
    )


def _tree_aggregation(noise: float, steps: object, adjacency: Adjacency) -> Event:
    """Sums over the nodes of binary trees, where a record is in one leaf of one tree: the deepest tree decides.

    A record of a tree of n steps is in at most floor(log2 n) + 1 = ceil(log2(n + 1)) nodes (Kairouz et al. 2021, Appendix D).
    """
    from collections.abc import Iterable

    counts = [count("step_counts", n, least=0) for n in (steps if isinstance(steps, Iterable) else [steps])]
    if not counts:
        raise ParameterError("step_counts is empty; give the steps of at least one tree")
    if max(counts) == 0:
        return events.NoOp()
    if noise == 0:
        return events.NonPrivate()
    return events.Repeated(leaves.Gaussian(noise, adjacency=adjacency), max(counts).bit_length())


#: Orders at which a curve that is a line with an intercept is stated; between two of them the tables are interpolated from above.
_ORDERS = tuple(1 + 2.0**k for k in range(-7, 12))


def _shifted_zcdp(xi: float, rho: float, adjacency: Adjacency) -> Event:
    """(xi, rho)-zCDP: every Rényi divergence of order a is at most xi + rho a (Bun and Steinke 2016, Definition 1.1)."""
    shift, slope = nonnegative("xi", xi), nonnegative("rho", rho)
    return leaves.RenyiDP(tuple((a, float(shift) + float(slope) * a) for a in _ORDERS), adjacency=adjacency)


def _randomised_response(noise: float, buckets: int) -> Event:
    """Theirs answers truly with probability 1 - p and else uniformly from all k buckets: e^epsilon = 1 + k (1 - p) / p."""
    p, k = float(probability("noise_parameter", noise)), count("num_buckets", buckets)
    if k == 1 or p == 1:
        return events.NoOp()
    if p == 0:
        return events.NonPrivate()
    return leaves.RandomizedResponse(math.log1p(k * (1 - p) / p), k)
