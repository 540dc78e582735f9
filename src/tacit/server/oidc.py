"""Signing in by OpenID Connect: the code flow with PKCE, state and nonce, against one issuer.

What a provider sends is believed only if the discovery document names the configured issuer, and the token is signed by one of
its keys with a pinned algorithm, is for this client, names the nonce of this browser's own sign-in, and has not expired. A state
works once, for ten minutes, in the browser that began with it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import sqlalchemy as sa

from tacit.accounting import PackageMissing
from tacit.server.config import SignIn
from tacit.server.database import Database, sign_ins
from tacit.server.errors import ServiceError
from tacit.server.people import digest

if TYPE_CHECKING:
    import httpx

#: A sign-in may take so many seconds.
PATIENCE = 600.0
#: Clocks may differ by so many seconds.
LEEWAY = 60
#: Keys are asked for again at most so often, however many unknown ones are sent.
AGAIN = 60.0


class Provider:
    """One identity provider. `transport` stands in for the network in tests."""

    def __init__(
        self, spec: SignIn, secret: str | None, database: Database, origin: str, *,
        transport: httpx.BaseTransport | None = None, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        try:
            import authlib  # noqa: F401
            import httpx  # noqa: F401
        except ImportError:
            raise PackageMissing(code="package-missing", package="authlib", install="'tacit[server]'") from None
        self.spec, self.secret, self.database, self.clock = spec, secret, database, clock
        self.redirect = f"{origin}/sign-in/callback"
        self._transport = transport
        self._lock = threading.Lock()
        self._known: dict[str, Any] | None = None
        self._keys: tuple[float, Any] | None = None

    # --- the flow -----------------------------------------------------------------------------------------------------

    def start(self) -> tuple[str, str]:
        """Where to send the browser, and a secret that binds the sign-in to it (for a cookie)."""
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        browser, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        asked = {
            "response_type": "code", "client_id": self.spec.client, "redirect_uri": self.redirect, "scope": "openid", "state": state,
            "nonce": nonce, "code_challenge": create_s256_code_challenge(verifier), "code_challenge_method": "S256",
        }  # fmt: skip
        address = self._document()["authorization_endpoint"]
        url = f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"
        now = self.clock()
        values = {"state": digest(state), "browser": digest(browser), "nonce": nonce, "verifier": verifier, "expires": now + PATIENCE}
        with self.database.write() as connection:
            connection.execute(sign_ins.delete().where(sign_ins.c.expires < now))
            connection.execute(sign_ins.insert().values(**values))
        return url, browser

    def finish(self, state: str, code: str, browser: str) -> str:
        """The subject that signed in; every failure is refused in the same words."""
        now = self.clock()
        there = sa.and_(sign_ins.c.state == digest(state), sign_ins.c.expires > now)
        with self.database.write() as connection:
            row = connection.execute(sa.select(sign_ins).where(there)).first()
            # a state is used up by its first use, right or wrong
            taken = connection.execute(sign_ins.delete().where(sign_ins.c.state == digest(state))).rowcount
        if row is None or not taken or not secrets.compare_digest(row.browser, digest(browser)):
            raise ServiceError(code="sign-in-failed")
        subject: str | None = None
        try:
            subject = self._subject(self._exchanged(code, row.verifier), row.nonce)
        except Exception:
            subject = None
        if not subject:
            # outside of the handler: the words of a provider or a parser go no further
            raise ServiceError(code="sign-in-failed")
        return subject

    def _exchanged(self, code: str, verifier: str) -> str:
        """The identity token for a code."""
        sent = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect, "code_verifier": verifier}
        if self.secret is None:
            sent["client_id"] = self.spec.client
        with self._client() as client:
            # the name and the secret are encoded before they are put together (RFC 6749, 2.3.1)
            if self.secret is not None:
                client.auth = (quote(self.spec.client, safe=""), quote(self.secret, safe=""))
            found = client.post(self._document()["token_endpoint"], data=sent)
            found.raise_for_status()
            return str(found.json()["id_token"])

    def _subject(self, token: str, nonce: str) -> str | None:
        """The subject of an identity token that is signed, ours, fresh and about this sign-in."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            decoded = jwt.decode(token, self._keyset(), algorithms=list(self.spec.algorithms))
        except (JoseError, ValueError):
            decoded = jwt.decode(token, self._keyset(fresh=True), algorithms=list(self.spec.algorithms))
        claims, now = decoded.claims, self.clock()
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        sound = (
            claims.get("iss") == self.spec.issuer
            and self.spec.client in audiences
            and (len(audiences) == 1 or claims.get("azp") == self.spec.client)
            and isinstance(claims.get("exp"), (int, float)) and claims["exp"] > now - LEEWAY
            and isinstance(claims.get("iat"), (int, float)) and claims["iat"] < now + LEEWAY
            and isinstance(claims.get("nonce"), str) and secrets.compare_digest(claims["nonce"].encode(), nonce.encode())
        )  # fmt: skip
        subject = claims.get("sub")
        return subject if sound and isinstance(subject, str) and 0 < len(subject) <= 255 else None

    # --- what the provider publishes ----------------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        """The discovery document, which must be about the configured issuer."""
        with self._lock:
            if self._known is None:
                found = self._fetched(f"{self.spec.issuer}/.well-known/openid-configuration")
                addresses = [found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
                secure = all(isinstance(a, str) and a.partition("://")[0] == self.spec.issuer.partition("://")[0] for a in addresses)
                if found.get("issuer") != self.spec.issuer or not secure:
                    raise ServiceError(code="sign-in-failed")
                self._known = found
            return self._known

    def _keyset(self, *, fresh: bool = False) -> Any:
        from joserfc.jwk import KeySet

        address = self._document()["jwks_uri"]
        with self._lock:
            now = self.clock()
            if self._keys is None or (fresh and now - self._keys[0] > AGAIN) or now - self._keys[0] > 3600:
                self._keys = (now, KeySet.import_key_set(self._fetched(address)))
            return self._keys[1]

    def _fetched(self, address: str) -> Any:
        with self._client() as client:
            found = client.get(address)
            found.raise_for_status()
            return found.json()

    def _client(self) -> httpx.Client:
        import httpx

        # no redirects: what a provider says about itself stands where it says
        return httpx.Client(timeout=10, follow_redirects=False, transport=self._transport)
