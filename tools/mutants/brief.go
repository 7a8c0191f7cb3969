package main

// briefMutants are ways to say too much about a plan, to accept an address that leads to another server, and to remove what
// is not the server's.
func briefMutants() []mutant {
	return []mutant{
		{
			"summary-has-no-limit", "loader/plan/summary.go",
			"	if len(full) <= room {\n", "	if len(full) >= 0 {\n",
			[]string{"-run", "^TestSummary", "./loader/plan"},
		},
		{
			"summary-forgets-staging-tables", "loader/plan/summary.go",
			"		if rest := len(read) - shown; rest > 0 {\n", "		if rest := len(read) - shown; rest < 0 {\n",
			[]string{"-run", "^TestSummary", "./loader/plan"},
		},
		{
			"shared-lines-fill-the-screen", "flight/actions.go",
			"	if len(lines) <= most {\n", "	if len(lines) >= most {\n",
			[]string{"-run", "^TestExplain", "./flight"},
		},
		{
			"port-is-guessed", "cmd/penstock/client/uri.go",
			"	if err == nil || wrong.Write == \"\" {\n", "	if err == nil || wrong.Write != \"\" {\n",
			[]string{"./cmd/penstock/client"},
		},
		{
			"any-text-is-a-commit", "cmd/penstock/version.go",
			"	if b.revision == \"\" && commitForm.MatchString(linked) {\n", "	if b.revision == \"\" {\n",
			[]string{"-run", "^TestCommit", "./cmd/penstock"},
		},
		{
			"spool-sweeps-any-name", "internal/spool/spool.go",
			"		if f.Type().IsRegular() && named.MatchString(f.Name()) {\n", "		if f.Type().IsRegular() {\n",
			[]string{"-run", "^TestSweep", "./internal/spool"},
		},
		{
			"spool-sweeps-any-type", "internal/spool/spool.go",
			"		if f.Type().IsRegular() && named.MatchString(f.Name()) {\n", "		if named.MatchString(f.Name()) {\n",
			[]string{"-run", "^TestSweep", "./internal/spool"},
		},
		{
			"flag-without-a-group-is-hidden", "cmd/penstock/cmdline/groups.go",
			"		for _, g := range append(slices.Clone(groups), rest) {\n", "		for _, g := range groups {\n",
			[]string{"./cmd/penstock/cmdline"},
		},
	}
}
