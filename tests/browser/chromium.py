"""A real browser, driven by Chrome's DevTools protocol over a pipe."""

import base64
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any

PATH = shutil.which("chromium")

_PATIENCE = 60.0  # seconds until an answer is given up; a loaded machine takes a few
_OPTIONS = (
    *("--headless=new", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    # The pages are our own, and neither root nor every CI may have the sandbox.
    *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-sandbox"),
)
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
_TYPED = {"Enter": "\r", " ": " "}


class Browser:
    """One tab of Chromium; ``problems`` are errors that the page met or wrote to the console."""

    def __init__(self, folder: Path) -> None:
        assert PATH is not None
        child_reads, self._writes = map(_high, os.pipe())
        self._reads, child_writes = map(_high, os.pipe())
        own = (f"--user-data-dir={folder / 'profile'}", "about:blank")
        with Path(os.devnull).open("w") as nowhere:
            self._process = os.posix_spawn(
                PATH,
                [PATH, *_OPTIONS, *own],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, child_reads, 3),  # where the protocol has its pipes
                    (os.POSIX_SPAWN_DUP2, child_writes, 4),
                    (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, nowhere.fileno(), 2),
                ],
                setpgroup=0,
            )
        os.close(child_reads)
        os.close(child_writes)
        self._n_sent = 0
        self._session: str | None = None
        self._unread = b""
        self.downloads = folder / "downloads"
        self.problems: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends one command and returns its answer."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._writes, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._n_sent:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._reads], [], [], _PATIENCE)
            assert ready, f"Chromium gave no answer in {_PATIENCE:g} s."
            piece = os.read(self._reads, 1 << 20)
            assert piece, "Chromium ended."
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details)))
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page; promises are awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until an expression is true."""
        until = time.monotonic() + _PATIENCE
        while not self.run(condition):
            assert time.monotonic() < until, f"This never came true: {condition}"
            time.sleep(0.02)

    def open(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Opens a page of which the first run should be drawn."""
        self.problems.clear()
        self.resize(width, height)
        self.media(dark=dark)
        self.send("Page.navigate", url=page.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def media(self, *, dark: bool = False, media: str = "") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({selector!r}).textContent.trim()"))

    def texts(self, selector: str) -> list[str]:
        found = f"[...document.querySelectorAll({selector!r})]"
        return list(self.run(f"{found}.map((each) => each.textContent.trim())"))

    def choose(self, selector: str, text: str) -> None:
        """Chooses the option of a select that has this text, as a user would."""
        self.run(
            f"""(() => {{
              const select = document.querySelector({selector!r});
              const option = [...select.options].find((each) => each.text === {json.dumps(text)});
              select.value = option.value;
              select.dispatchEvent(new Event("change", {{ bubbles: true }}));
            }})()"""
        )

    def middle(self, selector: str) -> tuple[float, float]:
        """Scrolls an element into view and returns where its middle is."""
        x, y = self.run(
            f"""(() => {{
              const found = document.querySelector({selector!r});
              found.scrollIntoView({{ block: "center", behavior: "instant" }});
              const box = found.getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        return x, y

    def click(self, selector: str) -> None:
        self.click_at(*self.middle(selector))

    def click_at(self, x: float, y: float) -> None:
        self.hover_at(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover_at(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, *keys: str) -> None:
        for key in keys:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
            typed = {"text": _TYPED[key]} if key in _TYPED else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", **code, **typed)
            self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def downloaded(self, selector: str) -> tuple[str, str]:
        """Clicks, and returns the name and the text of the file that comes."""
        before = set(self.downloads.glob("*"))
        self.run(f"document.querySelector({selector!r}).click()")
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            new = [p for p in set(self.downloads.glob("*")) - before if p.suffix != ".crdownload"]
            if new and new[0].stat().st_size:
                return new[0].name, new[0].read_text(encoding="utf-8")
            self.run("0")
            time.sleep(0.02)
        raise AssertionError(f"No file came of {selector}.")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._session = None
        self.send("Browser.close")
        os.close(self._writes)
        os.close(self._reads)
        until = time.monotonic() + 10
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > until:
                os.killpg(self._process, signal.SIGKILL)
            time.sleep(0.02)


def _high(descriptor: int) -> int:
    """Returns the same pipe under a number that is not one of those the browser expects."""
    other = fcntl(descriptor, F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return other


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    found = Browser(folder)
    try:
        yield found
    finally:
        found.close()
