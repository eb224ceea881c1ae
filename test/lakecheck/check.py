#!/usr/bin/env python3
"""A second, independent audit of a lake, written from docs/formats.md alone.

    check.py LAKE [--prefix queen] [--align none] [--broker http://127.0.0.1:6632]

LAKE is the bucket as a folder. Hour or day alignment is seen in the keys; --align none says that windows may cross hours. Every fault is one line on standard output; the exit code is 1 when there is one, else 0. With
--broker the lake is also compared with the log, record by record: partition, offset, transaction id, stamp and payload bytes.

Only the standard library and zstd are used (the zstandard package; else the zstd command, which cannot count frames), and pyarrow for Parquet
objects (parquetobject.py).
It shares no code with `queen lake verify`, so that one of the two is likely to see what the other does not.
"""

import argparse
import calendar
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
import zlib

import parquetobject

FIELDS = ["sink", "tenant", "queue", "k", "tStart", "tEnd", "format", "compression", "layout", "objects", "records",
          "bytes", "partitions", "minTs", "maxTs", "lost", "writer", "committedAt"]
ISO = re.compile(r"^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{6})Z$")
WRITERS = {("jsonl", "zstd"): "queen-s3/2.0.0 jsonl+zstd", ("jsonl", "gzip"): "queen-s3/2.0.0 jsonl+gzip", ("jsonl", "none"): "queen-s3/2.0.0 jsonl",
           ("parquet", "zstd"): "queen-s3/2.0.0 parquet/18 zstd", ("parquet", "snappy"): "queen-s3/2.0.0 parquet/18 snappy"}
EXTENSIONS = {("jsonl", "zstd"): "jsonl.zst", ("jsonl", "gzip"): "jsonl.gz", ("jsonl", "none"): "jsonl", ("parquet", "zstd"): "parquet",
              ("parquet", "snappy"): "parquet"}
FIELDS_OF = {"merged": ["key", "bytes", "records", "sha256"],
             "per-partition": ["key", "bytes", "records", "sha256", "partition", "firstOffset", "lastOffset"]}
UNITS = {"hour": 3_600_000_000, "day": 86_400_000_000}


class Fault(Exception):
    """Something in the lake is not as docs/formats.md says."""


def esc(name):
    """Percent-encoding of one name in a key (formats 7)."""
    keep = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
    return "".join(chr(b) if b in keep else "%%%02X" % b for b in name.encode("utf-8", "surrogateescape"))


def part(o):
    """What a key of a per-partition window has behind its stamps (formats 7.1)."""
    name = esc(o["partition"])
    if len(name) > 120:
        name = name[:100] + "~" + hashlib.sha256(name.encode()).hexdigest()[:16]
    return "-p-%s-%012d-%012d" % (name, o["firstOffset"], o["lastOffset"])


def micros(text):
    m = ISO.match(text)
    if not m:
        raise Fault("%r is not a UTC time with six digits" % text)
    y, mo, d, h, mi, s, us = map(int, m.groups())
    return calendar.timegm((y, mo, d, h, mi, s)) * 1_000_000 + us


def day_hour(stamp):
    import datetime
    t = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=stamp)
    return t.strftime("%Y-%m-%d"), t.strftime("%H")


def quote(name):
    """A JSON string as formats 7.2 escapes it."""
    named = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(c) or ("\\u%04x" % ord(c) if ord(c) < 0x20 else c) for c in name) + '"'


# ---------------------------------------------------------------- decompression: one frame, one member

def unzstd(data):
    try:
        import zstandard
    except ImportError:
        out = subprocess.run(["zstd", "-dc"], input=data, capture_output=True)
        if out.returncode:
            raise Fault("not a zstd frame: %s" % out.stderr.decode("utf-8", "replace").strip())
        return out.stdout  # the command reads several frames as one: only the package can tell
    d = zstandard.ZstdDecompressor().decompressobj()
    try:
        plain = d.decompress(data)
    except zstandard.ZstdError as e:
        raise Fault("not a zstd frame: %s" % e)
    if not d.eof:
        raise Fault("zstd frame is cut off")
    if d.unused_data:
        raise Fault("%d bytes after the zstd frame: an object is one frame" % len(d.unused_data))
    if not zstandard.get_frame_parameters(data).has_checksum:
        raise Fault("zstd frame has no checksum")
    return plain


