package main

// reloadMutants are ways to use a changed config file wrongly, and to add staging entries to a dataset wrongly.
func reloadMutants() []mutant {
	command, configs, flights := []string{"./cmd/penstock"}, []string{"./internal/config"}, []string{"./flight"}
	datasets, loader := []string{"./loader/dataset", "./loader"}, []string{"./loader"}
	watch := []string{"./cmd/penstock/watch"}
	reload, with, added := "cmd/penstock/reload.go", "loader/dataset/with.go", "loader/plan/cursor.go"
	return []mutant{
		{"other-catalogs-are-used", reload, "len(names) > 0", "len(names) < 0", command},
		{"changes-are-not-checked", reload, "\tif err := r.check(ctx, change); err != nil {\n", "\tif err := r.check(ctx, datasetChange{}); err != nil {\n", command},
		{"changes-are-served-before-they-are-checked", reload, "\tif err := r.check(ctx, change); err != nil {\n", "\tr.loader.SetDatasets(next.Datasets)\n\tif err := r.check(ctx, change); err != nil {\n", command},
		{"changes-are-never-served", reload, "\tr.loader.SetDatasets(next.Datasets)\n", "", command},
		{"a-dataset-that-never-worked-keeps-files-out", reload, " && r.plan(ctx, c.before[d.Name]) == nil", "", command},
		{"files-in-part-are-said-to-be-in-use", reload, "return telemetry.ReloadPartly, nil", "return telemetry.ReloadWhole, nil", command},
		{"refused-files-are-said-to-be-in-use", reload, "came := telemetry.ReloadRefused", "came := telemetry.ReloadWhole", command},
		{"a-line-makes-another-catalog", "internal/config/differences.go", "\t\tc.Properties[i].Line = 0\n", "\t\tc.Properties[i].Line += 0\n", configs},
		{"removed-catalogs-are-not-noticed", "internal/config/differences.go", "if !there || !reflect", "if there && !reflect", configs},
		{"defaults-are-other-settings", "internal/config/differences.go", "\t\tv.text = s.Default\n", "", configs},
		{"a-signal-loads-nothing", "cmd/penstock/watch/watch.go", "w.begin(ctx, g, true)", "w.begin(ctx, g, false)", watch},
		{"config-files-are-loaded-before-their-policy", reload, ", After: policyFiles", "", command},
		{"signals-are-lost-while-files-are-loaded", "cmd/penstock/watch/watch.go", "g.again = g.again || anyway", "g.again = g.again && anyway", watch},
		{"files-do-not-wait-for-those-they-are-after", "cmd/penstock/watch/watch.go", "w.waitFor(ctx, g.after)", "w.waitFor(ctx, nil)", watch},
		{"loads-that-a-shutdown-ends-are-logged", "cmd/penstock/watch/watch.go", "case ctx.Err() == nil: // else", "default: // else", watch},
		{"tickets-outlive-a-change-while-they-wait", "flight/get.go", "return planned{}, cmp.Or(refusal, err)", "return planned{}, cmp.Or(err, refusal)", flights},
		{"tickets-are-invalid-once-their-entries-are-configured", "flight/get.go", "fault.KindOf(err) == fault.Invalid: // it", "fault.KindOf(err) == fault.Internal: // it", flights},
		{"tickets-forget-added-entries", "flight/rights.go", "query.DatasetOf([]dataset.Dataset{d})", "(dataset.Rows{Dataset: query.Dataset}).DatasetOf([]dataset.Dataset{d})", flights},
		{"added-entries-are-forgotten", with, "all, err := d.with(r.With)", "all, err := d, error(nil)", datasets},
		{"added-entries-have-no-key", with, "withDefaults(added, d.Key)", "withDefaults(added, nil)", datasets},
		{"added-entries-take-names", with, "own.Name == s.Name }", "own.Name == s.Table }", datasets},
		{"added-entries-come-first", with, "\t\tstaging = append(staging, s)\n", "\t\tstaging = slices.Insert(staging, 0, s)\n", datasets},
		{"added-tables-are-configured-ones", with, "\tentries := r.With\n", "\tvar entries []Staging\n", datasets},
		{"added-overlays-change-columns-in-silence", added, "pinned || q.Gives", "!pinned || q.Gives", loader},
		{"overlays-of-a-query-are-refused", added, " || q.GivesEntry(entry)", "", loader},
	}
}
