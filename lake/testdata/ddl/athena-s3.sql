-- tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c
CREATE EXTERNAL TABLE a_b_c (`partition` string, `offset` bigint, `transactionId` string, `ts` string, `payload` string)
PARTITIONED BY (dt string, hour string)
ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'
LOCATION 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/'
TBLPROPERTIES (
  'projection.enabled' = 'true', 'projection.dt.type' = 'date', 'projection.dt.format' = 'yyyy-MM-dd', 'projection.dt.range' = '2026-10-03,NOW',
  'projection.hour.type' = 'integer', 'projection.hour.range' = '0,23', 'projection.hour.digits' = '2',
  'storage.location.template' = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a%2Fb.c/dt=${dt}/hour=${hour}/');

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c
-- no table: its objects differ in format or alignment, and Athena reads all that lie under one location alike

-- tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2
CREATE EXTERNAL TABLE a_b_c_2_2 (`partition` string, `offset` bigint, `transactionId` string, `ts` string, `payload` string)
PARTITIONED BY (dt string, hour string)
ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'
LOCATION 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/'
TBLPROPERTIES (
  'projection.enabled' = 'true', 'projection.dt.type' = 'date', 'projection.dt.format' = 'yyyy-MM-dd', 'projection.dt.range' = '2026-10-03,NOW',
  'projection.hour.type' = 'integer', 'projection.hour.range' = '0,23', 'projection.hour.digits' = '2',
  'storage.location.template' = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=a_b_c_2/dt=${dt}/hour=${hour}/');

-- tenant=00000000-0000-0000-0000-000000000001/queue=events
CREATE EXTERNAL TABLE events (`partition` string, `offset` bigint, `transaction_id` string, `ts` timestamp, `payload` string)
PARTITIONED BY (dt string, hour string)
STORED AS PARQUET
LOCATION 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events/'
TBLPROPERTIES (
  'projection.enabled' = 'true', 'projection.dt.type' = 'date', 'projection.dt.format' = 'yyyy-MM-dd', 'projection.dt.range' = '2026-10-03,NOW',
  'projection.hour.type' = 'integer', 'projection.hour.range' = '0,23', 'projection.hour.digits' = '2',
  'storage.location.template' = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=events/dt=${dt}/hour=${hour}/');

-- tenant=00000000-0000-0000-0000-000000000001/queue=mixed
-- no table: its objects differ in format or alignment, and Athena reads all that lie under one location alike

-- tenant=00000000-0000-0000-0000-000000000001/queue=orders
CREATE EXTERNAL TABLE orders (`partition` string, `offset` bigint, `transactionId` string, `ts` string, `payload` string)
PARTITIONED BY (dt string, hour string)
ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'
LOCATION 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/'
TBLPROPERTIES (
  'projection.enabled' = 'true', 'projection.dt.type' = 'date', 'projection.dt.format' = 'yyyy-MM-dd', 'projection.dt.range' = '2026-10-03,NOW',
  'projection.hour.type' = 'integer', 'projection.hour.range' = '0,23', 'projection.hour.digits' = '2',
  'storage.location.template' = 's3://lake/queen/tenant=00000000-0000-0000-0000-000000000001/queue=orders/dt=${dt}/hour=${hour}/');

