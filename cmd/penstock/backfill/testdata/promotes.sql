-- Columns of staging entries of dataset home become columns of its training table,
-- ml.impressions. Review this file, and run it in Spark with the SQL extensions of Iceberg.
-- The whole table is rewritten. Stop all other writers first: rows that they commit while the
-- statement runs are lost. Deleted rows are left out, and in format version 3 rows get new row
-- ids.
-- To undo this, if nothing else was committed since: CALL
-- `<catalog>`.system.rollback_to_snapshot, with the snapshot that was current before.
-- Entry history has min_match 0.5, which the statement does not check. Check it first with
-- penstock verify.

ALTER TABLE `ml`.`impressions` ADD COLUMNS (
  `clicks` ARRAY<BIGINT>,
  `country` STRING,
  `known` BOOLEAN,
  `newest` ARRAY<BIGINT>
);

-- Rows are shuffled by partition, so that each partition gets few files, and are sorted within
-- each partition.
ALTER TABLE `ml`.`impressions` WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `request_id`;

-- All partitions are replaced, including those of older partition specs.
SET spark.sql.sources.partitionOverwriteMode = static;

INSERT OVERWRITE `ml`.`impressions` BY NAME
SELECT
  t.`request_id` AS `request_id`,
  t.`day` AS `day`,
  t.`surface` AS `surface`,
  CASE WHEN s2.copies > 1 THEN raise_error('entry ctr has several rows of a key that a training row has') ELSE coalesce(s2.value1, t.`ctr`) END AS `ctr`,
  t.`at` AS `at`,
  t.`user` AS `user`,
  t.`odd ``name``` AS `odd ``name```,
  t.`clock` AS `clock`,
  CASE WHEN s1.unordered > 1 THEN raise_error('entry history has rows of one key in files without a sequence number, whose order is unknown to Spark SQL') ELSE s1.value1 END AS `clicks`,
  if(s1.place IS NULL, CAST('??' AS STRING), s1.value2) AS `country`,
  s1.place IS NOT NULL AS `known`,
  CASE WHEN s3.copies > 1 THEN raise_error('entry lists has several rows of a key that a training row has') WHEN s3.place IS NULL THEN raise_error('entry lists has no row of a key that a training row has') ELSE slice(s3.value1, greatest(size(s3.value1) - 4, 1), 5) END AS `newest`
FROM `ml`.`impressions` AS t
LEFT JOIN (
  -- Entry history.
  SELECT
    s.`req_id` AS key1,
    s.`clicks` AS value1,
    s.`country` AS value2,
    count_if(f.sequence = 0) OVER (PARTITION BY s.`req_id`) AS unordered,
    row_number() OVER (PARTITION BY s.`req_id` ORDER BY s.`country` ASC NULLS FIRST, f.sequence DESC, f.file DESC, s._pos DESC) AS place
  FROM `features`.`history` AS s
  JOIN (
    SELECT data_file.file_path AS file, sequence_number AS sequence
    FROM `features`.`history`.entries
    WHERE status < 2 AND data_file.content = 0
  ) AS f ON s._file = f.file
  WHERE s.`req_id` IS NOT NULL
) AS s1 ON t.`request_id` = s1.key1 AND s1.place = 1
LEFT JOIN (
  -- Entry ctr.
  SELECT
    s.`odd ``id``` AS key1,
    s.`day` AS key2,
    s.`ctr` AS value1,
    count(*) OVER (PARTITION BY s.`odd ``id```, s.`day`) AS copies,
    row_number() OVER (PARTITION BY s.`odd ``id```, s.`day` ORDER BY s.`odd ``id```, s.`day`) AS place
  FROM `features`.`ctr` VERSION AS OF 'it\'s' AS s
  WHERE s.`odd ``id``` IS NOT NULL AND s.`day` IS NOT NULL
) AS s2 ON t.`user`.`id` = s2.key1 AND date_sub(t.`day`, 2) = s2.key2 AND s2.place = 1
LEFT JOIN (
  -- Entry lists.
  SELECT
    s.`odd ``id``` AS key1,
    s.`recent` AS value1,
    count(*) OVER (PARTITION BY s.`odd ``id```) AS copies,
    row_number() OVER (PARTITION BY s.`odd ``id``` ORDER BY s.`odd ``id```) AS place
  FROM `features`.`ctr` VERSION AS OF 7 AS s
  WHERE s.`odd ``id``` IS NOT NULL
) AS s3 ON t.`user`.`id` = s3.key1 AND s3.place = 1;
