"""Stand between two programs on loopback and cut their connections: at once, or after what one of them said.

One thread moves the bytes of all proxies. An answer that is cut off after the request went through is the
fault that makes people pay twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Wires:
    """The thread that moves bytes; for a ``with`` block."""

    def __enter__(self) -> Wires:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)

    def lay(self, target: int) -> Wire:
        """Lay a wire to a port of loopback."""
        wire = Wire(self._loop, target)
        asyncio.run_coroutine_threadsafe(wire.begin(), self._loop).result(10.0)
        return wire


class Wire:
    """A port that leads to another one.

    Attributes
    ----------
    port
        Where to call.
    cuts
        How many connections were cut.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, target: int) -> None:
        self._loop, self._target = loop, target
        self._open: set[asyncio.StreamWriter] = set()
        self._words: bytes | None = None
        self._answers = 0
        self.port, self.cuts = 0, 0

    async def begin(self) -> None:
        server = await asyncio.start_server(self._through, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def cut(self, number: int | None = None) -> None:
        """Cut so many connections now; None: all."""
        self._loop.call_soon_threadsafe(self._cut, number)

    def cut_after(self, words: bytes) -> None:
        """Cut the next connection over which these words are sent, after they have arrived."""
        self._words = words

    def cut_answers(self, number: int) -> None:
        """Cut the next answers off: the requests have arrived."""
        self._answers = number

    def _cut(self, number: int | None) -> None:
        for writer in list(self._open)[:number]:
            self.cuts += 1
            writer.transport.abort()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, answering = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open.add(writer)
        both = (writer, answering)
        asking = asyncio.ensure_future(self._ask(reader, *both))
        try:
            await asyncio.wait([asking, asyncio.ensure_future(self._answer(there, *both))])
        finally:
            self._open.discard(writer)
            for end in both:
                end.transport.abort()

    async def _ask(
        self, reader: asyncio.StreamReader, caller: asyncio.StreamWriter, target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                target.write(data)
                await target.drain()
                if self._words is not None and self._words in data:
                    self._words = None
                    self.cuts += 1
                    await asyncio.sleep(0.02)  # until what was said has been done
                    caller.transport.abort()
        target.transport.abort()

    async def _answer(
        self, reader: asyncio.StreamReader, caller: asyncio.StreamWriter, target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._answers:
                    self._answers -= 1
                    self.cuts += 1
                    break
                caller.write(data)
                await caller.drain()
        caller.transport.abort()
        target.transport.abort()
