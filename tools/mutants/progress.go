package main

// progressMutants break the progress and the results of commands that write.
func progressMutants() []mutant {
	commands := []string{"./cmd/penstock"}
	return []mutant{
		{"progress-lacks-last-counts", "cmd/penstock/progress.go", "	if g.asJSON && g.unsaid {", "	if g.asJSON && g.unsaid && g.begun.IsZero() {", commands},
		{"progress-as-often-as-asked", "cmd/penstock/progress.go", ">= progressEvery {", ">= 0 {", commands},
		{"progress-never-uncertain", "cmd/penstock/progress.go", "Uncertain: tablecommit.Uncertain(err)", "Uncertain: tablecommit.Uncertain(err) && g.asJSON == (g.p.clock == nil)", commands},
		{"progress-always-done", "cmd/penstock/progress.go", "		g.line.Step = stepFailed\n", "", commands},
		{"leftovers-as-json-removed", "cmd/penstock/leftovers.go", "Removed: removed[i]", "Removed: len(f.Entries)", commands},
	}
}
