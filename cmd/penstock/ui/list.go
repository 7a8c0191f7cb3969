package ui

import (
	"net/url"
	"strings"
)

// listBody is a page that lists datasets or tables.
type listBody struct {
	Title, One string // One is one of what is listed
	Find       string // the text that the name contains; "": all names
	Head       []heading
	Rows       []listRow
	Listed     listing
}

// heading is the heading of a column.
type heading struct {
	Text   string
	Number bool
}

// listRow is a row of a list. One with a failure has no cells.
type listRow struct {
	Name, Link, Failure string
	Cells               []cell
}

// cell is a text or several links.
type cell struct {
	Text   string
	Links  []named
	Number bool
}

// named is a link.
type named struct{ Name, Link string }

// Columns returns the number of columns after that of the name.
func (l listBody) Columns() int { return len(l.Head) - 1 }

// newList returns the part of a list that an address names.
func newList(title, one string, head []heading, rows []listRow, at *url.URL) listBody {
	out := listBody{Title: title, One: one, Find: at.Query().Get("find"), Head: head}
	for _, row := range rows {
		if strings.Contains(strings.ToLower(row.Name), strings.ToLower(out.Find)) {
			out.Rows = append(out.Rows, row)
		}
	}
	out.Listed = newListing(len(out.Rows), one+"s", at)
	out.Rows = out.Rows[out.Listed.From:out.Listed.To]
	return out
}
