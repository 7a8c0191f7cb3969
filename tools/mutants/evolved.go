package main

// evolvedMutants are ways to read columns wrongly that have changed since a file was
// written.
func evolvedMutants() []mutant {
	parquet, catalog, scan := []string{"./internal/parquet"}, []string{"./loader/catalog/..."}, []string{"./loader/scan"}
	return []mutant{
		{"partition-values-are-null", "loader/scan/open.go", "	case known && value != nil:\n", "	case known && value != nil && c.Required:\n", scan},
		{"any-transform-is-the-identity", "loader/scan/open.go", "p.Source == id && p.Transform.Kind == catalog.Identity && ", "p.Source == id && ", scan},
		{"constants-are-pruned-as-nulls", "loader/scan/prune.go", "; constant {", "; constant && group < 0 {", scan},
		{"structs-lose-what-partitions-say", "loader/scan/open.go", "strings.HasPrefix(field.Name, c.Name+\".\")", "strings.HasPrefix(c.Name, field.Name+\".\")", scan},
		{"partition-values-are-cut", "loader/scan/constant.go", "		b.Append(int32(v))\n		return int64(int32(v)) == v\n", "		b.Append(int32(v))\n		return true\n", scan},
		{"decimals-are-rounded", "loader/scan/constant.go", "err == nil && n.ToString(t.Scale) == v", "err == nil", scan},
		{"fields-go-by-their-place", "internal/parquet/conversion.go", "	byID := identified(have) && identified(want)\n", "	byID := false\n", parquet},
		{"lacking-fields-are-the-last", "internal/parquet/conversion.go", "	if at != absentField {\n		return conv.apply(have[at], ", "	if len(have) > 0 {\n		return conv.apply(have[max(at, 0)], ", parquet},
		{"nested-defaults-are-null", "internal/parquet/conversion.go", "	if conv.absent != nil {", "	if conv.absent != nil && conv.required {", scan},
		{"nested-defaults-are-not-told", "loader/catalog/icebergcat/column/defaults.go", "nested.Fields())\n", "nested.Fields()[:0])\n", catalog},
		{"defaults-of-lists-are-not-told", "loader/catalog/icebergcat/column/defaults.go", "{in.Element, in.Key, in.Value}", "{in.Key, in.Value}", catalog},
		{"structs-lose-their-defaults", "loader/catalog/icebergcat/column/defaults.go", "		if err := d.field(to.", "		if err := (initialDefaults{}).field(to.", catalog},
		{"null-structs-have-defaults", "internal/parquet/nested.go", "	if valid != nil {\n		defer valid.Release()\n		bits", "	if valid != nil {\n		defer valid.Release()\n	}\n	if valid != nil && c.depth < 0 {\n		bits", scan},
		{"defaults-are-of-the-innermost", "loader/scan/default.go", "	lacks := slices.IndexFunc(path, func(p nestedField) bool { return !o.HasStruct(p.id) })\n", "	lacks := len(path) - 1\n", scan},
		{"defaults-come-before-partitions", "loader/scan/open.go", "	case !known && o.byDefault(t, c):\n", "	case o.byDefault(t, c):\n", scan},
		{"fractions-of-decimals-are-cut", "loader/catalog/icebergcat/column/single_value.go", "		if rest.Sign() != 0 {", "		if rest.Sign() > 1 {", catalog},
		{"fractions-of-seconds-are-cut", "loader/catalog/icebergcat/column/single_value.go", " || nanos%finest != 0 {", " {", catalog},
		{"any-zone-is-utc", "loader/catalog/icebergcat/column/single_value.go", "(offset != \"\") != (t.TimeZone != \"\") {", "len(offset) > 10 {", catalog},
		{"names-of-the-first-alone", "loader/catalog/name_mapping.go", "slices.Contains(f.Names, name) })", "f.Names[0] == name })", scan},
		{"mappings-are-flat", "loader/catalog/name_mapping.go", "		m = m[at].Fields\n", "", scan},
		{"names-come-before-ids", "loader/scan/open.go", "	case footer.HasFieldIDs():\n		return footer, nil\n	case", "	case footer.HasFieldIDs() && t.Mapping == nil:\n		return footer, nil\n	case !footer.HasFieldIDs() &&", scan},
		{"some-ids-are-none", "loader/scan/open.go", "	case footer.HasAnyFieldID():", "	case footer.HasAnyFieldID() && t.Mapping == nil:", scan},
		{"positions-are-ids", "internal/parquet/name_mapping.go", "	return n.next - 1\n", "	return n.next - firstUnmappedID\n", scan},
		{"elements-go-by-the-file", "internal/parquet/name_mapping.go", "		return []string{\"element\"}", "		return []string{t.ElemField().Name}", parquet},
		{"two-columns-have-an-id", "internal/parquet/name_mapping.go", "; twice {", "; twice && id >= firstUnmappedID {", scan},
		{"insides-may-have-no-ids", "internal/parquet/name_mapping.go", "	case !ok || len(named) == 0 || known:\n", "	case !ok || len(named) < 6 || known:\n", scan},
		{"mappings-are-of-now", "loader/catalog/icebergcat/name_mapping.go", "now != nil && now.Digest() == pin.Mapping {", "now != nil {", catalog},
		{"any-older-mapping-is-right", "loader/catalog/icebergcat/name_mapping.go", "before != nil && before.Digest() == pin.Mapping {", "before != nil {", catalog},
		{"any-mapping-is-of-own-names", "loader/catalog/icebergcat/name_mapping.go", "	case now.Digest() == ownNames(schema.Fields()).Digest():", "	case len(now) > 0:", catalog},
		{"pins-without-mappings-have-them", "loader/catalog/icebergcat/name_mapping.go", "	case dataset.NoMapping:\n		return nil, nil\n", "	case dataset.NoMapping:\n		return m.nameMapping(schema)\n", catalog},
		{"rows-are-counted-by-group", "internal/parquet/reader.go", "r.group.end-r.group.left", "r.file.groups[r.group.index].Rows-r.group.left", scan},
		{"stored-row-ids-are-ignored", "internal/parquet/numbers.go", "		if stored.IsValid(i) {", "		if stored.IsValid(i) && n.Step > 1 {", scan},
		{"updates-are-of-the-row", "loader/catalog/lineage.go", "		return f.Sequence, 0, true", "		return f.Sequence, 1, true", scan},
		{"old-files-have-row-ids", "loader/scan/open.go", "f.LineageOf(c.ID); known {", "f.LineageOf(c.ID); known || step == 0 {", scan},
		{"stored-row-ids-bound-all", "loader/catalog/icebergcat/ranges.go", " || catalog.IsLineage(f.ID) {", " || catalog.IsLineage(f.ID) && f.Required {", catalog},
		{"all-columns-have-lineage", "loader/catalog/icebergcat/pin.go", "Fields: column.Convert(schema.Fields()), ", "Fields: append(column.Convert(schema.Fields()), lineage...), ", catalog},
		{"scales-do-not-matter", "internal/parquet/promotion.go", "		case !ok || a.Scale != b.Scale:\n", "		case !ok:\n", parquet},
		{"decimals-may-shrink", "internal/parquet/promotion.go", "		case a.Precision > b.Precision:\n", "		case a.Precision > 38:\n", parquet},
		{"bounds-are-of-the-type-of-now", "loader/catalog/icebergcat/ranges.go", "	written := boundType(t, raw)\n", "	written := t\n", catalog},
		{"bounds-of-imported-files-are-believed", "loader/catalog/icebergcat/ranges.go", "		if l.mapped {\n", "		if l.mapped && d.Count() < 0 {\n", catalog},
	}
}
