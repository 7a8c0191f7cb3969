package main

// schemaMutants change schemas of tables without their conditions, or lose what others know of them.
func schemaMutants() []mutant {
	of := func(tests string) []string { return []string{"./loader/catalog/icebergcat", "-run=" + tests} }
	added, edited, refused := of("SchemasAreAddedAnd/sqlite"), of("SchemasAreEdited/sqlite"), of("SchemasThatTheTable/sqlite")
	unknown, files := of("UnknownAttributes"), of("FilesHaveColumns/sqlite")
	const dir = "loader/catalog/icebergcat/"
	const set, edit = dir + "schema.go", dir + "schema_edit.go"
	return []mutant{
		{"added-schemas-are-current", dir + "revision.go", "	if s.current {\n", "	if s.current || s.text != nil {\n", added},
		{"schemas-are-set-from-any", set, "at != move.From {", "at == move.To {", added},
		{"schemas-are-set-at-any-snapshot", set, "move.Head != 0 && at != move.Head {", "move.Head != 0 && at == 0 {", added},
		{"answers-without-the-schema-are-believed", "loader/catalog/restcat/update.go", "u.Schema != nil && (at == nil || *at != *u.Schema) {", "u.Schema != nil && at == nil {", of("CatalogsThatDoNotSet")},
		{"schemas-are-added-twice", edit, "		if !sameColumns(s, schema) {\n", "		if sameColumns(s, schema) {\n", added},
		{"field-ids-are-not-reserved", edit, "	out.lastColumn = max(out.lastColumn, schema.HighestFieldID())\n", "	out.lastColumn = min(out.lastColumn, schema.HighestFieldID())\n", added},
		{"known-columns-come-back-with-other-types", edit, "s.Field(i).Doc != c.Doc || !sameType(s.Field(i), c.Type) {", "s.Field(i).Doc != c.Doc {", edited},
		{"reserved-ids-are-shared", edit, "|| s.Field(i).Doc != c.Doc ||", "||", edited},
		{"names-are-given-twice", edit, "		if seen[f.Name] {\n", "		if !seen[f.Name] && f.Name == \"\" {\n", refused},
		{"columns-take-names-of-partition-fields", edit, "ok && (!identity || !slices.Contains(", "ok && (identity && !slices.Contains(", refused},
		{"partition-columns-are-dropped", edit, "		if err := lacks(\"the partition spec\", spec.Field(i).SourceIDs)", "		if err := lacks(\"the partition spec\", nil)", refused},
		{"sort-columns-are-dropped", edit, "lacks(\"the sort order\", f.SourceIDs)", "lacks(\"the sort order\", f.SourceIDs[:0])", refused},
		{"attributes-of-schemas-are-compared-as-known", edit, "		if m.returned {\n", "		if !m.returned {\n", unknown},
		{"one-name-is-changed-at-a-time", edit, "		if name, ok := edit.Rename[f.id]; ok {\n", "		if name, ok := edit.Rename[f.id]; ok && i != len(fields)-1 {\n", edited},
		{"files-have-columns-of-the-current-schema-only", dir + "prepare.go", "schemas := append(slices.Clone(s.meta.Schemas()), s.schema)", "schemas := append(slices.Clone(s.meta.Schemas())[:0], s.schema)", files},
	}
}
