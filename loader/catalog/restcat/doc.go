// Package restcat finds Iceberg tables in REST catalogs, according to Iceberg's REST
// specification.
//
// It requests the catalog's configuration once, and tables as needed; it also sets tags
// (SetTag) and lists tables. The response for a table contains the metadata itself, which
// is not read again from storage. It may also contain credentials for the table's files:
// in the table's config, and storage credentials for prefixes of locations. Both apply to
// that table alone.
//
// Requests are retried with back-off while the server is unavailable. A token is replaced
// before it expires, or when the server rejects it. Every call, retries included, ends
// with its context or at the timeout. If the server's identity lacks a permission, the
// error is Unavailable: the query is valid, and the operator can grant the permission.
// Errors never contain a token.
package restcat
