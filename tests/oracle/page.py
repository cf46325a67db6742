#!/usr/bin/env python3
"""Opens the page of `attacca serve` in headless Chromium and chats: page.py <binary> [screenshot.png].

Needs Debian's chromium and chromium-driver, and selenium from PyPI. Skips itself, with status 77, where one is missing.
"""
import re
import subprocess
import sys
import threading
import time
import urllib.request

from browser import open_browser  # first: it skips where selenium is missing
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait


def load(address, count):
    """Some requests beside the chat, so that the charts have something to show."""
    body = b'{"model": "small", "prompt": "Once upon a time there was a fox", "max_tokens": 150, "ignore_eos": true}'
    request = urllib.request.Request(address + "/v1/completions", body, {"Content-Type": "application/json"})
    for _ in range(count):
        urllib.request.urlopen(request, timeout=60).read()


def check(browser, address, screenshot):
    browser.get(address)
    find = lambda name: browser.find_element(By.ID, name)
    until = lambda what, condition: WebDriverWait(browser, 60).until(lambda _: condition(), what)
    until("the page never said that the server runs", lambda: find("state").text == "running")
    assert find("model").text == "small", find("model").text
    helpers = [threading.Thread(target=load, args=(address, 60 if screenshot else 3)) for _ in range(3)]
    for helper in helpers:
        helper.start()
    assert find("which").is_displayed(), "there are two models to choose from"
    find("which").find_element(By.XPATH, "option[. = 'other']").click()
    find("text").send_keys("Tell me a story about a fox.")
    find("send").click()
    until("no reply", lambda: browser.find_elements(By.CSS_SELECTOR, "#said .assistant") and find("send").is_enabled())
    reply = browser.find_element(By.CSS_SELECTOR, "#said .assistant").text
    assert len(reply) > 40, reply
    assert not browser.find_elements(By.CSS_SELECTOR, "#said .error")
    until("the model of the chat is not shown", lambda: find("model").text == "small, other")
    until("no step is shown", lambda: len(browser.find_elements(By.CSS_SELECTOR, "#steps rect")) > 20)
    until("no line is drawn", lambda: "L" in browser.find_element(By.CSS_SELECTOR, "#rate path").get_attribute("d"))
    assert re.match("graph sizes: .*\\d", find("sizes").text), find("sizes").text
    if screenshot:
        time.sleep(15)  # until the charts have something to show
        browser.save_screenshot(screenshot)
    for helper in helpers:
        helper.join()
    errors = [entry["message"] for entry in browser.get_log("browser") if "favicon" not in entry["message"]]
    assert not errors, errors
    print(f"page: a reply of {len(reply)} letters, {len(browser.find_elements(By.CSS_SELECTOR, '#tiles div'))} figures")


def main():
    server = subprocess.Popen([sys.argv[1], "serve", "small", "--model", "other=small", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        browser = open_browser(1180, 1180)
        try:
            check(browser, address, sys.argv[2] if len(sys.argv) > 2 else None)
        finally:
            browser.quit()
    finally:
        server.terminate()
        server.wait(60)


main()
