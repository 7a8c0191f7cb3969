package ui

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"

	"github.com/penstock/penstock/flight"
)

// pageRows is the maximum number of rows in the list of a page.
const pageRows = 100

// foundStream is a stream of a replica.
type foundStream struct {
	replica string
	flight.StreamStatus
}

// orders are the names of the orders of streams, and what a viewer reads.
func orders() [][2]string {
	return [][2]string{{"", "oldest first"}, {"slow", "fewest rows per second first"}, {"waits", "longest waits first, except for trainers"}, {"done", "least done first"}}
}

// order sorts streams, which are those of one replica after the other, the oldest first. An unknown order changes nothing.
func order(streams []foundStream, by string) {
	keys := map[string]func(flight.StreamStatus) float64{
		"slow": func(s flight.StreamStatus) float64 { return float64(s.Rows) / float64(max(1, s.OpenMS)) },
		"waits": func(s flight.StreamStatus) float64 {
			return -float64(s.Waited.Slot+s.Waited.Memory+s.Waited.Stream+s.Waited.Storage) / float64(max(1, s.OpenMS))
		},
		"done": doneOf,
	}
	if key := keys[by]; key != nil {
		slices.SortStableFunc(streams, func(a, b foundStream) int { return cmp.Compare(key(a.StreamStatus), key(b.StreamStatus)) })
	}
}

// doneOf returns the share of a stream that is done; -1 if it is not known.
func doneOf(s flight.StreamStatus) float64 {
	part, whole := s.Step, s.Steps
	if whole < 0 {
		part, whole = s.Rows, s.RowsTotal
	}
	switch {
	case whole < 0:
		return -1
	case whole == 0:
		return 1
	}
	return min(1, float64(part)/float64(whole))
}

// listing is the part of a list that a page shows.
type listing struct {
	From, To, All  int    // From counts from 0
	Of             string // what is listed
	Earlier, Later string // the links of the pages before and after; "" if there is none
}

// First returns the number of the first row, from 1.
func (l listing) First() int { return l.From + 1 }

// choice is one of several values of a form.
type choice struct {
	Value, Text string
	Chosen      bool
}

// choices returns the orders of streams for a form.
func choices(chosen string) (out []choice) {
	for _, o := range orders() {
		out = append(out, choice{o[0], o[1], o[0] == chosen})
	}
	return out
}

// newListing returns the part of a list that the parameters of a page name. A page beyond the end is the last one.
func newListing(all int, of string, at *url.URL) listing {
	parameters := at.Query()
	parameters.Del("part")
	last := max(1, (all+pageRows-1)/pageRows)
	page, err := strconv.Atoi(parameters.Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	page = min(page, last)
	out := listing{From: (page - 1) * pageRows, To: min(all, page*pageRows), All: all, Of: of}
	link := func(page int) string {
		parameters.Set("page", strconv.Itoa(page))
		return at.EscapedPath() + "?" + parameters.Encode()
	}
	if page > 1 {
		out.Earlier = link(page - 1)
	}
	if page < last {
		out.Later = link(page + 1)
	}
	return out
}
