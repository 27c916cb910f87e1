"""How a service is set up: its folder's ``settings.toml``, and ``DPMARKET_...`` on top of it."""

import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from dpmarket.campaign.transaction import Terms
from dpmarket.errors import FileProblem, MarketRefusal

SETTINGS_FILE = "settings.toml"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseSettings):
    """How a service is set up; every name can be set as ``DPMARKET_`` and the name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="DPMARKET_", extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    folder: Path = Path("dpmarket-service")
    """Where everything is that has no place of its own: ``data``, ``keys``, ``state``."""
    database_url: str | None = None
    """A file, or ``postgresql://...``; left out: ``data/market.db`` in the folder."""
    state: Path | None = None
    """The anti-rollback log, in no backup that is put back; left out: ``state`` in the folder."""
    keys_folder: Path | None = None
    """Private keys; left out: ``keys`` in the folder."""
    master_key_file: Path | None = None
    """The file of the key that wraps private keys; left out: they lie in clear, for their owner only."""
    public_url: str = "http://127.0.0.1:8000"
    """As callers know the service; its host, and loopback, are the only ones that are answered."""
    host: str = "127.0.0.1"
    """Where to listen: loopback, unless said otherwise."""
    port: Port = 8000
    """On which port; 0: a free one."""
    metrics_port: Port = 8001
    """The port of the metrics; 0: a free one."""
    trusted_proxies: str = ""
    """Addresses or networks of proxies that say who calls, with commas between them; left out: none."""
    quote_hours: float = Field(default=48.0, gt=0, le=10_000)
    """How long a quote can be accepted, online."""
    reservation_minutes: float = Field(default=15.0, gt=0, le=100_000)
    """How long money for any choice is held for a seller at the menu."""
    lifetime_epsilon: float = Field(default=5.0, gt=0, le=1e6)
    """The largest epsilon of a person over all campaigns; a campaign's own limit, if smaller, lowers it."""
    lifetime_delta: float = Field(default=1e-4, ge=0, lt=1)
    """The largest sum of a person's deltas; a campaign's own limit, if smaller, lowers it."""
    batch: int = Field(default=20, ge=2)
    """Buyers see sums over whole batches of so many acceptances."""
    max_body: int = Field(default=1_000_000, ge=1_000)
    """Bytes of a request."""
    workers: int = Field(default=1, ge=0, le=32)
    """How many workers ``dpmarket serve`` starts beside itself."""
    smtp_url: SecretStr | None = None
    """By which server mails are sent: ``smtps://user:password@host`` or ``smtp://...`` for STARTTLS;
    ``smtp+plain://`` on this machine only. Left out: links are shown to copy."""
    smtp_ca_file: Path | None = None
    """Which authorities are trusted for that server's certificate; left out: those of the machine."""
    mail_from: str | None = Field(default=None, pattern=r"^[^\s@<>,]+@[^\s@<>,]+$")
    """The address that mails come from."""
    mail_name: str | None = Field(default=None, max_length=100, pattern=r"^[^\r\n]+$")
    """The sender's name in mails; left out: the address alone."""
    contact: str | None = Field(default=None, max_length=200, pattern=r"^[^\r\n]+$")
    """Whom sellers can write to or call with questions: shown before they take part."""
    mail_language: str = "en"
    """The catalogue of their texts."""
    reminder_hours: float = Field(default=24.0, gt=0, le=10_000)
    """How long before the end people are reminded who have not answered."""
    keep_sellers_days: float | None = Field(default=None, ge=1, le=100_000)
    """So many days after a campaign has ended and a payment is confirmed, payee, address, links and history
    of its seller are deleted; left out: they are kept."""
    keep_acts_days: float | None = Field(default=None, ge=1, le=100_000)
    """So long the list of members' acts is kept; left out: for ever."""
    brand_name: str | None = Field(default=None, max_length=60, pattern=r"^[^\r\n]+$")
    """What pages call this service; left out: dpmarket."""
    brand_logo: Path | None = None
    """A picture, .svg or .png, of at most 200 kB, that pages show."""
    brand_colour: str | None = Field(default=None, pattern=r"^#[0-9a-fA-F]{6}$")
    """The colour of the line above every page, such as #1d5fa8."""
    private_hooks: bool = False
    """Whether webhooks may go to addresses in this network, and without TLS; left out: public ones only."""
    sign_ins_per_minute: int = Field(default=10, ge=1, le=10_000)
    """How often one address can try to sign in; behind trusted proxies each caller's own address counts."""
    auth_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]+$")
    """The header in which a trusted proxy names the member who signed in there; left out: none is read."""
    oidc_issuer: str | None = Field(default=None, pattern=r"^(https://|http://(127\.0\.0\.1|localhost)[:/])")
    """The address of an OpenID Connect provider by which members sign in."""
    oidc_client_id: str = ""
    """This service's name at the provider; ``/oidc/callback`` is where it leads back to."""
    oidc_client_secret: SecretStr = SecretStr("")
    """The secret that goes with it."""
    postgres_programs: Path | None = None
    """The folder of ``pg_dump`` and ``pg_restore``, for backups; left out: looked for as any program."""
    torch_factories: str = ""
    """Torch models that rules may name, as ``torch:package.module:factory``, with commas between them: their
    code runs in this service. Left out: none."""
    testing: bool = False
    """Whether this is a test on loopback with invented people."""
    clock_file: Path | None = None
    """For tests only: a file that holds by how many seconds the service's clock is ahead."""

    @field_validator("public_url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError("expected http(s)://host")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _names_come_from_proxies(self) -> Self:
        if self.auth_header is not None and self.trusted_proxies.strip() in ("", "*"):
            raise ValueError("auth_header needs trusted_proxies: anybody else could name anybody")
        if self.oidc_issuer is not None and not self.oidc_client_id:
            raise ValueError("oidc_issuer needs oidc_client_id")
        return self

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: type[BaseSettings], **sources: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before what is handed over, which comes from the file."""
        return sources["env_settings"], sources["init_settings"]

    @property
    def database(self) -> str:
        """Where the database is."""
        return self.database_url or str(self.folder / "data" / "market.db")

    @property
    def keys(self) -> Path:
        """Where private keys are; only a worker needs them."""
        return self.keys_folder or self.folder / "keys"

    @property
    def state_folder(self) -> Path:
        """Where the anti-rollback log is."""
        return self.state or self.folder / "state"

    def refuse_unlisted(self, model: str | None) -> None:
        """Refuse rules that name a torch model which is not listed here."""
        if model is not None and model not in [one.strip() for one in self.torch_factories.split(",")]:
            words = "expected a model that the operator of this service lists"
            raise MarketRefusal("invalid", f"training.model: {words}, got {model}.")

    @property
    def terms(self) -> Terms:
        """How long things last."""
        return Terms(
            reservation=timedelta(minutes=self.reservation_minutes),
            quote=timedelta(hours=self.quote_hours),
            batch=self.batch,
        )


def read_settings(folder: Path, **given: Any) -> Settings:
    """Return the settings of a service: what is given, over the environment, over the folder's file."""
    path = folder / SETTINGS_FILE
    written: dict[str, Any] = {}
    if path.is_file():
        try:
            written = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            raise FileProblem(f"cannot read {path}: expected settings as TOML.") from None
    for name in ("state", "keys_folder", "master_key_file", "clock_file", "smtp_ca_file", "brand_logo"):
        if isinstance(written.get(name), str):
            written[name] = folder / written[name]
    try:
        settings = Settings(**{**written, "folder": folder})
    except ValidationError as problem:
        names = sorted({str((*found["loc"], "auth_header and oidc_issuer")[0]) for found in problem.errors()})
        raise FileProblem(f"cannot use the settings of {folder}: look at {', '.join(names)}.") from None
    return settings.model_copy(update={"folder": folder, **given})
