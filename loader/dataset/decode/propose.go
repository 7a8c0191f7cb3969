package decode

import (
	"math"
	"time"
)

// ProposeCommand is the body of the action propose, as JSON.
type ProposeCommand struct {
	Dataset   string   `json:"dataset"`
	Table     string   `json:"table"`             // the staging table to create
	Columns   []string `json:"columns"`           // its features, as NAME:TYPE with the types of Iceberg
	Key       []string `json:"key,omitempty"`     // columns of the training table; empty: the dataset's key
	Sort      []string `json:"sort,omitempty"`    // columns of the staging table; empty: its key
	Buckets   int      `json:"buckets,omitempty"` // 0: as many as the training table has
	Unaligned bool     `json:"unaligned,omitempty"`
	Replaces  string   `json:"replaces,omitempty"` // the column of the dataset that gets the values of the new one
	// From and To are the first and the last day of the rows, as 2026-11-01; "": there is no limit.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Propose decodes the body of the action propose.
func Propose(text []byte) (ProposeCommand, error) {
	return command(text, []field[ProposeCommand]{
		{name: "dataset", must: true, read: func(d *decoder, at place, out *ProposeCommand) { out.Dataset = d.name(at) }},
		{name: "table", must: true, read: func(d *decoder, at place, out *ProposeCommand) { out.Table = d.table(at) }},
		{name: "columns", must: true, also: []string{"column"}, read: func(d *decoder, at place, out *ProposeCommand) {
			out.Columns = list(d, at, maxColumns, func(d *decoder, at place) string { return d.short(at, maxFeature) })
		}},
		{name: "key", read: func(d *decoder, at place, out *ProposeCommand) { out.Key = d.names(at) }},
		{name: "sort", read: func(d *decoder, at place, out *ProposeCommand) { out.Sort = d.names(at) }},
		{name: "buckets", read: func(d *decoder, at place, out *ProposeCommand) { out.Buckets = int(d.whole(at, 1, math.MaxInt32)) }},
		{name: "unaligned", read: func(d *decoder, at place, out *ProposeCommand) { out.Unaligned = d.truth(at) }},
		{name: "replaces", read: func(d *decoder, at place, out *ProposeCommand) { out.Replaces = d.name(at) }},
		{name: "from", read: func(d *decoder, at place, out *ProposeCommand) { out.From = d.day(at) }},
		{name: "to", read: func(d *decoder, at place, out *ProposeCommand) { out.To = d.day(at) }},
	})
}

// maxFeature is the maximum number of bytes of a feature's name and type.
const maxFeature = 4096

// day decodes a day.
func (d *decoder) day(at place) string {
	text := d.name(at)
	if _, err := time.Parse(time.DateOnly, text); err != nil && d.sound(at.path) {
		d.fail(at.path, "must be a day, as in 2026-11-01, not %q", text)
	}
	return text
}
