package main

import (
	"slices"
)

// mutant is one way to be wrong: the text old of a file becomes new, and one
// of the tests must fail.
type mutant struct {
	name, file, old, new string
	tests                []string
}

// mutants returns all of them. Each rule of docs/spec that a slip of the hand
// could break should have one here.
func mutants() []mutant {
	return slices.Concat(
		accessMutants(),
		admitMutants(),
		arrivalMutants(),
		auditMutants(),
		backfillMutants(),
		batchEndMutants(),
		batchRequestMutants(),
		boundMutants(),
		briefMutants(),
		cacheMutants(),
		cachedCodeMutants(),
		cachedPartMutants(),
		categoryMutants(),
		codeMutants(),
		commitMutants(),
		schemaMutants(),
		movedDeleteMutants(),
		cursorMutants(),
		decodeMutants(),
		decoderMutants(),
		deleteMutants(),
		diskMutants(),
		evolvedMutants(),
		fanoutMutants(),
		fileMutants(),
		foreignMutants(),
		foundMutants(),
		joinMutants(),
		lakeMutants(),
		layoutMutants(),
		limitMutants(),
		localMutants(),
		manifestMutants(),
		memoryMutants(),
		mixMutants(),
		neededMutants(),
		olderMutants(),
		outputMutants(),
		pinTagMutants(),
		pinnedMutants(),
		planMutants(),
		policyMutants(),
		pqwriteMutants(),
		prefixMutants(),
		privateMutants(),
		rateMutants(),
		reloadMutants(),
		unlistedMutants(),
		rememberMutants(),
		repeatMutants(),
		requestMutants(),
		rowsMutants(),
		ruleMutants(),
		sharedMutants(),
		shuffleMutants(),
		sinceMutants(),
		sorterMutants(),
		stageMutants(),
		compactMutants(),
		append(promoteMutants(), demoteMutants()...),
		parallelStageMutants(),
		putMutants(),
		elsewhereMutants(),
		orphanMutants(),
		branchMutants(),
		progressMutants(),
		spillMutants(),
		splitMutants(),
		startingMutants(),
		statusMutants(),
		stepMutants(),
		storageMutants(),
		streamMutants(),
		ticketMutants(),
		uploadMutants(),
		valueMutants(),
		wireMutants(),
		writeSeamMutants(),
	)
}

func planMutants() []mutant {
	plan := []string{"./loader/plan", "./loader"}
	return []mutant{
		{
			"filter-prunes-too-much", "loader/plan/build.go",
			"			if !sampled || !mayMatch(p.Filter, p.Relation.Training, f.File) {",
			"			if i > 0 || !sampled || !mayMatch(p.Filter, p.Relation.Training, f.File) {", plan,
		},
		{
			"quota-remainder-is-lost", "loader/plan/order.go",
			"		if int64(lane) < p.StoredRows%int64(n) {", "		if int64(lane) < p.StoredRows%int64(n)-1 {", plan,
		},
		{
			"lanes-by-number-not-rows", "loader/plan/order.go",
			"(best < 0 || l.Rows < p.Lanes[best].Rows)", "best < 0", plan,
		},
		{
			"epoch-is-ignored", "loader/plan/order.go",
			"\"%d %d %d %q\", shuffleRules, p.Rows.Seed, p.Rows.Epoch, words", "\"%d %d %d %q\", shuffleRules, p.Rows.Seed, 0, words", plan,
		},
		{
			"order-depends-on-staging", "loader/plan/order.go",
			"\"%d %d %d %q\", shuffleRules, p.Rows.Seed, p.Rows.Epoch, words", "\"%d %d %d %q\", shuffleRules, p.Rows.Seed+int64(len(p.Relation.Staging)), p.Rows.Epoch, words", plan,
		},
		{
			"digits-are-permuted-once", "loader/plan/order.go",
			"digit{modulus, residue, factors[place]}", "digit{modulus, min(residue, 0), factors[place]}", plan,
		},
		{
			"prefixes-draw-the-same", "loader/plan/order.go",
			"strconv.Itoa(d.modulus), strconv.Itoa(d.residue), strconv.Itoa(i)", "strconv.Itoa(d.modulus), strconv.Itoa(i)", plan,
		},
		{
			"cuts-are-not-drawn", "loader/plan/order.go",
			"	if p.Rows.ShuffleWindow == 0 {\n		return 0\n", "	if p.Rows.ShuffleWindow >= 0 {\n		return 0\n", plan,
		},
		{
			"cuts-are-drawn-for-all-splits-at-once", "loader/plan/order.go",
			"p.mix(\"cut\", s.ID)", "p.mix(\"cut\")", plan,
		},
		{
			"lanes-end-with-a-split", "loader/plan/order.go",
			"	if to > of {\n", "	if to > of && split < 0 {\n", plan,
		},
		{
			"buckets-of-a-class-are-separated", "loader/plan/order.go",
			"residue := split.Bucket.ID % modulus", "residue := split.Bucket.ID % (modulus * factors[place])", plan,
		},
	}
}

