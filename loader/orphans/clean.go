package orphans

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// orphanBytes is the memory of an orphan file in a result in bytes, excluding its strings.
const orphanBytes = 128

// SearchedTable is a table of a catalog.
type SearchedTable struct {
	Catalog SearchedTables
	Name    string // in the catalog
	Shown   string // in results and errors
}

// CleanProgress is the progress of Clean.
type CleanProgress struct {
	Table           string
	Removing        bool // false: the search of the table begins
	Removed, All    int
	Bytes, AllBytes int64 // of entries with known sizes
}

// TableOrphans are the orphan files of a table, as JSON.
type TableOrphans struct {
	Table string `json:"table"`
	// Removed is the number of orphan files that were removed. They are the first ones in Files.
	Removed int          `json:"removed"`
	Bytes   int64        `json:"bytes"`
	Files   []OrphanFile `json:"files"`
	// TooYoung is the number of other unreferenced files and unfinished uploads that were written
	// too recently to judge.
	TooYoung int `json:"too_young,omitempty"`
	// NotSearched has the folders outside the table's folder that its properties name. They are not
	// searched.
	NotSearched []string `json:"not_searched,omitempty"`
}

// maxPage is the maximum number of orphan files on a page.
const maxPage = 1000

// Pages divides the orphan files of tables into pages. A page has at most 1,000 orphan files, all
// of the same table. The counts of a table are on its first page. The pages share the memory of
// found.
func Pages(found []TableOrphans) []TableOrphans {
	var out []TableOrphans
	for _, t := range found {
		first := t
		first.Files = t.Files[:min(len(t.Files), maxPage)]
		out = append(out, first)
		for rest := range slices.Chunk(t.Files[len(first.Files):], maxPage) {
			out = append(out, TableOrphans{Table: t.Table, Files: rest})
		}
	}
	return out
}

// Paged has the orphan files of tables. It is decoded from several JSON texts: each call of
// UnmarshalJSON adds the pages of one text. Consecutive pages of the same table are joined.
type Paged []TableOrphans

// UnmarshalJSON implements json.Unmarshaler.
func (p *Paged) UnmarshalJSON(text []byte) error {
	var pages []TableOrphans
	if err := json.Unmarshal(text, &pages); err != nil {
		return err
	}
	for _, page := range pages {
		last := len(*p) - 1
		if last < 0 || (*p)[last].Table != page.Table {
			*p = append(*p, page)
			continue
		}
		(*p)[last].Files = append((*p)[last].Files, page.Files...)
	}
	return nil
}

// OrphanFile is an orphan file or an unfinished upload.
type OrphanFile struct {
	Location string `json:"location"`
	// Upload is the name of an unfinished upload; "" for a file.
	Upload   string    `json:"upload,omitempty"`
	Bytes    *int64    `json:"bytes,omitempty"` // absent: unknown
	Modified time.Time `json:"modified"`
}

// Size returns the size in bytes, or 0 if it is unknown.
func (l OrphanFile) Size() int64 {
	if l.Bytes == nil {
		return 0
	}
	return *l.Bytes
}

// Clean finds the orphan files of all tables, and then removes them if remove is true. If the
// search of one table fails, nothing is removed. If an orphan file cannot be removed, Clean returns
// the error together with the results so far. It reserves the memory of the result from held.
func (s Search) Clean(ctx context.Context, tables []SearchedTable, remove bool, held *budget.Reservation, progress func(CleanProgress)) ([]TableOrphans, error) {
	found := make([]FolderOrphans, len(tables))
	for i, t := range tables {
		progress(CleanProgress{Table: t.Shown})
		var err error
		if found[i], err = s.Find(ctx, t.Catalog, t.Name, held); err != nil {
			return nil, err
		}
	}
	out := make([]TableOrphans, len(tables))
	for i, f := range found {
		if err := held.Grow(int64(orphanBytes * len(f.Entries))); err != nil {
			return nil, err
		}
		out[i] = TableOrphans{Table: tables[i].Shown, Bytes: f.Bytes(), Files: []OrphanFile{}, TooYoung: f.TooYoung, NotSearched: f.Elsewhere}
		for _, e := range f.Entries {
			out[i].Files = append(out[i].Files, orphanFileOf(e))
		}
	}
	for i, f := range found {
		if !remove {
			break
		}
		var err error
		if out[i].Removed, err = f.remove(ctx, tables[i].Shown, progress); err != nil {
			return out, err
		}
	}
	return out, nil
}

// remove removes the orphan files of a table, and returns the number of removed files.
func (l FolderOrphans) remove(ctx context.Context, table string, progress func(CleanProgress)) (int, error) {
	at := CleanProgress{Table: table, Removing: true, All: len(l.Entries), AllBytes: l.Bytes()}
	progress(at)
	for i, e := range l.Entries {
		if err := Remove(ctx, l.Files, e); err != nil {
			return i, fault.Op(err, "remove orphan files of table %s", table)
		}
		at.Removed, at.Bytes = at.Removed+1, at.Bytes+max(e.Size, 0)
		progress(at)
	}
	return len(l.Entries), nil
}

// orphanFileOf converts an entry to an OrphanFile.
func orphanFileOf(e store.FolderEntry) OrphanFile {
	out := OrphanFile{Location: e.Location, Upload: e.Upload, Modified: e.Modified.UTC()}
	if e.Size != store.SizeUnknown {
		out.Bytes = &e.Size
	}
	return out
}
