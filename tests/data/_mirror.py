"""A mirror on this machine, which can fail as mirrors do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Mirror:
    """A web server: what it has, what it was asked for, and after how many bytes it hangs up."""

    url: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    drops_after: int | None = None


def _handler(mirror: Mirror) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            mirror.requests.append(name)
            if name not in mirror.contents:
                self.send_error(404)
                return
            content = mirror.contents[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: mirror.drops_after])

        def log_message(self, format: str, *args: object) -> None:
            """Stays silent."""

    return Handler


@contextmanager
def running_mirror() -> Iterator[Mirror]:
    mirror = Mirror()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(mirror)) as server:
        mirror.url = f"http://127.0.0.1:{server.server_port}/published/"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield mirror
        finally:
            server.shutdown()
            thread.join()
