package dircat

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

const (
	hintName   = "version-hint.text"
	fileSuffix = ".metadata.json"
	maxHint    = 1 << 10 // bytes
)

// versions returns the pattern of the names of metadata files: vN or N-uuid, where N is the
// version, followed by .metadata.json, and .gz in either place if the file is compressed.
func versions() *regexp.Regexp {
	return regexp.MustCompile(`^(?:v(\d{1,18})|(\d{1,18})-[0-9A-Za-z-]+)(?:\.gz)?\.metadata\.json(?:\.gz)?$`)
}

// newest returns the current metadata file in a local metadata folder. It returns fs.ErrNotExist if
// the folder does not exist or has no metadata.
func newest(table, folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, "list %s: %w", folder, err).In(table, folder).
			WithRemedy("check that Penstock can read the folder and that its disk works")
	}
	pattern := versions()
	files := map[int64][]string{}
	highest, hinted := int64(-1), false
	for _, e := range entries {
		hinted = hinted || e.Name() == hintName
		if m := pattern.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.ParseInt(m[1]+m[2], 10, 64) // the pattern bounds the digits
			files[n], highest = append(files[n], e.Name()), max(highest, n)
		}
	}
	if hinted {
		named, err := readHint(folder + "/" + hintName)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(named) == "" {
			return "", noHint(table, folder)
		}
		n, number := versionOf(named)
		if !number {
			return folder + "/" + fileOf(named), nil
		}
		for highest = n; len(files[highest+1]) > 0; {
			highest++
		}
	}
	switch of := files[highest]; len(of) {
	case 1:
		return folder + "/" + of[0], nil
	case 0:
		if !hinted {
			return "", fs.ErrNotExist
		}
		return "", fault.New(fault.Corrupt, "table %s: %s names version %d, which does not exist", table, hintName, highest).In(table, folder).
			WithRemedy("restore the metadata file, or name another one: tables: {%s: /path/to/x.metadata.json}", table)
	default:
		return "", fault.New(fault.Invalid, "table %s has several metadata files of version %d: %s", table, highest, strings.Join(of, ", ")).In(table, folder).
			WithRemedy("choose one: tables: {%s: %s}", table, folder+"/"+of[0])
	}
}

func readHint(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fault.New(fault.Unavailable, "read %s: %w", file, err).In("", file)
	}
	return string(content[:min(len(content), maxHint)]), nil
}

// noHint returns the error for an empty hint file. The file is empty for a moment while a writer
// replaces it.
func noHint(table, folder string) error {
	return fault.New(fault.Unavailable, "table %s: %s is empty", table, hintName).In(table, strings.TrimSuffix(folder, "/")+"/"+hintName).
		WithRemedy("try again; if no writer is active, restore it, or name the metadata file: tables: {%s: /path/to/x.metadata.json}", table)
}

// versionOf returns the number in a hint, or false if the hint is not a number.
func versionOf(hint string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(hint), 10, 64)
	return n, err == nil && n >= 0
}

// fileOf returns the name of the metadata file that a hint names. The hint is not a number.
func fileOf(hint string) string {
	name := path.Base(strings.TrimSpace(hint))
	if strings.Contains(name, fileSuffix) {
		return name
	}
	return name + fileSuffix
}

// hinted finds a table on remote storage by its hint.
func (c *Catalog) hinted(ctx context.Context, t locator.Table) (string, error) {
	for _, folder := range c.folders(t) {
		folder += "/metadata/"
		hint, err := c.content(ctx, folder+hintName)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(hint) == "" {
			return "", noHint(t.Name, folder)
		}
		n, number := versionOf(hint)
		if !number {
			return folder + fileOf(hint), nil
		}
		file := func(n int64) string { return folder + "v" + strconv.FormatInt(n, 10) + fileSuffix }
		for {
			_, err := c.content(ctx, file(n+1))
			if errors.Is(err, fs.ErrNotExist) {
				return file(n), nil
			}
			if err != nil {
				return "", err
			}
			n++
		}
	}
	e := catalog.UnknownTable(t.Name, slices.Sorted(maps.Keys(c.options.Tables)))
	return "", e.WithRemedy("folders of %s are not listed: a table there needs metadata/%s, or its metadata file's path in tables: {%s: …}",
		store.Scheme(c.warehouse), hintName, t.Name)
}

// content returns at most the first maxHint bytes of a file.
func (c *Catalog) content(ctx context.Context, location string) (string, error) {
	object, err := c.options.Open(ctx, location, store.SizeUnknown)
	if err != nil {
		return "", err
	}
	defer object.Close() //nolint:errcheck // ReadAt found any error
	content := make([]byte, min(object.Size(), maxHint))
	if err := object.ReadAt(ctx, memory.NewBufferBytes(content), 0); err != nil {
		return "", err
	}
	return string(content), nil
}

// maxNames is the maximum number of entries of a folder that are read.
const maxNames = 10_000

// names returns suggestions for an unknown table: the tables in Options.Tables, and the tables in
// its namespace. If the namespace does not exist, it uses the one with the most similar name.
func (c *Catalog) names(t locator.Table) []string {
	out := slices.Sorted(maps.Keys(c.options.Tables))
	last := len(t.Parts) - 1
	parent := c.warehouse + "/" + strings.Join(t.Parts[:last-1], "/")
	spaces := subfolders(parent)
	for i, s := range spaces {
		spaces[i] = strings.TrimSuffix(s, dotDB)
	}
	space := t.Parts[last-1]
	if !slices.Contains(spaces, space) {
		space = fault.Nearest(space, spaces)
	}
	if space == "" {
		return out
	}
	for _, folder := range []string{parent + "/" + space, parent + "/" + space + dotDB} {
		for _, table := range subfolders(folder) {
			if _, err := os.Stat(folder + "/" + table + "/metadata"); err == nil {
				out = append(out, strings.Join(append(slices.Clone(t.Parts[:last-1]), space, table), "."))
			}
		}
	}
	return out
}

// subfolders returns the names of the folders in a folder; none if it cannot be listed.
func subfolders(folder string) []string {
	opened, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer opened.Close() //nolint:errcheck // the folder was only read
	entries, _ := opened.ReadDir(maxNames)
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}
