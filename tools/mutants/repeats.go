package main

// repeatMutants are ways to take the result of a key that equals the one before for that of another key.
func repeatMutants() []mutant {
	join := []string{"-run", "TestBlocksOfKeysAgree", "./joiner"}
	return []mutant{
		{"homes-of-other-keys-match", "joiner/hashindex.go", "ref != 0 && found[i] != key", "ref == 0 && found[i] != key", join},
		{"runs-of-keys-end-with-blocks", "joiner/hashindex.go", "	starts[changes] = int32(len(keys))\n", "	starts[changes] = int32(len(keys) - 1)\n", join},
		{"repeated-keys-have-the-first-hash", "internal/bucket/array.go", "before, hash = v, HashInt64(int64(v))", "before = v", []string{"./internal/bucket"}},
		{"views-have-any-schema", "loader/stream/take.go", "	if b.Schema() == s.stepwise.schema {", "	if b.NumRows() > 0 {", []string{"-timeout", "60s", "./loader/fanout"}},
	}
}
