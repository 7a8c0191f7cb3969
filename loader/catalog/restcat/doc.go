// Package restcat finds Iceberg tables in REST catalogs, as Iceberg's REST specification
// has them.
//
// It asks two questions: for the configuration, once, and for a table; and it sets tags,
// where it is asked to (SetTag). The answer to the
// second question holds the metadata itself, which is not read once more from storage, and may hold
// credentials for the table's files: what the table's config says, and the storage
// credentials by prefix of locations. Both belong to that table and to no other.
//
// A request is retried with back-off where the server says that it cannot answer now; a
// token that ends is replaced before it does, or when the server refuses it. All of a
// question ends with its context, or at the timeout. What the server's identity may not see
// is Unavailable: the query is right, and who runs the server can mend it. No error shows
// a token.
package restcat
