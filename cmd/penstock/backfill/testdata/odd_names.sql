-- A staging table for ml.impressions, the training table of dataset home. Review this file, and
-- run it in Spark with the SQL extensions of Iceberg.
-- ml.impressions has older partition specs without at. Rewrite the files that still have one of
-- them, or use --unaligned: they cannot be aligned.

CREATE TABLE `features`.`and`.`more` (
  `odd ``name``` STRING,
  `at` TIMESTAMP,
  `a: b` STRING,
  `nested` STRUCT<`odd ``field``, 1`: MAP<STRING, DECIMAL(9, 2)>, `of`: ARRAY<STRUCT<`id`: BIGINT, `x`: TIMESTAMP_NTZ>>>
)
USING iceberg
-- The number of buckets of the key divides that of the training table or is a multiple of it,
-- so that a bucket is joined with few others.
PARTITIONED BY (bucket(8, `odd ``name```), hours(`at`))
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
-- Histories of a user are several times smaller if the rows of a user are neighbors: sort by
-- the user, with --sort, if the table has that column. Sorting by the key of a request does not
-- make them smaller.
ALTER TABLE `features`.`and`.`more` WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `a: b`, `odd ``name```;

-- <source> is a table, a view, or a query in parentheses, with these columns and one row for
-- each key and partition of at. Null keys match nothing.
-- INSERT INTO adds the rows again if it runs again. INSERT OVERWRITE replaces the partitions
-- that get rows, if spark.sql.sources.partitionOverwriteMode is dynamic.
INSERT INTO `features`.`and`.`more`
SELECT `odd ``name```, `at`, `a: b`, `nested`
FROM <source>
WHERE `odd ``name``` IS NOT NULL;

-- # The dataset for the config file. It replaces any dataset of the same name.
-- datasets:
--   home:
--     training: {table: ml.impressions}
--     key: [request_id]
--     staging:
--       - {table: features.history, key: {request_id: req_id}, missing: {default: {country: "??"}}}
--       # new
--       - {table: features.and.more, key: ["odd `name`"], columns: ["a: b", nested], align: {training: at}}
