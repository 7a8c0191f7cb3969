package inputs

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// maxFiles is the maximum number of files in one call of Find.
const maxFiles = 1_000_000

// Find resolves names to files. For a folder, it returns the files at any depth. Files of a folder
// or a pattern are sorted by name. In folders, Find skips an entry if its name begins with a dot.
// It also skips an entry if its name begins with an underscore and does not contain "=".
//
// Find returns an error of kind NotFound if a name or a pattern matches no file. It returns an
// error of kind Invalid for a folder without files, for the folder of a Delta, Hudi or Iceberg
// table, for a file that is named twice, and for a symbolic link to a folder that is inside a
// folder. It returns an error of kind Exhausted if there are more than maxFiles files.
func Find(ctx context.Context, names []string, o Options) ([]File, error) {
	f := &finder{options: o, seen: map[string]bool{}}
	for _, name := range names {
		if err := f.find(ctx, name); err != nil {
			return nil, err
		}
	}
	return f.files, nil
}

// finder collects the files for the names of one call of Find.
type finder struct {
	options Options
	files   []File
	seen    map[string]bool
}

// find adds the files of a name.
func (f *finder) find(ctx context.Context, name string) error {
	var found []File
	var err error
	switch {
	case name == "-" && f.options.Stdin != nil:
		found = []File{{Name: stdinName, Size: store.SizeUnknown, stdin: true}}
	case isRemote(name):
		found, err = f.remote(ctx, name)
	default:
		found, err = f.local(ctx, name)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for _, file := range found {
		if f.seen[file.Name] {
			return fault.New(fault.Invalid, "file %s is named twice: its rows would be written twice", file.Name).In("", file.Name).
				WithRemedy("name each file once")
		}
		f.seen[file.Name] = true
	}
	if f.files = append(f.files, found...); len(f.files) > maxFiles {
		return fault.New(fault.Exhausted, "there are more than %d files", maxFiles).WithRemedy("stage them in several calls")
	}
	return nil
}

// local resolves a local name to files.
func (f *finder) local(ctx context.Context, name string) ([]File, error) {
	path, err := localPath(name)
	if err != nil {
		return nil, err
	}
	stat, err := os.Stat(path)
	switch {
	case err == nil && stat.IsDir():
		return filesIn(ctx, path)
	case err == nil:
		return []File{{Name: path, Size: stat.Size()}}, nil
	case isPattern(path):
		return matching(ctx, path)
	}
	return nil, localError(err, path)
}

// localPath returns the path that a local name stands for. If the name is a file:// URI, its path
// is percent-decoded, unless a file exists at the undecoded path.
func localPath(name string) (string, error) {
	if store.Scheme(name) != "file" {
		return name, nil
	}
	path, err := store.Path(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err != nil {
		if decoded, err := url.PathUnescape(path); err == nil {
			return decoded, nil
		}
	}
	return path, nil
}

// localError is the error for a path that cannot be read.
func localError(err error, path string) error {
	if os.IsNotExist(err) {
		return fault.New(fault.NotFound, "%w", err).In("", path).WithRemedy("check the name of the file")
	}
	return fault.New(fault.Unavailable, "%w", err).In("", path).WithRemedy("check the permissions of the folder, and the disk")
}

// skipped reports whether an entry of a folder is skipped because of its name. Spark and Hive skip
// the same names.
func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") && !strings.Contains(name, "=")
}

// isPattern reports whether a name contains *, ? or [.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// emptyFolder is the error for a folder without files.
func emptyFolder(folder string) error {
	return fault.New(fault.Invalid, "folder %s has no files to read", folder).In("", folder).
		WithRemedy("name a folder that has files: names that begin with a dot or an underscore are skipped")
}

// noMatch is the error for a pattern that matches no file.
func noMatch(pattern string) error {
	return fault.New(fault.NotFound, "no file matches %s", pattern).In("", pattern).
		WithRemedy("check the pattern: * and ? stand for characters of one name, and do not match a slash")
}

// tableLog returns an error if an entry of a folder belongs to the metadata of a Delta, Hudi or
// Iceberg table. The files in the folder of such a table are not read, because some of them may not
// be part of the table.
func tableLog(folder, entry string) error {
	refuse := func(kind, remedy string) error {
		return fault.New(fault.Invalid, "folder %s is a table in %s format: some of its files may hold rows that the table does not have", folder, kind).
			In("", folder).WithRemedy("%s", remedy)
	}
	switch {
	case entry == "_delta_log":
		return refuse("Delta", "copy the table with DuckDB's delta_scan or Spark, and stage the copy (docs/migrate.md)")
	case entry == ".hoodie":
		return refuse("Hudi", "copy the table with Spark, and stage the copy")
	case strings.HasSuffix(entry, ".metadata.json") && strings.HasSuffix(strings.TrimRight(folder, "/"), "/metadata"):
		return refuse("Iceberg", "add its catalog to the config file, and stage the table instead of its files: --from-table CATALOG.NAMESPACE.TABLE; or read it with an engine that knows its catalog, and stage a copy")
	}
	return nil
}
