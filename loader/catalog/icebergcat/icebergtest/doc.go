// Package icebergtest has the code that tests of Iceberg catalogs share: a Writer, which stands for
// another program that owns a catalog and commits with iceberg-go; Changing, a catalog that
// Penstock changes at the same time; tables whose manifests a test writes itself; and a fake cloud.
package icebergtest
