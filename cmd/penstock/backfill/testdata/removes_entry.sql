-- This removes country from dataset home. First change the config file. Runs that have begun
-- keep reading the column by the schema in their pins, as long as the snapshots and files of
-- the pins exist.
-- Other datasets of the config file that read this table: other.

-- The dataset reads nothing else of this table. To remove the table instead, once no run and no
-- other dataset reads it:
--  DROP TABLE `features`.`history`;
ALTER TABLE `features`.`history` DROP COLUMN `country`;

-- # The dataset for the config file. It replaces any dataset of the same name.
-- datasets:
--   home:
--     training: {table: ml.impressions}
--     key: [request_id]
