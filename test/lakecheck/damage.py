#!/usr/bin/env python3
"""Damages a copy of a good lake in one named way, so that a checker can be seen to find it.

    damage.py LAKE KIND      damages the first queue of the lake in place
    damage.py --kinds        lists the kinds; with per-partition, those of a lake in that layout

Where a kind is about content, the manifest is made to agree with the damaged object, so that only the rule under test is broken. The
lake needs two windows or more, zstd, and a first window with two records or more.
"""

import glob
import hashlib
import json
import os
import re
import sys

import zstandard

import check


class Lake:
    def __init__(self, root, prefix="queen"):
        self.root, self.prefix = root, prefix
        self.tenant, self.queue = check.queues(root, prefix)[0]

    def path(self, key):
        return os.path.join(self.root, *key.split("/"))

    def manifest_path(self, k):
        return self.path("%s/_queen/tenant=%s/queue=%s/windows/%010d.json" % (self.prefix, self.tenant, self.queue, k))

    def manifest(self, k):
        with open(self.manifest_path(k), "rb") as f:
            return check.parse_manifest(f.read())

    def write_manifest(self, k, m):
        write(self.manifest_path(k), check.compact(m).encode())

    def lines(self, m):
        with open(self.path(m["objects"][0]["key"]), "rb") as f:
            return check.unzstd(f.read()).split(b"\n")[:-1]

    def write_object(self, m, data):
        o = m["objects"][0]
        write(self.path(o["key"]), data)
        o["bytes"], o["sha256"] = len(data), hashlib.sha256(data).hexdigest()
        m["bytes"] = len(data)

    def write_lines(self, m, lines):
        self.write_object(m, zstd(b"".join(line + b"\n" for line in lines)))


def zstd(plain):
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(plain)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def edit(lake, k, change, counts=True):
    """Applies change(lines, manifest) to window k and lets the manifest agree."""
    m = lake.manifest(k)
    lines = lake.lines(m)
    change(lines, m)
    lake.write_lines(m, lines)
    if counts:
        recs = [check.parse_line(line) for line in lines]
        m["records"] = m["objects"][0]["records"] = len(recs)
        m["partitions"] = len({r[0] for r in recs})
        m["minTs"], m["maxTs"] = min(r[3] for r in recs), max(r[3] for r in recs)
    lake.write_manifest(k, m)


def restamp(line, stamp):
    import datetime
    t = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=stamp)
    return re.sub(rb'"ts":"[^"]*"', b'"ts":"%s"' % t.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode(), line, count=1)


def missing_object(lake):
    os.remove(lake.path(lake.manifest(1)["objects"][0]["key"]))


