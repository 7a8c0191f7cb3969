package main

// policyMutants are ways to give clients more than their policy does.
func policyMutants() []mutant {
	policy, decode, resolve := []string{"./loader/policy"}, []string{"./loader/dataset/decode"}, []string{"./loader/resolve"}
	flight := []string{"-run", "TestNoWay|TestTicketsAndCursors|TestChangedPolicy|TestStreamsOfDifferentRights|TestExplanations|TestDatasetsThatChange|TestRefusalsOfThePolicy", "./flight"}
	cmd := []string{"-run", "TestDatasetsOfClientsWithoutAPolicy|TestStreamsKeepSnapshots|Tag", "./cmd/penstock"}
	return []mutant{
		{"later-rules-add-rights", "loader/policy/policy.go", "if p.names(r, who) && matchesOne(r.Read, name) {", "if p.names(r, who) && matchesOne(r.Read, name) && len(r.Tables) == 0 {", policy},
		{"rules-are-for-everyone", "loader/policy/policy.go", "if p.names(r, who) && matchesOne(r.Read, name) {", "if matchesOne(r.Read, name) {", policy},
		{"one-table-allows-all", "loader/policy/policy.go", "all = all && matchesOne(r.Inline, p.Names.Full(table))", "all = all && (matchesOne(r.Inline, p.Names.Full(table)) || table != d.Training.Table)", policy},
		{"names-go-around-limits", "loader/policy/rights.go", "return strings.ToLower(r.names.Full(table))", "return strings.Clone(r.names.Full(table))", policy},
		{"groups-are-names-of-subjects", "loader/policy/policy.go", "if matchesOne(p.Groups[group], who.Subject) {", "if group == who.Subject {", policy},
		{"claims-are-prefixes", "loader/policy/policy.go", "slices.Contains(who.Claims[claim], v)", "len(who.Claims[claim]) > 0", policy},
		{"patterns-match-beginnings", "loader/policy/policy.go", "return ok && name == \"\"", "return ok", policy},
		{"filters-are-joined-by-or", "internal/expr/tree.go", "joinTerms(true, []node{e.root, other.root})", "joinTerms(false, []node{e.root, other.root})", policy},
		{"groups-need-not-exist", "loader/dataset/decode/policy.go", "_, known := out.Groups[group]; !known", "_, known := out.Groups[group]; !known && group == \"\"", decode},
		{"limits-may-be-empty", "loader/dataset/decode/policy.go", "one.IsZero() && d.sound(p.path)", "one.IsZero() && !d.sound(p.path)", decode},
		{"old-names-are-not-withheld", "loader/resolve/access.go", "if o.Name == name {", "if o.Name == name && o.ID == 0 {", resolve},
		{"unknown-names-withhold-nothing", "loader/resolve/access.go", "\t\tif !found {", "\t\tif !found && name == \"\" {", resolve},
		{"keys-equal-withheld-ones", "loader/resolve/access.go", "k.Staging.ID == one.Field.ID && r.hides(TrainingTable, k.Training)", "k.Staging.ID == 0 && r.hides(TrainingTable, k.Training)", resolve},
		{"replaced-columns-show-withheld-ones", "loader/resolve/access.go", "from := append(slices.Clone(o.Overlays), Overlay", "from := append(slices.Clone(o.Overlays[:0]), Overlay", resolve},
		{"names-of-older-schemas-filter", "loader/resolve/access.go", "o.Current && o.Name == name && o.ID != f.ID", "o.Current && o.Name == name && o.ID == f.ID", resolve},
		{"row-ids-are-shown", "loader/resolve/lineage.go", " || r.hides(TrainingTable, r.Training.Lineage[i])", "", resolve},
		{"sent-datasets-see-everything", "loader/resolve/access.go", "\tif d.Name == \"\" {\n\t\tseenTraining", "\tif d.Name == \"?\" {\n\t\tseenTraining", flight},
		{"sent-datasets-align-by-anything", "loader/resolve/access.go", "if s.Align != nil && (", "if s.Align == nil && (", resolve},
		{"samples-name-withheld-columns", "loader/plan/filter.go", "b.Relation.TrainingSchema(), \"sample.where\"", "t.Schema(), \"sample.where\"", flight},
		{"unoffered-columns-are-named", "loader/resolve/offered.go", " || r.hides(i, f)", " || r.hides(i, f) && name == \"\"", flight},
		{"rows-of-rights-are-not-filtered", "loader/resolve/access.go", "return expr.All(own, rows), nil", "return expr.All(own, map[bool]*expr.Filter{false: rows}[true]), nil", flight},
		{"plans-are-shared-across-rights", "loader/plans.go", ", withheld: r.Withheld(), entries: of})", "})", flight},
		{"details-are-shown", "flight/rights.go", "if !a.limited || err == nil || harmless(err) {", "if !a.limited || err == nil || err != nil {", flight},
		{"reports-show-what-was-read", "flight/rights.go", "s.Strategy, s.BytesRead, s.Shared", "s.Strategy, s.Sent, s.Shared", flight},
		{"splits-are-counted-for-all", "flight/rights.go", "\ts.Splits = unknown\n", "", flight},
		{"explain-is-for-all", "flight/rights.go", "\tif a.limited {\n\t\treturn fault.New(fault.Forbidden", "\tif a.limited && what == \"\" {\n\t\treturn fault.New(fault.Forbidden", flight},
		{"endpoints-show-splits", "flight/rights.go", "if a.limited && q.Endpoints.BySplits() {", "if a.limited && !q.Endpoints.BySplits() && q.Limit < 0 {", flight},
		{"errors-propose-all-datasets", "flight/rights.go", "\t\tcase may:\n", "\t\tcase may || true:\n", flight},
		{"lists-have-all-datasets", "flight/info.go", "s.readable(stream.Context(), d.Name); err != nil {", "s.readable(stream.Context(), d.Name); err != nil && d.Name == \"\" {", flight},
		{"explanations-tell-of-plans-with-the-same-id", "flight/get.go", "o.runs.add(o.tablesID,", "o.runs.add(o.planID,", flight},
		{"other-explanations-are-of-the-same-id", "flight/actions.go", "s.runs.text(p.TablesID)", "s.runs.text(p.ID)", flight},
		{"datasets-may-change-while-they-are-planned", "flight/service.go", "err == nil && p.Digest != may.digest", "err == nil && p.Digest == \"\"", flight},
		{"failures-may-be-of-a-changed-dataset", "flight/rights.go", "err == nil && now.digest != may.digest", "err == nil && now.digest == \"\"", flight},
		{"hidden-datasets-leave-no-line", "flight/audit.go", "denied := n.hidden || ", "denied := ", flight},
		{"refusals-name-no-tables", "flight/audit.go", "if i < maxAuditedTables {", "if i > maxAuditedTables {", flight},
		{"other-names-are-other-tables", "loader/access.go", "return a.Pin.UUID == b.Pin.UUID && (", "return a.Name == b.Name && a.Pin.UUID == b.Pin.UUID && (", []string{"-run", "TestOtherNames", "./cmd/penstock"}},
		{"added-entries-are-held", "loader/open.go", "p.Relation.Staging[:len(p.Relation.Staging)-added]", "p.Relation.Staging[:len(p.Relation.Staging)-added*0]", []string{"-run", "TestAddedEntriesAreNotHeld", "./loader"}},
		{"stars-are-names-of-datasets", "loader/policy/policy.go", "if !matched && pattern != \"*\" && ", "if !matched && ", []string{"./loader/policy"}},
		{"names-of-datasets-that-exist-are-listed", "loader/policy/policy.go", "if !matched && pattern", "if matched && pattern", []string{"./loader/policy"}},
		{"renewals-are-for-all", "flight/actions.go", "	c, _, err := s.read(ctx, ticket)\n", "	c, err := s.opened(ctx, ticket)\n", flight},
		{"new-actions-are-for-all", "flight/rights.go", "a.needs != \"\" && s.policy()", "a.needs == \"\" || s.policy()", flight},
		{"datasets-are-sent-to-servers-with-tokens", "cmd/penstock/policy.go", "policy.Open(!a.authenticates() && (", "policy.Open((", cmd},
		{"datasets-that-are-sent-set-tags", "loader/open.go", " || p.Relation.Dataset.Name == \"\"", "", cmd},
	}
}
