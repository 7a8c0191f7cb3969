package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// noticesFile has the licenses of the libraries in the program.
const noticesFile = "NOTICE.third-party.txt" // by the name, setuptools puts it into wheels

// licenseName matches the files of a module that say how it may be used.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([._-].*)?$`)

// notices returns the licenses of all modules in a program, and of Go. A module without one is an error.
func (c *checkout) notices(ctx context.Context, build *buildinfo.BuildInfo) ([]byte, error) {
	folders, err := c.moduleFolders(ctx)
	if err != nil {
		return nil, err
	}
	goroot, err := output(ctx, c.root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "The program penstock %s contains the following libraries.\n", c.version)
	if err := writeLicenses(&b, "Go "+strings.TrimPrefix(build.GoVersion, "go"), goroot); err != nil {
		return nil, err
	}
	for _, m := range libraries(build) {
		if err := writeLicenses(&b, m.Path+" "+m.Version, folders[m.Path]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// libraries returns the modules in a program that other projects publish. It omits modules that are
// replaced by a folder of this project.
func libraries(build *buildinfo.BuildInfo) []*debug.Module {
	var out []*debug.Module
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if !isFolder(m) {
			out = append(out, m)
		}
	}
	return out
}

// isFolder reports whether a module is a folder of this project, which no version describes.
func isFolder(m *debug.Module) bool { return m.Version == "" || m.Version == "(devel)" }

// moduleFolders returns where the sources of each module are.
func (c *checkout) moduleFolders(ctx context.Context) (map[string]string, error) {
	text, err := output(ctx, c.root, "go", "list", "-m", "-json=Path,Dir", "all")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[m.Path] = m.Dir
	}
}

// writeLicenses writes the licenses in a folder, or in the nearest one above it.
func writeLicenses(b *bytes.Buffer, name, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("the sources of %s: %w", name, err)
	}
	found := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.IsDir() || !licenseName.MatchString(e.Name()) })
	if len(found) == 0 {
		return fmt.Errorf("%s has no license", name)
	}
	for _, e := range found {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n%s\n%s: %s\n%[1]s\n\n%[4]s\n", strings.Repeat("=", 80), name, e.Name(), bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
	}
	return nil
}
