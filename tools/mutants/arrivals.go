package main

// arrivalMutants are ways to hold too much of clients before their requests have arrived.
func arrivalMutants() []mutant {
	flight := []string{"./flight"}
	return []mutant{
		{"calls-arrive-when-they-open", "flight/hosts.go", "\th.total++\n\th.hosts[host]++\n", "\th.total += 0\n", flight},
		{"calls-never-arrive", "flight/arrivals.go", "\t\ts.arrived()\n", "", flight},
		{"calls-that-end-stay", "flight/arrivals.go", "\tcontext.AfterFunc(ctx, arrived)\n", "", flight},
		{"one-host-may-open-all-calls", "flight/hosts.go", " || host != \"\" && h.hosts[host] >= max(1, h.limit*h.share/100)", "", flight},
		{"methods-with-one-answer-are-received-first", "flight/server.go", "answered(flightgen.FlightService_ServiceDesc)", "&flightgen.FlightService_ServiceDesc", flight},
		{"headers-are-unlimited", "flight/server.go", "\t\tgrpc.MaxHeaderListSize(maxHeaderBytes),\n", "", flight},
		{"connections-are-unlimited", "flight/hosts.go", "h.total >= h.limit || ", "h.total < 0 || ", flight},
		{"closed-connections-count", "flight/connection.go", "\tc.closed()\n", "", flight},
		{"refused-deadlines-are-unlimited", "flight/connection.go", "c.kept.Add(1) == maxRefused+1", "c.kept.Add(1) < 0", flight},
		{"calls-without-deadlines-are-kept", "flight/arrivals.go", "ctx.Deadline(); timed {", "ctx.Deadline(); timed || true {", flight},
		{"deadlines-outlive-connections", "flight/connection.go", "\t\tof.end()\n", "", flight},
		{"answers-are-not-charged", "flight/answers.go", "\tout.bytes = int64(encoded.Len()) + answerRest\n", "\tout.bytes = answerRest\n", flight},
		{"answers-are-sent-without-admission", "flight/answers.go", "of.admit(ctx, lease); err != nil {", "of.admit(ctx, lease); err != nil && false {", flight},
		{"answers-stay-charged", "flight/codec.go", "\t\tl.answer.Release()\n", "", flight},
		{"short-answers-are-freed-at-once", "flight/answers.go", "\tl.parts.Add(1)\n", "", flight},
		{"answers-need-room-in-the-budget", "flight/answers.go", "a.unreserved.Add(out.bytes) > maxUnreserved", "a.unreserved.Add(out.bytes) > 0", flight},
		{"answers-beyond-the-budget-are-unlimited", "flight/answers.go", "a.unreserved.Add(out.bytes) > maxUnreserved", "a.unreserved.Add(out.bytes) < 0", flight},
		{"stalled-answers-stay", "flight/parking.go", "\t\t\ts.checkAnswers(pressed)\n", "", flight},
		{"one-host-plans-alone", "flight/planslots.go", " || w.host != \"\" && h.taken >= p.share", "", flight},
		{"plans-do-not-age", "flight/planslots.go", " || h.taken == best.taken && h.used < best.used", "", flight},
		{"clients-that-left-wait-to-plan", "flight/planslots.go", "\t\tp.finish(w, why)\n", "", flight},
		{"plans-outlive-their-clients", "loader/plan.go", "\tif ctx.Err() != nil {\n", "\tif ctx.Err() != nil && false {\n", []string{"-run", "TestPlansEnd", "./loader"}},
		{"plan-slots-are-kept", "flight/calls.go", "\tdefer slot.leave()\n", "", flight},
		{"failed-connections-are-kept", "flight/connection.go", "\t\tdelete(c.open, at)\n", "", flight},
	}
}
