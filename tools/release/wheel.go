package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxWheel is how large a wheel may be, in bytes.
const maxWheel = 30 << 20

// wheels builds the wheel of each platform into the folder wheels.
func (c *checkout) wheels(ctx context.Context, platforms []platform) error {
	for _, p := range platforms {
		built, err := c.build(ctx, p)
		if err != nil {
			return err
		}
		wheel, err := c.wheel(ctx, p, built)
		if err != nil {
			return err
		}
		stat, err := os.Stat(wheel)
		if err != nil {
			return err
		}
		if stat.Size() > maxWheel {
			return fmt.Errorf("%s has %d bytes, and may have %d", wheel, stat.Size(), maxWheel)
		}
		fmt.Printf("release: %s, %.1f MB\n", wheel, float64(stat.Size())/1e6)
	}
	return nil
}

// wheel builds the wheel of a platform, from a copy of the package's files: what builds leave in the checkout, and the
// permissions that files have there, are not in it.
func (c *checkout) wheel(ctx context.Context, p platform, built program) (string, error) {
	work, err := os.MkdirTemp("", "penstock-wheel-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is a temporary folder
	source := filepath.Join(work, "python")
	if err := c.copyPackage(ctx, source); err != nil {
		return "", err
	}
	if err := c.copyPages(ctx, filepath.Join(source, "src/penstock/docs")); err != nil {
		return "", err
	}
	if err := copyFile(filepath.Join(source, "LICENSE"), filepath.Join(c.root, "LICENSE")); err != nil {
		return "", err
	}
	notices, err := c.notices(ctx, built.build)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(source, noticesFile), notices, 0o644); err != nil { //nolint:gosec // all may read it
		return "", err
	}
	folder := filepath.Join(c.out, "wheels")
	pins := filepath.Join(c.root, "tools/release/requirements.txt")
	command := exec.CommandContext(ctx, c.python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder, source)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "TZ=UTC", "SOURCE_DATE_EPOCH="+strconv.FormatInt(c.time.Unix(), 10), "PIP_CONSTRAINT="+pins, "PIP_BUILD_CONSTRAINT="+pins,
		"PENSTOCK_WHEEL_PROGRAM="+built.path, "PENSTOCK_WHEEL_PLATFORM="+p.wheelTag())
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("pip wheel for %s: %w", p, err)
	}
	return filepath.Join(folder, c.wheelName(p)), nil
}

func (c *checkout) wheelName(p platform) string {
	return fmt.Sprintf("penstock-%s-py3-none-%s.whl", c.version, p.wheelTag())
}

// copyPages copies the pages of documentation that git knows, but for those for contributors, and the files of other
// folders. A link to a file that is not copied becomes text.
func (c *checkout) copyPages(ctx context.Context, to string, others ...string) error {
	listed, err := output(ctx, c.root, "git", slices.Concat([]string{"ls-files", "-z", "--", "docs/*.md", ":!docs/adr", ":!docs/upstream"}, others)...)
	if err != nil {
		return err
	}
	names := strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00")
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".md") {
			text = []byte(withoutLinksOutside(name, string(text), names))
		}
		if err := writeText(filepath.Join(to, strings.TrimPrefix(name, "docs/")), text); err != nil {
			return err
		}
	}
	return nil
}

// link matches a link or picture of a page: its text, which may span lines, and its target.
var link = regexp.MustCompile(`!?\[([^\[\]]+)\]\(([^)\s]+)\)`)

// withoutLinksOutside replaces the page's relative links to other files than pages by their text and the file's path.
func withoutLinksOutside(page, text string, pages []string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		file, _, _ := strings.Cut(parts[2], "#")
		if file == "" || strings.Contains(file, "://") {
			return found
		}
		target := path.Join(path.Dir(page), file)
		if slices.Contains(pages, target) {
			return found
		}
		return fmt.Sprintf("%s (`%s` in the repository)", parts[1], target)
	})
}

// copyPackage copies the files of the Python package that git knows.
func (c *checkout) copyPackage(ctx context.Context, to string) error {
	listed, err := output(ctx, c.root, "git", "ls-files", "-z", "--", "python/src", "python/pyproject.toml", "python/setup.py", "python/README.md")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(to, strings.TrimPrefix(name, "python/")), filepath.Join(c.root, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a text, for all to read.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeText(to, text)
}

// writeText writes a text, for all to read.
func writeText(to string, text []byte) error {
	const files, folders = fs.FileMode(0o644), fs.FileMode(0o755)
	if err := os.MkdirAll(filepath.Dir(to), folders); err != nil {
		return err
	}
	if err := os.WriteFile(to, text, files); err != nil {
		return err
	}
	return os.Chmod(to, files) // whatever the umask is
}
