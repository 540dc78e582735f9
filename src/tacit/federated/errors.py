"""What a federation refuses, as codes with facts.

Facts are public: declared numbers, names of phases and adversaries; never a value of a client's data. A client
says nothing of its reasons to the server: what it answers is one constant word, and the code stays on the device.

>>> error = FederatedError(code="federated-clip", given=2.0, most=1.0)
>>> str(error)
'the plan clips at 2.0, and the policy allows at most 1.0; lower clip in the plan'
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tacit.errors import PackageMissing, Refusal

WORDS: Mapping[str, str] = {
    # the policy, on the device
    "federated-clip": "the plan clips at {given}, and the policy allows at most {most}; lower clip in the plan",
    "federated-noise": (
        "the plan's noise multiplier is {given}, and the policy asks for at least {least}; raise the noise"
    ),
    "federated-trust": "the plan's trust is {given}, and the policy allows {allowed}",
    "federated-unit": "the plan protects a {given}, and the policy asks for {asked}",
    "federated-participations": (
        "the plan lets a client take part {given} times, and the policy allows {most}; set participations"
    ),
    "federated-separation": (
        "the plan lets a client come back after {given} rounds, and the policy asks for {least}; set separation"
    ),
    "federated-cohort": (
        "the plan unmasks sums of {given} honest clients, and the policy asks for at least {least}"
    ),
    "federated-collusion": (
        "the plan takes a share of {given} of the clients to be on the server's side, and the policy asks for {least}"
    ),
    "federated-expired": "the policy ended on {expires}; ask for a new one",
    "federated-workload": "the plan's fingerprint is not among the workloads of the policy; have it added and signed",
    "federated-code": "the code that would run is not among the code hashes of the policy; have it added and signed",
    "federated-signature": "the policy has no valid signature of the key that this device trusts",
    "federated-checkpoint": (
        "the checkpoint belongs to another plan, or its payment is not open in this account; begin a new run, which pays for itself"
    ),
    "federated-register": (
        "the plan, the policy and this side do not have the same register of identities; hand it out anew, with a signed policy"
    ),
    "federated-identity": "this client has no identity to sign its keys with; set tacit-identity in the node's configuration",
    "federated-book-spent": "this client has taken part as often as the plan allows",
    "federated-book-early": "this client took part too recently; the plan asks for {separation} rounds in between",
    "federated-book-slot": "this client drew another round for its check-in",
    "federated-book-lost": "the book of this client is gone or older than its rounds; nothing is paid from another one",
    "federated-clock": "the clock of this device is behind {seen}, a day on which this client took part; set it right",
    "federated-book-again": "this client has answered this round before; no round is answered twice",
    # the server
    "federated-strategy": (
        "{strategy} is not known to work on a sum alone; use FedAvg, FedAvgM, FedAdam or FedYogi of flwr.serverapp.strategy. "
        "Rules that look at single updates, such as Krum and medians, cannot run on a sum"
    ),
    "federated-correlated-trust": (
        "correlated noise needs one party that remembers it, so it goes with central trust, not with {trust} trust"
    ),
    "federated-contributions": (
        "{question} needs a bound on what one client may contribute: give max_contributions"
    ),
    # the secure sum
    "sum-few-clients": "{phase}: fewer clients are left than the round allows",
    "sum-few-neighbours": "{phase}: fewer neighbours are left than the threshold",
    "sum-keys-repeated": "{phase}: two clients in the list have the same key",
    "sum-late": "{phase}: this step was taken already, or its time is over",
    "sum-malformed": "{phase}: the message does not have the form of this phase",
    "sum-not-registered": "{phase}: a key in the list is not signed by a registered identity",
    "sum-not-surviving": "{phase}: this client sent its vector and is not in the list of survivors",
    "sum-other-round": "{phase}: the message belongs to another round, plan or client",
    "sum-own-key": "{phase}: this client's own keys are missing from the list, or changed",
    "sum-unknown-survivor": "{phase}: the list of survivors names a client that was not in the round",
    "sum-void": "{phase}: the round is void, and nothing is unmasked",
    "sum-wrong-vector": "{phase}: the vector must hold whole numbers in the length and modulus of the round",
    "federated-trust-planned": (
        "{question} has no plan under {trust} trust; choose one of {allowed}, or tacit.local for reports randomised one by one"
    ),
}


class FederatedError(Refusal, ValueError):
    """A plan, a policy or a server's request that is refused."""

    words = WORDS


class SumRefused(Refusal, RuntimeError):
    """A step of the secure sum that this side does not take. A client has given up the round and forgotten
    its secrets."""

    words = WORDS


class RoundVoid(Refusal, RuntimeError):
    """Too few clients survived, so nothing was unmasked. The round stays spent."""


@contextmanager
def needs_flower() -> Iterator[None]:
    """Turn a failed import of flwr or cryptography into an error that names the extra.

    What the packages below Flower say about their own future while they load is no news to whoever imports this room.

    >>> with needs_flower():
    ...     import hashlib
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("flwr", "cryptography"):
            raise
        raise PackageMissing(code="package-missing", package=package, install="'tacit[federated]'") from None
