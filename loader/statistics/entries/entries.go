// Package entries describes a dataset's rows and its staging entries, as the dataset joins them: how many training rows match an
// entry, on which days, how old the values are, and which values training rows get.
//
// It reads the rows from a stream of the dataset, with changed rules: no entry drops, repeats or refuses a training row, so that the
// rows without a match can be counted. Keys of staging tables are counted by a verification.
//
// The package does not depend on the kinds of catalogs and storage.
package entries

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/verify"
)

// Loader plans and reads datasets. A loader.Loader implements it.
type Loader interface {
	Datasets() []dataset.Dataset
	PlanDataset(ctx context.Context, d dataset.Dataset, request loader.PlanRequest) (loader.Planned, error)
	Open(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error)
	Verify(ctx context.Context, request loader.PlanRequest, progress func(loader.VerifyProgress)) (*loader.Verification, error)
}

// Options configure Describe and Compare. All fields are required.
type Options struct {
	Loader Loader
	Budget *budget.Budget
}

// Request says what to describe.
type Request struct {
	Dataset string
	Columns []string // of the dataset; nil: all
	// MaxColumns is that of statistics.Request.
	MaxColumns int
	// Rights are those of the client to the dataset, and BaseRights those to the dataset to compare with. A client that may not read all
	// of a dataset gets what a stream shows it, and no numbers of keys.
	Rights, BaseRights policy.Rights
	// Label is a column of numbers or booleans with which the other columns are compared; "": none.
	Label string
	// Exact and NoValues are those of statistics.Request.
	Exact, NoValues bool
	// Progress is called from time to time with the number of rows read so far and the number of all rows to read; it may be nil.
	Progress func(read, all int64)
	// Pinned is called with each table and snapshot that is described or compared with, before it is read; it may be nil. Snapshot 0 stands
	// for no snapshot.
	Pinned func(table string, snapshot int64)
}

// Result describes a dataset, as JSON.
type Result struct {
	Version  int                    `json:"version"` // of this form: 1
	Dataset  string                 `json:"dataset"`
	Training string                 `json:"training"` // the training table
	Snapshot int64                  `json:"snapshot,omitempty,string"`
	Rows     int64                  `json:"rows"` // training rows
	Sample   statistics.Sample      `json:"sample"`
	Names    []float64              `json:"quantiles"` // as in statistics.Result
	Columns  []stats.Summary        `json:"columns"`   // of the training table, in the rows of the dataset
	Left     []string               `json:"not_described,omitempty"`
	Entries  []Entry                `json:"entries"`
	Label    *stats.Label           `json:"label,omitempty"`
	Against  *statistics.Comparison `json:"against,omitempty"`
	// Partition is the name of the field by whose values rows are divided; "" if they are not.
	Partition  string      `json:"partition,omitempty"`
	Partitions []Partition `json:"partitions,omitempty"`
}

// Partition counts the rows of a partition.
type Partition struct {
	Partition string `json:"partition"`
	Rows      int64  `json:"rows"`
}

// Entry describes a staging entry, as JSON.
type Entry struct {
	Name     string `json:"name"`
	Table    string `json:"table"`
	Snapshot int64  `json:"snapshot,omitempty,string"`
	// Promoted is true if the values are columns of the training table. Then only Columns is set, since it is unknown which rows
	// had a match.
	Promoted   bool             `json:"promoted,omitempty"`
	Matches    *Matches         `json:"matches,omitempty"`
	Partitions []PartitionMatch `json:"partitions,omitempty"`
	Keys       *Keys            `json:"keys,omitempty"` // absent if the keys were not counted, or for a client that may not read all of the dataset
	// Note says which command shows the keys of training rows without a match, if at least 1 % of the rows have one, and how many of these
	// keys exist in another spelling. It names no key.
	Note string `json:"note,omitempty"`
	// Age is how much older the staging row is than the training row, in rows with a match. It is absent for entries without
	// point_in_time. AgeUnit is "s" for seconds, or "" for times that are integers, whose unit is unknown.
	Age     *stats.Summary `json:"age,omitempty"`
	AgeUnit string         `json:"age_unit,omitempty"`
	// Columns are those that the entry adds, in all training rows.
	Columns []stats.Summary `json:"columns"`

	effect  float64   // the design effect of all training rows
	effects []float64 // and of those of Partitions
}

// AgeText returns an age of the entry as text: seconds in the unit that fits.
func (e *Entry) AgeText(v stats.Value) string {
	seconds, err := strconv.ParseFloat(v.String(), 64)
	if e.AgeUnit != "s" || err != nil {
		return v.Short()
	}
	return drift.Seconds(seconds)
}

