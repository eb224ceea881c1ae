#!/usr/bin/env python3
"""Reads every object of a lake with DuckDB and compares it with the log, to the byte.

    readback.py LAKE FORMAT WANT

LAKE is the bucket as a folder, WANT a JSON list of {partition, offset, transactionId, ts, payload}, payload as text. JSON lines are read as text, since
a JSON reader would change numbers; of Parquet files each cell is compared. Prints "N rows", or ends with 1 and says what differs.
"""

import glob
import json
import sys

import duckdb


def quote(text):
    named = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(c) or ("\\u%04x" % ord(c) if ord(c) < 0x20 else c) for c in text) + '"'


def line(r):
    payload = r["payload"].replace("\r", " ").replace("\n", " ")
    return '{"partition":%s,"offset":%d,"transactionId":%s,"ts":"%s","payload":%s}' % (
        quote(r["partition"]), r["offset"], quote(r["transactionId"]), r["ts"], payload)


def main():
    lake, form, want = sys.argv[1:]
    with open(want) as f:
        rows = json.load(f)
    pattern = glob.escape(lake) + "/queen/tenant=*/queue=*/dt=*/**/w-*." + {"jsonl": "jsonl*"}.get(form, form)
    files = sorted(glob.glob(pattern, recursive=True))
    names = "[" + ",".join("'" + name.replace("'", "''") + "'" for name in files) + "]"
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    if form == "jsonl":
        got = sorted(r[0] for r in db.sql(
            "SELECT line FROM read_csv(%s, columns = {line: 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false)" % names).fetchall())
        want = sorted(map(line, rows))
    else:
        got = sorted(db.sql("""SELECT partition, "offset", transaction_id, strftime(ts, '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ'), payload
            FROM read_parquet(%s, hive_partitioning = false)""" % names).fetchall())
        want = sorted((r["partition"], r["offset"], r["transactionId"], r["ts"], r["payload"]) for r in rows)
    for g, w in zip(got, want):
        if g != w:
            sys.exit("DuckDB reads %r, the log has %r" % (g, w))
    if len(got) != len(want):
        sys.exit("DuckDB reads %d rows, the log has %d" % (len(got), len(want)))
    print("%d rows" % len(got))


if __name__ == "__main__":
    main()
