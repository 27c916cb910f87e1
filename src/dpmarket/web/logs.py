"""Logs as lines of JSON, without anything of what is in a request: paths hold tokens, messages values."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

LOGGER = logging.getLogger("dpmarket.web")


class JsonLines(logging.Formatter):
    """Writes a log record as one line of JSON: our own fields, or the template of somebody else's message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        own = getattr(record, "fields", None)
        if isinstance(own, dict):
            line |= own
        else:
            line |= {"logger": record.name, "event": str(record.msg).split("\n")[0][:200]}
        if record.exc_info is not None and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def log_to(stream: TextIO | None = None) -> logging.Handler:
    """Write all logs of this process as lines of JSON, and of the server only what is wrong."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler


def log_event(event: str, **fields: Any) -> None:
    """Log that something happened: a word, and fields that hold no value of anybody."""
    LOGGER.info("event", extra={"fields": {"event": event, **fields}})
