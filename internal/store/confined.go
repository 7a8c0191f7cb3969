package store

import (
	"context"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// Confined decorates a store so that it writes, removes and lists files only below some folders.
// For other locations, it returns Forbidden without a request to storage. It does not limit reads,
// which are checked when a table is planned.
type Confined struct {
	under    Operations
	prefixes Prefixes
}

var (
	_ Store        = (*Confined)(nil)
	_ Writer       = (*Confined)(nil)
	_ Uploader     = (*Confined)(nil)
	_ FolderLister = (*Confined)(nil)
)

// Confine returns a Confined over another store.
func Confine(under Store, prefixes Prefixes) *Confined {
	return &Confined{under: OperationsOf(under), prefixes: prefixes}
}

// may returns an error unless the location of a file or folder is below a prefix. For a folder, it
// also accepts the prefix itself.
func (c *Confined) may(location string, folder bool) error {
	inside := location
	if folder {
		inside = strings.TrimRight(location, "/") + "/file"
	}
	if c.prefixes.Contain(inside) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s is not under %s, where this catalog may write", location, strings.Join(c.prefixes.List(), " or ")).
		In("", location).WithRemedy("if it belongs to the table, list its folder and these in allowed_prefixes of the catalog's block")
}

// Open implements Store.
func (c *Confined) Open(ctx context.Context, location string, size int64) (Object, error) {
	return c.under.Open(ctx, location, size)
}

// Create implements Writer.
func (c *Confined) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if err := c.may(location, false); err != nil {
		return err
	}
	return c.under.Create(ctx, location, content)
}

// Remove implements Writer.
func (c *Confined) Remove(ctx context.Context, location string) error {
	if err := c.may(location, false); err != nil {
		return err
	}
	return c.under.Remove(ctx, location)
}

// Begin implements Uploader.
func (c *Confined) Begin(ctx context.Context, location string, reserve Reserve) (Upload, error) {
	if err := c.may(location, false); err != nil {
		return nil, err
	}
	return c.under.Begin(ctx, location, reserve)
}

// List implements FolderLister.
func (c *Confined) List(ctx context.Context, folder string) (FolderListing, error) {
	return c.list(ctx, folder, FolderLister.List)
}

// Unfinished implements FolderLister.
func (c *Confined) Unfinished(ctx context.Context, folder string) (FolderListing, error) {
	return c.list(ctx, folder, FolderLister.Unfinished)
}

func (c *Confined) list(ctx context.Context, folder string, list func(FolderLister, context.Context, string) (FolderListing, error)) (FolderListing, error) {
	if err := c.may(folder, true); err != nil {
		return nil, err
	}
	return list(c.under, ctx, folder)
}

// Discard implements FolderLister.
func (c *Confined) Discard(ctx context.Context, unfinished FolderEntry) error {
	if err := c.may(unfinished.Location, false); err != nil {
		return err
	}
	return c.under.Discard(ctx, unfinished)
}
