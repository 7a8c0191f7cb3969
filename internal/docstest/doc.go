// Package docstest holds what the pages under docs say against the code, both ways:
// a field, value, default, limit or kind that a page names and that is not there fails
// its tests, and so does one that is there and stands on no page.
//
// It reads the sources themselves, as deptest does, and asks the decoders. Settings are
// compared by internal/config, metrics by internal/telemetry, kinds and codes by flight,
// flags and exit codes by cmd/penstock: those pages' tables are written, or read, where
// the values are known.
package docstest
