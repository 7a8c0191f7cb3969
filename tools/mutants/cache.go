package main

// cacheMutants are ways in which what is kept for later streams returns rows of others, takes
// memory that streams need, or is not used.
func cacheMutants() []mutant {
	kept, built := []string{"-timeout", "60s", "./cache"}, []string{"-run", "TestKept", "./loader/buildside"}
	idle := []string{"-run", "TestIdle", "./internal/budget"}
	return []mutant{
		{"kept-values-stay-under-pressure", "cache/shared.go", "		b.OnLack(func(bytes int64) { s.release(bytes) })\n", "", kept},
		{"kept-values-have-no-bound", "cache/keep.go", "	s.release(excess)\n", "	_ = excess\n", kept},
		{"kept-values-count-as-used", "cache/keep.go", "	s.budget.AddIdle(size)\n", "", kept},
		{"needed-values-count-as-idle", "cache/shared.go", "	s.budget.AddIdle(-again)\n", "	_ = again\n", kept},
		{"values-on-disk-are-kept", "cache/shared.go", "keep && e.loaded && e.value.Size().Disk == 0", "keep && e.loaded", kept},
		{"no-build-side-is-kept", "loader/buildside/pool.go", "NewKeeping[buildSide](o.Budget, o.Keep)", "NewKeeping[buildSide](o.Budget, 0)", built},
		{"kept-build-sides-are-of-any-snapshot", "loader/buildside/groups.go", "id := groupID{input: g.input.Identity}", "id := groupID{}", built},
		{"idle-memory-is-not-for-waiters", "internal/budget/idle.go", "		b.serveWaiters()\n", "", idle},
		{"idle-memory-is-not-free", "internal/budget/press.go", "b.InUse() <= b.limit/2", "b.used.Load() <= b.limit/2", idle},
	}
}
