package scenario

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// Case has everything on which a read depends, as text and values: tables, a dataset over them and
// a query. Generate makes random cases, the oracle computes their expected results, and Shrink
// reduces failing cases. A scenario file describes one case.
type Case struct {
	Name     string
	Training Table
	Staging  []Table // in the order of their entries in Dataset.Staging
	Dataset  dataset.Dataset
	Query    dataset.Query
	ScanRows int      // rows per batch of a scan
	NoCodes  bool     // see World
	Workers  int      // number of DataLoader workers that share each shard; 0 is one
	Drops    bool     // whether the query has tail: drop
	Layouts  Coverage // properties of the tables
}

// Table is a table, described by its commits.
type Table struct {
	Name    string
	Header  string   // names and types, see Fields
	Specs   []string // partition specs, see Spec
	Commits []Commit
}

// Commit has rows that are appended together.
type Commit struct {
	Spec     int // index into the table's specs
	FileRows int // 0: one file per partition
	Lines    []string
}

// Coverage counts properties and outcomes of cases by name, so that a test can check that its cases
// covered all of them.
type Coverage map[string]int

// Add adds counts.
func (c Coverage) Add(o Coverage) {
	for name, n := range o {
		c[name] += n
	}
}

// Clone returns a copy that shares no slices, so that either may change.
func (c *Case) Clone() *Case {
	d := *c
	d.Training = c.Training.clone()
	d.Staging = nil
	for _, t := range c.Staging {
		d.Staging = append(d.Staging, t.clone())
	}
	d.Dataset.Staging = append([]dataset.Staging(nil), c.Dataset.Staging...)
	d.Dataset.Computed = append([]dataset.Computed(nil), c.Dataset.Computed...)
	return &d
}

func (t Table) clone() Table {
	commits := make([]Commit, len(t.Commits))
	for i, c := range t.Commits {
		c.Lines = append([]string(nil), c.Lines...)
		commits[i] = c
	}
	t.Commits = commits
	t.Specs = append([]string(nil), t.Specs...)
	return t
}

// Tables returns all distinct tables, the training table first. Several entries may
// have the same table.
func (c *Case) Tables() []Table {
	all := []Table{c.Training}
	for _, t := range c.Staging {
		if !slices.ContainsFunc(all, func(other Table) bool { return other.Name == t.Name }) {
			all = append(all, t)
		}
	}
	return all
}

// Make makes the tables of a case.
func (c *Case) Make() (*World, error) {
	w := NewWorld()
	w.BatchRows, w.NoCodes = c.ScanRows, c.NoCodes
	for _, t := range c.Tables() {
		if err := t.make(w); err != nil {
			w.Release()
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return w, nil
}

func (t Table) make(w *World) error {
	fields, err := Fields(t.Header)
	if err != nil {
		return err
	}
	specs := make([]catalog.Spec, len(t.Specs))
	for i, text := range t.Specs {
		if specs[i], err = Spec(text, fields); err != nil {
			return err
		}
	}
	table, err := w.NewTable(t.Name, fields, specs...)
	if err != nil {
		return err
	}
	for _, c := range t.Commits {
		if err := w.appendLines(table, c.Spec, c.Lines, c.FileRows); err != nil {
			return err
		}
	}
	return nil
}

// appendLines commits rows that are given as lines of text. If there are no lines, it makes no
// commit.
func (w *World) appendLines(t *catalog.Table, spec int, lines []string, fileRows int) error {
	rows, err := parseLines(t.Fields, lines)
	if err != nil || len(rows) == 0 {
		return err
	}
	return w.appendRows(t, spec, rows, fileRows)
}

// Decoded returns the dataset that a server decodes from the case's configuration.
func (c *Case) Decoded() (dataset.Dataset, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(c.Dataset.Canonical(), &node); err != nil {
		return dataset.Dataset{}, err
	}
	return decode.Dataset(c.Name, node.Content[0])
}

// Text writes the case as a scenario file for Run, which passes if a read of the case
// agrees with the oracle.
func (c *Case) Text(comment string) (string, error) {
	w, err := c.Make()
	if err != nil {
		return "", err
	}
	defer w.Release()
	var b strings.Builder
	b.WriteString(comment + "\n\n")
	for _, t := range c.Tables() {
		t.text(&b)
	}
	fmt.Fprintf(&b, "> dataset %s\n%s\n----\n\n> oracle\n%s\n----\n%s\n", c.Name, c.Dataset.Canonical(), c.asked().Canonical(), agrees)
	return b.String(), nil
}

func (t Table) text(b *strings.Builder) {
	fmt.Fprintf(b, "> table %s %s\n%s\n----\n\n", t.Name, t.Specs[0], t.Header)
	spec := 0
	for _, c := range t.Commits {
		if c.Spec != spec {
			spec = c.Spec
			fmt.Fprintf(b, "> spec %s %s\n----\n\n", t.Name, t.Specs[spec])
		}
		if len(c.Lines) > 0 {
			fmt.Fprintf(b, "> append %s %d\n%s\n%s\n----\n\n", t.Name, c.FileRows, t.Header, strings.Join(c.Lines, "\n"))
		}
	}
}

// asked returns the query of the first worker: the query with the case's settings for steps.
func (c *Case) asked() dataset.Query {
	q := c.Query
	if !c.stepped() {
		return q
	}
	q.Every, q.Limit, q.Endpoints = dataset.Every{Of: max(1, c.Workers)}, 0, dataset.EndpointsShards
	if c.Drops {
		q.Tail = dataset.TailDrop
		if q.Shard.Of == 1 && q.Lanes%2 == 0 && !q.Wire.Auto() { // two shards, which end at the same step and have the same order of columns
			q.Shard.Of, q.BatchRows, q.BatchRequests = 2, q.BatchRows/2, q.BatchRequests/2
		}
	}
	return q
}

// stepped reports whether a stream of the case does not read all steps.
func (c *Case) stepped() bool { return c.Drops || c.Workers > 1 }

// perLane returns the rows, or requests, of each lane in a step.
func perLane(q dataset.Query) int64 {
	if q.GlobalBatchRows > 0 {
		return int64(q.GlobalBatchRows / q.Lanes)
	}
	return int64(max(q.BatchRows, q.BatchRequests) / (q.Lanes / q.Shard.Of))
}

// Chosen returns the tables for which some rule keeps the row that was written first or last.
func (c *Case) Chosen() []string {
	var tables []string
	if c.Dataset.Training.Distinct != nil {
		tables = append(tables, c.Training.Name)
	}
	for _, s := range c.Dataset.Staging {
		chooses := s.Duplicates == rule.DuplicatesFirst || s.Duplicates == rule.DuplicatesLast
		if chooses && s.Join != rule.Semi && s.Join != rule.Anti {
			tables = append(tables, s.Table)
		}
	}
	return tables
}

// Rows returns the number of rows appended to the table.
func (t Table) Rows() int {
	rows := 0
	for _, c := range t.Commits {
		rows += len(c.Lines)
	}
	return rows
}
