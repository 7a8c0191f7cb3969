// Package promote makes the columns of staging entries columns of the training table.
//
// Every data file of the training table is replaced by one with the same column chunks, byte for byte, and the new
// columns behind them: for each row, deleted ones included, the values that reading the dataset gives it. First a schema
// that is not current reserves the field ids of the new columns, and documents in them which snapshots their values come from. Files are then
// replaced in groups. Under the current schema nothing changes by that, so readers continue. When all files have
// the columns and the checks hold, one commit makes the schema current.
//
// A promotion that was interrupted continues where it stopped: files that have the columns are known by their names.
package promote
