// Package docstest compares the pages under docs with the code, in both directions: its
// tests fail for a field, value, default, limit or kind that is documented but does not
// exist, and for one that exists but is not documented.
//
// It parses the sources, as deptest does, and calls the decoders. Settings are compared
// by internal/config, metrics by internal/telemetry, kinds and codes by flight/failure, and
// flags and exit codes by cmd/penstock, where their values are known.
package docstest
