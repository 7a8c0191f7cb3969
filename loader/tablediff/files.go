package tablediff

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
)

// FileChanges counts the data files that differ.
type FileChanges struct {
	Added   FileCounts `json:"added"`   // only To has them
	Removed FileCounts `json:"removed"` // only From has them
	// Deletes counts files that both have, but with different delete files. All their stored rows
	// count.
	Deletes FileCounts `json:"deletes"`
	Same    FileCounts `json:"same"` // both have them with the same deletes; at most their keys are read
}

// FileCounts counts data files. Rows includes deleted rows.
type FileCounts struct {
	Files int   `json:"files"`
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

func (c *FileCounts) add(f catalog.File) {
	c.Files, c.Rows, c.Bytes = c.Files+1, c.Rows+f.Rows, c.Bytes+f.Bytes
}

// PartitionChange counts the files of a partition that differ.
type PartitionChange struct {
	Partition string     `json:"partition"` // "day=2026-11-01, id_bucket=3"; "" without partition fields
	Added     FileCounts `json:"added"`
	Removed   FileCounts `json:"removed"`
	Deletes   FileCounts `json:"deletes"` // see FileChanges
}

// maxPartitions is the maximum number of partitions in a result.
const maxPartitions = 1000

// deleteID identifies a delete file, or a deletion vector in a file.
type deleteID struct {
	location string
	offset   int64
}

// deletesOf returns the ids of the delete files that apply to a file.
func deletesOf(f catalog.File) []deleteID {
	var out []deleteID
	for _, d := range f.Deletes.All(f.Sequence) {
		out = append(out, deleteID{d.Location, d.Offset})
	}
	slices.SortFunc(out, func(a, b deleteID) int {
		if order := strings.Compare(a.location, b.location); order != 0 {
			return order
		}
		return int(min(max(a.offset-b.offset, -1), 1))
	})
	return out
}

// differing has the files whose rows may differ, of each snapshot, and the files that both have with
// the same deletes.
type differing struct{ before, after, same []catalog.File }

// compareFiles counts the files of both snapshots, and returns those that differ.
func (c *comparing) compareFiles(before, after []catalog.File) (out differing) {
	old := make(map[string]catalog.File, len(before))
	for _, f := range before {
		old[f.Location] = f
	}
	parts, counts := map[string]*PartitionChange{}, &c.result.Files
	partition := func(f catalog.File) *PartitionChange {
		text := c.partitionText(f)
		if parts[text] == nil {
			parts[text] = &PartitionChange{Partition: text}
		}
		return parts[text]
	}
	for _, f := range after {
		had, both := old[f.Location]
		delete(old, f.Location)
		switch {
		case !both:
			counts.Added.add(f)
			partition(f).Added.add(f)
			out.after = append(out.after, f)
		case slices.Equal(deletesOf(had), deletesOf(f)):
			counts.Same.add(f)
			out.same = append(out.same, f)
		default:
			counts.Deletes.add(f)
			partition(f).Deletes.add(f)
			out.before, out.after = append(out.before, had), append(out.after, f)
		}
	}
	for _, f := range before {
		if _, gone := old[f.Location]; gone {
			counts.Removed.add(f)
			partition(f).Removed.add(f)
			out.before = append(out.before, f)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(parts)) {
		if len(c.result.Partitions) == maxPartitions {
			c.result.MorePartitions = len(parts) - maxPartitions
			break
		}
		c.result.Partitions = append(c.result.Partitions, *parts[text])
	}
	return out
}

// partitionText formats the partition of a file.
func (c *comparing) partitionText(f catalog.File) string {
	var parts []string
	for i, p := range c.after.Specs[f.Spec] {
		column, _ := c.after.ByID(p.Source)
		parts = append(parts, p.Name+"="+p.Text(f.Partition[i], column))
	}
	return strings.Join(parts, ", ")
}
