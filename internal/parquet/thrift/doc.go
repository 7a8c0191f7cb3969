// Package thrift reads Thrift's compact protocol, in which Parquet files store footers and page
// headers. Unlike the reader that is generated from the format, it builds no tree, skips what its
// caller does not want, and bounds nesting and lengths before anything is allocated.
package thrift
