package main

// statusMutants are ways to count the waits of streams wrongly, to show them to the wrong clients, and to make jobs matter.
func statusMutants() []mutant {
	waits, flights, scans := []string{"./internal/waits"}, []string{"./flight"}, []string{"./loader/scan"}
	telemetry, groups, text := []string{"./internal/telemetry"}, []string{"./loader/fanout"}, []string{"./cmd/penstock/statustext"}
	decode, command, sides := []string{"./loader/dataset/decode"}, []string{"./cmd/penstock"}, []string{"./loader/buildside"}
	counted, answer := "internal/waits/waits.go", "flight/status_action.go"
	return []mutant{
		{"reading-ahead-counts-as-waiting", counted, "(c != Storage || w.rows > 0)", "(c != Storage || w.rows >= 0)", waits},
		{"waits-are-charged-to-the-next-cause", counted, "\t\tw.charge()\n\t\tapply(by)\n", "\t\tapply(by)\n\t\tw.charge()\n", waits},
		{"readers-waits-count-from-their-start", counted, "\tw.before, _, _ = reader.Now()\n", "", waits},
		{"waits-for-a-reader-are-lost", counted, "w.total.add(all, w.before)", "w.total.add(all, all)", waits},
		{"streams-do-not-wait-as-their-reader", counted, "c, waiting = of, reads", "_, _ = of, reads", waits},
		{"members-do-not-follow-while-they-wait", "loader/fanout/step.go", "\ts.mu.Unlock()\n\tdefer waits.Of(m.ctx).Follow(waits.Of(g.ctx))()\n", "\ts.mu.Unlock()\n", groups},
		{"members-do-not-follow-while-they-read", "loader/fanout/step.go", "\t\tdefer waits.Of(m.ctx).Follow(waits.Of(g.ctx))()\n\t\tif widened", "\t\tif widened", groups},
		{"reads-of-row-groups-are-no-waits", "internal/parquet/source.go", "end := waits.Begin(s.ctx, waits.Storage)", "end := waits.Begin(context.Background(), waits.Storage)", scans},
		{"reads-ahead-are-never-waited-for", "internal/parquet/fetch.go", "defer waits.Begin(ctx, waits.Storage)()", "defer waits.Begin(context.Background(), waits.Storage)()", scans},
		{"consumers-never-wait-for-rows", "loader/scan/prefetch.go", "waits.Of(ctx).AwaitRows()()", "waits.Of(context.Background()).AwaitRows()()", scans},
		{"prefetched-builds-wait-for-their-stream", "loader/buildside/reference.go", "budget.Prefetch(waits.With(ctx, own))", "budget.Prefetch(waits.With(ctx, of))", sides},
		{"waits-for-prefetched-builds-are-work", "loader/buildside/reference.go", "	defer p.follow()()\n", "", sides},
		{"prefetches-wait-for-no-other-stream", "internal/budget/wait.go", "s.of != nil && waiting == s.own {", "s.of != nil {", sides},
		{"memory-is-no-cause", "internal/budget/wait.go", "\tdefer waits.Begin(ctx, waits.Memory)()\n", "", flights},
		{"slots-are-no-cause", "flight/admission.go", "waits.Begin(ctx, cause)()", "waits.Begin(context.Background(), cause)()", flights},
		{"trainers-are-no-cause", "flight/parking.go", "\tdefer s.waits.Begin(c)()\n", "", flights},
		{"everyone-sees-all-streams", answer, "return out.All || one.client == own", "return out.All || one.client == own || own != \"\"", flights},
		{"everyone-sees-the-memory", answer, "\tif out.All {\n\t\ts.describe", "\tif out.V > 0 {\n\t\ts.describe", flights},
		{"the-right-to-the-cache-shows-all-streams", answer, "policy.Status)", "policy.Cache)", flights},
		{"streams-that-have-ended-are-listed", "flight/get.go", "\tdefer s.running.end(running)\n", "", flights},
		{"the-newest-stream-comes-first", "flight/running.go", "a.began.Compare(b.began)", "b.began.Compare(a.began)", flights},
		{"bodies-of-later-versions-are-ignored", answer, "\tdecoder.DisallowUnknownFields()\n", "", flights},
		{"resumed-streams-stay-parked", "flight/parking.go", "\ts.parked.Store(false)\n", "", flights},
		{"manifests-have-the-job", "flight/actions.go", "p.Query.Pin, p.Query.Job = p.Rows.Pin, \"\"", "p.Query.Pin, p.Query.Job = p.Rows.Pin, p.Query.Job", flights},
		{"jobs-split-groups", "loader/fanout/key.go", "dataset.Every{Of: 1}, \"\"", "dataset.Every{Of: 1}, r.Job", groups},
		{"jobs-may-have-any-length", "loader/dataset/job.go", "len(text) <= MaxJob", "len(text) < 1<<20", decode},
		{"jobs-may-have-blanks", "loader/dataset/job.go", "._-/:@+=", " ._-/:@+=", decode},
		{"jobs-are-forgotten-in-tickets", "loader/dataset/canonical.go", ", Job: r.Job,", ",", flights},
		{"metrics-have-any-number-of-jobs", "internal/telemetry/jobs.go", "len(m.known) == maxJobs", "len(m.known) < 0", telemetry},
		{"profiles-are-linked-that-are-off", "internal/telemetry/index.go", "if profiles {", "if profiles || !profiles {", telemetry},
		{"rates-are-those-since-the-start", "cmd/penstock/statustext/statustext.go", "\t\t\tearlier[one.ID] = one\n", "\t\t\t_ = one\n", text},
		{"screens-grow-with-streams", "cmd/penstock/statustext/statustext.go", "if i == maxStreams {", "if i < 0 {", text},
		{"refused-files-have-no-error-in-the-status", "cmd/penstock/reload.go", "\ts.last.Error = fault.Shorten", "\t_ = fault.Shorten", command},
	}
}
