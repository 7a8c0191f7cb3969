package main

// backfillMutants print layouts that match no bucket or day, and datasets of other columns.
func backfillMutants() []mutant {
	backfill := []string{"./cmd/penstock/backfill"}
	return []mutant{
		{"any-number-of-buckets-will-do", "cmd/penstock/backfill/layout.go", "if n%b == 0 || b%n == 0 {", "if n%b == 0 || b > 0 {", backfill},
		{"staging-buckets-are-always-those-of-training", "cmd/penstock/backfill/layout.go", "			if p.Buckets > 0 {\n", "			if p.Buckets < 0 {\n", backfill},
		{"partitions-are-not-aligned", "cmd/penstock/backfill/layout.go", "	if !p.Unaligned {\n", "	if p.Unaligned {\n", backfill},
		{"values-are-aligned-before-times", "cmd/penstock/backfill/layout.go", "			case id == arrow.DATE32 || id == arrow.TIMESTAMP:\n", "			case id == arrow.STRING:\n", backfill},
		{"the-oldest-spec-is-copied", "cmd/penstock/backfill/layout.go", "		newest = max(newest, id)\n", "		newest = -max(-newest, -id)\n", backfill},
		{"case-distinguishes-columns-in-spark", "cmd/penstock/backfill/layout.go", "			if strings.EqualFold(other.Name, f.Name) {\n", "			if other.Name == f.Name {\n", backfill},
		{"backticks-end-names", "cmd/penstock/backfill/sql.go", "strings.ReplaceAll(name, \"`\", \"``\")", "strings.ReplaceAll(name, \"`\", \"`\")", backfill},
		{"replaced-columns-are-joined-beside", "cmd/penstock/backfill/backfill.go", "		s.entry.Join = rule.Overlay\n", "		s.entry.Join = rule.Left\n", backfill},
		{"idle-entries-stay", "cmd/penstock/backfill/backfill.go", "	if !idle {\n", "	if !idle || idle {\n", backfill},
		{"entries-that-decide-rows-are-left-out", "cmd/penstock/backfill/backfill.go", "e.Join.KeepsAll() && e.Matched", "e.Matched", backfill},
		{"removed-columns-may-be-in-use", "cmd/penstock/backfill/backfill.go", "	if err := check(d, training, tables); err != nil {", "	if err := check(from.Dataset, from.Training, from.Staging); err != nil {", backfill},
		{"partition-columns-can-be-removed", "cmd/penstock/backfill/backfill.go", "return f.Source == found.Field.ID })", "return f.ID == found.Field.ID })", backfill},
		{"entries-at-other-refs-keep-dropped-columns", "cmd/penstock/backfill/backfill.go", "	return a == b || a.Pin", "	return a == b || a.Name == \"\" && a.Pin", backfill},
		{"columns-vanish-with-the-removed-one", "cmd/penstock/backfill/backfill.go", "		if o.Name != column && !slices", "		if o.Name == column && !slices", backfill},
		{"timestamps-have-a-zone", "cmd/penstock/backfill/columntype.go", "		if t.TimeZone != \"\" {", "		if t.TimeZone == \"\" {", backfill},
		{"texts-are-plain-numbers", "cmd/penstock/backfill/yaml.go", "			b.WriteString(proposal.Plainly(v))", "			b.WriteString(v)", backfill},
	}
}