def flipped_bit(lake):
    path = lake.path(lake.manifest(1)["objects"][0]["key"])
    with open(path, "rb") as f:
        data = bytearray(f.read())
    data[len(data) // 2] ^= 1
    write(path, bytes(data))


def cut_object(lake):
    m = lake.manifest(1)
    with open(lake.path(m["objects"][0]["key"]), "rb") as f:
        data = f.read()
    lake.write_object(m, data[:-3])
    lake.write_manifest(1, m)


def dropped_record(lake):
    def drop(lines, m):
        offsets = [check.parse_line(line)[:2] for line in lines]
        lines.pop(next(i for i in range(1, len(lines)) if offsets[i][0] == offsets[i - 1][0]))  # not a partition's first one
    edit(lake, 1, drop)


def doubled_record(lake):
    edit(lake, 1, lambda lines, m: lines.insert(0, lines[0]))


def swapped_records(lake):
    def swap(lines, m):
        lines[0], lines[-1] = lines[-1], lines[0]
    edit(lake, 1, swap)


def stamp_outside(lake):
    def late(lines, m):
        lines[-1] = restamp(lines[-1], m["tEnd"])
    edit(lake, 1, late)


def record_in_two_windows(lake):
    first = lake.lines(lake.manifest(1))[0]

    def again(lines, m):
        lines.append(restamp(first, m["minTs"]))
        lines.sort(key=lambda line: (lambda r: (r[0].encode(), r[3], r[1]))(check.parse_line(line)))
    edit(lake, 2, again)


def missing_manifest(lake):
    os.remove(lake.manifest_path(1))


def orphan_object(lake):
    key = lake.manifest(1)["objects"][0]["key"]
    with open(lake.path(key), "rb") as f:
        data = f.read()
    write(lake.path(key.replace("/w-0000000001-", "/w-0000000009-")), data)


def overlapping_windows(lake):
    m, before = lake.manifest(2), lake.manifest(1)
    old = m["objects"][0]["key"]
    m["tStart"] = before["tEnd"] - 1
    day, hour = check.day_hour(m["tStart"])
    key = re.sub(r"/dt=[^/]*/hour=\d\d/w-(\d{10})-\d{16}-", r"/dt=%s/hour=%s/w-\1-%016d-" % (day, hour, m["tStart"]), old)
    os.makedirs(os.path.dirname(lake.path(key)), exist_ok=True)
    os.rename(lake.path(old), lake.path(key))
    m["objects"][0]["key"] = key
    lake.write_manifest(2, m)


def wrong_count(lake):
    m = lake.manifest(1)
    m["records"] += 1
    lake.write_manifest(1, m)


def two_frames(lake):
    m = lake.manifest(1)
    lines = lake.lines(m)
    lake.write_object(m, zstd(lines[0] + b"\n") + zstd(b"".join(line + b"\n" for line in lines[1:])))
    lake.write_manifest(1, m)


def space_in_envelope(lake):
    def space(lines, m):
        lines[0] = lines[0].replace(b',"offset":', b', "offset":', 1)
    edit(lake, 1, space, counts=False)


def pretty_manifest(lake):
    with open(lake.manifest_path(1), "rb") as f:
        data = json.loads(f.read())
    write(lake.manifest_path(1), json.dumps(data).encode())


def two_payloads(lake):
    def more(lines, m):
        lines[0] = lines[0][:-1] + b",1}"
    edit(lake, 1, more, counts=False)


def range_in_manifest(lake):
    def shift(o):
        o["lastOffset"] += 1
    manifest_entry(lake, shift)


def name_in_manifest(lake):
    def other(o):
        o["partition"] += "x"
    manifest_entry(lake, other)


def no_name_in_manifest(lake):
    manifest_entry(lake, lambda o: o.pop("partition"))


def renamed_range(lake):
    """The key, and the manifest with it, name another range than the object holds."""
    def move(o):
        old = o["key"]
        o["lastOffset"] += 1
        o["key"] = re.sub(r"-\d{12}\.", "-%012d." % o["lastOffset"], old)
        os.rename(lake.path(old), lake.path(o["key"]))
    manifest_entry(lake, move)


def stale_range(lake):
    """What an owner that saw fewer records would have left behind."""
    old = lake.manifest(1)["objects"][0]["key"]
    with open(lake.path(old), "rb") as f:
        data = f.read()
    write(lake.path(re.sub(r"-\d{12}\.", "-%012d." % 999, old)), data)


def objects_swapped(lake):
    m = lake.manifest(1)
    m["objects"][0], m["objects"][1] = m["objects"][1], m["objects"][0]
    lake.write_manifest(1, m)


def says_merged(lake):
    m = lake.manifest(1)
    m["layout"] = "merged"
    lake.write_manifest(1, m)


def manifest_entry(lake, change):
    m = lake.manifest(1)
    change(m["objects"][0])
    lake.write_manifest(1, m)


# Of a lake with one object a partition, which has two partitions or more in its first window.
SPREAD = {f.__name__.replace("_", "-"): f for f in (
    missing_object, flipped_bit, range_in_manifest, name_in_manifest, no_name_in_manifest, renamed_range, stale_range, objects_swapped, says_merged)}

KINDS = {f.__name__.replace("_", "-"): f for f in (
    missing_object, flipped_bit, cut_object, dropped_record, doubled_record, swapped_records, stamp_outside, record_in_two_windows,
    missing_manifest, orphan_object, overlapping_windows, wrong_count, two_frames, space_in_envelope, pretty_manifest, two_payloads)}


def main():
    if sys.argv[1:] in (["--kinds"], ["--kinds", "per-partition"]):
        print("\n".join(SPREAD if sys.argv[2:] else KINDS))
        return
    root, kind = sys.argv[1:]
    lake = Lake(root)
    (SPREAD if lake.manifest(1)["layout"] == "per-partition" else KINDS)[kind](lake)


if __name__ == "__main__":
    main()
