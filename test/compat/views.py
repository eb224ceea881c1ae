#!/usr/bin/env python3
"""Runs the statements of `queen lake ddl` in the engine that they are for, and asks its views for the rows that the lake must hold.

    views.py ENGINE STATEMENTS WANT

WANT is that of read.py. The engines are duckdb and clickhouse (chdb). It prints "ok ..." or "FAIL ..." and ends with 1 when it failed.
"""

import json
import sys

from read import ODD, Differs, same, shown_by_clickhouse


def name(queue):
    return "".join(c if c.isalnum() else "_" for c in queue)


def duckdb(statements, want):
    import duckdb
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.execute(statements)
    for queue in want:
        if queue == ODD:
            continue  # it refuses a lone surrogate, which JSON has and no text
        got = db.sql("""SELECT partition, "offset", transaction_id, strftime(ts, '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ'), strftime(dt, '%%Y-%%m-%%d'), hour FROM %s"""
                     % name(queue)).fetchall()
        same("rows of " + queue, sorted(got), sorted(row(r) + (r["ts"][:10], r["ts"][11:13]) for r in want[queue]))
    return duckdb.__version__


def clickhouse(statements, want):
    import chdb.session
    db = chdb.session.Session()
    for statement in statements.split(";\n"):
        if statement.strip():
            db.query(statement)
    for queue in want:
        if queue == ODD:
            continue
        text = str(db.query("SELECT partition, offset, transaction_id, formatDateTime(ts, '%%Y-%%m-%%dT%%H:%%i:%%S.%%fZ', 'UTC'), dt, hour, payload FROM %s"
                            % name(queue), "JSONCompactEachRow"))
        got = [tuple(json.loads(r)) for r in text.rstrip("\n").split("\n")]
        got = [(r[0], int(r[1])) + r[2:] for r in got]
        rows = [row(r) + (r["ts"][:10], r["ts"][11:13], shown_by_clickhouse(r["payload"])) for r in want[queue]]
        same("rows of " + queue, sorted(got, key=str), sorted(rows, key=str))
    return chdb.__version__


def row(r):
    return (r["partition"], r["offset"], r["transactionId"], r["ts"])


def main():
    engine, statements, want = sys.argv[1:]
    with open(statements) as f:
        statements = f.read()
    with open(want) as f:
        want = json.load(f)
    try:
        print("ok", engine, {"duckdb": duckdb, "clickhouse": clickhouse}[engine](statements, want))
    except Exception as e:
        print("FAIL", engine, type(e).__name__ if not isinstance(e, Differs) else "", e)
        sys.exit(1)


if __name__ == "__main__":
    main()
