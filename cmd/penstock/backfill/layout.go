package backfill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// stagingLayout is a new staging table, and the entry that joins it.
type stagingLayout struct {
	table    *catalog.Table
	entry    dataset.Staging
	terms    []string // the terms of the PARTITIONED BY clause
	bucketed bool     // whether the training table is bucketed by the key
	aligned  string   // the column of the aligned partition; "": partitions are not aligned
	sort     []string
	days     []string // the conditions of the script that select days
	leftOut  []string // texts that name the partition fields of the training table that the staging table does not have, with the reasons
	advice   []string // advice about the training table, for the script's reader
}

// lay returns the layout of the staging table that a plan describes.
func (p StagingPlan) lay(to Target) (*stagingLayout, error) {
	s := &stagingLayout{
		table: &catalog.Table{Name: p.Table, Specs: map[int]catalog.Spec{}},
		entry: dataset.Staging{Table: p.Table, Name: entryName(to.Dataset, p.Table)},
	}
	if len(p.Features) == 0 {
		return nil, fault.InvalidField("--column", "there is no column to backfill").WithRemedy("name at least one, such as --column ctr:float")
	}
	sources, err := s.keys(to, p)
	if err != nil {
		return nil, err
	}
	if err := s.partitions(to.Training, p, sources); err != nil {
		return nil, err
	}
	for _, f := range p.Features {
		s.add(f.Name, f.Type)
		s.entry.Columns = append(s.entry.Columns, dataset.Column{Column: f.Name})
	}
	if err := s.checkColumns(); err != nil {
		return nil, err
	}
	if err := s.limit(p.From, p.To); err != nil {
		return nil, err
	}
	return s, s.order(p.Sort)
}

// entryName returns the name of a new entry: the last part of its table's name, or the whole name
// with underscores if that part is taken.
func entryName(d dataset.Dataset, table string) string {
	short := table[strings.LastIndexByte(table, '.')+1:]
	taken := func(s dataset.Staging) bool { return s.Name == short }
	if short == "request" || slices.ContainsFunc(d.Defaults().Staging, taken) {
		return strings.ReplaceAll(table, ".", "_")
	}
	return short
}

// add adds a column, and returns its field id.
func (s *stagingLayout) add(name string, t arrow.DataType) int {
	id := len(s.table.Fields) + 1
	s.table.Fields = append(s.table.Fields, catalog.Field{ID: id, Name: name, Type: t})
	return id
}

// keys adds the columns of the key to the staging table. It returns these columns, each under the
// field id of the training column that it corresponds to.
func (s *stagingLayout) keys(to Target, p StagingPlan) (map[int]catalog.Field, error) {
	names := p.Key
	if names == nil {
		names = to.Dataset.Key
	}
	if names == nil {
		names = bucketed(to.Training)
	}
	if len(names) == 0 {
		return nil, fault.InvalidField("--key", "the dataset has no key, and table %s is not bucketed", to.Training.Name).
			WithRemedy("name the columns of the key with --key")
	}
	columns := map[int]catalog.Field{}
	for _, name := range names {
		f, ok := to.Training.Field(name)
		if !ok {
			e := fault.InvalidField("--key", "table %s has no column %q", to.Training.Name, name)
			if near := fault.Nearest(name, to.Training.Names()); near != "" {
				return nil, e.WithRemedy("did you mean %q?", near)
			}
			return nil, e
		}
		id := s.add(columnName(to.Training, f), f.Type)
		columns[f.ID] = s.table.Fields[id-1]
		s.entry.Key = append(s.entry.Key, dataset.KeyPair{Training: name, Staging: s.table.Fields[id-1].Name})
	}
	return columns, nil
}

// columnName returns the name that a training column has in a staging table. It is the column's own
// name, without the names of the structs that contain the column.
func columnName(t *catalog.Table, f catalog.Field) string {
	if slices.ContainsFunc(t.Fields, func(top catalog.Field) bool { return top.ID == f.ID }) {
		return f.Name
	}
	return f.Name[strings.LastIndexByte(f.Name, '.')+1:]
}

// newestSpec returns the newest partition spec of a table.
func newestSpec(t *catalog.Table) catalog.Spec {
	newest := -1
	for id := range t.Specs {
		newest = max(newest, id)
	}
	return t.Specs[newest]
}

