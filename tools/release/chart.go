package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// chart writes the Helm chart as an archive.
func (c *checkout) chart(ctx context.Context) error {
	const folder = "deploy/chart"
	about, err := os.ReadFile(filepath.Join(c.root, folder, "Chart.yaml"))
	if err != nil {
		return err
	}
	for _, want := range []string{"\nversion: " + c.version + "\n", "\nappVersion: " + c.version + "\n"} {
		if !strings.Contains(string(about), want) {
			return fmt.Errorf("%s/Chart.yaml lacks the line %q", folder, strings.TrimSpace(want))
		}
	}
	listed, err := output(ctx, c.root, "git", "ls-files", "--", folder)
	if err != nil {
		return err
	}
	var files []layerFile
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			return err
		}
		files = append(files, layerFile{path: "penstock" + strings.TrimPrefix(name, folder), text: text})
	}
	packed, err := layer(files, c.time)
	if err != nil {
		return err
	}
	archive, err := packed.Compressed()
	if err != nil {
		return err
	}
	blob, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	return c.write(fmt.Sprintf("penstock-%s.tgz", c.version), blob)
}

// write writes a file of the release.
func (c *checkout) write(name string, text []byte) error {
	fmt.Printf("release: %s\n", filepath.Join(c.out, name))
	return os.WriteFile(filepath.Join(c.out, name), text, 0o644) //nolint:gosec // all may read it
}
