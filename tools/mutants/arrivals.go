package main

// arrivalMutants are ways to hold too much of clients before their requests have arrived.
func arrivalMutants() []mutant {
	flight := []string{"./flight"}
	return []mutant{
		{"calls-arrive-when-they-open", "flight/arrivals.go", "\ta.count++\n", "\ta.count += 0\n", flight},
		{"calls-never-arrive", "flight/arrivals.go", "\t\ts.arrivals.leave(s.call)\n", "", flight},
		{"calls-that-end-stay", "flight/arrivals.go", "\tcontext.AfterFunc(ctx, func() { a.leave(call) })\n", "", flight},
		{"any-host-loses-its-oldest-call", "flight/arrivals.go", "if len(calls) > len(a.hosts[found]) {", "if found == \"\" || len(calls) < len(a.hosts[found]) {", flight},
		{"newest-calls-are-ended", "flight/arrivals.go", "a.evict(a.hosts[a.heaviest()][0], ", "a.evict(a.hosts[a.heaviest()][len(a.hosts[a.heaviest()])-1], ", flight},
		{"half-sent-requests-are-unlimited", "flight/connection.go", "\t\tc.read(c, n)\n", "", flight},
		{"small-senders-lose-their-calls", "flight/arrivals.go", "c.received.bytes > most.received.bytes", "c.received.bytes < most.received.bytes", flight},
		{"requests-that-arrived-count-their-bytes", "flight/arrivals.go", "a.received -= c.received.end()", "c.received.end()", flight},
		{"one-host-may-have-all-connections", "flight/hosts.go", "h.total >= h.limit || h.atShare(host)) {", "h.total >= h.limit) {", flight},
		{"connections-are-unlimited", "flight/hosts.go", "(h.total >= h.limit || h.atShare(host))", "(h.total < 0 || h.atShare(host))", flight},
		{"many-hosts-keep-others-out", "flight/connection.go", "\t\tvictim := c.victim(host)\n", "\t\tvictim := (*countedConn)(nil)\n", flight},
		{"connections-with-calls-are-closed", "flight/connection.go", "return o.calls.Load() == 0 }", "return o.calls.Load() >= 0 }", flight},
		{"hosts-with-few-connections-lose-them", "flight/connection.go", "if len(conns) <= most {", "if len(conns) <= most-1 {", flight},
		{"user-timeout-is-not-set", "flight/connection.go", "\tsetUserTimeout(conn, pingTimeout)\n", "", flight},
		{"small-containers-have-no-room", "internal/config/memory.go", "machine/2, max(0, machine-besideMemory)/5*4, ", "machine/2, ", []string{"./internal/config"}},
		{"failed-connections-are-kept", "flight/connection.go", "\t\tdelete(c.open, at)\n\t}\n\twithout", "\t}\n\twithout", flight},
		{"methods-with-one-answer-are-received-first", "flight/server.go", "answered(flightgen.FlightService_ServiceDesc)", "&flightgen.FlightService_ServiceDesc", flight},
		{"headers-are-unlimited", "flight/server.go", "\t\tgrpc.MaxHeaderListSize(maxHeaderBytes),\n", "", flight},
		{"closed-connections-count", "flight/connection.go", "\tc.closed()\n", "", flight},
		{"deadlines-outlive-connections", "flight/connection.go", "\t\tof.end()\n", "", flight},
		{"answers-are-not-charged", "flight/answers.go", "\tout.bytes = int64(encoded.Len()) + answerRest\n", "\tout.bytes = answerRest\n", flight},
		{"answers-are-sent-without-admission", "flight/answers.go", "of.admit(ctx, lease); err != nil {", "ctx.Err(); err != nil {", flight},
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
	}
}