def ungzip(data):
    d = zlib.decompressobj(wbits=31)
    try:
        plain = d.decompress(data) + d.flush()
    except zlib.error as e:
        raise Fault("not a gzip member: %s" % e)
    if not d.eof:
        raise Fault("gzip member is cut off")
    if d.unused_data:
        raise Fault("%d bytes after the gzip member" % len(d.unused_data))
    if data[3] != 0 or data[4:8] != b"\0\0\0\0":
        raise Fault("gzip member carries a name or a time")
    return plain


def plain_bytes(data, compression):
    return {"zstd": unzstd, "gzip": ungzip, "none": lambda b: b}[compression](data)


# ---------------------------------------------------------------- one line

def no_constant(name):
    raise ValueError("%s is not JSON" % name)


DECODER = json.JSONDecoder(parse_constant=no_constant)


def take(line, at, literal):
    if not line.startswith(literal, at):
        raise Fault("expected %s at column %d of %s" % (literal, at, line[:120]))
    return at + len(literal)


def value(line, at):
    """Parses one JSON value at `at`: (value, end)."""
    try:
        return DECODER.raw_decode(line, at)
    except (ValueError, RecursionError) as e:
        raise Fault("not JSON at column %d: %s" % (at, e))


def parse_line(raw):
    """One JSONL line without its LF -> (partition, offset, transaction id, stamp, payload text)."""
    if b"\r" in raw:
        raise Fault("a raw CR in a line")
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Fault("not UTF-8: %s" % e)
    at = take(line, 0, '{"partition":')
    partition, end = value(line, at)
    if quote(partition) != line[at:end]:
        raise Fault("partition is escaped otherwise than the format says: %s" % line[at:end])
    at = take(line, end, ',"offset":')
    m = re.compile(r"0|[1-9]\d*").match(line, at)
    if not m:
        raise Fault("offset is not a plain integer at column %d" % at)
    offset, at = int(m.group()), m.end()
    at = take(line, at, ',"transactionId":')
    tx, end = value(line, at)
    if quote(tx) != line[at:end]:
        raise Fault("transactionId is escaped otherwise than the format says: %s" % line[at:end])
    at = take(line, end, ',"ts":"')
    stamp = micros(line[at:at + 27])
    at = take(line, at + 27, '","payload":')
    if not line.endswith("}"):
        raise Fault("line does not end with }")
    payload = line[at:-1]
    check_payload(payload)
    return partition, offset, tx, stamp, payload


def check_payload(payload):
    if payload.startswith((" ", "\t")) or payload.endswith((" ", "\t")):
        raise Fault("payload has space around it")
    try:
        _, end = DECODER.raw_decode(payload)
    except RecursionError:
        return  # deeper than this interpreter reads; the brackets are the producer's
    except ValueError as e:
        raise Fault("payload is not JSON: %s" % e)
    if end != len(payload):
        raise Fault("more than one value in payload")


# ---------------------------------------------------------------- one window

def parse_manifest(data):
    pairs = json.loads(data.decode("utf-8"), object_pairs_hook=list)
    names = [n for n, _ in pairs]
    want = [f for f in FIELDS if f in names or f not in ("minTs", "maxTs")]
    if names != want:
        raise Fault("manifest fields are %s, not %s" % (",".join(names), ",".join(want)))
    m = dict(pairs)
    m["objects"] = [dict(o) for o in m["objects"]]
    m["lost"] = [dict(r) for r in m["lost"]]
    if compact(m) != data.decode("utf-8"):
        raise Fault("manifest is not the compact text of its values")
    return m


def compact(m):
    def text(v):
        if isinstance(v, str):
            return quote(v)
        if isinstance(v, bool) or not isinstance(v, (int, list, dict)):
            raise Fault("manifest holds %r" % (v,))
        if isinstance(v, int):
            return str(v)
        if isinstance(v, list):
            return "[" + ",".join(text(x) for x in v) + "]"
        return "{" + ",".join(quote(k) + ":" + text(x) for k, x in v.items()) + "}"
    return text(m)


class Cell:
    """A payload in a Parquet object: the producer's own text, or None."""

    def __init__(self, text):
        self.text = text


def holds(there, text):
    """Whether a payload of the lake is what the log's API shows, which has one spelling for no payload and for null."""
    if isinstance(there, Cell):
        return there.text == text or there.text is None and text == "null"
    return there == text.replace("\r", " ").replace("\n", " ")


