"""Distributed trust: every client adds its share of the noise, and the server sees masked vectors and their sum.

This module joins the plan, the encoding and the secure sum: it chooses scale, modulus and graph, prices a round for
each adversary, and drives the four phases over a Flower grid. The noise is dimensioned for the fewest survivors; with
fewer the round is void before anything is unmasked, and spent.

>>> from tacit.federated.plan import plan
>>> made = plan(clients=100, size=1000, clip=1.0, rounds=10, noise_multiplier=4, delta=1e-6, trust="distributed",
...             dropouts=0.3, colluding=0.2)
>>> made.least, made.honest, made.against
(70, 50, 'server and clients')
>>> prices = {price.adversary: price.epsilon for price in made.prices()}
>>> prices["model"] == prices["server"] < prices["server and clients"]
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, calibrate
from tacit.errors import ParameterError
from tacit.federated.encoding import Encoding
from tacit.federated.errors import FederatedError, RoundVoid, SumRefused
from tacit.federated.messages import Ask
from tacit.federated.plan import FederatedPlan
from tacit.federated.secure_sum.graph import MaskGraph, graph_for
from tacit.federated.selection import Arriving, CheckIns, Everyone, repeated
from tacit.parameters import positive

if TYPE_CHECKING:
    from tacit.federated.secure_sum.wire import SumRound

LARGEST = 2**29  # variance of one draw
PHASES = ("keys", "shares", "masked", "unmask")
DEFAULTS: Mapping[str, Any] = {"bits": None, "noise": "skellam", "scaled_clip": None}


# --- the plan --------------------------------------------------------------------------------------------------


def encoding_of(plan: FederatedPlan, threshold: float | None = None) -> Encoding:
    """The encoding of a round: the clip follows the threshold, the scale in granules a clip does not."""
    return _encoding(
        plan.length, plan.radius(threshold), plan.clients, plan.noise_multiplier, plan.least,
        *(plan.shares[name] for name in DEFAULTS),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _encoding(
    length: int, clip: float, clients: int, multiplier: float, survivors: int, bits: int, noise: Any, scaled: float
) -> Encoding:
    return Encoding(
        size=length, clip=clip, clients=clients, noise_multiplier=multiplier, survivors=survivors, bits=bits,
        noise=noise, scaled_clip=scaled,
    )  # fmt: skip


def designed(
    made: FederatedPlan, *, epsilon: float | None, noise_multiplier: float | None, **shares: Any
) -> FederatedPlan:
    """The plan with scale and modulus chosen, and with the least noise for its target."""
    unknown = sorted(set(shares) - set(DEFAULTS))
    if unknown:
        raise ParameterError(f"{', '.join(unknown)}: shares of noise have {', '.join(DEFAULTS)} only")
    given = {**DEFAULTS, **shares}
    graph_of(made)  # a plan whose sums no graph could carry is refused here, and not when it has been paid for

    def at(multiplier: float) -> FederatedPlan:
        rough = replace(made, noise_multiplier=float(multiplier), shares=given)
        chosen = encoding_of(rough)
        fixed = {"bits": chosen.bits, "noise": chosen.noise, "scaled_clip": float(chosen.scaled_clip or 0)}
        return replace(rough, shares=fixed)

    if noise_multiplier is not None:
        return at(float(positive("noise_multiplier", noise_multiplier))).checked()
    target = Guarantee(epsilon=epsilon, delta=made.delta)
    found = calibrate(lambda multiplier: at(multiplier).event, guarantee=target, low=1e-2, high=1e4, tolerance=1e-4)
    return at(found).checked()


def events_of(plan: FederatedPlan) -> dict[str, Event]:
    """For each adversary, the price of the whole run for one client.

    Nothing is credited for sampling: the server knows the cohort, and for sums of shares no theorem is at hand. Against
    the server with clients only the shares of the honest ones among the fewest survivors count.
    """
    encoding = encoding_of(plan)
    alone = repeated(encoding.event(plan.least), plan.participations)
    together = repeated(encoding.event(plan.honest), plan.participations)
    return {"model": alone, "server": alone, "server and clients": together}


def facts_of(plan: FederatedPlan) -> list[tuple[str, str]]:
    """What is printed about shares, modulus and graph."""
    encoding = encoding_of(plan)
    graph = graph_of(plan)
    return [
        ("Shares", f"{encoding.noise}, for at least {plan.least} of {plan.clients} survivors, "
         f"{plan.honest} of them honest; below that a round is void, and spent"),
        ("Modulus", f"2^{encoding.bits}; a sum wraps with chance at most {encoding.wrap_chance:.2g}, which costs accuracy only"),
        ("Rounding", f"raises the noise {encoding.inflation:.4f} times"),
        ("Graph", f"{graph.degree} neighbours each, {graph.threshold} shares open a secret; clients exposed with chance "
         f"{graph.exposed:.2g}"),
        ("Server", "honest but curious: keys of clients are not signed by a register of identities" if plan.register is None
         else "may break the protocol: keys are signed by the identities of register " + plan.register[:16]),
    ]  # fmt: skip


def graph_of(plan: FederatedPlan) -> MaskGraph:
    """Who masks with whom. With signed keys it is chosen for a server that breaks the protocol."""
    return _graph(plan.clients, plan.dropouts, plan.colluding, plan.register is not None)


@lru_cache(maxsize=64)
def _graph(clients: int, dropouts: float, colluding: float, malicious: bool) -> MaskGraph:
    return graph_for(clients, dropouts, colluding, malicious=malicious)


def seed_of(plan: FederatedPlan, run: str, turn: int) -> bytes:
    """The public seed of a round's rotation, which both sides work out."""
    return hashlib.sha256(f"tacit rotation\0{plan.fingerprint}\0{run}\0{turn}".encode()).digest()


