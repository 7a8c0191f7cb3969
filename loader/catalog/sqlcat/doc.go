// Package sqlcat finds Iceberg tables in SQL catalogs: on SQLite, and on PostgreSQL.
//
// It reads, and changes nothing unless it is asked to swap a table's metadata file for
// another (Swap): until then a SQLite file is opened read-only and a PostgreSQL database
// is asked SELECT alone. No table is made or altered. So catalogs made by PyIceberg
// (without a column iceberg_type), by Spark's JdbcCatalog and by iceberg-go open alike,
// and stay as they are while their owners write to them.
//
// Nothing is kept of a SQLite file, which may be replaced while it is served: from then
// on every question reads the new one. Of PostgreSQL a few connections are kept.
package sqlcat
