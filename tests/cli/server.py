"""A web server for the tests of downloads: python3 server.py FOLDER LOG. Prints its port, then serves until it is killed.

The first part of a path says how it misbehaves: /good/NAME serves ranges, /plain/NAME knows none, /drop/NAME closes the
connection halfway through what was asked for, /slow/NAME takes its time, /wrong/NAME sends as many zeros, /moved/NAME points
to /good/NAME, anything else is 404. LOG gets a line a request: path, range.
"""
import http.server
import os
import sys
import time

folder, log = sys.argv[1:3]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range", "")
        with open(log, "a") as out:
            print(self.path, asked, file=out)
        kind, name = self.path[1:].split("/", 1)
        path = os.path.join(folder, name)
        if kind not in ("good", "plain", "drop", "slow", "wrong", "moved") or not os.path.exists(path):
            return self.send_error(404)
        if kind == "moved":
            self.send_response(302)
            self.send_header("Location", "/good/" + name)
            return self.end_headers()
        with open(path, "rb") as file:
            content = file.read()
        if kind == "wrong":
            content = bytes(len(content))
        start = int(asked[len("bytes="):-1]) if asked and kind != "plain" else 0
        if start > 0 and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start > 0 else 200)
        if start > 0:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.send_body(kind, content[start:])

    def send_body(self, kind, body):
        if kind == "drop":
            body = body[:(len(body) + 1) // 2]
        step = 1000 if kind == "slow" else len(body)
        for first in range(0, len(body), step):
            self.wfile.write(body[first:first + step])
            self.wfile.flush()
            if kind == "slow":
                time.sleep(0.05)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
