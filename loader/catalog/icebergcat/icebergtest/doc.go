// Package icebergtest has what tests of Iceberg catalogs share: a writer, which is another program that owns a catalog, with
// iceberg-go's own commits; a catalog that is changed beside it; tables that are made by hand; and a fake cloud.
package icebergtest
