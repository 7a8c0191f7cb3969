package main

// startingMutants are ways to decode more than the first batch of a stream needs, or never more than that.
func startingMutants() []mutant {
	both := []string{"./loader/scan", "./loader"}
	return []mutant{
		{"streams-start-as-they-go-on", "loader/stream/sequences.go", "return !s.started.Load() }", "return !s.started.Load() && s.batchRows < 0 }", []string{"./loader"}},
		{"scans-do-not-know-that-a-stream-starts", "loader/joined/training.go", ", bytes, s.spec.Starting\n", ", bytes, nil\n", []string{"./loader"}},
		{"first-batches-are-whole", "loader/scan/walk.go", "	startDivisor = 4\n", "	startDivisor = 1\n", both},
		{"first-batches-are-tiny", "loader/scan/walk.go", "	minStartRows = 4 << 10\n", "	minStartRows = 1\n", both},
		{"starting-scans-decode-ahead", "loader/scan/prefetch.go", "	if q.starting != nil && q.starting() {\n		return 1\n", "	if q.starting != nil && q.starting() {\n		return maxWaiting\n", both},
		{"streams-start-forever", "loader/stream/stream.go", "		s.sequences.started.Store(true)\n", "		s.sequences.started.Store(before < 0)\n", []string{"./loader"}},
		{"counts-start-forever", "loader/stream/sequences.go", "		s.started.Store(s.spec.CountOnly)\n", "", []string{"./loader"}},
	}
}
