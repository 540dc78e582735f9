"""An identity provider that a test can have lie: a transport for httpx in the place of the network."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

ISSUER = "https://login.example.org"


def _key() -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": "k1", "use": "sig"})


@dataclass
class Liar(httpx.BaseTransport):
    """Signs in `subject`; `claims` and `header` change what its token says, `document` what it says about itself."""

    subject: str = "ann-at-home"
    claims: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    form: str = "RS256"
    key: RSAKey = field(default_factory=_key)
    other: RSAKey = field(default_factory=_key)
    challenge: str = ""
    nonce: str = ""

    def authorize(self, url: str) -> str:
        """What a person at the provider's page does: the state to come back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
        self.challenge, self.nonce = asked["code_challenge"], asked["nonce"]
        return asked["state"]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("openid-configuration"):
            places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            known = {"issuer": ISSUER, **{name: f"{ISSUER}/{place}" for name, place in places.items()}}
            return httpx.Response(200, json={**known, **self.document})
        if path.endswith("keys"):
            return httpx.Response(200, json=KeySet([self.key]).as_dict(private=False))
        return self.token(request)

    def token(self, request: httpx.Request) -> httpx.Response:
        import hashlib

        sent = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge or sent.get("code") != "the-code":
            return httpx.Response(400, json={"error": "invalid_grant"})
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "tacit", "sub": self.subject, "nonce": self.nonce, "iat": now, "exp": now + 300}
        claims |= self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return httpx.Response(200, json={"access_token": "x", "token_type": "Bearer", "id_token": self.signed(claims)})

    def signed(self, claims: dict[str, Any]) -> str:
        if self.form == "none":
            parts = [json.dumps({"alg": "none"}), json.dumps(claims), ""]
            return ".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)
        if self.form == "wrong key":
            return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.other)
        if self.form == "ES256":
            return jwt.encode({"alg": "ES256", "kid": "k1"}, claims, ECKey.generate_key("P-256"), algorithms=["ES256"])
        return jwt.encode({"alg": "RS256", "kid": "k1"}, claims, self.key)
