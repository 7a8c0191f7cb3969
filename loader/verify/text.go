package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/joiner/rule"
)

// String returns the report as text: a block for each table, then the findings.
func (v *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "verify dataset %s, plan %s\n\n", cmp.Or(v.Dataset, "(inline)"), v.Plan)
	for i, t := range v.Tables {
		t.write(&b, i == 0)
		b.WriteByte('\n')
	}
	if len(v.Findings) == 0 {
		b.WriteString("no findings\n")
		return b.String()
	}
	if v.Clean() {
		b.WriteString("no findings that break a stream or a rule\n")
	}
	for _, g := range grades() {
		v.writeFindings(&b, g)
	}
	return b.String()
}

// writeFindings writes the findings of one grade.
func (v *Report) writeFindings(b *strings.Builder, g Grade) {
	var found []Finding
	for _, f := range v.Findings {
		if f.Grade == g {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return
	}
	fmt.Fprintf(b, "%s: %s\n", g.title(), quantity(len(found), "finding"))
	for _, f := range found {
		fmt.Fprintf(b, "  %s", f.Kind)
		for _, where := range []string{f.Table, f.File} {
			if where != "" {
				fmt.Fprintf(b, ", %s", where)
			}
		}
		fmt.Fprintf(b, "\n    %s\n", f.Message)
	}
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
	if t.Join != nil {
		t.Join.write(b)
	}
	if t.Limits != nil {
		fmt.Fprintf(b, "  %s\n", limitsText(t.Limits))
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
	if len(j.Unmatched) > 0 && j.Forms == nil { // forms show such keys, too
		b.WriteString("  training keys without a match:\n")
		for _, key := range j.Unmatched {
			fmt.Fprintf(b, "    %s\n", key)
		}
	}
	if j.DuplicateKeys > 0 {
		fmt.Fprintf(b, "  duplicates: %s\n", duplicatesText(j))
		writeKeys(b, j.Duplicates)
	}
	if j.OrphanKeys > 0 {
		fmt.Fprintf(b, "  orphans: %s (%s) without a training row\n", quantity(j.OrphanKeys, "key"), quantity(j.OrphanRows, "row"))
		writeKeys(b, j.Orphans)
	}
	if j.Forms != nil {
		j.Forms.write(b)
	}
	if j.Passes > 1 {
		fmt.Fprintf(b, "  keys were read in up to %d passes, since they do not fit in memory at once\n", j.Passes)
	}
}

// write shows keys of both tables next to each other.
func (f *Forms) write(b *strings.Builder) {
	left, right := []string{"training " + f.Training.String()}, []string{"staging " + f.Staging.String()}
	for _, p := range f.Pairs {
		left, right = append(left, cmp.Or(p.Training, "-")), append(right, cmp.Or(p.Staging, "-"))
	}
	width := 0
	for _, text := range left {
		width = max(width, utf8.RuneCountInString(text))
	}
	b.WriteString("  keys of both tables:\n")
	for i, text := range left {
		fmt.Fprintf(b, "    %s%s  %s\n", text, strings.Repeat(" ", width-utf8.RuneCountInString(text)), right[i])
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

// fewMatchesText says why few rows match. whole is whether all files of the staging table could be read.
func fewMatchesText(j *Join, whole bool) string {
	text := rule.MatchText(j.TrainingRows, j.Matched)
	switch {
	case !whole:
		return text + ", without the rows of the files that cannot be read"
	case j.Rows == 0:
		return text + ", since the staging table has no rows"
	case j.NullKeys == j.TrainingRows:
		return text + ", since every training row has a null in the key"
	case j.Forms.Alike && len(j.Forms.Differences) == 0:
		return text + ": both tables have equal keys, but in other buckets or partitions, or at other times"
	case j.Forms.Alike:
		return text + ": keys of both tables differ in " + j.Forms.differences() + "; write one table's keys as the other has them"
	}
	return text + "; compare the keys of both tables above, and set min_match if that is right"
}

// spellingText says how many keys without a match exist in another spelling, with the first pair.
func spellingText(f *Forms) string {
	first := f.Pairs[0]
	return fmt.Sprintf("%s; for example, %s in training is %s in staging. Write one table's keys as the other has them", f.Spelling(), first.Training, first.Staging)
}

// Spelling says how many keys without a match exist in another spelling, without naming a key; "" if
// there are none.
func (f *Forms) Spelling() string {
	if f.Respelled == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s without a match are in staging in another spelling, which differs in %s",
		f.Respelled, quantity(f.Sampled, "sampled training key"), f.differences())
}

// differences names the differences.
func (f *Forms) differences() string {
	different := make([]string, len(f.Differences))
	for i, d := range f.Differences {
		different[i] = string(d)
	}
	return strings.Join(different, " and in ")
}

func checksumText(tables []Table) string {
	var without, files int
	var parts []string
	for _, t := range tables {
		n := 0
		for _, f := range t.Files {
			if f.NoChecksum {
				n++
			}
		}
		without, files = without+n, files+len(t.Files)
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", t.Name, n))
		}
	}
	if without == 0 {
		return ""
	}
	return fmt.Sprintf("pages without a checksum in %d of %s (%s), where damage may go unnoticed", without, quantity(files, "file"), strings.Join(parts, ", "))
}

func matchRateText(j *Join) string {
	return fmt.Sprintf("%d of %s match (%.4g%%), but min_match requires %.4g%%", j.Matched, quantity(j.TrainingRows, "training row"), 100*j.MatchRate, 100*j.MinMatch)
}

// quantity returns a number followed by a noun, in the plural if needed.
func quantity[N int | int64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
