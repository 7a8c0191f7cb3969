package sqlcat

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// newCatalog creates the tables of a catalog in one transaction. Their names and columns are those of
// Java's JdbcCatalog with schema version V1, which PyIceberg, Spark and iceberg-go read and write.
// Another program may create the tables at the same time.
const newCatalog = `BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS iceberg_tables (
	catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
	metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
	PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
	catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
	PRIMARY KEY (catalog_name, namespace, property_key));
COMMIT`

// find checks that the file exists or may be created, and reports whether it exists.
func (c *sqliteFile) find() (exists bool, err error) {
	c.absent.Store(c.created != nil)
	_, err = c.file()
	if fault.KindOf(err) != fault.NotFound || c.created == nil {
		return err == nil, err
	}
	if _, empty := os.Stat(c.path); empty == nil {
		return true, nil
	}
	folder := filepath.Dir(c.path)
	if _, missing := os.Stat(folder); errors.Is(missing, fs.ErrNotExist) {
		return false, fault.As(err).WithRemedy("correct its uri; for a new catalog, create the folder %s", folder)
	}
	if near := beside(c.path); near != "" {
		return false, fault.As(err).WithRemedy("correct its uri%s; for a new catalog, create an empty file of this name", near)
	}
	return false, nil
}

// missing returns the error of a call that found no file. If the catalog had its file before, the
// error is Unavailable: see lost.
func (c *sqliteFile) missing(err error) error {
	if c.absent.Load() {
		return err
	}
	return lost(err, restoreFile)
}

// connectToCreate opens the SQLite file for writing. It creates the file, with a catalog without
// tables, if the file was absent until now.
func (c *sqliteFile) connectToCreate(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	if _, err := c.file(); fault.KindOf(err) != fault.NotFound || !c.absent.Load() {
		return c.connectToWrite(ctx, wait)
	}
	db, err := c.open(ctx, url.Values{"mode": {"rwc"}, "_pragma": {busyPragma(wait)}})
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, newCatalog); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c.absent.Store(false)
	c.created(c.path)
	return db, nil
}
