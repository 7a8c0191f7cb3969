// Package commits changes Iceberg tables to which other programs may write at the same time: it
// commits files, moves branches, edits schemas and creates tables. Package commit describes what
// these calls guarantee.
//
// Each attempt loads the table, writes the files of the new state, reads them back, and commits on
// the condition that the table has not changed. If the table has changed, or if the outcome is
// unknown, another attempt follows, which first looks whether the table already has the change. The
// files of attempts that were certainly not committed are removed.
package commits
