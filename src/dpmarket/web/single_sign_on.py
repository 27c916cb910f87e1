"""Single sign-on of members, whom an operator entered: a trusted proxy's header, or OpenID Connect."""

import base64
import functools
import hashlib
import secrets
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dpmarket.campaign.access import sign_in_by_name
from dpmarket.errors import MarketRefusal
from dpmarket.web.guard import Application, Receive, Scope, Send
from dpmarket.web.problems import NotSignedIn
from dpmarket.web.service import SESSION, TheService, keep_cookie, start_session
from dpmarket.web.settings import Settings

router = APIRouter(include_in_schema=False)
_COOKIE = "__Host-oidc"
_LASTS = timedelta(minutes=10)
_WAIT = 10.0
_ALGORITHMS = ["RS256", "ES256", "PS256"]


class Proxies(ProxyHeadersMiddleware):
    """Reads who calls from the headers of trusted proxies, and takes a member's name from nobody else."""

    def __init__(self, app: Application, settings: Settings) -> None:
        super().__init__(app, trusted_hosts=settings.trusted_proxies)  # type: ignore[arg-type]
        self._header = (settings.auth_header or "").lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Pass a request on, without a name from an untrusted address."""
        if scope["type"] == "http" and (scope["client"] or ("",))[0] not in self.trusted_hosts:
            scope["headers"] = [one for one in scope["headers"] if one[0].lower() != self._header]
        await super().__call__(scope, receive, send)  # type: ignore[arg-type]


def named_by_proxy(request: Request, settings: Settings) -> str | None:
    """Return the name that a trusted proxy gives a member; None for none."""
    if settings.auth_header is None:
        return None
    found = request.headers.getlist(settings.auth_header)
    return found[0] if len(found) == 1 and found[0].strip() else None


@router.get("/oidc")
def start(request: Request, service: TheService) -> Response:
    """Lead to the provider's page, and remember in a cookie what its answer must fit."""
    settings = service.settings
    service.limit_sign_in(request)
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        **{"response_type": "code", "scope": "openid email", "state": state, "nonce": nonce},
        **{"client_id": settings.oidc_client_id, "redirect_uri": _back(settings)},
        **{"code_challenge": challenge, "code_challenge_method": "S256"},
    }
    place = _metadata(_issuer(settings))["authorization_endpoint"]
    answer = RedirectResponse(f"{place}{'&' if '?' in place else '?'}{urlencode(query)}", status_code=303)
    kept = ":".join((state, nonce, verifier))
    keep_cookie(answer, _COOKIE, kept, _LASTS)
    return answer


@router.get("/oidc/callback")
def finish(
    request: Request,
    service: TheService,
    code: Annotated[str, Query(max_length=4_000)] = "",
    state: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Sign in whom the provider names, if this browser began it here."""
    kept = request.cookies.get(_COOKIE, "").split(":")
    if len(kept) != 3 or not secrets.compare_digest(kept[0].encode(), state.encode()) or not code:
        raise NotSignedIn("the answer fits no question of ours")
    names = _names(service.settings, code, nonce=kept[1], verifier=kept[2])
    try:
        token = service.market.transact(lambda tx: sign_in_by_name(tx, names, SESSION))
    except MarketRefusal:
        raise NotSignedIn("no member has this name") from None
    answer = start_session(token)
    keep_cookie(answer, _COOKIE, "", timedelta(0))
    return answer


def _names(settings: Settings, code: str, *, nonce: str, verifier: str) -> list[str]:
    """Return the names that the provider's signed answer gives: its subject, and a verified address."""
    import httpx  # these load many modules, which services without a provider do without
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    metadata = _metadata(_issuer(settings))
    try:
        secret = settings.oidc_client_secret.get_secret_value()
        request = {
            **{"grant_type": "authorization_code", "code": code, "code_verifier": verifier},
            **{"client_id": settings.oidc_client_id, "redirect_uri": _back(settings)},
            **({"client_secret": secret} if secret else {}),
        }
        answer = httpx.post(metadata["token_endpoint"], data=request, timeout=_WAIT)
        answered = answer.raise_for_status().json()
        keys = KeySet.import_key_set(_get(metadata["jwks_uri"]))
        claims = jwt.decode(str(answered["id_token"]), keys, algorithms=_ALGORITHMS).claims
        expected: dict[str, Any] = {
            name: {"essential": True, "value": value}
            for name, value in (
                ("iss", metadata["issuer"]),
                ("aud", settings.oidc_client_id),
                ("nonce", nonce),
            )
        }
        jwt.JWTClaimsRegistry(**expected, exp={"essential": True}, sub={"essential": True}).validate(claims)
    except (JoseError, httpx.HTTPError, KeyError, TypeError, ValueError):
        raise NotSignedIn("the provider's answer does not hold") from None
    address = claims.get("email") if claims.get("email_verified") is True else None
    return [name for name in (claims["sub"], address) if isinstance(name, str) and name]


def _back(settings: Settings) -> str:
    return f"{settings.public_url}/oidc/callback"


def _issuer(settings: Settings) -> str:
    if settings.oidc_issuer is None:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    return settings.oidc_issuer.rstrip("/")


@functools.lru_cache(maxsize=4)
def _metadata(issuer: str) -> dict[str, Any]:
    """Return what the provider says about itself; it must be the one that was asked."""
    import httpx

    try:
        found = dict(_get(f"{issuer}/.well-known/openid-configuration"))
        places = [found[name] for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    except (httpx.HTTPError, KeyError, ValueError):
        raise NotSignedIn("the provider does not answer") from None
    own = urlsplit(issuer).scheme
    if str(found.get("issuer", "")).rstrip("/") != issuer or any(
        urlsplit(one).scheme != own for one in places
    ):
        raise NotSignedIn("the provider is another one")
    return found


def _get(url: str) -> Any:
    import httpx

    return httpx.get(url, timeout=_WAIT).raise_for_status().json()
