"""Headless Chromium with what the tests of reports ask of it. Debian's python3-selenium, chromium, chromium-driver."""
import base64
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
AXE = HERE / "node_modules/axe-core/axe.min.js"
REMEDY = "'make test' installs it (or: make setup-tests)"

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    sys.exit(f"browser test: python3-selenium is missing: {REMEDY}")


class Browser:
    def __init__(self):
        for command in ("chromium", "chromedriver"):
            if shutil.which(command) is None:
                sys.exit(f"browser test: {command} is missing: {REMEDY}")
        if not AXE.exists():
            sys.exit(f"browser test: axe-core is missing: {REMEDY}")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        # No sandbox: tests run as root in containers, on pages we wrote ourselves.
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.look()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def look(self, width=1200, height=900, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, path):
        """Opens a file and waits until every piece has been drawn."""
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(pathlib.Path(path).resolve().as_uri())
        self.settle()

    def settle(self):
        """Until two frames have passed: sizes are known then, and plots drawn."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def first_paint(self):
        """Seconds from the start of loading until something could be read."""
        return self.driver.execute_async_script("""
            const done = arguments[0];
            new PerformanceObserver((list) => {
              const [paint] = list.getEntriesByName("first-contentful-paint");
              if (paint) done(paint.startTime / 1000);
            }).observe({type: "paint", buffered: true})""")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Every address asked for since the page was opened."""
        addresses = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                addresses.append(message["params"]["request"]["url"])
        return addresses

    def axe(self):
        """Serious findings of axe, in words."""
        self.run(AXE.read_text())
        found = self.driver.execute_async_script(
            "axe.run().then(arguments[0], (error) => arguments[0]({error: String(error)}))")
        if "error" in found:
            return [found["error"]]
        return [f'{rule["id"]} ({rule["impact"]}): {rule["help"]}: {rule["nodes"][0]["html"][:200]}'
                for rule in found["violations"] if rule["impact"] in ("serious", "critical")]

    def screenshot(self, path, width, height=None, dark=False):
        """The page from its top, as much of it as `height` says, or all."""
        self.look(width, height or 900, dark)
        self.settle()
        if height is None:
            self.look(width, self.run("return document.documentElement.scrollHeight"), dark)
        self.settle()
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))
