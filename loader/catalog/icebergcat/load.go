package icebergcat

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"slices"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
)

// loaded is a table's metadata as the catalog names it now.
type loaded struct {
	name     string
	location string // of the metadata file
	icetable.Metadata
}

// load reads the metadata of a table.
func (c *Catalog) load(ctx context.Context, name string) (*loaded, error) {
	parts, err := catalog.Parts(name)
	if err != nil {
		return nil, err
	}
	location, content, err := c.metadata(ctx, name, parts)
	if err != nil {
		return nil, err
	}
	files := func(context.Context) (iceio.IO, error) { return oneFile(content), nil }
	t, err := icetable.NewFromLocation(ctx, parts, location, files, nil)
	if errors.Is(err, icetable.ErrInvalidMetadataFormatVersion) {
		return nil, fault.New(fault.Invalid, "table %s is of a format version that is not served by this version: %w", name, err).
			In(name, location).WithRemedy("use a table of format version 1, 2 or 3")
	}
	if err != nil {
		return nil, corrupt(name, location, "metadata of table %s cannot be read: %w", name, err)
	}
	return &loaded{name: name, location: location, Metadata: t.Metadata()}, nil
}

// metadata reads the metadata file of a table and says where it is. Writers
// may remove old metadata files, so one that is gone is only missing if the
// catalog still names it.
func (c *Catalog) metadata(ctx context.Context, name string, parts []string) (location string, content []byte, err error) {
	location, err = c.metadataLocation(ctx, name, parts)
	for err == nil {
		content, err = c.read(ctx, name, location)
		if fault.KindOf(err) != fault.Corrupt {
			return location, content, err
		}
		now, again := c.metadataLocation(ctx, name, parts)
		if again == nil && now == location {
			return "", nil, err
		}
		location, err = now, again
	}
	return "", nil, err
}

// metadataLocation asks the catalog where a table's metadata is.
func (c *Catalog) metadataLocation(ctx context.Context, name string, parts []string) (string, error) {
	return store.Call(ctx, c.calls, "read", c.path, func(ctx context.Context) (string, error) {
		return c.queryLocation(ctx, name, parts)
	})
}

// queryLocation is metadataLocation on the catalog's own terms. It selects
// whole rows and looks at the columns' names, because only newer catalogs have
// the column iceberg_type that sets views apart, and a catalog may gain it
// while we run.
func (c *Catalog) queryLocation(ctx context.Context, name string, parts []string) (string, error) {
	last := len(parts) - 1
	rows, err := c.db.QueryContext(ctx,
		`SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?`,
		c.name, strings.Join(parts[:last], "."), parts[last])
	if err != nil {
		return "", c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return "", c.broken(err)
		}
		return "", c.unknownTable(ctx, name)
	}
	row, err := scanRow(rows)
	if err != nil {
		return "", c.broken(err)
	}
	if strings.EqualFold(row["iceberg_type"], "VIEW") {
		return "", fault.New(fault.Invalid, "%s is a view, not a table", name).In(name, "").
			WithRemedy("name a table: views are not served")
	}
	location := row["metadata_location"]
	if location == "" {
		return "", corrupt(name, c.path, "catalog %s names no metadata of table %s", c.name, name)
	}
	return location, nil
}

// scanRow returns a row's text columns by name; NULL is "".
func scanRow(rows *sql.Rows) (map[string]string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		return nil, err
	}
	row := make(map[string]string, len(columns))
	for i, column := range columns {
		row[strings.ToLower(column)] = values[i].String
	}
	return row, nil
}

// unknownTable is the failure of a name that the catalog does not have. If
// the file holds tables under other catalog names only, that is the likely
// mistake, and it says so.
func (c *Catalog) unknownTable(ctx context.Context, name string) error {
	tables, err := c.column(ctx, `SELECT table_namespace || '.' || table_name FROM iceberg_tables WHERE catalog_name = ?`, c.name)
	if err != nil {
		return err
	}
	e := catalog.UnknownTable(name, tables)
	if len(tables) > 0 {
		return e
	}
	catalogs, err := c.column(ctx, `SELECT DISTINCT catalog_name FROM iceberg_tables`)
	if err != nil {
		return err
	}
	if len(catalogs) == 0 {
		return e.WithRemedy("catalog %s has no tables at all; look whether its uri is right", c.path)
	}
	slices.Sort(catalogs)
	return e.WithRemedy("%s holds no tables of a catalog called %q; set name: to one of: %s", c.path, c.name, strings.Join(catalogs, ", "))
}

// column returns the values of a query of one text column.
func (c *Catalog) column(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := c.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, c.broken(err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, c.broken(err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, c.broken(err)
	}
	return out, nil
}

// read returns the whole of a metadata file, so that what fails afterwards is
// the file's content and not its storage.
func (c *Catalog) read(ctx context.Context, table, location string) ([]byte, error) {
	content, err := c.readFile(ctx, location)
	if err == nil {
		return content, nil
	}
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil, err // the context's
	}
	return nil, fault.As(fault.Op(err, "read table %s", table)).In(table, location)
}

func (c *Catalog) readFile(ctx context.Context, location string) (content []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object, err := c.store.Open(ctx, location, store.SizeUnknown)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	content = make([]byte, object.Size())
	if err := object.ReadAt(ctx, content, 0); err != nil {
		return nil, err
	}
	return content, nil
}

// oneFile is a file system for iceberg-go of one file that is in memory.
type oneFile []byte

// ReadFile returns the file.
func (f oneFile) ReadFile(string) ([]byte, error) { return slices.Clone(f), nil }

// Open has nothing to open: iceberg-go reads metadata through ReadFile.
func (f oneFile) Open(name string) (iceio.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// Remove removes nothing.
func (f oneFile) Remove(name string) error {
	return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
}

// corrupt is a file of metadata that cannot be right.
func corrupt(table, file, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In(table, file)
}
