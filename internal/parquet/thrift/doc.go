// Package thrift reads Thrift's compact protocol, in which Parquet files store footers and page
// headers. Unlike the reader that is generated from the format's definition, this package builds no
// tree, skips the fields that its caller does not want, and checks nesting and lengths before it
// allocates anything.
package thrift
