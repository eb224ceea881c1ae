"""Reads one Parquet object of a lake as docs/formats.md 7.4 says, with pyarrow.

What the format fixes is asked for: footer, schema, encodings, codec, where row groups end, which chunks have statistics and that these are the values'.
"""

import io

GROUP_ROWS, GROUP_WEIGHT = 100_000, 16 << 20
COLUMNS = ["partition", "offset", "transaction_id", "ts", "payload"]
STATISTICS = {"partition", "offset", "ts"}
SCHEMA = """required group field_id=-1 queen_record {
  required binary field_id=-1 partition (String);
  required int64 field_id=-1 offset;
  required binary field_id=-1 transaction_id (String);
  required int64 field_id=-1 ts (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false));
  optional binary field_id=-1 payload (String);
}"""


class Bad(Exception):
    """The object is not as the format says."""


def encodings(column, name):
    if name in ("offset", "ts"):
        return [("DELTA_BINARY_PACKED", "RLE")]
    plain = [("PLAIN", "RLE")]
    return plain + [("PLAIN_DICTIONARY", "PLAIN", "RLE")] if name == "partition" else plain


def records(data, compression, tenant, queue):
    """Yields (partition, offset, transaction id, stamp, payload as text or None)."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    try:
        f = pq.ParquetFile(io.BytesIO(data))
        yield from checked(f, compression, tenant, queue)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise Bad("not a Parquet file: %s" % " ".join(str(e).split())[:300])


def checked(f, compression, tenant, queue):
    m = f.metadata
    if (m.created_by, m.format_version) != ("queen-s3", "1.0"):
        raise Bad("created by %s, version %s" % (m.created_by, m.format_version))
    pairs = {b"queen.envelope": b"1", b"queen.queue": queue.encode(), b"queen.tenant": tenant.encode()}
    if m.metadata != pairs:  # pyarrow does not show their order
        raise Bad("the footer's pairs are %s" % m.metadata)
    if SCHEMA not in str(f.schema):
        raise Bad("the schema is %s" % f.schema)
    last, odd, named = None, False, 0
    for g in range(m.num_row_groups):
        group = m.row_group(g)
        rows = list(rows_of(f.read_row_group(g)))
        last = fills(g, group, rows, last)
        odd = odd or any(not 1 <= len(r[0].encode()) <= 1024 for r in rows)
        for c, name in enumerate(COLUMNS):
            named += chunk(g, group.column(c), name, compression, rows)
        yield from rows
    if m.num_rows != sum(m.row_group(g).num_rows for g in range(m.num_row_groups)):
        raise Bad("the footer counts %d rows" % m.num_rows)
    if named != (0 if odd else m.num_row_groups):
        raise Bad("%d of %d row groups have statistics of the partition" % (named, m.num_row_groups))


def rows_of(table):
    import pyarrow as pa
    ts = table["ts"].cast(pa.int64())
    yield from zip(*(c.to_pylist() for c in (table["partition"], table["offset"], table["transaction_id"], ts, table["payload"])))


def weight(r):
    return 64 + len(r[2].encode()) + len(r[0].encode()) + len((r[4] or "null").encode())


def fills(g, group, rows, last):
    """A row group ends where its records say: it is not too large, and the first record of the next one did not fit."""
    total = sum(map(weight, rows))
    if not 1 <= len(rows) <= GROUP_ROWS or total > GROUP_WEIGHT and len(rows) > 1 or len(rows) != group.num_rows:
        raise Bad("row group %d has %d rows of weight %d" % (g, len(rows), total))
    if last is not None and last[0] < GROUP_ROWS and last[1] + weight(rows[0]) <= GROUP_WEIGHT:
        raise Bad("row group %d ends with %d rows of weight %d, and the next record weighs %d" % (g - 1, *last, weight(rows[0])))
    return len(rows), total


def chunk(g, c, name, compression, rows):
    """Checks a column chunk; 1 if it has statistics of the partition."""
    where = "row group %d, column %s" % (g, name)
    if c.path_in_schema != name or c.compression != compression.upper() or tuple(c.encodings) not in encodings(c, name):
        raise Bad("%s: %s, %s, %s" % (where, c.path_in_schema, c.compression, c.encodings))
    s = c.statistics
    if s is None or not s.has_min_max:
        if name in STATISTICS and name != "partition":
            raise Bad("%s has no statistics" % where)
        return 0
    if name not in STATISTICS:
        raise Bad("%s has statistics" % where)
    got = (s.min_raw, s.max_raw, s.null_count)
    values = [r[COLUMNS.index(name)] for r in rows]
    if name == "partition":
        values = [v.encode() for v in values]
        got = tuple(v.encode() if isinstance(v, str) else v for v in got[:2]) + got[2:]
    if got != (min(values), max(values), 0):
        raise Bad("%s has statistics %s, its values are %s to %s" % (where, got, min(values), max(values)))
    return int(name == "partition")
