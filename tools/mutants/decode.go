package main

// decodeMutants break how Parquet pages are decoded, and who may use a socket.
func decodeMutants() []mutant {
	parquet, command := []string{"./internal/parquet"}, []string{"./cmd/penstock"}
	scanned := []string{"./internal/parquet", "./loader/scan"}
	return []mutant{
		{
			"rows-end-with-their-page", "internal/parquet/levels.go",
			"		if !l.startsRow() && out.last < l.minElement {", "		if !l.startsRow() || out.last < l.minElement {", parquet,
		},
		{
			"lists-go-on-without-a-beginning", "internal/parquet/levels.go",
			"case level < l.minElement || out.last < l.minElement:", "case level < l.minElement:", parquet,
		},
		{
			"empty-lists-are-null", "internal/parquet/levels.go",
			"out.begin(elements, level >= l.minElement-1)", "out.begin(elements, level >= l.minElement)", parquet,
		},
		{
			"null-elements-are-values", "internal/parquet/list.go",
			"	if present < elements {\n		c.spread(", "	if present > elements {\n		c.spread(", parquet,
		},
		{
			"runs-of-other-levels-count-as-elements", "internal/parquet/rle.go",
			"	if h.value != value {\n		return 0, nil", "	if h.value < value {\n		return h.repeat, nil", parquet,
		},
		{
			"short-runs-lose-their-last-bits", "internal/parquet/rle.go",
			"	word >>= 8 - at&7\n	for to", "	word >>= 8\n	for to", parquet,
		},
		{
			"page-checksums-are-ignored", "internal/parquet/page_header.go",
			"h.crc != nil && crc32.ChecksumIEEE(body) != *h.crc", "h.crc != nil && crc32.ChecksumIEEE(body) == 0", parquet,
		},
		{
			"values-of-v2-pages-are-always-compressed", "internal/parquet/pages.go",
			"!p.stored && h.valuesCompressed)", "!p.stored)", parquet,
		},
		{
			"repetition-levels-of-v2-pages-come-second", "internal/parquet/pages.go",
			"out.repetition, out.definition = body[:h.repetitionBytes], body[h.repetitionBytes:levels]",
			"out.definition, out.repetition = body[:h.repetitionBytes], body[h.repetitionBytes:levels]", parquet,
		},
		{"nulls-move-the-ends-of-strings", "internal/parquet/byte_array.go", "			end := before\n", "			end := 0 * before\n", parquet},
		{"surplus-strings-are-dropped", "internal/parquet/byte_array.go", "out.bytes, c.values = end, c.values[at:]\n", "out.bytes, c.values = end, nil\n", parquet},
		{"surplus-runs-are-dropped", "internal/parquet/rle.go", "	if len(h.rest) > 0 || h.repeat > 0 {\n", "	if len(h.rest) > 0 {\n", parquet},
		{"surplus-levels-of-numbers-are-dropped", "internal/parquet/flat.go", "	if !c.levels.exhausted() {\n", "	if !c.levels.exhausted() && c.left > 0 {\n", parquet},
		{"empty-brotli-is-damage", "internal/parquet/codec.go", "		if len(dst) > 0 {\n			return decode", "		if len(dst) >= 0 {\n			return decode", parquet},
		{"dictionaries-may-have-a-rest", "internal/parquet/byte_array.go", "	if at != len(c.dictionary) {\n", "	if at > len(c.dictionary) {\n", parquet},
		{"long-strings-have-no-length", "internal/parquet/byte_array.go", "		c.maxValue = max(c.maxValue, int64(length))\n", "", scanned},
		{"first-pages-are-dropped", "internal/parquet/byte_array.go", "	if c.first = nil; next == nil {", "	if c.first, next = nil, nil; next == nil {", parquet},
		{"places-of-strings-are-free", "internal/parquet/page_stats.go", "	return c.dictionary.values * viewBytes\n", "	return 0\n", parquet},
		{"batches-of-strings-have-any-size", "internal/parquet/byte_array.go", "	if wanted > math.MaxInt32 {", "	if wanted > math.MaxInt64 {", parquet},
		{
			"sockets-of-the-living-are-taken", "cmd/penstock/socket/socket.go",
			"	case err == nil:\n		_ = conn.Close()", "	case err == nil && address == \"\":\n		_ = conn.Close()", command,
		},
		{
			"sockets-are-for-everybody", "cmd/penstock/socket/socket_unix.go",
			"syscall.Umask(0o177)", "syscall.Umask(0o111)", command,
		},
		{
			"sockets-of-others-are-removed", "cmd/penstock/socket/socket.go",
			"err == nil && os.SameFile(s.is, now)", "err == nil && now != nil", command,
		},
	}
}
