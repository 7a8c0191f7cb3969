// Package maintenance rewrites files of tables. Compact gives rows fewer, sorted files without deletes on them, as package
// compact selects them, and readers find the same rows before and after. Restore brings back the rows of a snapshot by
// copies of its files.
//
// Both write files by package datafile and commit them by package transaction: a change is made whole or not at all, and
// files of one that was not made are removed.
package maintenance