class Queue:
    """The audit of one queue: windows in order, every data object accounted for."""

    def __init__(self, root, prefix, tenant, queue, align, report):
        self.root, self.prefix, self.tenant, self.queue, self.align = root, prefix, tenant, queue, align
        self.report = report
        self.seen = set()      # keys that a manifest names
        self.next = {}         # partition -> (next offset, stamp of its last record)
        self.records = []      # for --broker: per record (partition, offset, tx, stamp, payload)
        self.windows = 0
        self.end = None
        self.lost = []

    def path(self, key):
        return os.path.join(self.root, *key.split("/"))

    def fault(self, where, text):
        self.report(("%s: %s" % (where, text)).replace("\r", "\\r").replace("\n", "\\n"))  # one line a fault

    def audit(self):
        folder = self.path("%s/_queen/tenant=%s/queue=%s/windows" % (self.prefix, self.tenant, self.queue))
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for want, name in enumerate(names, 1):
            where = "%s/_queen/tenant=%s/queue=%s/windows/%s" % (self.prefix, self.tenant, self.queue, name)
            try:
                if name != "%010d.json" % want:
                    raise Fault("k has a gap: expected window %d here" % want)
                with open(os.path.join(folder, name), "rb") as f:
                    self.window(parse_manifest(f.read()), want)
            except (Fault, ValueError, KeyError, TypeError, OSError) as e:
                self.fault(where, e)
        for key in data_keys(self.root, self.prefix, self.tenant, self.queue):
            if key not in self.seen:
                self.fault(key, "orphan: no manifest names this object")

    def window(self, m, k):
        self.header(m, k)
        records, size = 0, 0
        partitions, stamps = set(), []
        last = None
        for o in m["objects"]:
            self.seen.add(o["key"])
            n, offsets = 0, []
            for rec in self.object(m, o):
                order = (rec[0].encode("utf-8"), rec[3], rec[1])
                if last is not None and order <= last:
                    raise Fault("record %s/%d is out of order" % (rec[0], rec[1]))
                last = order
                self.record(m, rec)
                partitions.add(rec[0])
                stamps.append(rec[3])
                offsets.append(rec[1])
                if rec[0] != o.get("partition", rec[0]):
                    raise Fault("%s holds a record of partition %r" % (o["key"], rec[0]))
                n += 1
            if "partition" in o and (o["firstOffset"], o["lastOffset"]) != (min(offsets, default=-1), max(offsets, default=-1)):
                raise Fault("%s holds other offsets than its key and the manifest say" % o["key"])
            if n != o["records"]:
                raise Fault("%s holds %d records, the manifest says %d" % (o["key"], n, o["records"]))
            records, size = records + n, size + o["bytes"]
        self.sums(m, records, size, partitions, stamps)
        self.windows += 1
        self.end = m["tEnd"]

    def header(self, m, k):
        if m["k"] != k:
            raise Fault("manifest of window %d says k=%d" % (k, m["k"]))
        if (esc(m["tenant"]), esc(m["queue"])) != (self.tenant, self.queue):
            raise Fault("manifest names tenant %r queue %r" % (m["tenant"], m["queue"]))
        if m["tEnd"] <= m["tStart"]:
            raise Fault("tEnd %d is not above tStart %d" % (m["tEnd"], m["tStart"]))
        if self.end is not None and m["tStart"] < self.end:
            raise Fault("window starts at %d, below the end %d of the one before" % (m["tStart"], self.end))
        if m["layout"] not in FIELDS_OF or (m["format"], m["compression"]) not in WRITERS:
            raise Fault("unknown format %r, layout %r or compression %r" % (m["format"], m["layout"], m["compression"]))
        if m["writer"] != WRITERS[m["format"], m["compression"]]:
            raise Fault("writer is %r" % m["writer"])
        micros(m["committedAt"])
        if m["layout"] == "merged" and len(m["objects"]) != 1:
            raise Fault("a merged window has %d objects" % len(m["objects"]))
        self.keys(m, k)

    def keys(self, m, k):
        """Every object of a window is where its layout says, and there is one for each partition."""
        start = m["tStart"] if m["tStart"] > -(1 << 63) else m.get("minTs", m["tEnd"])
        day, hour = day_hour(max(0, start))
        self.unit = None if self.align == "none" else UNITS["hour"]
        names = []
        for o in m["objects"]:
            if list(o) != FIELDS_OF[m["layout"]]:
                raise Fault("object fields are %s" % ",".join(o))
            by_day = "/hour=" not in o["key"]
            self.unit = None if self.align == "none" else UNITS["day" if by_day else "hour"]
            merged = m["layout"] == "merged"
            want = "%s/tenant=%s/queue=%s/dt=%s/%sw-%010d-%016d-%016d%s.%s" % (
                self.prefix, self.tenant, self.queue, day, "" if by_day else "hour=%s/" % hour, k,
                max(0, m["tStart"]), max(0, m["tEnd"]), "" if merged else part(o), EXTENSIONS[m["format"], m["compression"]])
            if o["key"] != want:
                raise Fault("object key is %s, by its window it is %s" % (o["key"], want))
            if not merged:
                names.append(o["partition"].encode("utf-8"))
        if names != sorted(set(names)):
            raise Fault("the objects are not one a partition, in the order of their names")

    def object(self, m, o):
        try:
            with open(self.path(o["key"]), "rb") as f:
                data = f.read()
        except OSError as e:
            raise Fault("object %s: %s" % (o["key"], e.strerror))
        if len(data) != o["bytes"]:
            raise Fault("%s has %d bytes, the manifest says %d" % (o["key"], len(data), o["bytes"]))
        if hashlib.sha256(data).hexdigest() != o["sha256"]:
            raise Fault("sha256 of %s differs from the manifest" % o["key"])
        if m["format"] == "parquet":
            yield from self.parquet(m, o["key"], data)
            return
        plain = plain_bytes(data, m["compression"])
        if plain and not plain.endswith(b"\n"):
            raise Fault("%s does not end with a line break" % o["key"])
        for line in plain.split(b"\n")[:-1]:
            yield parse_line(line)

    def parquet(self, m, key, data):
        try:
            for rec in parquetobject.records(data, m["compression"], m["tenant"], m["queue"]):
                if rec[4] is not None:
                    check_payload(rec[4])
                yield rec[:4] + (Cell(rec[4]),)
        except parquetobject.Bad as e:
            raise Fault("%s: %s" % (key, e))

    def record(self, m, rec):
        partition, offset, _, stamp, _ = rec
        if not m["tStart"] <= stamp < m["tEnd"]:
            raise Fault("%s/%d is stamped %d, outside its window" % (partition, offset, stamp))
        if self.unit and stamp // self.unit != m["tStart"] // self.unit:
            raise Fault("%s/%d is stamped outside the hour or day of its path" % (partition, offset))
        want, last = self.next.get(partition, (offset, None))  # a queue mirrored from a later moment on begins anywhere
        again = offset == 0 and last is not None and stamp > last  # the partition was deleted and created again
        if offset != want and not again and not self.was_lost(m, partition, want, offset - 1):
            raise Fault("%s: offset %d after %d: a record is missing or doubled" % (partition, offset, want - 1))
        self.next[partition] = (offset + 1, stamp)
        self.records.append(rec)

    def was_lost(self, m, partition, first, last):
        gone = set()
        for r in m["lost"] + self.lost:
            if r["partition"] == partition:
                gone.update(range(max(first, r["from"]), min(last, r["to"]) + 1))
        return last >= first and len(gone) == last - first + 1

    def sums(self, m, records, size, partitions, stamps):
        if records != m["records"] or size != m["bytes"] or len(partitions) != m["partitions"]:
            raise Fault("manifest says %d records, %d bytes, %d partitions; the objects hold %d, %d, %d" % (
                m["records"], m["bytes"], m["partitions"], records, size, len(partitions)))
        if not records and not m["lost"]:
            raise Fault("window without a record")
        if (m.get("minTs"), m.get("maxTs")) != (min(stamps, default=None), max(stamps, default=None)):
            raise Fault("minTs/maxTs differ from the records")
        for r in m["lost"]:
            if list(r) != ["partition", "from", "to"] or not 0 <= r["from"] <= r["to"]:
                raise Fault("lost range %s" % r)
        self.lost += m["lost"]


