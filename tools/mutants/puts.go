package main

// putMutants take half of the rows of a client for all, hold more memory than they charge, or let the wrong clients write.
func putMutants() []mutant {
	wire, rights, decodes := []string{"./flight"}, []string{"./loader/policy"}, []string{"./loader/dataset/decode"}
	return []mutant{
		{"put-ends-with-the-stream", "flight/put_reader.go", "		case errors.Is(err, io.EOF) && !p.completed:\n			return nil, incompletePut(p.rows)\n", "		case errors.Is(err, io.EOF):\n			p.completed, p.declared = true, p.rows\n			return nil, err\n", wire},
		{"put-counts-no-rows", "flight/put_reader.go", "	case p.declared != p.rows:\n", "	case p.declared < 0:\n", wire},
		{"put-takes-rows-after-the-end", "flight/put_reader.go", "		case p.completed:\n			return nil, fault", "		case p.completed && len(m.header) == 0:\n			return nil, fault", wire},
		{"put-ends-before-the-client-does", "flight/put_reader.go", "	p.declared, p.completed = *end.Rows, true\n	return nil\n", "	p.declared, p.completed = *end.Rows, true\n	return io.EOF\n", wire},
		{"put-holds-what-is-not-charged", "flight/put_reader.go", "if more := 2*p.limit - p.held.Held(); more > 0 {", "if more := 2*p.limit - p.held.Held(); more > 1<<60 {", wire},
		{"put-keeps-what-it-reserved", "flight/put_reader.go", "	p.held.Release()\n	p.kept.Release()\n", "	p.kept.Release()\n", wire},
		{"put-decompresses-any-size", "flight/put_reader.go", "	if max(int64(len(m.body)), unpacked) > p.limit {\n", "	if max(int64(len(m.body)), unpacked/1024) > p.limit {\n", wire},
		{"put-does-not-validate", "flight/put_reader.go", "	return array.ValidateRecordFull(b)\n", "	return array.ValidateRecord(b)\n", wire},
		{"put-takes-other-schemas", "flight/put_reader.go", "	case !head.isDictionary && len(head.nodes) != p.nodes:\n", "	case !head.isDictionary && len(head.nodes) < 0:\n", wire},
		{"put-waits-for-ever", "flight/put_slot.go", "	timeout := time.NewTimer(p.timeout)\n", "	timeout := time.NewTimer(p.timeout + time.Hour)\n", wire},
		{"put-believes-counts-of-views", "flight/put_reader.go", "	case !head.isDictionary && len(head.variadic) < p.views:\n", "	case !head.isDictionary && len(head.variadic) < 0:\n", wire},
		{"put-needs-no-place", "flight/put_slot.go", "	p.leave, err = p.slots.enter(ctx, p.client, holds)\n", "	p.leave = func() {}\n", wire},
		{"put-hides-uncertain-changes", "flight/put.go", "	if err == nil || commit.Uncertain(err) {\n", "	if err == nil {\n", wire},
		{"put-shows-any-keys", "flight/tables.go", "	if rights.Limits(d) {\n", "	if rights.Limits(d) && of == \"\" {\n", wire},
		{"put-takes-datasets-for-tables", "flight/tables.go", "return d.Name == of }) {\n", "return d.Name == of && of == \"\" }) {\n", wire},
		{"undo-is-of-main", "flight/tables.go", "	branch := cmp.Or(asked.Branch, commit.Main)\n", "	branch := cmp.Or(asked.Branch[:0], commit.Main)\n", wire},
		{"put-is-like-any-table", "flight/tables.go", "!may || !now.Has(d, table)", "!may && !now.Has(d, table)", wire},
		{"undo-needs-no-right", "flight/tables.go", "	if err := s.permitChange(ctx, asked.Table, policy.Publish); err != nil {\n		return nil, err\n	}\n	note.change(audit.Undo", "	note.change(audit.Undo", wire},
		{"large-requests-are-read", "flight/arrivals.go", "		if err == nil && limited.size > maxReceived {\n", "		if err == nil && limited.size > 1<<40 {\n", wire},
		{"any-rule-allows-to-write", "loader/policy/policy.go", "			return may\n		}\n	}\n", "			if may {\n				return true\n			}\n		}\n	}\n", rights},
		{"who-reads-writes", "loader/policy/policy.go", "		may := action.Writes() && slices", "		may := slices", rights},
		{"another-case-is-written-to", "loader/policy/policy.go", " || !may && matchesOne(lowered", " || may && matchesOne(lowered", rights},
		{"open-servers-write", "loader/policy/policy.go", "		r.Inline, r.Write = []string{\"*\"}, []string{\"*\"}\n	}\n", "		r.Inline = []string{\"*\"}\n	}\n	r.Write = []string{\"*\"}\n", rights},
		{"write-without-an-effect", "loader/dataset/decode/policy.go", "	case !writes && len(out.Write) > 0:\n", "	case !writes && len(out.Write) > 99:\n", decodes},
	}
}
