-- A staging table for ml.impressions, the training table of dataset impressions. Review this
-- file, and run it in Spark with the SQL extensions of Iceberg.
-- ml.impressions is not bucketed by user.id: each stream that reads a part of it reads all of
-- the staging files that partitions and value ranges leave.
-- Partition fields of the training table that the staging table does not have:
-- day: a row of a key is for all partitions
-- surface: a row of a key is for all partitions
-- bucket(12, request_id): a row of a key is for all partitions

CREATE TABLE `lake`.`features`.`users` (
  `id` BIGINT,
  `age` INT
)
USING iceberg
PARTITIONED BY (bucket(16, `id`))
TBLPROPERTIES (
  -- Files have sequence numbers. The rules duplicates: first and last order commits by them.
  'format-version' = '2',
  -- Lists and texts that repeat from row to row shrink to a fraction of their size.
  'write.parquet.compression-codec' = 'zstd',
  -- A bucket is read as a whole, so it should have few files, of 128 to 512 MB each.
  'write.target-file-size-bytes' = '268435456',
  -- A backfill commits often. This deletes old metadata files, but no snapshots.
  'write.metadata.delete-after-commit.enabled' = 'true'
);

-- Rows are shuffled by partition, so that each partition gets few files, and are sorted within
-- each partition: tables that are sorted by the key are merged without an index.
ALTER TABLE `lake`.`features`.`users` WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `id`;

-- <source> is a table, a view, or a query in parentheses, with these columns and one row for
-- each key. Null keys match nothing.
-- INSERT INTO adds the rows again if it runs again: empty the table first.
INSERT INTO `lake`.`features`.`users`
SELECT `id`, `age`
FROM <source>
WHERE `id` IS NOT NULL;

-- # The dataset for the config file. It replaces any dataset of the same name.
-- datasets:
--   impressions:
--     training: {table: ml.impressions}
--     staging:
--       # new
--       - {table: features.users, key: {user.id: id}, columns: [age]}
