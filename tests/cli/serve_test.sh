# poem serve: all requests, its limits, bad input, reload and stop.
source "$(dirname "$0")/common.sh"
if ! grep -q httplib <<<"$(ldd "$program")"; then echo "built without cpp-httplib: skipped"; exit 0; fi
write_image_config image.yaml
expect_ok train image.yaml --out run --set train.epochs=1 --set data.train=world:train:80 --set data.validation=0.2 --set mining.select=32
python3 "$sources/tests/cli/photos.py" photos 3
expect_ok predict run photos/1.png photos/2.png --format csv --out predicted.csv
python3 "$sources/tests/cli/image_files.py" all
poem --quiet predict run all --format csv --out all.csv 2>"$logs/err" || expect_same $? 3

start() { # start ARGUMENTS...: sets $server and $url
  "$program" --threads 1 serve run --port 0 "$@" >"$logs/serve" 2>"$logs/serve-err" &
  server=$!
  for _ in $(seq 200); do
    url=$(sed -n 's/.* at \(http.*\)/\1/p' "$logs/serve")
    [ -n "$url" ] && return
    kill -0 $server 2>/dev/null || fail "the service ended: $(cat "$logs/serve-err")"
    sleep 0.05
  done
  fail "the service does not start"
}

start --max-body 1 --max-queue 8
cat >client.py <<'PYTHON'
import base64, concurrent.futures, csv, gzip, hashlib, http.client, json, os, re, signal, socket, struct, sys, time, zlib
import urllib.error, urllib.request
url, mode = sys.argv[1:3]
host, port = re.match("http://(.*):(.*)/", url).groups()


def ask(path, body=None, kind=None, token=None, encoding=None):
    """The status, the headers and the body of an answer."""
    request = urllib.request.Request(url + path, data=body)
    if kind: request.add_header("Content-Type", kind)
    if encoding: request.add_header("Content-Encoding", encoding)
    if token: request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def results(body, kind="application/octet-stream", status=200):
    got, _, text = ask("v1/predict", body, kind)
    assert got == status, (got, text)
    return json.loads(text)["results"]


def problem(status, *words, body=b"", kind="application/octet-stream", path="v1/predict"):
    got, headers, text = ask(path, body, kind)
    assert got == status, (got, text)
    message = json.loads(text)["error"]
    assert all(word in message for word in words), message
    return headers


def form(*files):
    parts = b"".join(b'--X\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (field, name, data)
                     for field, name, data in files)
    return parts + b"--X--\r\n", "multipart/form-data; boundary=X"


def rest(s, text):
    """The whole answer that begins with text: head and body may come one after the other."""
    while b"\r\n\r\n" not in text: text += s.recv(1000)
    head, body = text.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"Content-Length: (\d+)", head)[1])
    while len(body) < length: body += s.recv(1000)
    return head + body


def raw(*lines, body=b""):
    """The whole answer to a head with these lines."""
    with socket.create_connection((host, int(port)), timeout=20) as s:
        try:
            s.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        except ConnectionError:
            pass  # refused before it arrived
        return rest(s, b"")


def raw_problem(status, words, *lines, body=b""):
    """Such a request is refused, and the connection ends."""
    text = raw(*lines, body=body)
    assert int(text.split()[1]) == status and words in text, text[:500]
    assert b"Connection: close" in text and b"Keep-Alive" not in text, text[:500]