func streamMutants() []mutant { //nolint:funlen // a table
	lane := []string{"./loader/lane", "./loader"}
	loader := []string{"./loader"}
	return []mutant{
		{
			"cursor-off-by-one", "loader/lane/every.go",
			"	l.at.Row += rows\n", "	l.at.Row += rows - 1\n", lane,
		},
		{
			"tail-is-lost", "loader/lane/lane.go",
			"	if given.rows == 0 {\n", "	if given.rows < r.options.Rows*int64(len(r.lanes)) {\n", lane,
		},
		{
			"skip-is-ignored", "loader/joined/range.go", "\t\trows.From, skip = rows.From+begin, skip-begin", "\t\tskip -= begin", loader,
		},
		{
			"skip-of-filtered-rows-is-ignored", "loader/joined/range.go",
			"			from := o.skip\n", "			from := int64(0)\n", loader,
		},
		{
			"group-of-the-next-bucket", "loader/buildside/groups.go",
			"	return g.input.Plan.Splits[at.Split].Groups[g.input.Table]\n",
			"	return max(0, g.input.Plan.Splits[at.Split].Groups[g.input.Table]-1)\n", loader,
		},
		{
			"part-of-another-bucket", "loader/buildside/build.go",
			"			side, err := g.inMemory(budget.NoWait(ctx), parts.Input(b.ID))", "			side, err := g.inMemory(budget.NoWait(ctx), parts.Input(0))", loader,
		},
		{
			"build-sides-of-other-filters-are-shared", "loader/joined/identity.go",
			"	if in.bound.Rows != nil {\n", "	if in.bound.Rows != nil && in.table < 0 {\n", loader,
		},
		{
			"build-sides-of-other-files-are-shared", "loader/buildside/groups.go",
			"	for _, f := range g.source.Files {\n", "	for _, f := range g.source.Files[:0] {\n", loader,
		},
		{
			"build-sides-of-other-divisions-are-shared", "loader/buildside/groups.go",
			"		id.partitioning = partitioningID{key: p.key, of: p.of}\n", "		_ = p\n", loader,
		},
		{
			"a-group-in-mixed-buckets-is-divided", "loader/buildside/partitioning.go",
			"		if !ok || p.of != 0 && (p.of != b.Of || p.key != key) {\n", "		if !ok || p.of != 0 && p.key != key {\n", loader,
		},
		{
			"min-match-is-never-judged", "loader/joined/steps.go",
			"share >= in.bound.MinMatch {", "share >= 0 {", loader,
		},
		{
			"filter-on-joined-columns-is-ignored", "loader/joined/range.go",
			"	if o.ranges.postJoin == nil {\n", "	if o.ranges.postJoin == nil || o.lane != nil {\n", loader,
		},
		{
			"repeated-rows-stay", "loader/joined/training.go",
			"	if s.plan.Relation.Distinct == nil {\n", "	if s.plan.Relation.Distinct == nil || len(read) > 0 {\n", loader,
		},
		{
			"last-repeated-row-is-the-first", "joiner/distinct.go",
			"		if d.last {\n", "		if !d.last {\n",
			[]string{"./joiner"},
		},
		{
			"nulls-tell-rows-apart", "joiner/distinct.go",
			"				bytes = append(bytes, 0)\n", "				bytes = append(bytes, 0, byte(i), byte(i>>8))\n",
			[]string{"./joiner"},
		},
		{
			"cursors-of-other-steps-pass", "loader/stream/start.go",
			"		if c.Given == furthest.Given {", "		if c.Given <= furthest.Given {", loader,
		},
		{
			"foreign-cursor-passes", "loader/plan/cursor.go",
			"	case len(differs) == 0:\n", "	case c.Plan != \"\":\n", loader,
		},
		{
			"drop-tail-keeps-going", "loader/stream/start.go",
			"s.counts.Shortest-s.rows) / s.q", "s.counts.Longest-s.rows) / s.q", loader,
		},
		{
			"build-sides-of-other-times-are-shared", "loader/joined/identity.go",
			", time: in.spec.Time,", ",", loader,
		},
		{
			"build-sides-of-other-defaults-are-shared", "loader/joined/identity.go",
			", fallback: identifyValue(c.fallback)}", "}", loader,
		},
		{
			"build-sides-of-other-shapes-are-shared", "loader/joined/identity.go",
			"		of.shapes = append(of.shapes, shape)\n", "		_ = shape\n", loader,
		},
		{
			"overlay-takes-the-unshaped-column", "loader/joined/staging.go",
			"in.show(column{field: over.Field, shapes: o.Shapes}, nil)", "in.show(column{field: over.Field}, nil)", loader,
		},
		{
			"one-default-for-a-column-shown-twice", "loader/joined/staging.go",
			"return o.same(c) && o.fallback == fallback", "return o.same(c) && (o.fallback == fallback || fallback != nil)", loader,
		},
		{
			"distinct-keeps-the-other-end", "loader/joined/distinct.go",
			"d.Keep.KeepsLast()", "!d.Keep.KeepsLast()", loader,
		},
		{
			"distinct-forgets-desc", "loader/joined/distinct.go", "Descending: o.Descending}", "Descending: false}", loader,
		},
		{
			"first-elements-are-the-last", "loader/joined/columns.go",
			"batch.First(a, s.First, mem)", "batch.Last(a, s.First, mem)", loader,
		},
		{
			"nulls-keep-is-replace", "loader/joined/staging.go",
			"Nulls: r.Nulls}", "Nulls: \"\"}", loader,
		},
		{
			"time-is-always-exact", "loader/joined/staging.go",
			"Exact: r.Time.Exact}", "Exact: true}", loader,
		},
	}
}
