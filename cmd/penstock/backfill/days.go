package backfill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// limit limits the rows that the script inserts to the days from the first to the last; zero days do not limit.
func (s *stagingLayout) limit(first, last time.Time) error {
	if first.IsZero() && last.IsZero() {
		return nil
	}
	if !last.IsZero() && last.Before(first) {
		return fault.InvalidField("to", "the last day, %s, is before the first, %s", last.Format(time.DateOnly), first.Format(time.DateOnly))
	}
	at := slices.IndexFunc(s.table.Fields, func(f catalog.Field) bool { return s.aligned != "" && f.Name == s.aligned })
	if at < 0 {
		return fault.InvalidField("from", "the staging table has no partitions of time, so days cannot be selected").WithRemedy("leave the days out")
	}
	var literal string
	switch t := s.table.Fields[at].Type.(type) {
	case *arrow.Date32Type:
		literal = "DATE"
	case *arrow.TimestampType:
		literal = "TIMESTAMP_NTZ"
		if t.TimeZone != "" {
			literal = "TIMESTAMP"
		}
	default:
		return fault.InvalidField("from", "column %q is neither a date nor a timestamp, so days cannot be selected", s.aligned).WithRemedy("leave the days out")
	}
	day := func(sign string, t time.Time) {
		text := t.Format(time.DateOnly)
		switch literal {
		case "TIMESTAMP_NTZ":
			text += " 00:00:00"
		case "TIMESTAMP":
			text += " 00:00:00+00:00" // days of partitions are those of UTC
		}
		s.days = append(s.days, fmt.Sprintf("%s %s %s '%s'", quoted(s.aligned), sign, literal, text))
	}
	if !first.IsZero() {
		day(">=", first)
	}
	if !last.IsZero() {
		day("<", last.AddDate(0, 0, 1))
	}
	return nil
}

// Layout describes a staging table, for people.
type Layout struct {
	Columns   []Column
	Key       []string // columns of the staging table
	Partition []string // the fields of its partitions in the terms of Spark SQL
	Sort      []string // the columns by which the rows of a partition are sorted
	Aligned   string   // the column whose partitions are aligned with those of the training table; "": none
	// StageFlags are flags with which penstock stage creates a table of this layout; nil if it cannot.
	StageFlags []string
	Notes      []string // what differs from the training table
}

// Column is a column of a staging table, with its type in Spark SQL.
type Column struct{ Name, Type string }

// layout describes the table.
func (s *stagingLayout) layout() Layout {
	out := Layout{Partition: s.terms, Sort: s.sort, Aligned: s.aligned, StageFlags: s.stageFlags()}
	for _, f := range s.table.Fields {
		t, _ := sparkType(f.Type) // checkColumns has checked the type
		out.Columns = append(out.Columns, Column{f.Name, t})
	}
	for _, k := range s.entry.Key {
		out.Key = append(out.Key, k.Staging)
	}
	for _, text := range s.leftOut {
		out.Notes = append(out.Notes, "without partitions of "+text)
	}
	out.Notes = append(out.Notes, s.advice...)
	return out
}

// stageFlags returns the flags of penstock stage. It makes one bucket field, that of the key's first column, which is the last.
func (s *stagingLayout) stageFlags() []string {
	var key []string
	for _, k := range s.entry.Key {
		key = append(key, k.Staging)
	}
	if slices.ContainsFunc(slices.Concat(key, s.sort), func(name string) bool { return strings.Contains(name, ",") }) {
		return nil // flags separate names by commas
	}
	out := []string{"--key", strings.Join(key, ",")}
	spec := s.table.Specs[0]
	for i, f := range spec {
		column, _ := s.table.ByID(f.Source)
		switch {
		case f.Transform.Kind == catalog.Bucket && i == len(spec)-1 && column.Name == s.entry.Key[0].Staging:
			out = append(out, "--buckets", strconv.Itoa(f.Transform.N))
		case f.Transform.Kind == catalog.Bucket || i == len(spec)-1:
			return nil
		case f.Transform.Kind == catalog.Identity:
			out = append(out, "--partition", column.Name)
		case f.Transform.Kind == catalog.Truncate:
			out = append(out, "--partition", fmt.Sprintf("truncate[%d](%s)", f.Transform.N, column.Name))
		default:
			out = append(out, "--partition", fmt.Sprintf("%s(%s)", f.Transform.Kind, column.Name))
		}
	}
	if !slices.Equal(s.sort, key) {
		out = append(out, "--sort", strings.Join(s.sort, ","))
	}
	return out
}
