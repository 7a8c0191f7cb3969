package main

// elsewhereMutants forget what other engines need of tables that are staged.
func elsewhereMutants() []mutant {
	stages := []string{"./loader/stage"}
	return []mutant{
		{"stage-forgets-blooms", "loader/stage/bloom.go", "				out = append(out, f.ID)\n", "", stages},
		{"stage-blooms-all", "loader/stage/bloom.go", "strings.EqualFold(t.state.Properties[bloomOption+f.Name], \"true\")", "!strings.EqualFold(t.state.Properties[bloomOption+f.Name], \"true\")", stages},
	}
}