first, second = (open(f"photos/{i}.png", "rb").read() for i in (1, 2))
if mode == "answers":
    # The same verdicts as poem predict, in every form of request.
    expected = list(csv.DictReader(open("predicted.csv")))
    one = results(first, "image/png")[0]
    both = results(*form((b"z", b"b.png", second), (b"a", b"a.png", first)))
    assert [r["name"] for r in both] == ["b.png", "a.png"]  # the order of the form
    text = results(json.dumps({"images": [{"data": base64.b64encode(first).decode()}]}).encode(), "application/json")[0]
    for got, row in ((one, expected[0]), (both[1], expected[0]), (both[0], expected[1]), (text, expected[0])):
        assert got["verdict"] == row["verdict"], (got, row)
        assert abs(got["score"] - float(row["score"])) < 1e-4, (got, row)
    model = json.loads(ask("v1/model")[2])
    assert len(model["classes"]) == 8 and model["size"] == 16 and sum(model["held_out"]["counts"]) == 16
    paths = json.loads(ask("openapi.json")[2])["paths"]
    assert paths.keys() == {"/v1/predict", "/v1/model", "/healthz", "/metrics", "/openapi.json"}
    documented = re.findall(r"\b[45]\d\d\b", " ".join(re.findall(r"^\| ([45]\d\d.*?) \|", open(sys.argv[3]).read(), re.M)))
    described = [status for status in paths["/v1/predict"]["post"]["responses"] if status != "200"]
    assert described == [status for status in documented if status not in ("404", "405")], (described, documented)
    for path in paths:
        assert "503" in paths[path]["post" if path == "/v1/predict" else "get"]["responses"], path
    assert ask("healthz")[0] == 200 and b"<title>" in ask("")[2]

    # A connection stays open, unless another one waits for a thread.
    def told(connection):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.read() == b'{"status":"ok"}'
        return answer.headers["Connection"]

    connections = [http.client.HTTPConnection(host, int(port), timeout=20) for _ in range(65)]
    assert all(told(c) != "close" for c in connections[1:] for _ in range(10))
    connections[0].request("GET", "/healthz")
    end = time.monotonic() + 4  # before a silent connection is closed
    while told(connections[1]) != "close": assert time.monotonic() < end
    assert connections[0].getresponse().status == 200
    for c in connections: c.close()

    # Every sort of image, good and bad, as poem predict judges it.
    rows = list(csv.DictReader(open("all.csv")))
    for part in (rows[:5], rows[5:]):
        files = [(b"f", row["path"].encode(), open(row["path"], "rb").read()) for row in part]
        for row, got in zip(part, results(*form(*files))):
            assert got["name"] == row["path"] and got.get("error", "") == row["error"], (got, row)
            assert row["error"] or abs(got["score"] - float(row["score"])) < 1e-4, (got, row)

    # Bad input: one clear answer each.
    problem(400, "empty", body=b"")
    assert "error" in results(b"no image at all", status=422)[0]
    assert "error" in results(first[:-30], status=422)[0]
    mixed = results(*form((b"f", b"bad.png", b"no"), (b"f", b"good.png", first)))
    assert "error" in mixed[0] and abs(mixed[1]["score"] - one["score"]) < 1e-4
    for text in (b"{", b"[]", b"{}", b'{"images": 1}', b'{"images": [1]}', b'{"images": [], "more": 1}', b'{"images": NaN}'):
        problem(400, '"images"', body=text, kind="application/json")
    problem(400, "no image", body=b'{"images": []}', kind="application/json")
    problem(400, "no image", body=b'--X\r\nContent-Disposition: form-data; name="a"\r\n\r\ntext\r\n--X--\r\n',
            kind="multipart/form-data; boundary=X")
    problem(400, "cut short", body=form((b"f", b"a.png", first))[0][:-20], kind="multipart/form-data; boundary=X")
    problem(400, "not base64", body=b'{"images": [{"data": "*"}]}', kind="application/json")
    problem(400, "unknown field 'date'", body=b'{"images": [{"data": "", "date": 1}]}', kind="application/json")
    problem(413, "1048576", body=bytes(2 << 20))
    many, kind = form(*[(b"f", b"x.png", first)] * 9)
    problem(413, "more than the 8 images", body=many, kind=kind)
    for body in (gzip.compress(bytes(2 << 20)), b"100000\r\n" + bytes(1 << 20) + b"\r\n" + b"100000\r\n" + bytes(1 << 20) + b"\r\n0\r\n\r\n"):
        packed = body[:2] == b"\x1f\x8b"  # else in chunks, without a length
        with socket.create_connection((host, int(port))) as s:
            s.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\n" + (
                b"Content-Encoding: gzip\r\nContent-Length: %d" % len(body) if packed else b"Transfer-Encoding: chunked") + b"\r\n\r\n" + body)
            assert s.recv(100).split()[1] == b"413", packed
    problem(400, "not a text", body=b'{"images": [{"data": "", "name": 3}]}', kind="application/json")
    problem(404, "/v2/predict", path="v2/predict", body=None, kind=None)
    assert problem(405, "POST", "GET", body=None, kind=None)["Allow"] == "POST"
    assert problem(405, "/healthz", path="healthz")["Allow"] == "GET, HEAD"
    bomb = first[:16] + struct.pack(">II", 60000, 60000) + first[24:]  # a header that claims 3.6 thousand million pixels
    assert "error" in results(bomb, status=422)[0]
    raw_problem(400, b"TLS", b"\x16\x03\x01\x02\x00\x01\x00")
    # Heads, and what is between the parts of a body, have limits too.
    get, post, chunked = b"GET /healthz HTTP/1.1", b"POST /v1/predict HTTP/1.1", b"Transfer-Encoding: chunked"
    raw_problem(431, b"8192", get, b"X: " + b"y" * 9000)
    raw_problem(431, b"8192", b"GET /" + b"y" * 9000)
    raw_problem(431, b"65536", get, *[b"a: b"] * 50000)
    raw_problem(400, b"8192", post, chunked, body=b"1;" + b"y" * 100000)
    begun = b'--X\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nabc\r\n--X'
    filling = (b"%x\r\n" % (1 << 20) + bytes(1 << 20) + b"\r\n") * 3
    raw_problem(413, b"larger", post, b"Content-Type: multipart/form-data; boundary=X", chunked,
                body=b"%x\r\n%s\r\n" % (len(begun), begun) + filling)
    packed = gzip.compress(begun + bytes(3 << 20))
    raw_problem(415, b"compressed", post, b"Content-Type: multipart/form-data; boundary=X", b"Content-Encoding: gzip",
                b"Content-Length: %d" % len(packed), body=packed)
    # The length of the body.
    start = time.monotonic()
    assert b"the body is empty" in raw(post) and time.monotonic() - start < 5
    for lengths in ([b"Content-Length: abc"], [b"Content-Length: -1"], [b"Content-Length: 3x"], [b"Content-Length: " + b"9" * 30],
                    [b"Content-Length: 3", b"Content-Length: 5"], [b"Content-Length: 3", chunked], [b"Transfer-Encoding: foo"]):
        raw_problem(400, b"how long the body is", post, *lengths, body=b"abc")
    raw_problem(413, b"larger", post, b"Content-Length: 9999999", body=b"abc")
    assert b"Keep-Alive" in raw(post, b"Content-Length: 3", b"Content-Length: 3", body=b"abc")
    assert ask("healthz")[0] == 200

    # More images than the queue takes: some requests are told to come again, all others are answered.
    def burst(i):
        status, headers, _ = ask("v1/predict", *form(*[(b"f", b"%d.png" % k, first) for k in range(8)]))
        assert status == 200 or (status == 429 and headers["Retry-After"] == "1"), status
        return status
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        statuses = list(pool.map(burst, range(120)))
    assert 200 in statuses
    metrics = ask("metrics")[2].decode()
    known = {m[0]: float(m[1]) for m in re.findall(r"^(\S+) (\S+)$", metrics, re.M)}
    assert known['poem_requests_total{path="/v1/predict",status="413"}'] == 6
    assert known['poem_images_total{verdict="unreadable"}'] == 9
    assert sum(v for k, v in known.items() if k.startswith("poem_images_total") and "unreadable" not in k) == 11 + 8 * statuses.count(200)
    assert 0 <= known["poem_unknown_share"] <= 1
    digits = hashlib.sha256(open("run/detector.safetensors", "rb").read()).hexdigest()[:12]
    judged = sum(v for k, v in known.items() if k.startswith("poem_images_total") and "unreadable" not in k)
    assert known['poem_score_count{detector="%s"}' % digits] == judged

    # Answers are whole, whatever ranges are asked for.
    for ranges in (b"0-9", b"0-" + b",0-" * 2600):
        text = raw(post, b"Content-Length: %d" % len(first), b"Range: bytes=" + ranges, body=first)
        assert text.split()[1] == b"200" and text.endswith(b'"}]}') and b"verdict" in text, text[:500]
    assert raw(get, b"Range: bytes=0-3").endswith(b'{"status":"ok"}')
    raw_problem(416, b"Range", get, b"Range: bytes=x")
    # A header with white space in its name is one that a proxy may understand otherwise.
    for header in (b"Transfer-Encoding : chunked", b"Content-Length\t: 3", b" X: y"):
        raw_problem(400, b"white space", post, header, body=b"3\r\nabc\r\n0\r\n\r\n")

    # Every part of a form that is an image has its result; what cannot be understood is refused.
    def parts(*heads):
        return b"".join(b"--X\r\n%s\r\n\r\n%s\r\n" % (head, first) for head in heads) + b"--X--\r\n", "multipart/form-data; boundary=X"
    field, image = b'Content-Disposition: form-data; name="f"', b"\r\nContent-Type: Image/PNG"
    got = results(*parts(field + image, field, field + b'; filename="b.png"', field + b"; filename*=UTF-8''c.png" + image))
    assert [r["name"] for r in got] == ["image 0", "b.png", "image 2"] and all("verdict" in r for r in got), got
    for head in (b"form-data; name=f; filename=b.png", b'form-data; filename="b.png"; name="f"', b'form-data; name="f" ; filename="b.png"',
                 b'form-data; name="f"; filename*=UTF-8\'\'b.png; filename="b.png"'):
        got = results(*parts(field + b'; filename="a.png"', b"Content-Disposition: " + head, field + b'; filename="c.png"'))
        assert [r["name"] for r in got] == ["a.png", "b.png", "c.png"] and all("verdict" in r for r in got), got
    for head in (b'attachment; name="f"; filename="b.png"', b'form-data; filename="b.png"', b'form-data; name="f" filename="b.png"'):
        body, kind = parts(field + b'; filename="a.png"', b"Content-Disposition: " + head)
        problem(400, "Content-Disposition that cannot be read", 'name="…"; filename="…"', body=body, kind=kind)
    body, kind = parts(image[2:])
    problem(400, "Content-Disposition that cannot be read", body=body, kind=kind)
    body, kind = form((b"f", b"x" * 5000, first))
    problem(400, "name of 5000 bytes, 4096 are allowed", body=body, kind=kind)
    # Media types and the names of their parameters have no case.
    body, _ = form((b"f", b"a.png", first))
    for kind in ("Multipart/Form-Data; boundary=X", "multipart/form-data; Boundary=X", "MULTIPART/FORM-DATA;charset=utf-8;BOUNDARY=\"X\""):
        assert "verdict" in results(body, kind)[0], kind
        got, _, text = ask("v1/predict", body, kind, encoding="gzip")
        assert got == 415 and b"compressed" in text, (kind, text)
    problem(400, "names no boundary", body=body, kind="multipart/form-data")
    for kind in ("multipart/mixed; boundary=X", "Multipart/Related;boundary=X"):
        problem(415, "multipart/form-data", body=body, kind=kind)
    problem(400, "does not contain the boundary", body=body, kind="multipart/form-data; boundary=Y")
    # However a form is cut into chunks and packets, it is the same.
    body, kind = parts(field + b'; filename="a.png"', field, field + b'; filename="b.png"')
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(post + b"\r\n" + chunked + b"\r\nContent-Type: " + kind.encode() + b"\r\n\r\n")
        for piece in [body[i:i + 7] for i in range(0, len(body), 7)] + [b""]:
            s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        text = rest(s, b"")
    assert [r["name"] for r in json.loads(text[text.index(b"{"):])["results"]] == ["a.png", "b.png"], text
    # A form is read in no time, whatever is in it: regular expressions take hours for this one.
    line = (field[:-1] + b'";filename="' * 200 + b'";filename*=' * 200 + b"y" * 2500 + b" y\r\n")
    body = b"--X\r\n" + line * ((900 << 10) // len(line)) + b"\r\n" + first + b"\r\n--X--\r\n"
    start = time.monotonic()
    problem(400, "headers of more than 8192 bytes", body=body, kind=kind)
    assert time.monotonic() - start < 5
elif mode == "series":  # the scores are counted in one series, under the name of the detector
    names = set(re.findall(r'^poem_score\S*detector="(\w+)"', ask("metrics")[2].decode(), re.M))
    assert names == {hashlib.sha256(open("run/detector.safetensors", "rb").read()).hexdigest()[:12]}, names
elif mode == "stream":  # asks without a pause until the file `stop` is there; no request may fail
    count = 0
    while not os.path.exists("stop") or count < 6:
        assert "verdict" in results(first)[0]
        count += 1
elif mode == "slow":  # the service lets clients be silent for one second
    def answer(*pieces):
        """What comes back for pieces that are sent a fifth of a second apart."""
        with socket.create_connection((host, int(port)), timeout=20) as s:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(0.2)
                s.settimeout(0.001)
                try:
                    text = s.recv(1000)  # it does not wait for the rest
                    s.settimeout(20)
                    return rest(s, text)
                except TimeoutError:
                    s.settimeout(20)
            return rest(s, b"")
    line = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
    for pieces in ([line[i:i + 1] for i in range(30)], [line] + [b"y"] * 30, [line], [line + b"\r\n" + bytes(50)]):
        start = time.monotonic()
        text = answer(*pieces)
        assert text.split()[1] == b"408" and b"too long" in text, (pieces, text)
        assert 0.9 < time.monotonic() - start < 4, pieces
    assert ask("healthz")[0] == 200
elif mode == "memory":
    def held():  # in bytes
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", open("/proc/%s/status" % sys.argv[3]).read())[1])
    def png(side):
        def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        return first[:8] + b"".join((chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
                                     chunk(b"IDAT", zlib.compress(bytes((3 * side + 1) * side), 1)), chunk(b"IEND", b"")))
    # What a large image takes is given back: the pixels are 108 MB.
    before = held()
    assert "verdict" in results(png(6000))[0]
    assert held() - before < 50e6, (before, held())
elif mode == "stop":
    begun = socket.create_connection((host, int(port)), timeout=20)
    begun.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(first))
    assert begun.recv(100).split()[1] == b"100"
    begun.sendall(first[:100])
    kept = http.client.HTTPConnection(host, int(port), timeout=20)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read() == b'{"status":"ok"}'
    time.sleep(0.2)
    os.kill(int(sys.argv[3]), signal.SIGTERM)
    while ask("healthz")[0] == 200: time.sleep(0.01)
    # New connections and open ones are told to come again, those with a large body too.
    kept.request("POST", "/v1/predict", bytes(900000))
    refused = kept.getresponse()
    assert refused.status == 503 and refused.headers["Retry-After"] == "1" and refused.headers["Connection"] == "close"
    assert "stopping" in json.loads(refused.read())["error"]
    for _ in range(20):
        assert problem(503, "stopping", body=bytes(900000))["Retry-After"] == "1"
    assert problem(503, "stopping", path="metrics", body=None, kind=None)["Retry-After"] == "1"
    # What had begun is answered, although a new detector is asked for meanwhile.
    os.kill(int(sys.argv[3]), signal.SIGHUP)
    begun.sendall(first[100:])
    text = rest(begun, b"")
    assert text.split()[1] == b"200" and b"verdict" in text, text
