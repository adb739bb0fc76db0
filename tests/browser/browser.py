"""A headless Chromium, driven over its own debugging protocol through a pipe."""

import base64
import json
import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome")

#: What a person sees of the elements that a selector finds: text, and whether it takes up room
#: and is painted.
SEEN = """[...document.querySelectorAll(SELECTOR)].map(e => {
  const box = e.getBoundingClientRect();
  const shown = e.checkVisibility({opacityProperty: true, visibilityProperty: true});
  return [e.textContent, shown && box.width > 0 && box.height > 0];
})"""


def executable():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. Requests, messages on the console and exceptions are collected in `faults`."""

    def __init__(self, folder):
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        flags = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"),
        ]
        # The protocol is spoken on the file descriptors 3 and 4.
        exchange = f'exec "$@" 3<&{read} 4>&{write}'
        command = ["bash", "-c", exchange, "bash", executable(), *flags]
        with open(os.path.join(folder, "log"), "wb") as log:
            self._process = subprocess.Popen(
                command, pass_fds=(read, write), stdout=log, stderr=log
            )
        os.close(read)
        os.close(write)
        self._rest, self._number, self.faults = b"", 0, []
        #: Begins of addresses that may be asked for, beside those of files.
        self.allowed = ("file:", "data:", "about:")
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends it."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._to)
        os.close(self._from)

    def _message(self):
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("the browser has gone")
            self._rest += more
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(self.allowed):
                self.faults.append(f"request: {url}")
        elif method == "Network.loadingFailed":
            self.faults.append(f"not loaded: {params['errorText']}")
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.faults.append(f"{method}: {json.dumps(params)[:300]}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"console: {params['entry']['text']}")

    def call(self, method, **params):
        """Sends a command and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, *, width=1200, height=900, dark=False):
        """Shows a file, or an address."""
        self.faults.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        """Gives the value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def seen(self, selector):
        """The texts of elements, and whether each is to be seen."""
        return self.run(SEEN.replace("SELECTOR", json.dumps(selector)))

    def screenshot(self, path):
        """Writes a picture of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
