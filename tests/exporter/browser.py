"""Drives a real browser, Chromium without a window, by the WebDriver protocol. Needs chromium and chromedriver."""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE_S = 120
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Left": "\ue012", "Right": "\ue014", "Home": "\ue011", "End": "\ue010",
        "Space": "\ue00d", "Down": "\ue015", "Up": "\ue013"}


def missing():
    """Returns the names of the programs for these tests that are not installed."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    """A browser that resolves no names, so it reaches the loopback network only."""

    def __init__(self, width=1280, height=900, is_dark=False, runs_scripts=True):
        self.directory = tempfile.mkdtemp(prefix="virgate-browser-", dir="/tmp")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"HOME": self.directory, "TMPDIR": self.directory}, start_new_session=True)
        self.session = None
        try:
            self.open_session(width, height)
        except BaseException:
            self.stop()
            raise
        # A window cannot be narrower than 500 pixels, but the page can be made to see a narrower one.
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 500)
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])
        if not runs_scripts:
            self.cdp("Emulation.setScriptExecutionDisabled", value=True)

    def open_session(self, width, height):
        for line in self.driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                break
        else:
            raise AssertionError("chromedriver does not start")
        self.port = int(found[1])
        arguments = ["--headless=new", f"--window-size={max(width, 500)},{height}", "--disable-gpu", "--no-first-run",
                     "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                     "--no-proxy-server", "--hide-scrollbars",
                     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                     f"--user-data-dir={self.directory}/profile"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"}}}})
        self.session = answer["sessionId"]
        # The address at which Chromium serves its DevTools. The browser resolves no names, not even localhost.
        self.debugger = answer["capabilities"]["goog:chromeOptions"]["debuggerAddress"].replace("localhost",
                                                                                                "127.0.0.1")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        prefix = f"/session/{self.session}" if self.session else ""
        connection.request(method, prefix + path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        assert not (isinstance(answer, dict) and "error" in answer), f"{method} {path}: {answer}"
        return answer

    def cdp(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, address):
        self.ask("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """Runs JavaScript in the page, and returns the value that it returns."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, what):
        """Waits until the script returns a true value, and returns that value."""
        end = time.monotonic() + PATIENCE_S
        while not (value := self.run(f"return {script}")):
            assert time.monotonic() < end, f"{what}: not within {PATIENCE_S} s"
            time.sleep(0.05)
        return value

    def wait_for_frame(self):
        """Waits until the page has drawn the current frame."""
        self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def press(self, *keys):
        """Sends keys to the element that has the focus."""
        for key in keys:
            active = self.ask("GET", "/element/active")[ELEMENT]
            self.ask("POST", f"/element/{active}/value", {"text": KEYS[key]})

    def log(self, kind):
        """Returns the messages since the last call: texts for the kind "browser", and events for the kind
        "performance"."""
        entries = self.ask("POST", "/se/log", {"type": kind})
        if kind == "browser":
            return [entry["message"] for entry in entries]
        return [json.loads(entry["message"])["message"] for entry in entries]

    def screenshot(self, path, height=None):
        """Writes a picture of the page: its upper `height` pixels, or the whole page."""
        metrics = self.cdp("Page.getLayoutMetrics")
        size, visible = metrics["cssContentSize"], metrics["cssLayoutViewport"]["clientHeight"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        # For a picture of more than is visible, Chromium resizes the page for a moment. That empties its canvases, so
        # it is requested only if it is needed.
        picture = self.cdp("Page.captureScreenshot", format="png", clip=clip,
                           captureBeyondViewport=clip["height"] > visible)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def stop(self):
        if self.session:
            with contextlib.suppress(Exception):
                self.ask("DELETE", "")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.driver.pid, signal.SIGKILL)  # the process group of the driver also contains the browser
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.stop()