elif mode == "token":
    assert ask("v1/model")[0] == 401 and ask("v1/predict", first)[0] == 401 and ask("v1/predict", first, token="secreT")[0] == 401
    assert ask("v1/predict", first, token="secret")[0] == 200 and ask("healthz")[0] == 200 and ask("")[0] == 200
PYTHON
python3 client.py "$url" answers "$sources/docs/deploy.md" || fail "answers: $(cat "$logs/serve-err")"

# SIGHUP takes up another detector without a failed request; one that cannot be loaded leaves the one before.
python3 client.py "$url" stream &
stream=$!
cp run/detector.safetensors kept
sleep 0.3
for _ in 1 2 3; do kill -HUP $server; sleep 0.2; done
head -c 100 kept >run/detector.safetensors
kill -HUP $server
sleep 0.3
cp kept run/detector.safetensors
touch stop
wait $stream || fail "a request failed while the detector was loaded again"
expect_words "$logs/serve-err" "loaded the detector again" "the detector before it goes on"
python3 client.py "$url" series || fail "the same detector begins a new series"
expect_ok calibrate run --id world:test:40 --out run/new.safetensors
mv run/new.safetensors run/detector.safetensors
kill -HUP $server
sleep 0.5
python3 client.py "$url" series || fail "another detector goes on with the series"
python3 client.py "$url" memory $server || fail "memory: $(cat "$logs/serve-err")"
python3 client.py "$url" stop $server || fail "stop: $(cat "$logs/serve-err")"
wait $server || fail "SIGTERM: $(cat "$logs/serve-err")"

start --timeout 1
python3 client.py "$url" slow || fail "slow clients: $(cat "$logs/serve-err")"
kill -TERM $server
wait $server || fail "SIGTERM: $(cat "$logs/serve-err")"

echo secret >token
start --token-file token
python3 client.py "$url" token || fail "token"
port=${url%/} port=${port##*:}
expect_error "127.0.0.1:$port" "cannot listen" -- serve run --port "$port"
kill -INT $server
wait $server || fail "SIGINT"

: >empty
expect_error empty "no token" -- serve run --token-file empty
for text in 'a%20b' 'one\ntwo' 'a b' 'é' 'a\0b'; do
  printf "${text//%/%%}" >strange
  expect_error strange "a character that no token may have" "letters, digits and -._~+/=" -- serve run --token-file strange
done
expect_error missing -- serve missing
sed 's/poem-detector-2/poem-detector-3/' run/detector.safetensors >newer.safetensors
expect_error newer.safetensors "poem-detector-3" "this poem reads poem-detector-2" -- serve newer.safetensors
expect_error "photos/1.png: is an image, not a detector" "the detector comes first" -- serve photos/1.png