def data_keys(root, prefix, tenant, queue):
    top = os.path.join(root, *prefix.split("/"), "tenant=" + tenant, "queue=" + queue)
    for folder, _, names in os.walk(top):
        for n in sorted(names):
            yield os.path.relpath(os.path.join(folder, n), root).replace(os.sep, "/")


def queues(root, prefix):
    found = set()
    for base in (prefix.split("/"), prefix.split("/") + ["_queen"]):
        top = os.path.join(root, *base)
        for t in sorted(os.listdir(top)) if os.path.isdir(top) else []:
            if t.startswith("tenant="):
                for q in sorted(os.listdir(os.path.join(top, t))):
                    if q.startswith("queue="):
                        found.add((t[7:], q[6:]))
    return sorted(found)


# ---------------------------------------------------------------- against the log

def members(text, at):
    """The members of the JSON object at `at`, as (name, text of the value); values are not interpreted."""
    at = skip(text, at + 1)
    while text[at] != "}":
        name, at = DECODER.raw_decode(text, at)
        at = skip(text, skip(text, at) + 1)
        _, end = DECODER.raw_decode(text, at)
        yield name, text[at:end]
        at = skip(text, end)
        at = skip(text, at + 1) if text[at] == "," else at


def items(text):
    at = skip(text, 1)
    while text[at] != "]":
        _, end = DECODER.raw_decode(text, at)
        yield text[at:end]
        at = skip(text, end)
        at = skip(text, at + 1) if text[at] == "," else at


