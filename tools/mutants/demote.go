package main

// demoteMutants fail repeated demotions, or take any name for that of a column that was promoted once.
func demoteMutants() []mutant {
	file, promotes := "loader/promote/demote.go", []string{"./loader/promote"}
	return []mutant{
		{"repeated-demotions-fail", file, "		case !takenBack(state, s, name):\n", "		default:\n", promotes},
		{"replaced-columns-are-demoted-once", file, "o.Replaces == current.Fields[at].ID", "o.Replaces < 0", promotes},
		{"any-column-was-promoted-once", file, "			if ok && f.Name == name && (", "			if ok && (", promotes},
	}
}
