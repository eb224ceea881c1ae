#!/usr/bin/env python3
"""Reads a lake with each program that this machine has for it, and compares it with what it must hold.

    read.py LAKE WANT

LAKE is the bucket as a folder, with prefix queen. WANT is a JSON object: queue -> list of {partition, offset, transactionId, ts, payload}, payload as
text. A reader is asked for the lines, which must be those of docs/formats.md 7.2 to the byte, and for rows where it reads JSON: partition,
offset, transactionId and ts as they are, the payload as text where the reader can show it so, else by value. Of a lake of Parquet files (7.4), every cell
must be what WANT says, to the byte. It prints a line a
reader, "ok NAME ..." or "FAIL NAME ...", and ends with 1 when one failed.
"""

import glob
import gzip
import json
import math
import os
import subprocess
import sys

ODD = "odd"  # the queue whose payloads are compared as lines only
KEEP = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"


def esc(name):
    return "".join(chr(b) if b in KEEP else "%%%02X" % b for b in name.encode())


def quote(text):
    named = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(c) or ("\\u%04x" % ord(c) if ord(c) < 0x20 else c) for c in text) + '"'


def line(row):
    return '{"partition":%s,"offset":%d,"transactionId":%s,"ts":"%s","payload":%s}' % (
        quote(row["partition"]), row["offset"], quote(row["transactionId"]), row["ts"], row["payload"])


class Lake:
    def __init__(self, root, want):
        self.want = want
        self.files, self.globs = {}, {}
        for queue in want:
            folder = glob.escape(os.path.join(root, "queen")) + "/tenant=*/queue=" + esc(queue) + "/dt=*/hour=*/"
            ending = "*.parquet" if glob.glob(folder + "*.parquet") else "*.jsonl*"
            self.globs[queue] = folder + ending
            self.files[queue] = sorted(glob.glob(self.globs[queue]))
            if len(self.files[queue]) < 3:
                raise SystemExit("only %d objects of %s" % (len(self.files[queue]), queue))
        self.compression = os.path.splitext(self.files[queue][0])[1]

    def lines(self, queue):
        return sorted(line(row) for row in self.want[queue])

    def rows(self, queue):
        return sorted((r["partition"], r["offset"], r["transactionId"], r["ts"], r["payload"]) for r in self.want[queue])


class Differs(Exception):
    pass


def same(what, got, want):
    if got == want:
        return
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            raise Differs("%s: number %d is %.300r, not %.300r" % (what, i, g, w))
    raise Differs("%s: %d, not %d" % (what, len(got), len(want)))


def by_value(shown):
    """Rows whose payload is a value: None and not-a-number, which is how pandas shows it, are null."""
    return [r[:4] + (json.dumps(None if r[4] is None or isinstance(r[4], float) and math.isnan(r[4]) else r[4], sort_keys=True),) for r in shown]


def values(rows):
    return [r[:4] + (json.dumps(json.loads(r[4]), sort_keys=True),) for r in rows]


def each_file(read):
    """A reader of whole files: the bytes of every object, split at LF and nowhere else."""
    def run(lake):
        for queue in lake.want:
            got = []
            for name in lake.files[queue]:
                text = read(name)
                if not text.endswith(b"\n"):
                    raise Differs("%s does not end with a line" % name)
                got += text.decode().split("\n")[:-1]
            same("lines of " + queue, sorted(got), lake.lines(queue))
        return "lines"
    return run


def zstd_package(name):
    import zstandard
    with open(name, "rb") as f:
        return zstandard.ZstdDecompressor().stream_reader(f).read()  # the default: it ends with the first frame


def zstd_command(name):
    return subprocess.run(["zstd", "-dc", name], check=True, stdout=subprocess.PIPE).stdout


def gzip_module(name):
    with gzip.open(name) as f:
        return f.read()


def gzip_command(name):
    return subprocess.run(["gzip", "-dc", name], check=True, stdout=subprocess.PIPE).stdout


def plain_file(name):
    with open(name, "rb") as f:
        return f.read()


def sql(text):
    return "'" + text.replace("'", "''") + "'"


