// Package sqlcat finds Iceberg tables in SQL catalogs, on SQLite and on PostgreSQL.
//
// It only reads, except that Swap replaces the location of a table's metadata file: a
// SQLite file is opened read-only otherwise, and a PostgreSQL database gets only SELECT.
// It never creates or alters a table. So catalogs of PyIceberg (without a column
// iceberg_type), of Spark's JdbcCatalog and of iceberg-go can all be read, and are not
// changed while their owners write to them.
//
// A SQLite file may be replaced while it is served, so it is not kept open: the next call
// reads the new file. A few connections to PostgreSQL are kept.
package sqlcat