def round_of(plan: FederatedPlan, ask: Ask) -> SumRound:
    """What both sides know about a round; its plan hash covers plan, run and threshold."""
    return _round(plan, ask.run, ask.turn, ask.threshold)


@lru_cache(maxsize=64)
def _round(plan: FederatedPlan, run: str, turn: int, threshold: float) -> SumRound:
    from tacit.federated.secure_sum.wire import SumRound

    encoding = encoding_of(plan, threshold)
    graph = graph_of(plan)
    agreed = hashlib.sha256(f"tacit round\0{plan.fingerprint}\0{run}\0{threshold!r}".encode()).digest()
    return SumRound(
        number=turn, plan=agreed, clients=plan.clients, fewest=plan.least, degree=graph.degree,
        threshold=graph.threshold, length=encoding.dimension, bits=int(encoding.bits or 0), signed=plan.register is not None,
    )  # fmt: skip


# --- the client ------------------------------------------------------------------------------------------------


def answered(node: Any, ask: Ask, plan: FederatedPlan, context: Any, vector: Callable[[], NDArray[np.float64]]) -> bytes:
    """A client's answer in one phase. The vector is made, and paid for, in the phase that sends it under masks."""
    from tacit.federated.secure_sum.client import SumClient

    if ask.phase not in PHASES:
        raise FederatedError("a plan under distributed trust has the phases of a secure sum")
    sums = node.sums(context)
    # Taken away before anything is answered: what goes wrong from here on ends the client's part in the round.
    signing = node.signing(context, plan)
    if ask.phase == "keys":
        node.device(context).book.shows_up(plan, run=ask.run, turn=ask.turn)
        found: SumClient | None = SumClient(context.node_id, round_of(plan, ask), identity=signing[0], register=signing[1])
    else:
        found = sums.take(ask.run, *signing)
    if found is None or found.about != round_of(plan, ask):
        raise SumRefused(code="sum-other-round", phase=ask.phase)
    match ask.phase:
        case "keys":
            answer = found.keys()
        case "shares":
            answer = found.shares(ask.payload)
        case "masked":
            encoding = encoding_of(plan, ask.threshold)
            sent = encoding.encode(vector(), seed_of(plan, ask.run, ask.turn))
            answer = found.masked(ask.payload, sent, ask.model_hash)
        case _:
            ahead = following(plan, ask)
            answer = found.unmask(ask.payload, following=ahead)
            if found.following is None:
                return bytes(answer)
            found = found.following  # its keys go with this answer
    sums.keep(ask.run, found)
    return bytes(answer)


