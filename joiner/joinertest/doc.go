// Package joinertest is the test kit for joins: streams that are written as text,
// random joins of every kind, and an oracle that computes their results by
// comparing every pair of rows.
package joinertest
