-- This removes ctr from dataset home. First change the config file. Runs that have begun keep
-- reading the column by the schema in their pins, as long as the snapshots and files of the
-- pins exist.

ALTER TABLE `ml`.`impressions` DROP COLUMN `ctr`;

-- # The dataset for the config file. It replaces any dataset of the same name.
-- datasets:
--   home:
--     training: {table: ml.impressions}
--     key: [request_id]
--     staging:
--       - {table: features.history, key: {request_id: req_id}, missing: {default: {country: "??"}}}
