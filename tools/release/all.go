package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// all builds a release: everything, with its bill of materials, notes and checksums.
func (c *checkout) all(ctx context.Context, platforms []platform) error {
	if c.commit == "" {
		return errors.New("the checkout has changes: commit them, so that the release can be built again from its commit")
	}
	for _, build := range []func() error{
		func() error { return c.wheels(ctx, platforms) },
		func() error { return c.image(ctx, platforms) },
		func() error { return c.chart(ctx) },
		func() error { return c.sbom(ctx, platforms) },
		func() error { return c.service() },
		func() error { return c.releaseNotes(ctx) },
	} {
		if err := build(); err != nil {
			return err
		}
	}
	return c.checksums()
}

// service copies the unit of systemd.
func (c *checkout) service() error {
	text, err := os.ReadFile(filepath.Join(c.root, "deploy/penstock.service"))
	if err != nil {
		return err
	}
	return c.write("penstock.service", text)
}

// releaseNotes writes the notes: what this version promises, what was checked, and how to build it again.
func (c *checkout) releaseNotes(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(c.root, "docs/releases", c.version+".md"))
	if err != nil {
		return err
	}
	checked, err := c.vulnerabilities(ctx)
	if err != nil {
		return err
	}
	tag, err := output(ctx, c.root, "git", "tag", "--points-at", "HEAD", "--list", "v"+c.version)
	if err != nil {
		return err
	}
	if tag == "" {
		fmt.Printf("release: HEAD has no tag v%s\n", c.version)
	}
	built := fmt.Sprintf("\n## This build\n\n* Commit %s, %s.\n* %s\n* `make release` at that commit, with the same versions of Go and Python, gives the files of `SHA256SUMS`.\n",
		c.commit, cmp.Or(tag, "without a tag"), checked)
	return c.write(fmt.Sprintf("penstock-%s-notes.md", c.version), append(text, built...))
}

// vulnerable is the exit code of govulncheck that has found something.
const vulnerable = 3

// vulnerabilities looks for known vulnerabilities in the sources, and returns a sentence about it. It fails if there are some,
// but not if their database cannot be reached: the sentence says that.
func (c *checkout) vulnerabilities(ctx context.Context) (string, error) {
	command := exec.CommandContext(ctx, "go", "tool", "govulncheck", "-C", c.root, "./cmd/penstock")
	command.Dir = filepath.Join(c.root, "tools/release")
	text, err := command.CombinedOutput()
	if err == nil {
		return "govulncheck knows no vulnerability of it.", nil
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() == vulnerable {
		return "", fmt.Errorf("govulncheck:\n%s", text)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fmt.Printf("release: govulncheck did not run: %s\n", lines[0])
	return "govulncheck did not run, since its database could not be reached: known vulnerabilities were not looked for.", nil
}

// checksums writes the checksums of all files, in the form of sha256sum.
func (c *checkout) checksums() error {
	const name = "SHA256SUMS"
	var files []string
	for _, pattern := range []string{"wheels/*.whl", "image/index.json", "image/oci-layout", "image/blobs/sha256/*", "penstock*"} {
		found, err := filepath.Glob(filepath.Join(c.out, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var b bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(c.out, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(relative))
	}
	return c.write(name, b.Bytes())
}
