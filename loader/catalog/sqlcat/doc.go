// Package sqlcat finds Iceberg tables in SQL catalogs, on SQLite and on PostgreSQL.
//
// It changes a catalog only in Swap, which replaces the location of a table's metadata file, in
// Insert, which adds the row of a new table, and in Delete, which removes a table's row. For all other calls, it opens a SQLite file read-only,
// and sends only SELECT statements to PostgreSQL. It creates tables of the database only together
// with a new SQLite file (see Options.Created), and never alters a table. So it can read catalogs of PyIceberg (without a column iceberg_type), of Spark's
// JdbcCatalog and of iceberg-go, without disturbing the programs that write to them.
//
// A SQLite file may be replaced while the server runs, so it is not kept open: the next call reads
// the new file. A few connections to PostgreSQL are kept open.
package sqlcat
