// Package icebergcat reads Apache Iceberg tables out of SQL catalogs: it is
// the only package that knows iceberg-go.
//
// It reads, and changes nothing: the SQLite file is opened read-only and no
// table of it is made or altered, so catalogs made by PyIceberg (without a
// column iceberg_type), by Spark's JdbcCatalog and by iceberg-go open alike,
// and stay as they are while their owners write to them.
//
// Every call reads the table's metadata anew and keeps nothing: no connection,
// no context, no handle of a table. A catalog's file may be replaced while it is
// served: from then on every call reads the new one. Manifests and manifest lists are
// immutable: a cache that is given remembers them by table and location, so that a
// table is listed again after a commit by what that wrote.
//
// Files lists a snapshot only if this version can read all of it rightly.
// Formats other than Parquet and encryption are refused with the table, the file and a
// remedy. What the footer of a file alone can say (a column that the file lacks, a type
// that a column cannot have had) is checked by whoever opens it.
package icebergcat
