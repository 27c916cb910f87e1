"""A small HTTP server on loopback, for as long as a block runs."""

import contextlib
import threading
from http.server import HTTPServer


@contextlib.contextmanager
def served(handler):
    """Let a handler's class answer; give the address."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
