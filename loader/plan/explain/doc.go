// Package explain describes plans for people: what a query reads, in which order and why, and what
// it costs. Text returns the full description, and Summary a drawing that fits on a screen. The
// same plan always has the same texts.
package explain
