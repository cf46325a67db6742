"""Headless Chromium for the pages: Debian's chromium and chromium-driver, driven by selenium from PyPI. A program that imports
this skips itself, with status 77, where one is missing."""
import shutil
import sys

try:
    from selenium import webdriver
except ImportError:
    print("selenium is missing: pip install selenium")
    sys.exit(77)
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    print("Chromium is missing: apt-get install chromium chromium-driver")
    sys.exit(77)


def open_browser(width, height):
    options = webdriver.ChromeOptions()
    for flag in "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}":
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
