package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shownFiles is the number of files without checksums that the text names.
const shownFiles = 3

// String returns the report as text: a block per table, then the findings.
func (v *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "verify dataset %s, plan %s\n\n", cmp.Or(v.Dataset, "(inline)"), v.Plan)
	for i, t := range v.Tables {
		t.write(&b, i == 0)
		b.WriteByte('\n')
	}
	if v.Clean() {
		b.WriteString("no findings\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n", quantity(len(v.Findings), "finding"))
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "  %s, %s", f.Kind, f.Table)
		if f.File != "" {
			fmt.Fprintf(&b, ", %s", f.File)
		}
		fmt.Fprintf(&b, "\n    %s\n", f.Message)
	}
	return b.String()
}

func (t *Table) write(b *strings.Builder, training bool) {
	if training {
		fmt.Fprintf(b, "training %s: %s, %s", t.Table, quantity(len(t.Files), "file"), quantity(t.Rows, "row"))
	} else {
		fmt.Fprintf(b, "staging %s, %s: %s, %s", t.Name, t.Table, quantity(len(t.Files), "file"), quantity(t.Rows, "row"))
	}
	if t.LeftOut > 0 {
		fmt.Fprintf(b, "; %s more excluded by filters or the sample", quantity(t.LeftOut, "file"))
	}
	b.WriteByte('\n')
	for _, spec := range slices.Sorted(maps.Keys(t.Specs)) {
		t.writeSpec(b, spec)
	}
	t.writeNoChecksum(b)
	if t.Join != nil {
		t.Join.write(b)
	}
}

// writeNoChecksum names the first files that have pages without a checksum.
func (t *Table) writeNoChecksum(b *strings.Builder) {
	var files []string
	for _, f := range t.Files {
		if f.NoChecksum {
			files = append(files, f.File)
		}
	}
	if len(files) == 0 {
		return
	}
	fmt.Fprintf(b, "  pages without a checksum in %d of %s, where damage may go unnoticed:\n", len(files), quantity(len(t.Files), "file"))
	for _, file := range files[:min(len(files), shownFiles)] {
		fmt.Fprintf(b, "    %s\n", file)
	}
	if more := len(files) - shownFiles; more > 0 {
		fmt.Fprintf(b, "    and %d more\n", more)
	}
}

// writeSpec summarizes the files of one partition spec.
func (t *Table) writeSpec(b *strings.Builder, spec int) {
	var files, wrong, bare, unread int
	var rows int64
	for _, f := range t.Files {
		if f.Spec != spec {
			continue
		}
		files++
		rows += f.Rows
		if f.Wrong > 0 {
			wrong++
		}
		if !f.Bucketed {
			bare++
		}
		if f.Unread {
			unread++
		}
	}
	fmt.Fprintf(b, "  spec %d, %s: %s, %s", spec, cmp.Or(t.Specs[spec], "unpartitioned"), quantity(files, "file"), quantity(rows, "row"))
	if bare > 0 {
		b.WriteString(", not bucketed by the key")
	} else if wrong == 0 && unread == 0 {
		b.WriteString(", every key in its bucket")
	}
	if wrong > 0 {
		fmt.Fprintf(b, ", %s with keys of other buckets", quantity(wrong, "file"))
	}
	if unread > 0 {
		fmt.Fprintf(b, ", %s unreadable", quantity(unread, "file"))
	}
	b.WriteByte('\n')
}

func (j *Join) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s with %s", quantity(j.Rows, "row"), quantity(j.Keys, "key"))
	if j.NullRows > 0 {
		fmt.Fprintf(b, ", %d with a null key", j.NullRows)
	}
	fmt.Fprintf(b, "\n  matches: %d of %s (%.4g%%)", j.Matched, quantity(j.TrainingRows, "training row"), 100*j.MatchRate)
	if j.MinMatch > 0 {
		fmt.Fprintf(b, ", %.4g%% required", 100*j.MinMatch)
	}
	if j.Missing > 0 {
		fmt.Fprintf(b, "; %d have no match", j.Missing)
	}
	if j.NullKeys > 0 {
		fmt.Fprintf(b, " (%d with a null key)", j.NullKeys)
	}
	b.WriteByte('\n')
	if j.DuplicateKeys > 0 {
		fmt.Fprintf(b, "  duplicates: %s\n", duplicatesText(j))
		writeKeys(b, j.Duplicates)
	}
	if j.OrphanKeys > 0 {
		fmt.Fprintf(b, "  orphans: %s (%s) without a training row\n", quantity(j.OrphanKeys, "key"), quantity(j.OrphanRows, "row"))
		writeKeys(b, j.Orphans)
	}
	if j.Passes > 1 {
		fmt.Fprintf(b, "  keys were read in up to %d passes, since they do not fit in memory at once\n", j.Passes)
	}
}

func writeKeys(b *strings.Builder, keys []Key) {
	for _, k := range keys {
		fmt.Fprintf(b, "    %s: %s in %s\n", k.Key, quantity(k.Rows, "row"), strings.Join(slices.Compact(slices.Clone(k.Files)), " and "))
	}
}

func duplicatesText(j *Join) string {
	text := fmt.Sprintf("%s with several rows, %s", quantity(j.DuplicateKeys, "key"), quantity(j.SurplusRows, "surplus row"))
	if j.DuplicatesAsked == 0 {
		return text + "; no training row has them"
	}
	return text + fmt.Sprintf("; training rows have %d of these keys", j.DuplicatesAsked)
}

func missingText(j *Join) string {
	text := fmt.Sprintf("%d of %s have no match", j.Missing, quantity(j.TrainingRows, "training row"))
	if j.NullKeys > 0 {
		text += fmt.Sprintf(", %d of them with a null key", j.NullKeys)
	}
	return text
}

func matchRateText(j *Join) string {
	return fmt.Sprintf("%d of %s match (%.4g%%), but min_match requires %.4g%%", j.Matched, quantity(j.TrainingRows, "training row"), 100*j.MatchRate, 100*j.MinMatch)
}

// quantity returns a number and its noun.
func quantity[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
