// Package maintenance rewrites the files of tables. Compact rewrites files into fewer, sorted files
// without deletes. Package compact selects the files, and readers find the same rows before and
// after. Restore restores the rows of a snapshot from copies of its files.
//
// Both write files with package datafile and commit them with package transaction. A change is made
// completely or not at all. If it is not made, its files are removed.
package maintenance