def following(plan: FederatedPlan, ask: Ask) -> SumRound | None:
    """The next round, where its keys can ride on this one's last message: everyone is asked again, and its terms are known.

    A threshold that adapts is known only when the sum is, and a choice of clients is made anew in each round.
    """
    if not isinstance(plan.selection, Everyone) or plan.adaptive is not None or plan.separation > 1 or ask.turn >= plan.rounds:
        return None
    return round_of(plan, replace(ask, turn=ask.turn + 1))


# --- the server ------------------------------------------------------------------------------------------------


def secure_round(rounds: Any, grid: Any, ask: Ask, nodes: list[int], timeout: float) -> NDArray[np.float64]:
    """One round of the secure sum over a grid: the noisy sum of the survivors' vectors.

    Models travel in the phase that needs them only. A round with too few clients raises `RoundVoid`: nothing of it was
    unmasked, and nothing is tried again.
    """
    from tacit.federated.secure_sum.server import SumServer

    plan: FederatedPlan = rounds.plan
    about = round_of(plan, ask)
    server = SumServer(about, ask.model_hash, register=rounds.register)
    # More are asked than can take part where the rule says so; whoever sends keys first does.
    asked_first = nodes if isinstance(plan.selection, Arriving | CheckIns) else nodes[: plan.clients]
    # Keys that came with the last answers of the round before need no message: a round has three then, and not four.
    riding = {node: keys for node, keys in rounds.riding.pop(ask.turn, {}).items() if node in asked_first}
    for node, keys in riding.items():
        if not server.receive(node, keys):
            rounds.leave_out("keys")
    payloads: dict[int, bytes] = {node: b"" for node in asked_first if node not in riding}
    light = replace(ask, model=b"", layout="[[],[],[]]", config="{}")
    try:
        for phase in PHASES:
            asked = replace(ask if phase == "masked" else light, phase=phase)
            for node, sent in rounds.exchanged(grid, asked, payloads, timeout).items() if payloads else ():
                if not server.receive(node, sent):
                    rounds.leave_out(phase)
            payloads = server.close()
    except SumRefused:
        raise RoundVoid("too few clients were left; nothing was unmasked, and the round stays spent") from None
    rounds.last_total, rounds.survivors = server.total, server.survivors
    rounds.riding[ask.turn + 1] = server.following
    return encoding_of(plan, ask.threshold).decode(server.total, seed_of(plan, ask.run, ask.turn))


def noise_in_law(plan: FederatedPlan, size: int) -> NDArray[np.float64]:
    """The noise of a whole sum at once, for simulations: all shares of Skellam noise add up to one such draw.

    The variance that rounding the clients' vectors adds, a quarter of a granule each, is left out.
    """
    from tacit.noise import skellam

    encoding = encoding_of(plan)
    if encoding.noise != "skellam":
        raise ParameterError("only Skellam shares have a sum of a known law; take noise='skellam', or run the clients")
    variance = plan.clients * encoding.share_variance
    draws = -(-variance // LARGEST)  # the sampler has a limit, and sums of such draws have the same law
    drawn = sum(np.asarray(skellam(variance / draws, size=encoding.dimension)) for _ in range(draws))
    words = np.mod(drawn, 1 << int(encoding.bits or 0)).astype(np.uint64)
    return encoding.decode(words, seed_of(plan, "simulated", 1))[:size]
