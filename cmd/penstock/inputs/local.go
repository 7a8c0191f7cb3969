package inputs

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// filesIn returns the files of a local folder, at any depth.
func filesIn(ctx context.Context, folder string) ([]File, error) {
	files, err := walk(ctx, folder)
	if err == nil && len(files) == 0 {
		err = emptyFolder(folder)
	}
	return files, err
}

// walk returns the files below a local folder.
func walk(ctx context.Context, folder string) (files []File, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, localError(err, folder)
	}
	for _, e := range entries {
		if err := tableLog(folder, e.Name()); err != nil {
			return nil, err
		}
		if skipped(e.Name()) {
			continue
		}
		found, err := entry(ctx, filepath.Join(folder, e.Name()), e)
		if err != nil {
			return nil, err
		}
		if files = append(files, found...); len(files) > maxFiles {
			return files, nil // there are too many files, so Find returns an error
		}
	}
	return files, nil
}

// entry returns the files that an entry of a folder stands for. It follows a symbolic link to a
// file. A symbolic link to a folder is an error, because such links may form a cycle.
func entry(ctx context.Context, name string, e os.DirEntry) ([]File, error) {
	if e.IsDir() {
		return walk(ctx, name)
	}
	stat, err := os.Stat(name)
	if err != nil {
		return nil, localError(err, name)
	}
	if !stat.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s is not a regular file", name).In("", name).
			WithRemedy("remove it from the folder, or name files and folders one by one: links to folders are not followed")
	}
	return []File{{Name: name, Size: stat.Size()}}, nil
}

// matching returns the local files that match a pattern. If a folder matches, it returns the files
// in the folder.
func matching(ctx context.Context, pattern string) ([]File, error) {
	at := []string{""} // the paths that match the parts of the pattern so far
	if strings.HasPrefix(pattern, "/") {
		at = []string{"/"}
	}
	for part := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		if part == "" {
			continue
		}
		var next []string
		for _, folder := range at {
			matched, err := matchingIn(ctx, folder, part)
			if err != nil {
				return nil, err
			}
			next = append(next, matched...)
		}
		at = next
	}
	var files []File
	for _, name := range at {
		stat, err := os.Stat(name)
		if err != nil {
			return nil, localError(err, name)
		}
		if !stat.IsDir() {
			files = append(files, File{Name: name, Size: stat.Size()})
			continue
		}
		found, err := walk(ctx, name)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, noMatch(pattern)
	}
	return files, nil
}

// matchingIn returns the paths of the entries of a folder that match one part of a pattern.
func matchingIn(ctx context.Context, folder, part string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !isPattern(part) {
		name := filepath.Join(folder, part)
		if _, err := os.Stat(name); os.IsNotExist(err) {
			return nil, nil
		}
		return []string{name}, nil
	}
	read := folder
	if read == "" {
		read = "."
	}
	if stat, err := os.Stat(read); err == nil && !stat.IsDir() {
		return nil, nil
	}
	entries, err := os.ReadDir(read)
	if err != nil {
		return nil, localError(err, read)
	}
	var out []string
	for _, e := range entries {
		ok, err := matches(part, e.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, filepath.Join(folder, e.Name()))
		}
	}
	return out, nil
}

// matches reports whether a name matches one part of a pattern. A name that Find skips in folders
// matches only if the part begins with the same dot or underscore.
func matches(part, name string) (bool, error) {
	ok, err := path.Match(part, name)
	if err != nil {
		return false, fault.New(fault.Invalid, "%q is not a pattern: %w", part, err).WithRemedy("close each [ with a ]")
	}
	return ok && (!skipped(name) || part[0] == name[0]), nil
}
