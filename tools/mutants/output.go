package main

// outputMutants are ways to harm what a path names: to replace a device or a link by a
// file, and to take half a file for a whole one.
func outputMutants() []mutant {
	cmd := []string{"-run", "^TestCat", "./cmd/penstock"}
	return []mutant{
		{
			"device-is-replaced", "cmd/penstock/outfile/outfile.go",
			"	case !found.Mode().IsRegular():\n", "	case found.Mode()&fs.ModeNamedPipe != 0:\n", cmd,
		},
		{
			"fifo-is-replaced", "cmd/penstock/outfile/outfile.go",
			"	case !found.Mode().IsRegular():\n", "	case found.Mode()&fs.ModeDevice != 0:\n", cmd,
		},
		{
			"link-is-replaced", "cmd/penstock/outfile/outfile.go",
			"	target, err := linked(path)\n", "	target, err := path, error(nil)\n", cmd,
		},
		{
			"parent-of-a-link-is-its-own", "cmd/penstock/outfile/outfile.go",
			"			path = folder + string(filepath.Separator) + to\n", "			path = filepath.Join(folder, to)\n", cmd,
		},
		{
			"open-file-is-replaced", "cmd/penstock/outfile/outfile.go",
			"	if fd, ok := descriptor(target); ok {\n", "	if fd, ok := descriptor(target); ok && fd < 0 {\n", cmd,
		},
		{
			"permissions-are-lost", "cmd/penstock/outfile/outfile.go",
			"		err = file.Chmod(old.Mode().Perm())\n", "", cmd,
		},
		{
			"failure-leaves-half-a-file", "cmd/penstock/outfile/outfile.go",
			"			err = errors.Join(err, os.Remove(file.Name()))\n", "", cmd,
		},
		{
			"spool-makes-what-is-above-it", "internal/spool/spool.go",
			"	err := os.Mkdir(s.folder, private)\n", "	err := os.MkdirAll(s.folder, private)\n",
			[]string{"./internal/spool"},
		},
		{
			"lock-is-a-broken-disk", "loader/catalog/sqlcat/sqlite.go",
			"	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:\n		return fault.New", "	case -1:\n		return fault.New",
			[]string{"./loader/catalog/sqlcat"},
		},
	}
}
