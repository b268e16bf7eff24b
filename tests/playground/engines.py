"""JavaScript run by Node, or in a headless Chromium that talks to this process alone."""

import json
import queue
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1800",
    "--remote-debugging-port=0",  # so that the browser stays until it is ended
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def by_node(code):
    """What a script prints, read as JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node, and there is no node on this machine")
    run = subprocess.run([node, "-"], input=code, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def by_chromium(page, folder, seconds=120):
    """What a page posts to /answers, read as JSON."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs a browser, one of {', '.join(BROWSERS)}; none is on this machine")
    with _serving(page) as (url, posted):
        command = [browser, *FLAGS, f"--user-data-dir={folder}", url]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **quiet) as process:
            try:
                return json.loads(posted.get(timeout=seconds))
            except queue.Empty:
                pytest.fail(f"{browser} posted nothing in {seconds} s")
            finally:
                process.terminate()


@contextmanager
def _serving(page):
    """The address of a page on this machine, and a queue of what it posts."""
    posted = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(page.encode())

        def do_POST(self):
            posted.put(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(b"")

        def _answer(self, content):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", posted
        server.shutdown()
