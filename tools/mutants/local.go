package main

// localMutants are ways in which batches in mapped memory change under their readers, are lost, or hold
// memory or streams up.
func localMutants() []mutant {
	const session, sessions, mapped, lender, loan = "flight/local/session.go", "flight/local/sessions.go", "flight/mapped.go", "internal/segment/lender.go", "internal/segment/loan.go"
	local, flight, segment := []string{"-timeout", "60s", "./flight/local"}, []string{"-timeout", "60s", "-run", "Mapped|Session|Segment|Room|Unseen|Waiting", "./flight"}, []string{"-timeout", "60s", "./internal/segment"}
	return []mutant{
		{"forks-are-not-heard", session, "		for _, d := range s.deliveries {\n			d.loan.Discard()\n		}\n		return nil\n", "		return nil\n", local},
		{"ended-sessions-give-memory-back", session, "		d.loan.Discard()\n		d.loan.Release()\n", "		d.loan.Release()\n", local},
		{"ended-sessions-keep-memory", session, "		d.loan.Release()\n		delete(s.deliveries, number)\n	}\n", "		delete(s.deliveries, number)\n	}\n", local},
		{"returned-segments-stay-lent", session, "		delete(s.deliveries, number)\n		d.loan.Release()\n		return nil\n", "		delete(s.deliveries, number)\n		return nil\n", local},
		{"sessions-do-not-hold-segments", session, "	loan.Retain()\n", "", local},
		{"readers-get-any-number-ahead", session, "s.unseen < maxUnseen", "s.unseen <= maxUnseen", local},
		{"returning-is-not-seeing", session, "		s.markSeen(d)\n		delete", "		delete", local},
		{"what-was-seen-counts-twice", session, "	if d.seen {\n		return\n	}\n", "", local},
		{"waiting-outlives-the-session", session, "	close(s.changed)\n	_ = s.conn", "	_ = s.conn", local},
		{"ended-sessions-get-deliveries", session, "	if s.ended {\n		s.mu.Unlock()\n		return 0, errEnded\n	}\n", "", local},
		{"clients-keep-any-number", session, "return !s.ended && len(s.deliveries) < maxDeliveries", "return !s.ended", local},
		{"double-returns-are-taken", session, `			return fmt.Errorf("delivery %d was returned, which the client does not have", number)`, "			return nil", local},
		{"parts-of-records-are-taken", session, "		if n%recordSize != 0 || n > maxPacket {", "		if n > maxPacket {", local},
		{"other-users-are-served", sessions, "	if user != s.user {", "	if user < 0 {", []string{"-run", "OtherUsers", "./flight/local"}},
		{"sessions-are-claimed-twice", sessions, "	one := s.unclaimed[id]\n	delete(s.unclaimed, id)\n", "	one := s.unclaimed[id]\n", local},
		{"sessions-have-no-bound", sessions, " || len(s.open) >= maxSessions", "", local},
		{"progress-is-not-noted", session, "	s.seen = seen\n", "", local},
		{"bodies-are-not-aligned", mapped, "	return len(m.header) + (ipcAlign-body%ipcAlign)%ipcAlign\n", "	return len(m.header) + (8-body%8)%8\n", flight},
		{"old-bytes-stay-behind-headers", mapped, "		clear(to[at+copy(to[at:], m.header) : at+header])\n", "		copy(to[at:], m.header)\n", flight},
		{"each-stream-copies-a-batch", mapped, "	if !ok {\n		return o.copied(frames, b, lease)\n	}\n", "	if !ok || shared != nil {\n		return o.copied(frames, b, lease)\n	}\n", flight},
		{"shared-segments-are-not-kept", mapped, "		in.loan.Keep()\n", "", flight},
		{"kept-segments-are-revived-when-ended", loan, "	if l.ended {\n", "	if l.ended && l.discarded {\n", segment},
		{"revived-segments-are-taken", loan, "	l.lender.unkept(l)\n	l.holders++\n", "	l.holders++\n", segment},
		{"discarded-segments-are-kept", loan, "l.keep && !l.discarded && !d.closed", "l.keep && !d.closed", segment},
		{"kept-segments-are-never-taken", lender, "	if d.keptBytes() < d.limit/keptShare {\n		return nil\n	}\n	return d.takeKept(func(s *lendable) bool { return len(s.Memory()) == size })\n", "	return nil\n", segment},
		{"kept-segments-are-taken-at-once", lender, "	if d.keptBytes() < d.limit/keptShare {\n		return nil\n	}\n", "", segment},
		{"segments-outlive-their-batch", "internal/batch/charged.go", "			c.attached.Release()\n", "", flight},
		{"waiting-for-readers-is-left-out", mapped, "	if err := o.stream.waiting(func() error { return o.session.Wait(ctx) }); err != nil {\n		return false, err\n	}\n", "", flight},
		{"discarded-segments-are-lent-again", lender, "	if l.discarded || d.closed {\n", "	if d.closed {\n", segment},
		{"free-segments-stay-under-pressure", lender, "	b.OnPressure(d.giveUp)\n", "", segment},
		{"segments-have-no-bound", lender, "return d.bytes+size <= d.limit && d.count < maxSegments", "return d.count < maxSegments", segment},
		{"segments-have-no-number", lender, "return d.bytes+size <= d.limit && d.count < maxSegments", "return d.bytes+size <= d.limit", segment},
		{"segments-are-not-charged", lender, `d.budget.Reserve("batches in mapped memory", int64(size))`, `d.budget.Reserve("batches in mapped memory", 0)`, segment},
		{"trimming-drops-what-is-new", lender, "return d.idle > 0 })", "return len(d.free) > 0 })", segment},
		{"loans-end-with-their-first-holder", loan, "	if l.holders--; l.holders == 0 {\n", "	if l.holders--; l.holders >= 0 {\n", segment},
	}
}
