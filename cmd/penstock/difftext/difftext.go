// Package difftext describes the result of penstock diff as text.
package difftext

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/tablediff"
)

// shownPartitions is the maximum number of partitions in the result as text.
const shownPartitions = 20

// Of describes what changed. onlyFiles says that the comparison did not have to read rows.
func Of(r *tablediff.Result, onlyFiles bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("table %s", r.Table)
	line("from  %s", stateText(r.From))
	line("to    %s", stateText(r.To))
	for _, f := range []struct {
		what  string
		files tablediff.FileCounts
	}{
		{"only to has", r.Files.Added},
		{"only from has", r.Files.Removed},
		{"with other deletes", r.Files.Deletes},
		{"the same in both", r.Files.Same},
	} {
		if f.files.Files > 0 {
			line("files %s: %s", f.what, fileCountsText(f.files))
		}
	}
	writeColumns(line, r.Columns)
	if n := len(r.Partitions) + r.MorePartitions; n > 0 && r.Partitions[0].Partition != "" {
		line("partitions with files that differ: %d", n)
		for _, p := range r.Partitions[:min(len(r.Partitions), shownPartitions)] {
			line("  %s: %s", p.Partition, partitionText(p))
		}
		if n > shownPartitions {
			line("  and %d more: --json lists them", n-shownPartitions)
		}
	}
	switch {
	case r.Keys != nil:
		writeKeys(line, r.Keys)
	case !onlyFiles:
		line("keys are not compared, since the key of the table is unknown: --key names its columns")
	}
	return b.String()
}

// stateText describes a snapshot.
func stateText(s tablediff.State) string {
	if s.Snapshot == 0 {
		return "no snapshot, 0 rows"
	}
	text := fmt.Sprintf("snapshot %d  %s  %d rows", s.Snapshot, s.Time.Format(time.RFC3339), s.Rows)
	if s.Deletes > 0 {
		text += fmt.Sprintf(", %d deletes", s.Deletes)
	}
	return text + fmt.Sprintf(", %s, %s", fault.Size(s.Bytes), fault.Count(s.Files, "file"))
}

func fileCountsText(c tablediff.FileCounts) string {
	return fmt.Sprintf("%d, %d rows, %s", c.Files, c.Rows, fault.Size(c.Bytes))
}

// partitionText describes the files of a partition that differ.
func partitionText(p tablediff.PartitionChange) string {
	var parts []string
	add := func(sign string, c tablediff.FileCounts, what string) {
		if c.Files > 0 {
			parts = append(parts, fmt.Sprintf("%s%s, %s%d rows%s", sign, fault.Count(c.Files, "file"), sign, c.Rows, what))
		}
	}
	add("+", p.Added, "")
	add("-", p.Removed, "")
	add("", p.Deletes, " with other deletes")
	return strings.Join(parts, "; ")
}

// writeColumns writes a line for each kind of change of columns.
func writeColumns(line func(string, ...any), c *tablediff.ColumnChanges) {
	if c.IsZero() {
		return
	}
	for _, names := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"dropped", c.Dropped}} {
		if len(names.names) > 0 {
			line("columns %s: %s", names.what, strings.Join(names.names, ", "))
		}
	}
	for _, one := range c.Renamed {
		line("column renamed: %s to %s", one.From, one.To)
	}
	for _, one := range c.Retyped {
		line("type of column %s: %s to %s", one.Column, one.From, one.To)
	}
}

// writeKeys writes the lines about keys.
func writeKeys(line func(string, ...any), k *tablediff.KeyChanges) {
	line("keys (%s) of the files that differ, which have %d rows in from and %d in to:", strings.Join(k.Columns, ", "), k.RowsBefore, k.RowsAfter)
	changed := make([]string, len(k.ChangedKeys))
	for i, one := range k.ChangedKeys {
		changed[i] = one.Key + " (" + strings.Join(one.Columns, ", ") + ")"
	}
	for _, of := range []struct {
		what  string
		n     int64
		shown []string
	}{{"added", k.Added, k.AddedKeys}, {"gone", k.Gone, k.GoneKeys}, {"changed", k.Changed, changed}, {"the same", k.Same, nil}} {
		text := fmt.Sprintf("  %s: %d", of.what, of.n)
		if len(of.shown) > 0 {
			text += ", such as " + strings.Join(of.shown, "; ")
		}
		line("%s", text)
	}
	for _, column := range k.ByColumn {
		line("  column %s: %d keys changed", column.Column, column.Keys)
	}
	if k.Repeated > 0 {
		line("  in several rows: %d; their values are not compared, since the key does not tell which rows belong together", k.Repeated)
	}
	if len(k.NotCompared) > 0 {
		line("  columns that are not compared: %s", strings.Join(k.NotCompared, ", "))
	}
}
