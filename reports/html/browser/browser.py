"""A headless Chromium on a pipe, spoken to by the DevTools protocol. The standard library is enough."""

import json
import os
import select
import subprocess
import tempfile
import time


class Browser:
    """One page. What it logs as errors and what it fetches is collected in `errors` and `fetched`."""

    def __init__(self, executable, seconds=240):
        self.deadline = time.monotonic() + seconds
        self.errors, self.fetched, self.events = [], [], []
        self.number, self.buffer, self.session = 0, b"", None
        self.profile = tempfile.TemporaryDirectory(prefix="mtpcheck_browser_", ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def place():  # the browser reads from descriptor 3 and writes to 4
            commands, answers = os.dup(to_browser), os.dup(from_browser)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [executable, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-extensions",
             f"--user-data-dir={self.profile.name}", "--window-size=1280,900", "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.profile.name})
        os.close(to_browser)
        os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def call(self, method, **parameters):
        """One command, and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            block = os.read(self.read_end, 1 << 20)
            if not block:
                raise RuntimeError(f"the browser ended with exit code {self.process.wait()}")
            self.buffer += block
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, event, parameters):
        self.events.append(event)
        if event == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(str([part.get("value") for part in parameters["args"]]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.fetched.append(parameters["request"]["url"])

    def open(self, path):
        """Loads a file and waits until it is there."""
        self.errors, self.fetched, self.events = [], [], []
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while "Page.loadEventFired" not in self.events:
            self.receive()

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key):
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "",
                      windowsVirtualKeyCode={"Enter": 13, "ArrowDown": 40, "ArrowRight": 39}[key])
