-- tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c
CREATE OR REPLACE TEMPORARY VIEW a_b_c (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c');

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c
CREATE OR REPLACE TEMPORARY VIEW a_b_c_2_jsonl_by_day (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/w-*.{jsonl.gz,jsonl.zst}',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c');
CREATE OR REPLACE TEMPORARY VIEW a_b_c_2_jsonl (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c/dt=*/hour=*/w-*.jsonl',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c');

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2
CREATE OR REPLACE TEMPORARY VIEW a_b_c_2_2 (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2');

-- tenant=00000000-0000-0000-0000-000000000001/queue=events
CREATE OR REPLACE TEMPORARY VIEW events (`partition` STRING, `offset` BIGINT, `transaction_id` STRING, `ts` TIMESTAMP, `payload` STRING)
USING parquet
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events/dt=*/hour=*/w-*.parquet',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events');

-- tenant=00000000-0000-0000-0000-000000000001/queue=mixed
CREATE OR REPLACE TEMPORARY VIEW mixed_jsonl (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.jsonl.gz',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed');
CREATE OR REPLACE TEMPORARY VIEW mixed_parquet (`partition` STRING, `offset` BIGINT, `transaction_id` STRING, `ts` TIMESTAMP, `payload` STRING)
USING parquet
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed/dt=*/hour=*/w-*.parquet',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=mixed');

-- tenant=00000000-0000-0000-0000-000000000001/queue=orders
CREATE OR REPLACE TEMPORARY VIEW orders (`partition` STRING, `offset` BIGINT, `transactionId` STRING, `ts` TIMESTAMP, `payload` STRING)
USING json
OPTIONS (path 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=*/hour=*/w-*.{jsonl,jsonl.gz,jsonl.zst}',
  basePath 's3a://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders');

