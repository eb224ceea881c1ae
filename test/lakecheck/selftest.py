#!/usr/bin/env python3
"""Makes a small good lake of each layout and sees check.py accept it, and refuse it after every kind of damage."""

import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile

import check
import damage

HOUR = 3_600_000_000
BASE = 495_000 * HOUR  # 2026-06-21T00:00:00Z
TENANT = "00000000-0000-0000-0000-000000000001"


def line(partition, offset, stamp, payload):
    return damage.restamp(('{"partition":%s,"offset":%d,"transactionId":"t-%d","ts":"1970-01-01T00:00:00.000000Z","payload":%s}' % (
        check.quote(partition), offset, offset, payload)).encode(), stamp)


def make(root, layout):
    queue = "a b/ключ"
    long = "ж" * 30
    windows = [(1, BASE, BASE + 100, [line("p", 0, BASE + 5, '{"total":42.00}'), line("p", 1, BASE + 7, '"\\ud800"'), line("q\n", 0, BASE + 5, "1e400")]),
               (2, BASE + HOUR, BASE + HOUR + 9, [line("p", 2, BASE + HOUR, "null"), line("q\n", 1, BASE + HOUR + 8, "[1,2]"), line(long, 0, BASE + HOUR, "0")])]
    for k, start, end, lines in windows:
        day, hour = check.day_hour(start)
        name = check.esc(queue)
        stem = "queen/tenant=%s/queue=%s/dt=%s/hour=%s/w-%010d-%016d-%016d" % (TENANT, name, day, hour, k, start, end)
        recs = [check.parse_line(text) for text in lines]
        groups = [("", lines, {})]
        if layout == "per-partition":
            groups = []
            for p in sorted({r[0] for r in recs}, key=str.encode):
                at = [r[1] for r in recs if r[0] == p]
                o = {"partition": p, "firstOffset": min(at), "lastOffset": max(at)}
                groups.append((check.part(o), [t for t, r in zip(lines, recs) if r[0] == p], o))
        objects = []
        for part, texts, o in groups:
            data = damage.zstd(b"".join(text + b"\n" for text in texts))
            key = stem + part + ".jsonl.zst"
            objects.append({"key": key, "bytes": len(data), "records": len(texts), "sha256": hashlib.sha256(data).hexdigest(), **o})
            damage.write(os.path.join(root, *key.split("/")), data)
        m = {"sink": "default", "tenant": TENANT, "queue": queue, "k": k, "tStart": start, "tEnd": end, "format": "jsonl",
             "compression": "zstd", "layout": layout, "objects": objects,
             "records": len(lines), "bytes": sum(o["bytes"] for o in objects), "partitions": len({r[0] for r in recs}),
             "minTs": min(r[3] for r in recs), "maxTs": max(r[3] for r in recs), "lost": [],
             "writer": "queen-s3/2.0.0 jsonl+zstd", "committedAt": "2026-06-21T01:00:00.000000Z"}
        damage.write(os.path.join(root, "queen", "_queen", "tenant=" + TENANT, "queue=" + name, "windows", "%010d.json" % k),
                     check.compact(m).encode())


def run(root):
    out = io.StringIO()
    sys.argv = ["check.py", root]
    with contextlib.redirect_stdout(out):
        code = check.main()
    return code, out.getvalue()


def main():
    bad = n = 0
    for layout, kinds in (("merged", damage.KINDS), ("per-partition", damage.SPREAD)):
        with tempfile.TemporaryDirectory() as top:
            good = os.path.join(top, "good")
            make(good, layout)
            code, out = run(good)
            n += 1 + len(kinds)
            if code:
                print("FAIL the good lake:", out)
                bad += 1
            for kind, hurt in kinds.items():
                lake = os.path.join(top, kind)
                shutil.copytree(good, lake)
                hurt(damage.Lake(lake))
                code, out = run(lake)
                first = out.split("\n")[0]
                print("%-4s %-13s %-22s %s" % ("ok" if code else "FAIL", layout, kind, first[-140:]))
                bad += not code
    print("%d passed, %d failed" % (n - bad, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
