package main

import "slices"

// mutant is one way to be wrong: the text old of a file becomes new, and one
// of the tests must fail.
type mutant struct {
	name, file, old, new string
	tests                []string
}

// mutants returns all of them. Each rule of docs/spec that a slip of the hand
// could break should have one here.
func mutants() []mutant {
	return slices.Concat(resolveMutants(), planMutants(), joinMutants(), streamMutants())
}

func resolveMutants() []mutant {
	resolve := []string{"./loader/resolve", "./loader"}
	return []mutant{
		{
			"gcd-becomes-min", "loader/resolve/buckets.go",
			"		g := bucket.Overlap(n, b.Of)\n		modulus",
			"		g := min(n, b.Of)\n		modulus", resolve,
		},
		{
			"null-staging-bucket-matches", "loader/resolve/buckets.go",
			"		if b.ID == NullBucket {\n			continue", "		if b.ID == NullBucket-1 {\n			continue", resolve,
		},
		{
			"null-training-bucket-matches", "loader/resolve/buckets.go",
			"		return NoClass\n", "		return 0\n", resolve,
		},
		{
			"mixed-specs-use-one-count", "loader/resolve/buckets.go",
			"r += g {", "r += modulus {", resolve,
		},
	}
}

func joinMutants() []mutant {
	join := []string{"./joiner", "./loader"}
	return []mutant{
		{
			"null-matches-null", "joiner/build.go",
			"if v.null == nil || !v.null[i] {", "if v.null == nil || i >= 0 {",
			[]string{"./joiner"},
		},
		{
			"null-training-key-matches", "joiner/index.go",
			"		if null {\n			refs[i] = 0", "		if null && i < 0 {\n			refs[i] = 0", join,
		},
		{
			"last-becomes-first", "joiner/verdict.go",
			"			refs[i] = last[ref-1] + 1\n", "", join,
		},
		{
			"first-becomes-last", "joiner/verdict.go",
			"		case DuplicatesFirst:\n", "		case DuplicatesFirst:\n			refs[i] = last[ref-1] + 1\n", join,
		},
		{
			"duplicates-are-no-error", "joiner/verdict.go",
			"			v.breaks(p, i)\n			return count", "			return count", join,
		},
		{
			"inner-keeps-all", "joiner/verdict.go",
			"		v.drop[i] = true", "		v.drop[i] = false", join,
		},
		{
			"missing-is-no-error", "joiner/verdict.go",
			"			v.breaks(p, i)\n			return\n", "			return\n", join,
		},
	}
}

func planMutants() []mutant {
	plan := []string{"./loader/plan", "./loader"}
	return []mutant{
		{
			"quota-remainder-is-lost", "loader/plan/order.go",
			"		if int64(lane) < p.Rows%int64(n) {", "		if int64(lane) < p.Rows%int64(n)-1 {", plan,
		},
		{
			"lanes-by-number-not-rows", "loader/plan/order.go",
			"(best < 0 || l.Rows < p.Lanes[best].Rows)", "best < 0", plan,
		},
		{
			"epoch-is-ignored", "loader/plan/order.go",
			`"%d %d %d %q", Algorithm, p.Seed, p.Epoch, words`, `"%d %d %d %q", Algorithm, p.Seed, 0, words`, plan,
		},
		{
			"order-depends-on-staging", "loader/plan/order.go",
			`"%d %d %d %q", Algorithm, p.Seed, p.Epoch, words`, `"%d %d %d %q", Algorithm, p.Seed+int64(len(p.Staging)), p.Epoch, words`, plan,
		},
		{
			"filter-prunes-too-much", "loader/plan/build.go",
			"			if !mayMatch(p.Filter, p.Relation.Training, f.File) {", "			if i > 0 || !mayMatch(p.Filter, p.Relation.Training, f.File) {", plan,
		},
	}
}

func streamMutants() []mutant {
	lane := []string{"./loader/lane", "./loader"}
	loader := []string{"./loader"}
	return []mutant{
		{
			"cursor-off-by-one", "loader/lane/lane.go",
			"		c.at.Row += int64(rows)", "		c.at.Row += int64(rows) - 1", lane,
		},
		{
			"tail-is-lost", "loader/lane/lane.go",
			"	if rows == 0 {\n", "	if rows < r.options.Rows*int64(len(r.lanes)) {\n", lane,
		},
		{
			"skip-is-ignored", "loader/splits.go",
			"		piece.From, skip = piece.From+skip, 0", "		skip = 0", loader,
		},
		{
			"skip-of-filtered-rows-is-ignored", "loader/splits.go",
			"			from := skip\n", "			from := int64(0)\n", loader,
		},
		{
			"class-of-the-next-bucket", "loader/splits.go",
			"append(s.held[number], l.hold(s, split.Classes[l.staging]))", "append(s.held[number], l.hold(s, max(0, split.Classes[l.staging]-1)))", loader,
		},
		{
			"cursors-of-other-steps-pass", "loader/cursor.go",
			"		if c.Rows == furthest.Rows {", "		if c.Rows <= furthest.Rows {", loader,
		},
		{
			"foreign-cursor-passes", "loader/cursor.go",
			"		if c.Plan == p.ID {\n			continue", "		if true {\n			continue", loader,
		},
		{
			"drop-tail-keeps-going", "loader/stream.go",
			"		shortest = min(shortest, l.Rows)", "		shortest = max(shortest, l.Rows)", loader,
		},
	}
}
