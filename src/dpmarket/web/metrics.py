"""Metrics of requests without anything of what is in them: route templates, statuses, times."""

import secrets
import time
from collections.abc import Iterator, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dpmarket.campaign.checks import books
from dpmarket.campaign.database import Market
from dpmarket.campaign.views import count_unpaid, job_counts
from dpmarket.errors import DpmarketError
from dpmarket.web.guard import Application, Receive, Scope, Send
from dpmarket.web.logs import LOGGER
from dpmarket.web.problems import problem

_BOOKS_SECONDS = 60.0
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What is counted, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route")
        self.requests = Counter("dpmarket_requests", "Requests.", (*labels, "status"), registry=self.registry)
        self.seconds = Histogram(
            "dpmarket_request_seconds", "Time to an answer.", labels, buckets=_BUCKETS, registry=self.registry
        )

    def watch_market(self, market: Market) -> None:
        """Add how the market stands whenever the metrics are read."""
        self.registry.register(_MarketCollector(market))


class _MarketCollector(Collector):
    """Reads from the database what all processes did."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._books: tuple[float, float] = (-_BOOKS_SECONDS, 0.0)

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is read when it is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the market."""
        is_up, words = "dpmarket_database_up", "Whether the database can be read."
        try:
            with self._market.look() as c:
                jobs, unpaid = job_counts(c), count_unpaid(c)
                if time.monotonic() - self._books[0] >= _BOOKS_SECONDS:
                    self._books = (time.monotonic(), float(not books(c)))
        except DpmarketError:
            yield GaugeMetricFamily(is_up, words, value=0.0)
            return
        yield GaugeMetricFamily(is_up, words, value=1.0)
        family = GaugeMetricFamily("dpmarket_jobs", "Jobs of workers.", labels=["kind", "state"])
        for (kind, state), number in sorted(jobs.items()):
            family.add_metric([kind, state], number)
        yield family
        yield GaugeMetricFamily("dpmarket_campaigns_unpaid", "Campaigns that wait for a debt.", value=unpaid)
        words = "Whether all accounts add up; at most a minute old."
        yield GaugeMetricFamily("dpmarket_books_balanced", words, value=self._books[1])


class Watch:
    """An ASGI application around another one: outermost, so that it sees every answer and every error."""

    def __init__(self, app: Application, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, count it and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, begun, status = secrets.token_hex(8), time.perf_counter(), 0

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # its text may hold anything; its kind does not
            scope["dpmarket.kind"] = type(error).__name__
            if status == 0:
                await problem(500)(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - begun
            # The route's template: a path itself may hold a token.
            route = str(getattr(scope.get("route"), "path", "none"))
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.seconds.labels(method, route).observe(seconds)
            self._metrics.requests.labels(method, route, str(status)).inc()
            fields = {"request": request_id, "method": method, "route": route, "status": status}
            refusal = {"error": scope["dpmarket.kind"]} if "dpmarket.kind" in scope else {}
            LOGGER.info("request", extra={"fields": {**fields, "ms": round(1e3 * seconds, 1), **refusal}})
