// Package restcat finds Iceberg tables in REST catalogs, according to Iceberg's REST
// specification.
//
// It requests the catalog's configuration once, and loads tables as needed. It can also list,
// change and create tables (List, SetTag, Update, Create). The response for a table contains the
// metadata itself, so the metadata file is not read from storage. It may also contain credentials
// for the table's files: in the table's config, and as storage credentials for prefixes of
// locations. Both apply only to this table.
//
// Requests are retried with back-off while the server is unavailable. A token is replaced before it
// expires, or when the server rejects it. Every call, including its retries, ends when its context
// ends or after the timeout. If the identity that Penstock uses lacks a permission, the error is
// Unavailable: the query is valid, and the operator can grant the permission. Errors never contain
// a token.
package restcat