// Matches counts the training rows that match a staging entry.
type Matches struct {
	Rows       int64   `json:"rows"`
	Matched    int64   `json:"matched"`
	MatchRate  float64 `json:"match_rate"` // 1 without rows
	NullKeys   int64   `json:"null_keys"`  // rows with a null in the key
	Duplicates int64   `json:"duplicates"` // rows with several matches
}

// PartitionMatch counts the rows of a partition that match.
type PartitionMatch struct {
	Partition string  `json:"partition"`
	Rows      int64   `json:"rows"`
	Matched   int64   `json:"matched"`
	MatchRate float64 `json:"match_rate"`
}

// Keys counts the rows and keys of a staging table that pass the entry's filter. verify.Join describes them.
type Keys struct {
	Rows          int64 `json:"rows"`
	NullRows      int64 `json:"null_rows"`
	Keys          int64 `json:"keys"`
	DuplicateKeys int64 `json:"duplicate_keys"`
	SurplusRows   int64 `json:"surplus_rows"`
	OrphanKeys    int64 `json:"orphan_keys"`
}

// Describe describes a dataset. Errors: NotFound for an unknown dataset or column, Exhausted without memory, and the errors of plans
// and streams.
func Describe(ctx context.Context, o Options, request Request) (*Result, error) {
	d, err := newDescribing(o, request)
	if err != nil {
		return nil, err
	}
	defer d.release()
	if err = d.describe(ctx); err == nil {
		err = d.keys(ctx)
	}
	if err != nil {
		return nil, fault.Op(err, "describe dataset %s", request.Dataset)
	}
	return &d.result, nil
}

// newDescribing returns the description of a dataset, which the caller releases.
func newDescribing(o Options, request Request) (*describing, error) {
	var names []string
	for _, d := range o.Loader.Datasets() {
		if d.Name == request.Dataset {
			return &describing{Options: o, request: request, dataset: d.Defaults()}, nil
		}
		names = append(names, d.Name)
	}
	return nil, dataset.Unknown(request.Dataset, names)
}

// keys sets the counts of staging keys.
func (d *describing) keys(ctx context.Context) error {
	joined := slices.ContainsFunc(d.result.Entries, func(e Entry) bool { return !e.Promoted })
	if !joined || resolve.Limited(d.dataset, d.planned.Relation.Training, d.request.Rights) {
		return nil
	}
	inline := d.dataset // without its name and limits, which are not checked here
	inline.Name, inline.Training.Limits, inline.Staging = "", nil, slices.Clone(inline.Staging)
	for i := range inline.Staging {
		inline.Staging[i].Limits = nil
	}
	q := dataset.Query{Rows: dataset.Rows{Inline: &inline, Pin: d.pin}}
	found, err := d.Loader.Verify(ctx, loader.PlanRequest{Query: q, Rights: d.request.Rights}, nil)
	if err != nil {
		return err
	}
	for i := range d.result.Entries {
		e := &d.result.Entries[i]
		at := slices.IndexFunc(found.Tables, func(t verify.Table) bool { return t.Name == e.Name && t.Join != nil })
		if at < 0 {
			continue
		}
		j := found.Tables[at].Join
		e.Keys = &Keys{Rows: j.Rows, NullRows: j.NullRows, Keys: j.Keys, DuplicateKeys: j.DuplicateKeys, SurplusRows: j.SurplusRows, OrphanKeys: j.OrphanKeys}
		e.Note = noteOf(d.dataset.Name, j)
	}
	return nil
}

// noteOf returns the note of an entry of a dataset.
func noteOf(name string, j *verify.Join) string {
	const least = 100 // the reciprocal of 1 %
	unmatched := j.Missing - j.NullKeys
	if unmatched == 0 || unmatched*least < j.TrainingRows {
		return ""
	}
	command := "penstock verify " + name
	if j.Forms != nil && j.Forms.Respelled > 0 {
		return j.Forms.Spelling() + "; " + command + " shows such keys of both tables"
	}
	return command + " shows keys without a match"
}

// rate returns the share of rows that match; 1 without rows.
func rate(matched, rows int64) float64 {
	if rows == 0 {
		return 1
	}
	return float64(matched) / float64(rows)
}

// unused returns a name that no text equals, whatever the case.
func unused(name string, taken []string) string {
	for slices.ContainsFunc(taken, func(other string) bool { return strings.EqualFold(other, name) }) {
		name += "_"
	}
	return name
}