// bucketed returns the names of the columns by which the newest spec of a table buckets.
func bucketed(t *catalog.Table) []string {
	var out []string
	for _, f := range newestSpec(t) {
		if column, ok := t.ByID(f.Source); ok && f.Transform.Kind == catalog.Bucket {
			out = append(out, column.Name)
		}
	}
	return out
}

// partitions partitions the staging table like the training table: by the buckets and ranges of the
// key, and by the aligned column.
func (s *stagingLayout) partitions(training *catalog.Table, p StagingPlan, keys map[int]catalog.Field) error {
	spec := newestSpec(training)
	align := 0
	if !p.Unaligned {
		align = alignedColumn(training, spec, keys)
	}
	if err := s.checkBuckets(training, spec, p, keys); err != nil {
		return err
	}
	for _, f := range spec {
		source, _ := training.ByID(f.Source)
		to, isKey := keys[f.Source]
		switch {
		case f.Transform.Kind == catalog.Other, f.Source != align && !isKey:
			s.leftOut = append(s.leftOut, describeField(f, source.Name)+": "+whyLeftOut(f, p.Unaligned))
			continue
		case !isKey:
			to = s.align(training, source)
		case f.Transform.Kind == catalog.Bucket:
			s.bucketed = true
			if p.Buckets > 0 {
				f.Transform.N = p.Buckets
			}
		}
		s.partition(f.Transform, to)
	}
	if !s.bucketed {
		first, _ := training.Field(s.entry.Key[0].Training)
		s.partition(catalog.Transform{Kind: catalog.Bucket, N: p.Buckets}, keys[first.ID])
		s.advice = append(s.advice, fmt.Sprintf("%s is not bucketed by %s: each stream that reads a part of it reads all of the staging files that partitions and value ranges leave.",
			training.Name, first.Name))
	}
	return nil
}

// alignedColumn chooses the training column whose partitions the staging table is aligned with, and
// returns the column's field id. It chooses the first partition column that is a date or a
// timestamp or, if there is no such column, the first column that is partitioned by its values. It
// returns 0 if there is no such column either.
func alignedColumn(t *catalog.Table, spec catalog.Spec, keys map[int]catalog.Field) int {
	byValue := 0
	for _, f := range spec {
		source, ok := t.ByID(f.Source)
		if _, isKey := keys[f.Source]; isKey || !ok || source.Type == nil {
			continue
		}
		switch f.Transform.Kind {
		case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
			return f.Source
		case catalog.Identity:
			switch id := source.Type.ID(); {
			case id == arrow.DATE32 || id == arrow.TIMESTAMP:
				return f.Source
			case byValue == 0 && (id == arrow.INT32 || id == arrow.INT64 || id == arrow.STRING):
				byValue = f.Source
			}
		case catalog.Bucket, catalog.Truncate, catalog.Other:
		}
	}
	return byValue
}

func whyLeftOut(f catalog.PartitionField, unaligned bool) string {
	switch {
	case f.Transform.Kind == catalog.Other:
		return "its transform is unknown"
	case unaligned:
		return "a row of a key is for all partitions"
	default:
		return "it is not derived from the key, and partitions of one column can be aligned"
	}
}

// align aligns the staging table with the partitions of a training column, and returns the
// corresponding column of the staging table. The first call of align adds this column.
func (s *stagingLayout) align(t *catalog.Table, source catalog.Field) catalog.Field {
	name := columnName(t, source)
	if s.aligned == "" {
		s.aligned = name
		s.entry.Align = &dataset.Align{Training: source.Name, Staging: name}
		s.add(name, source.Type)
		s.adviseSpecs(t, source)
	}
	at := slices.IndexFunc(s.table.Fields, func(f catalog.Field) bool { return f.Name == s.aligned })
	return s.table.Fields[at]
}

// adviseSpecs adds advice if the training table has a partition spec without the aligned column.
// Files with such a spec cannot be aligned.
func (s *stagingLayout) adviseSpecs(t *catalog.Table, source catalog.Field) {
	for _, spec := range t.Specs {
		if !slices.ContainsFunc(spec, func(f catalog.PartitionField) bool { return f.Source == source.ID }) {
			s.advice = append(s.advice, fmt.Sprintf("%s has older partition specs without %s. Rewrite the files that still have one of them, or use --unaligned: they cannot be aligned.",
				t.Name, source.Name))
			return
		}
	}
}

