-- tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c
CREATE OR REPLACE VIEW a_b_c AS
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=*/hour=*/w-*.jsonl', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=*/hour=*/w-*.jsonl.gz', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=*/hour=*/w-*.jsonl.zst'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c
CREATE OR REPLACE VIEW a_b_c_2 AS
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, NULL::VARCHAR AS hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/w-*.jsonl.gz', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/w-*.jsonl.zst'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE})
UNION ALL
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/hour=*/w-*.jsonl'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2
CREATE OR REPLACE VIEW a_b_c_2_2 AS
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=*/hour=*/w-*.jsonl', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=*/hour=*/w-*.jsonl.gz', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=*/hour=*/w-*.jsonl.zst'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

-- tenant=00000000-0000-0000-0000-000000000001/queue=events
CREATE OR REPLACE VIEW events AS
SELECT partition, "offset", transaction_id AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_parquet(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events/dt=*/hour=*/w-*.parquet'],
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

-- tenant=00000000-0000-0000-0000-000000000001/queue=mixed
CREATE OR REPLACE VIEW mixed AS
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.jsonl.gz'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR})
UNION ALL
SELECT partition, "offset", transaction_id AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_parquet(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.parquet'],
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

-- tenant=00000000-0000-0000-0000-000000000001/queue=orders
CREATE OR REPLACE VIEW orders AS
SELECT partition, "offset", transactionId AS transaction_id, ts, payload::JSON AS payload, dt, hour
  FROM read_json(['/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=*/hour=*/w-*.jsonl', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=*/hour=*/w-*.jsonl.gz', '/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=*/hour=*/w-*.jsonl.zst'], format = 'newline_delimited', maximum_object_size = 134217728,
    columns = {"partition": 'VARCHAR', "offset": 'BIGINT', "transactionId": 'VARCHAR', "ts": 'TIMESTAMPTZ', "payload": 'JSON'},
    hive_partitioning = true, hive_types = {tenant: VARCHAR, queue: VARCHAR, dt: DATE, hour: VARCHAR});

