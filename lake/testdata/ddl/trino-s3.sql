-- tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c
CREATE TABLE hive.default.a_b_c ("partition" varchar, "offset" bigint, "transactionId" varchar, "ts" varchar, "payload" varchar, dt varchar, hour varchar)
WITH (external_location = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c', format = 'OPENX_JSON', partitioned_by = ARRAY['dt', 'hour']);
CALL hive.system.sync_partition_metadata('default', 'a_b_c', 'ADD');

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c
-- no table: its objects differ in format or alignment, and Trino reads all that lie under one location alike

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2
CREATE TABLE hive.default.a_b_c_2_2 ("partition" varchar, "offset" bigint, "transactionId" varchar, "ts" varchar, "payload" varchar, dt varchar, hour varchar)
WITH (external_location = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2', format = 'OPENX_JSON', partitioned_by = ARRAY['dt', 'hour']);
CALL hive.system.sync_partition_metadata('default', 'a_b_c_2_2', 'ADD');

-- tenant=00000000-0000-0000-0000-000000000001/queue=events
CREATE TABLE hive.default.events ("partition" varchar, "offset" bigint, "transaction_id" varchar, "ts" timestamp(6), "payload" varchar, dt varchar, hour varchar)
WITH (external_location = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events', format = 'PARQUET', partitioned_by = ARRAY['dt', 'hour']);
CALL hive.system.sync_partition_metadata('default', 'events', 'ADD');

-- tenant=00000000-0000-0000-0000-000000000001/queue=mixed
-- no table: its objects differ in format or alignment, and Trino reads all that lie under one location alike

-- tenant=00000000-0000-0000-0000-000000000001/queue=orders
CREATE TABLE hive.default.orders ("partition" varchar, "offset" bigint, "transactionId" varchar, "ts" varchar, "payload" varchar, dt varchar, hour varchar)
WITH (external_location = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders', format = 'OPENX_JSON', partitioned_by = ARRAY['dt', 'hour']);
CALL hive.system.sync_partition_metadata('default', 'orders', 'ADD');