def duckdb(lake):
    import duckdb
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for queue, pattern in lake.globs.items():
        got = db.sql(r"SELECT line FROM read_csv(%s, columns = {line: 'VARCHAR'}, delim = '\x01', quote = '', escape = '', header = false, "
                     "max_line_size = 33554432)" % sql(pattern).replace("\\", "\\\\")).fetchall()
        same("lines of " + queue, sorted(r[0] for r in got), lake.lines(queue))
        if queue == ODD:
            continue
        got = db.sql("""SELECT partition, "offset", transactionId, ts, payload::VARCHAR, queue FROM read_json(%s, format = 'newline_delimited',
            hive_partitioning = true, hive_types = {'tenant': VARCHAR, 'queue': VARCHAR, 'dt': DATE, 'hour': VARCHAR},
            columns = {partition: 'VARCHAR', "offset": 'BIGINT', transactionId: 'VARCHAR', ts: 'VARCHAR', payload: 'JSON'})""" % sql(pattern)).fetchall()
        same("queue of " + queue, {r[5] for r in got}, {queue})
        same("rows of " + queue, by_value(sorted(r[:4] + (json.loads(r[4] or "null"),) for r in got)), values(lake.rows(queue)))
        times = db.sql("""SELECT strftime(ts, '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ') FROM read_json(%s, format = 'newline_delimited',
            columns = {ts: 'TIMESTAMPTZ'})""" % sql(pattern)).fetchall()
        same("times of " + queue, sorted(r[0] for r in times), sorted(r[3] for r in lake.rows(queue)))
    return "lines, rows with payloads by value, times, decoded names; version " + duckdb.__version__


def chdb(lake):
    import chdb
    for queue, pattern in lake.globs.items():
        got = [json.loads(r)[0] for r in ask(chdb, "SELECT line FROM file(%s, 'LineAsString', 'line String')" % sql(pattern))]
        same("lines of " + queue, sorted(got), lake.lines(queue))
        if queue == ODD:
            continue
        got = [json.loads(r) for r in ask(chdb, "SELECT partition, offset, transactionId, ts, payload, toString(queue) FROM file(%s, 'JSONEachRow', "
               "'partition String, offset Int64, transactionId String, ts String, payload Nullable(String)') SETTINGS use_hive_partitioning = 1" % sql(pattern))]
        same("queue of " + queue, {r[5] for r in got}, {esc(queue)})  # ClickHouse shows the name as it stands in the key
        # It shows an object or a list as the text that it is, a string without its quotes, and any other value as text.
        want = [r[:4] + (shown_by_clickhouse(r[4]),) for r in lake.rows(queue)]
        same("rows of " + queue, sorted(map(tuple, (r[:5] for r in got)), key=str), sorted(want, key=str))
    return "lines, rows with the text of payloads; version " + chdb.__version__


def shown_by_clickhouse(text):
    if text[0] in "[{":
        return text
    value = json.loads(text)
    return value if value is None or isinstance(value, str) else text


def ask(chdb, query):
    return str(chdb.query(query, "JSONCompactEachRow")).rstrip("\n").split("\n")


def polars(lake):
    import polars as pl
    for queue in lake.want:
        got = []
        for name in lake.files[queue]:
            got += pl.read_csv(name, separator="\x01", quote_char=None, has_header=False, schema={"line": pl.String})["line"].to_list()
        same("lines of " + queue, sorted(got), lake.lines(queue))
        if queue == ODD:
            continue
        # It would show the payload as text of its own: 42.00 as 42.
        schema = {"partition": pl.String, "offset": pl.Int64, "transactionId": pl.String, "ts": pl.String}
        got = pl.scan_ndjson(lake.files[queue], schema=schema).collect().rows()
        same("rows of " + queue, sorted(got), [r[:4] for r in lake.rows(queue)])
    return "lines, rows without payloads; version " + pl.__version__


def pandas(lake):
    import pandas as pd
    for queue in lake.want:
        got, rows = [], []
        for name in lake.files[queue]:
            got += pd.read_csv(name, sep="\x01", header=None, quoting=3, dtype=str, keep_default_na=False, lineterminator="\n")[0].tolist()
            if queue != ODD:
                rows += pd.read_json(name, lines=True, dtype=False, precise_float=True).itertuples(index=False, name=None)
        same("lines of " + queue, sorted(got), lake.lines(queue))
        if queue != ODD:
            rows = [r[:3] + (r[3] if isinstance(r[3], str) else r[3].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),) + r[4:] for r in rows]
            same("rows of " + queue, sorted(by_value(rows)), sorted(values(lake.rows(queue))))
    return "lines, rows with payloads by value; version " + pd.__version__


# ---------------------------------------------------------------- Parquet

STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


def cells(lake, queue, got):
    """Compares rows of partition, offset, transaction_id, ts as text, payload."""
    same("rows of " + queue, sorted(got, key=str), sorted(lake.rows(queue), key=str))