def skip(text, at):
    while text[at] in " \t\r\n":
        at += 1
    return at


def post(url, body):
    req = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(req, timeout=60) as answer:
        return answer.read().decode("utf-8")


def partition_names(broker, queue):
    after = None
    while True:
        entry = json.loads(post(broker + "/api/v1/partitions/changed", {"entries": [{"queue": queue, "after": after}]}))["entries"][0]
        if "error" in entry:
            raise Fault("partitions/changed: %s" % entry["error"])
        yield from (p["name"] for p in entry["partitions"])
        after = entry["next"]
        if after is None:
            return


def log_records(broker, queue, partition, starts):
    """What the log has of a partition; where it starts now is noted, since retention may have taken the rest."""
    offset = 0
    while True:
        text = post(broker + "/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": offset, "maxBytes": 8 << 20}]})
        entry = dict(members(next(items(dict(members(text, 0))["entries"])), 0))
        if entry.get("error") == '"OFFSET_OUT_OF_RANGE"' and offset < int(entry["logStartOffset"]):
            offset = starts[partition] = int(entry["logStartOffset"])
            continue
        if "error" in entry:
            raise Fault("fetch %s/%s: %s" % (queue, partition, entry["error"]))
        n = 0
        for rec in items(entry["records"]):
            r = dict(members(rec, 0))
            offset = int(r["offset"]) + 1
            n += 1
            yield partition, offset - 1, json.loads(r["transactionId"]), micros(json.loads(r["ts"])), r["payload"]
        if n == 0:
            return


def against_log(q, broker, name):
    """Every record of the log below the last window's end is in the lake once, with the same bytes, and nothing else is."""
    lake, starts, latest = {}, {}, {}
    for rec in q.records:
        if rec[1] == 0:
            latest[rec[0]] = rec[3]  # the partition's last life begins here: what is stamped before is of a queue that was deleted
        lake.setdefault((rec[0], rec[1], rec[3]), []).append(rec)
    compared = 0
    for partition in sorted(set(partition_names(broker, name))):
        for rec in log_records(broker, name, partition, starts):
            if q.end is None or rec[3] >= q.end:
                continue
            there = lake.pop((rec[0], rec[1], rec[3]), [])
            compared += 1
            where = "%s/%s/%d" % (name, partition, rec[1])
            if len(there) != 1:
                q.fault(where, "is %d times in the lake" % len(there))
                continue
            if there[0][2] != rec[2]:
                q.fault(where, "transactionId differs from the log")
            if not holds(there[0][4], rec[4]):
                q.fault(where, "payload differs from the log")
    for key in sorted(lake):
        if key[1] < starts.get(key[0], 0) or key[2] < latest.get(key[0], key[2]):
            continue
        q.fault("%s/%s/%d" % (name, key[0], key[1]), "is in the lake but not in the log")
    return compared


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("lake")
    p.add_argument("--prefix", default="queen")
    p.add_argument("--align", default="path", choices=["path", "none"])
    p.add_argument("--broker")
    a = p.parse_args()
    sys.setrecursionlimit(100_000)
    faults = []
    windows = records = compared = 0
    found = queues(a.lake, a.prefix)
    for tenant, queue in found:
        q = Queue(a.lake, a.prefix, tenant, queue, a.align, faults.append)
        q.audit()
        windows, records = windows + q.windows, records + len(q.records)
        if a.broker:
            name = re.sub("%([0-9A-F]{2})", lambda m: chr(int(m.group(1), 16)), queue).encode("latin-1").decode("utf-8")
            try:
                compared += against_log(q, a.broker.rstrip("/"), name)
            except (Fault, OSError) as e:
                q.fault(name, e)
    for f in faults:
        print(f)
    against = ", %d compared with the log" % compared if a.broker else ""
    print("%d queues, %d windows, %d records%s: %s" % (len(found), windows, records, against,
                                                     "clean" if not faults else "%d faults" % len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
