"""Acts: functions inside one transaction, registered with the roles that may call them and their bodies.

:meth:`dpmarket.campaign.database.Market.run` calls them. The registry :data:`ACTS` knows the name, the roles
and the body, a pydantic model of what follows ``me`` or ``caller``; an API is a loop over it. An act with the
role ``seller`` gets the caller's own participation; all others get the caller. A campaign that a caller has
no role in, and one that does not exist, are refused in the same words.

An act is done once however often it is called with the same idempotency key. The key is claimed first, by an
insert that others wait for; claim and act are one transaction. A request may hold a cost, and a plain digest
of it could confirm a guess. So the request's digest is keyed by the idempotency key, the answer is encrypted
by it, and of the key itself only a digest is stored: the database alone gives neither.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import inspect
import re
import secrets
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.transaction import Participation, Tx, nothing
from dpmarket.errors import MarketRefusal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MEMBER_ROLES = ("buyer", "operator", "paymaster", "auditor")
ROLES = ("seller", *MEMBER_ROLES, "worker")
LARGEST_AMOUNT = 2**53  # of all that a campaign has, in minor units


def shown_id(identity: int) -> str:
    """Return a random id as addresses and answers write it: 13 letters and digits.

    >>> shown_id(1), id_of(shown_id(2**62)) == 2**62
    ('aaaaaaaaaaaac', True)
    """
    return base64.b32encode(identity.to_bytes(8, "big")).decode().rstrip("=").lower()


def id_of(shown: object) -> object:
    """Return the id that :func:`shown_id` wrote; what is none is left to be refused."""
    if not isinstance(shown, str) or len(shown) != 13:
        return shown
    try:
        return int.from_bytes(base64.b32decode(f"{shown.upper()}==="), "big")
    except binascii.Error:
        return shown


Id = Annotated[
    int,
    pydantic.BeforeValidator(id_of),
    pydantic.PlainSerializer(shown_id, return_type=str, when_used="json"),
    pydantic.WithJsonSchema({"type": "string", "pattern": "^[a-z2-7]{13}$"}),
    pydantic.Field(ge=0, lt=2**63),
]
"""A random id: a whole number in Python, 13 letters and digits in JSON."""
Number = Annotated[int, pydantic.Field(ge=1, lt=2**63)]  # of a member or a consent text
Amount = Annotated[int, pydantic.Field(strict=True, gt=0, le=LARGEST_AMOUNT)]
Cost = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, pydantic.Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True)
class Caller:
    """The identity behind an act: a member, a seller by participation, or the machine's own roles."""

    member: int | None = None
    participation: int | None = None
    machine: str | None = None  # "owner" (of the files: every role but a seller's) or "worker"

    @property
    def label(self) -> str:
        """A short name under which idempotency keys are kept."""
        if self.participation is not None:
            return f"seller/{self.participation}"
        return f"member/{self.member}" if self.member is not None else str(self.machine)


OWNER, WORKER = Caller(machine="owner"), Caller(machine="worker")


@dataclass(frozen=True)
class Act:
    """A registered act."""

    name: str
    function: Callable[..., Any]
    roles: tuple[str, ...]
    of_campaign: bool
    body: type[pydantic.BaseModel]
    answer: Any

    @cached_property
    def adapter(self) -> pydantic.TypeAdapter[Any]:
        """Writes the answer as JSON and reads it again."""
        return pydantic.TypeAdapter(self.answer)

    @cached_property
    def request(self) -> type[pydantic.BaseModel]:
        """The body as a caller sends it: without the campaign, which an address names, and strict."""
        parts: dict[str, Any] = {
            name: (field.rebuild_annotation(), field)
            for name, field in self.body.model_fields.items()
            if name != "campaign"
        }
        settings = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
        about = (inspect.getdoc(self.function) or "").split("\n")[0]
        return pydantic.create_model(f"{self.name}_request", __config__=settings, __doc__=about, **parts)

    @cached_property
    def is_sendable(self) -> bool:
        """Whether the body can be sent as JSON; tables and arrays come from programs on this machine."""
        try:
            return bool(self.request.model_json_schema())
        except pydantic.errors.PydanticUserError:
            return False

    def bind(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, checked by the body's model."""
        names = list(self.body.model_fields)
        if len(args) > len(names):
            raise MarketRefusal("invalid", f"{self.name} takes at most {len(names)} arguments.")
        given = {**dict(zip(names, args, strict=False)), **options}
        try:
            checked = self.body.model_validate(given)
        except pydantic.ValidationError as problem:
            first = problem.errors(include_input=False, include_context=False, include_url=False)[0]
            where = ".".join(part for part in first["loc"] if isinstance(part, str))
            words = re.sub("^[A-Z][a-z]+ should ", f"Expected {where} to ", first["msg"])
            if words == first["msg"]:
                words = f"{self.name}: {where}: {words}"
            raise MarketRefusal("invalid", f"{words}.") from None
        return {name: getattr(checked, name) for name in names}


ACTS: dict[str, Act] = {}  # all acts, by name

F = TypeVar("F", bound=Callable[..., Any])


def act(*roles: str) -> Callable[[F], F]:
    """Register a function as an act that these roles may call."""
    unknown = set(roles) - set(ROLES)
    if unknown:
        raise ValueError(f"no such roles: {sorted(unknown)}")

    def register(function: F) -> F:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())[2:]
        of_campaign = bool(parameters) and parameters[0].name == "campaign"
        parts: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is one.empty else one.default)
            for one in parameters
        }
        settings = pydantic.ConfigDict(
            arbitrary_types_allowed=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
        )
        body = pydantic.create_model(function.__name__, __config__=settings, **parts)
        name = function.__name__.rstrip("_")
        ACTS[name] = Act(name, function, roles, of_campaign, body, hints["return"])
        return function

    return register