def pyarrow_parquet(lake):
    import pyarrow as pa
    import pyarrow.parquet as pq
    for queue in lake.want:
        got = []
        for name in lake.files[queue]:
            t = pq.ParquetFile(name).read()
            got += zip(*(t[c].to_pylist() for c in ("partition", "offset", "transaction_id")), [x.strftime(STAMP) for x in t["ts"].to_pylist()], t["payload"].to_pylist())
        cells(lake, queue, got)
    return "all cells; version " + pa.__version__


def duckdb_parquet(lake):
    import duckdb
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for queue, pattern in lake.globs.items():
        source = "read_parquet(%s, hive_partitioning = true, hive_types = {'tenant': VARCHAR, 'queue': VARCHAR, 'dt': DATE, 'hour': VARCHAR})" % sql(pattern)
        got = db.sql("""SELECT partition, "offset", transaction_id, strftime(ts, '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ'), payload, queue FROM %s""" % source).fetchall()
        same("queue of " + queue, {r[5] for r in got}, {queue})
        cells(lake, queue, [r[:5] for r in got])
        for name in {r[0] for r in lake.rows(queue)}:  # by what the statistics let it skip
            n = db.execute("SELECT count(*) FROM %s WHERE partition = ?" % source, [name]).fetchall()
            same("partition " + name, n[0][0], sum(r[0] == name for r in lake.rows(queue)))
        pairs = db.sql("SELECT DISTINCT decode(key), decode(value) FROM parquet_kv_metadata(%s)" % sql(pattern)).fetchall()
        same("queue in the footer", dict(pairs).get("queen.queue"), queue)
    return "all cells, filters, footers, decoded names; version " + duckdb.__version__


def chdb_parquet(lake):
    import chdb
    for queue, pattern in lake.globs.items():
        got = [json.loads(r) for r in ask(chdb, "SELECT partition, offset, transaction_id, toUnixTimestamp64Micro(toDateTime64(ts, 6, 'UTC')), payload, "
               "toString(queue) FROM file(%s, 'Parquet') SETTINGS use_hive_partitioning = 1, output_format_json_quote_64bit_integers = 0" % sql(pattern))]
        same("queue of " + queue, {r[5] for r in got}, {esc(queue)})
        cells(lake, queue, [tuple(r[:3]) + (stamp(int(r[3])), r[4]) for r in got])
    return "all cells; version " + chdb.__version__


def stamp(micros):
    import datetime
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)).strftime(STAMP)


def polars_parquet(lake):
    import polars as pl
    for queue in lake.want:
        t = pl.scan_parquet(lake.files[queue], hive_partitioning=False).collect()
        cells(lake, queue, [r[:3] + (r[3].strftime(STAMP), r[4]) for r in t.rows()])
    return "all cells; version " + pl.__version__


def pandas_parquet(lake):
    import pandas as pd
    for queue in lake.want:
        got = []
        for name in lake.files[queue]:
            got += pd.read_parquet(name, columns=["partition", "offset", "transaction_id", "ts", "payload"], partitioning=None).itertuples(index=False, name=None)
        cells(lake, queue, [r[:3] + (r[3].strftime(STAMP), None if isinstance(r[4], float) else r[4]) for r in got])
    return "all cells; version " + pd.__version__


def readers(compression):
    """The one list of readers."""
    if compression == ".parquet":
        return [("pyarrow", pyarrow_parquet), ("duckdb", duckdb_parquet), ("chdb", chdb_parquet), ("polars", polars_parquet), ("pandas", pandas_parquet)]
    return {
        ".zst": [("zstandard", each_file(zstd_package)), ("zstd", each_file(zstd_command))],
        ".gz": [("gzip.py", each_file(gzip_module)), ("gzip", each_file(gzip_command))],
        ".jsonl": [("open", each_file(plain_file)), ("cat", each_file(lambda n: subprocess.run(["cat", n], check=True, stdout=subprocess.PIPE).stdout))],
    }[compression] + [("duckdb", duckdb), ("chdb", chdb), ("polars", polars), ("pandas", pandas)]


def main():
    with open(sys.argv[2]) as f:
        lake = Lake(sys.argv[1], json.load(f))
    records = sum(map(len, lake.want.values()))
    failed = False
    for name, run in readers(lake.compression):
        try:
            print("ok   %-10s %s, %d objects, %d records: %s" % (name, lake.compression, sum(map(len, lake.files.values())), records, run(lake)))
        except Exception as e:  # a reader that raises has not read it; which one, and why, is the result
            failed = True
            print("FAIL %-10s %s: %s: %s" % (name, lake.compression, type(e).__name__, " ".join(str(e).split())[:600]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
