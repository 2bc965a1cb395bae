"""Chromium without a window, for the tests of the page; or why there is none."""

import base64
import shutil

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WAIT_S = 20
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--window-size=1200,760"]


class Browser:
    """One Chromium; its page is loaded by open()."""

    def __init__(self, with_scripts=True):
        if not CHROMIUM or not DRIVER:
            pytest.skip("chromium and chromium-driver are not installed")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_page_load_timeout(60)
        if not with_scripts:
            self.tell("Emulation.setScriptExecutionDisabled", value=True)

    def close(self):
        self.driver.quit()

    def tell(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, url):
        self.driver.get(url)

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def find_all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.find(css).get_attribute("textContent")

    def wait(self, condition):
        """Until condition() is true. What is asked of a page that is just being left fails."""
        waiting = WebDriverWait(self.driver, WAIT_S, 0.05,
                                ignored_exceptions=[WebDriverException])
        return waiting.until(lambda _: condition())

    def complaints(self):
        """What the console says, scripts that the policy stopped among it."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"]

    def look_like(self, dark=False, width=1200, height=760):
        self.tell("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 500)

    def picture(self):
        return base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"])