// partition adds a partition field to the staging table: transform t of column of.
func (s *stagingLayout) partition(t catalog.Transform, of catalog.Field) {
	s.table.Specs[0] = append(s.table.Specs[0], catalog.PartitionField{
		ID: 1000 + len(s.table.Specs[0]), Source: of.ID, Name: fmt.Sprintf("%s_%s", of.Name, t.Kind), Transform: t,
	})
	s.terms = append(s.terms, term(t, quoted(of.Name)))
}

// checkBuckets returns an error if the number of buckets in a plan is invalid, or does not fit the
// number of buckets of the training table.
func (s *stagingLayout) checkBuckets(t *catalog.Table, spec catalog.Spec, p StagingPlan, keys map[int]catalog.Field) error {
	var counts []int
	for _, f := range spec {
		if _, isKey := keys[f.Source]; isKey && f.Transform.Kind == catalog.Bucket {
			counts = append(counts, f.Transform.N)
		}
	}
	switch {
	case p.Buckets < 0 || p.Buckets > maxBuckets:
		return fault.InvalidField("--buckets", "%d is not a number of buckets from 1 to %d", p.Buckets, maxBuckets)
	case len(counts) == 0 && p.Buckets == 0:
		return fault.InvalidField("--buckets", "table %s is not bucketed by a column of the key", t.Name).
			WithRemedy("choose a number with --buckets, or name a bucketed column with --key; best is a training table in buckets of the key: %s",
				"ALTER TABLE "+t.Name+" ADD PARTITION FIELD bucket(N, column), then rewrite its files")
	case p.Buckets == 0 || len(counts) == 0:
		return nil
	case len(counts) > 1:
		return fault.InvalidField("--buckets", "table %s is bucketed by %d columns of the key", t.Name, len(counts)).
			WithRemedy("leave it out: the staging table gets the same buckets")
	}
	n, b := counts[0], p.Buckets
	if n%b == 0 || b%n == 0 {
		return nil
	}
	return fault.InvalidField("--buckets", "%d buckets neither divide the %d buckets of %s nor are a multiple of them", b, n, t.Name).
		WithRemedy("use %s: with others, each file would be read for several buckets", nearestCounts(n, b))
}

// maxBuckets is the maximum number of buckets of a staging table.
const maxBuckets = 1 << 16

// nearestCounts proposes two numbers of buckets near b: the nearest number below b, and the nearest
// number above b, that divides n or is a multiple of n.
func nearestCounts(n, b int) string {
	if b > n {
		return fmt.Sprintf("%d or %d", b/n*n, (b/n+1)*n)
	}
	below, above := b, b
	for n%below != 0 {
		below--
	}
	for n%above != 0 {
		above++
	}
	return fmt.Sprintf("%d or %d", below, above)
}

// checkColumns returns an error for columns that Spark cannot declare.
func (s *stagingLayout) checkColumns() error {
	for i, f := range s.table.Fields {
		for _, other := range s.table.Fields[:i] {
			if strings.EqualFold(other.Name, f.Name) {
				return fault.New(fault.Invalid, "table %s would have two columns %q: Spark ignores case", s.table.Name, f.Name).
					WithRemedy("name the feature differently")
			}
		}
		if _, ok := sparkType(f.Type); !ok {
			return fault.New(fault.Invalid, "Spark SQL cannot declare column %q of type %s", f.Name, f.Type).
				WithRemedy("create the table with another writer, such as PyIceberg, or choose another key with --key")
		}
	}
	return nil
}

// order sets the columns by which the rows of a partition are sorted. By default, these are the
// columns of the key.
func (s *stagingLayout) order(columns []string) error {
	if columns == nil {
		for _, k := range s.entry.Key {
			columns = append(columns, k.Staging)
		}
	}
	for _, name := range columns {
		f, ok := s.table.Field(name)
		if !ok {
			e := fault.InvalidField("--sort", "the staging table has no column %q", name)
			return e.WithRemedy("its columns are %s; add others, such as a user id, with --column", strings.Join(s.table.Names(), ", "))
		}
		if arrow.IsNested(f.Type.ID()) {
			return fault.InvalidField("--sort", "rows cannot be sorted by column %q of type %s", name, f.Type)
		}
	}
	s.sort = columns
	return nil
}
