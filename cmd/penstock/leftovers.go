package main

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/orphans"
)

// leftoversJSON are the leftovers of a table as JSON.
type leftoversJSON struct {
	Table string `json:"table"`
	// Removed is the number of leftovers that are removed: the first of the list.
	Removed   int            `json:"removed"`
	Bytes     int64          `json:"bytes"`
	Leftovers []leftoverJSON `json:"leftovers"`
	// NotSearched are folders that the table's properties name.
	NotSearched []string `json:"not_searched,omitempty"`
}

// leftoverJSON is a file, or an unfinished upload of one.
type leftoverJSON struct {
	Location string `json:"location"`
	// Upload is the name of an unfinished upload; "" is a file.
	Upload   string    `json:"upload,omitempty"`
	Bytes    *int64    `json:"bytes,omitempty"` // absent: unknown
	Modified time.Time `json:"modified"`
}

// printLeftovers prints the leftovers of tables, or how many of them are removed.
func (p process) printLeftovers(call leftoverCall, found []orphans.Leftovers, removed []int) error {
	if call.asJSON {
		out := make([]leftoversJSON, len(found))
		for i, f := range found {
			out[i] = leftoversJSON{Table: call.tables[i], Removed: removed[i], Bytes: f.Bytes(), Leftovers: []leftoverJSON{}, NotSearched: f.Elsewhere}
			for _, e := range f.Entries {
				out[i].Leftovers = append(out[i].Leftovers, leftoverOf(e))
			}
		}
		return p.printJSON(out)
	}
	for i, f := range found {
		if !call.remove {
			if err := p.listLeftovers(call.tables[i], f); err != nil {
				return err
			}
			continue
		}
		gone := f
		gone.Entries = f.Entries[:removed[i]]
		if _, err := fmt.Fprintf(p.stdout, "table %s: removed %s, %d bytes\n", call.tables[i], fault.Count(removed[i], "leftover"), gone.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// leftoverOf returns an entry as JSON.
func leftoverOf(e store.FolderEntry) leftoverJSON {
	out := leftoverJSON{Location: e.Location, Upload: e.Upload, Modified: e.Modified.UTC()}
	if e.Size != store.SizeUnknown {
		out.Bytes = &e.Size
	}
	return out
}

// listLeftovers prints the leftovers of a table.
func (p process) listLeftovers(table string, found orphans.Leftovers) error {
	for _, e := range found.Entries {
		what := e.Location
		if e.Upload != "" {
			what = "unfinished upload of " + what
		}
		size := "size unknown"
		if e.Size != store.SizeUnknown {
			size = fmt.Sprintf("%d bytes", e.Size)
		}
		if _, err := fmt.Fprintf(p.stdout, "%s, %s, %s old\n", what, size, ageText(p.clock().Sub(e.Modified))); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "table %s: %s, %d bytes\n", table, fault.Count(len(found.Entries), "leftover"), found.Bytes())
	return err
}

// ageText returns a duration in days and hours.
func ageText(age time.Duration) string {
	return fmt.Sprintf("%dd%dh", age/day, age%day/time.Hour)
}
