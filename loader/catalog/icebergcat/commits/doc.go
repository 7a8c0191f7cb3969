// Package commits changes Iceberg tables while others write to them too: it commits files, moves
// branches, edits schemas and creates tables (see package commit for the promises).
//
// Each attempt loads the table, writes the files of the new state, reads them back and commits on the
// condition that the table has not changed. If it has, or if the outcome is unknown, another attempt
// looks for the change first. Files of attempts that were not made are removed.
package commits
