// Package partition computes the partitions of rows by Iceberg's transforms: identity, bucket,
// truncate, year, month, day and hour, as the specification defines them.
//
// A [Divider] numbers the partitions of a stream in the order in which it finds them. It returns
// the values of each partition in the form that [catalog.File] uses, and compares partitions by
// their values. The package is pure.
package partition
