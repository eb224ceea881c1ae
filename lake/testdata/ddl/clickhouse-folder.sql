-- tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c
CREATE OR REPLACE VIEW a_b_c AS
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c
CREATE OR REPLACE VIEW a_b_c_2 AS
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/w-*.{jsonl.gz,jsonl.zst}', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort'
UNION ALL
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/hour=*/w-*.jsonl', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2
CREATE OR REPLACE VIEW a_b_c_2_2 AS
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

-- tenant=00000000-0000-0000-0000-000000000001/queue=events
CREATE OR REPLACE VIEW events AS
SELECT partition, offset, transaction_id AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events/dt=*/hour=*/w-*.parquet', 'Parquet', 'partition String, offset Int64, transaction_id String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

-- tenant=00000000-0000-0000-0000-000000000001/queue=mixed
CREATE OR REPLACE VIEW mixed AS
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.jsonl.gz', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort'
UNION ALL
SELECT partition, offset, transaction_id AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.parquet', 'Parquet', 'partition String, offset Int64, transaction_id String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

-- tenant=00000000-0000-0000-0000-000000000001/queue=orders
CREATE OR REPLACE VIEW orders AS
SELECT partition, offset, transactionId AS transaction_id, ts, payload, extract(_path, 'dt=([0-9-]+)') AS dt, extract(_path, 'hour=([0-9]+)') AS hour
  FROM file('/data/it''s a lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}', 'JSONEachRow', 'partition String, offset Int64, transactionId String, ts DateTime64(6, ''UTC''), payload Nullable(String)')
  SETTINGS date_time_input_format = 'best_effort';

