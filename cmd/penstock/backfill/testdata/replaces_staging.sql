-- A staging table for ml.impressions, the training table of dataset home. Review this file, and
-- run it in Spark with the SQL extensions of Iceberg.
-- ml.impressions has older partition specs without day. Rewrite the files that still have one
-- of them, or use --unaligned: they cannot be aligned.
-- Partition fields of the training table that the staging table does not have:
-- surface: it is not derived from the key, and partitions of one column can be aligned

CREATE TABLE `features`.`country_v2` (
  `request_id` BIGINT,
  `day` DATE,
  `code` INT
)
USING iceberg
-- The number of buckets of the key divides that of the training table or is a multiple of it,
-- so that a bucket is joined with few others.
PARTITIONED BY (`day`, bucket(12, `request_id`))
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
ALTER TABLE `features`.`country_v2` WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `request_id`;

-- <source> is a table, a view, or a query in parentheses, with these columns and one row for
-- each key and partition of day. Null keys match nothing.
-- INSERT INTO adds the rows again if it runs again. INSERT OVERWRITE replaces the partitions
-- that get rows, if spark.sql.sources.partitionOverwriteMode is dynamic.
INSERT INTO `features`.`country_v2`
SELECT `request_id`, `day`, `code`
FROM <source>
WHERE `request_id` IS NOT NULL;

-- The dataset gives the new column the name country, and no longer reads the old one of
-- features.history. To remove the old one, once no run and no other dataset reads it:
--  ALTER TABLE `features`.`history` DROP COLUMN `country`;
-- Other datasets of the config file that read this table: other.

-- # The dataset for the config file. It replaces any dataset of the same name.
-- datasets:
--   home:
--     training: {table: ml.impressions}
--     key: [request_id]
--     staging:
--       - {table: features.history, key: {request_id: req_id}, columns: [clicks]}
--       # new
--       - {table: features.country_v2, columns: [{column: code, name: country}], align: {training: day}}