def authorize(tx: Tx, entry: Act, caller: Caller, arguments: Mapping[str, Any]) -> Caller | Participation:
    """Return the caller, or for a seller's act their participation; refuse a caller without the role."""
    if caller.participation is not None:
        if "seller" not in entry.roles or tx.me is None:
            raise nothing()
        return tx.me
    if entry.roles == ("seller",):
        raise nothing()
    refuse_others(tx.c, caller, *entry.roles, campaign=arguments["campaign"] if entry.of_campaign else None)
    return caller


def refuse_others(c: sa.Connection, caller: Caller, *roles: str, campaign: int | None = None) -> None:
    """Refuse a caller that has none of some roles, as if there were nothing here."""
    if not is_allowed(c, caller, roles, campaign):
        raise nothing()


def is_allowed(c: sa.Connection, caller: Caller, roles: tuple[str, ...], campaign: int | None) -> bool:
    """Whether a caller that is no seller has one of some roles, in a campaign if one is named."""
    owner, of = None, schema.campaign.c
    if campaign is not None:
        found = c.execute(sa.select(of.owner).where(of.id == campaign)).one_or_none()
        if found is None:
            return False
        owner = found.owner
    if caller.machine is not None:
        return caller.machine == "owner" or caller.machine in roles
    if caller.member is None:
        return False
    role, member = schema.member_role.c, schema.member.c
    query = (
        sa.select(role.role, role.campaign)
        .join(schema.member, member.id == role.member)
        .where(role.member == caller.member, member.ended_at.is_(None))
        .where(role.role.in_([one for one in roles if one in MEMBER_ROLES]))
    )
    for name, where in c.execute(query):
        if where is not None:
            if where == campaign:
                return True
        elif name != "buyer" or campaign is None or owner == caller.member:
            return True
    return False


LEAST_LENGTH = 16
_NONCE = 12
_columns = schema.idempotency.c


def once(tx: Tx, owner: str, key: str, request: str, answer: Callable[[], bytes]) -> bytes:
    """Return what an act answers, or what it answered when it was first called with this key."""
    if len(key) < LEAST_LENGTH:
        raise MarketRefusal("invalid", f"Expected an idempotency key of at least {LEAST_LENGTH} characters.")
    digest = hmac.new(key.encode(), request.encode(), hashlib.sha256).hexdigest()
    hashed = hashlib.sha256(key.encode()).hexdigest()
    claim = tx.insert(schema.idempotency).values(owner=owner, key=hashed, request=digest, at=tx.now)
    claimed = tx.c.scalar(claim.on_conflict_do_nothing().returning(_columns.key))
    mine = sa.and_(_columns.owner == owner, _columns.key == hashed)
    if claimed is None:
        row = tx.c.execute(sa.select(_columns.request, _columns.answer).where(mine)).one()
        if not hmac.compare_digest(row.request, digest):
            raise MarketRefusal("reused", "This idempotency key belongs to another request.")
        return _cipher(key).decrypt(row.answer[:_NONCE], row.answer[_NONCE:], owner.encode())
    made = answer()
    nonce = secrets.token_bytes(_NONCE)
    body = nonce + _cipher(key).encrypt(nonce, made, owner.encode())
    tx.set(schema.idempotency, mine, answer=body)
    return made


def _cipher(key: str) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hashlib.blake2b(key.encode(), digest_size=32, person=b"dpmarket answer").digest())
