package main

// diskMutants break the disk tier of the cache: what it checks before it serves a file, what it counts, and
// what it does with a disk that fails.
func diskMutants() []mutant { //nolint:funlen // a table
	tier := []string{"./cache/disk"}
	return []mutant{
		{
			"blocks-of-cached-columns-are-not-checked", "cache/disk/body_reader.go",
			"			if d.Sum64() != c.sums[number] {\n", "			if number < 0 {\n", tier,
		},
		{
			"heads-of-cached-columns-are-not-checked", "cache/disk/head.go",
			"sum != checksum(key, headSum, content[:end]) {", "sum != checksum(key, headSum, content[:end]) && end < 0 {", tier,
		},
		{
			"blocks-of-cached-columns-fit-anywhere", "cache/disk/head.go",
			"binary.LittleEndian.Uint64(key[:]) + uint64(block)", "binary.LittleEndian.Uint64(key[:]) + min(uint64(block), 0)", tier,
		},
		{
			"blocks-fit-other-cached-columns", "cache/disk/head.go",
			"binary.LittleEndian.Uint64(key[:]) + uint64(block)", "min(binary.LittleEndian.Uint64(key[:]), 0) + uint64(block)", tier,
		},
		{
			"offsets-of-cached-columns-may-decrease", "cache/disk/body_reader.go",
			"signs >= 0 && offsets[0] == 0", "offsets[0] == 0", tier,
		},
		{
			"offsets-of-cached-columns-begin-anywhere", "cache/disk/body_reader.go",
			"signs >= 0 && offsets[0] == 0", "signs >= 0", tier,
		},
		{
			"cached-texts-end-anywhere", "cache/disk/body_reader.go",
			"f.kind == textForm && last != n.extra", "f.kind == textForm && last > n.extra", tier,
		},
		{
			"items-of-cached-lists-are-not-counted", "cache/disk/body_reader.go",
			" || f.kind == listForm && last != below[0].length {", " {", tier,
		},
		{
			"cached-codes-may-be-outside-of-the-dictionary", "cache/disk/body_reader.go",
			"int64(highest) < int64(length)", "int64(highest) <= int64(length)", tier,
		},
		{
			"cached-codes-behind-nulls-stay", "cache/disk/body_reader.go",
			"		indices[i] = 0\n", "", tier,
		},
		{
			"nulls-of-cached-columns-are-not-counted", "cache/disk/body_reader.go",
			"n.length-int64(bitutil.CountSetBits(buffers[0].Bytes(), 0, int(n.length))) != n.nulls {",
			"n.length-int64(bitutil.CountSetBits(buffers[0].Bytes(), 0, int(n.length))) > n.length {", tier,
		},
		{
			"cached-columns-have-any-number-of-rows", "cache/disk/get.go",
			" || c.rows != want.Rows {", " {", tier,
		},
		{
			"memory-of-cached-columns-is-not-charged", "cache/disk/get.go",
			"	needs := c.body + nodeBytes*c.shape.nodes()\n", "	needs := c.body/2 + nodeBytes*c.shape.nodes()\n", tier,
		},
		{
			"memory-of-hanging-reads-is-released", "cache/disk/get.go",
			"	store.WhenReturned(err, func() { r.end(context.WithoutCancel(ctx), c == nil) })\n",
			"	r.end(context.WithoutCancel(ctx), c == nil)\n", tier,
		},
		{
			"hanging-cache-disks-are-asked-again", "cache/disk/get.go",
			"	if t.hanging.Load() > 0 {\n", "	if t.hanging.Load() < 0 {\n", tier,
		},
		{
			"cheap-cached-columns-stay", "cache/disk/ledger.go",
			"float64(f.cost)/float64(footprint(f.size))", "float64(f.cost)", tier,
		},
		{
			"unread-cached-columns-stay", "cache/disk/ledger.go",
			"	l.floor = f.worth\n", "", tier,
		},
		{
			"the-limit-of-the-disk-tier-is-exceeded", "cache/disk/ledger.go",
			"bytes <= l.limit-l.used", "bytes <= l.limit", tier,
		},
		{
			"entries-of-cached-files-do-not-count", "cache/disk/ledger.go",
			"(size + 2*diskBlock - 1)", "(size + diskBlock - 1)", tier,
		},
		{
			"cached-columns-are-evicted-while-read", "cache/disk/ledger.go",
			"	if f.at >= 0 {\n		heap.Remove(&l.idle, f.at)\n	}\n	return f\n", "	return f\n", tier,
		},
		{
			"files-that-cannot-be-deleted-do-not-count", "cache/disk/ledger.go",
			"	if deleted {\n", "	if deleted || f.leaving {\n", tier,
		},
		{
			"incomplete-files-have-the-name-of-complete-ones", "cache/disk/write.go",
			"f.offer.key.String()+tempSuffix", "chunkName(f.offer.key, f.offer.Cost)", tier,
		},
		{
			"incomplete-files-stay", "cache/disk/folder.go",
			"!strings.HasSuffix(name, tempSuffix) && !strings.HasSuffix(name, chunkFamily)", "!strings.HasSuffix(name, chunkFamily)", tier,
		},
		{
			"folders-open-to-others-are-used", "cache/disk/folder.go",
			"found.Mode().Perm()&othersModes != 0 || !ours(found)", "!ours(found)", tier,
		},
		{
			"links-in-the-cache-folder-are-followed", "cache/disk/system.go",
			"os.O_RDONLY|noFollow", "os.O_RDONLY", tier,
		},
	}
}
