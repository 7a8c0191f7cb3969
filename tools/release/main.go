// Command release builds what users install, from the checkout that it is run in:
//
//	release [-out FOLDER] [-python PYTHON] [-platforms LIST] wheels|image|chart|site|all
//
// The same commit gives the same bytes with the same versions of Go and of the Python packages that are pinned here. It reads
// and writes files, and runs go and pip; registries of packages are all that these need from a network.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	syscall.Umask(0o022) // of this process and of pip: wheels have the permissions of files
	if err := os.Setenv("GOFLAGS", ""); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// checkout is what is released, and where it goes.
type checkout struct {
	root     string // of the checkout
	out      string // the folder of what is built
	python   string // with pip
	version  string // as "0.1.0"
	commit   string // "" if there are changes that are not committed
	time     time.Time
	programs map[platform]program // that were built
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "dist", "the `folder` for what is built")
	python := flags.String("python", "python3", "a `Python` that has pip")
	list := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "the `platforms` to build for; those of images are on Linux")
	if err := flags.Parse(args); err != nil {
		return err
	}
	platforms, err := parsePlatforms(*list)
	if err != nil {
		return err
	}
	c, err := openCheckout(ctx, *out, *python)
	if err != nil {
		return err
	}
	for _, what := range flags.Args() {
		switch what {
		case "wheels":
			err = c.wheels(ctx, platforms)
		case "image":
			err = c.image(ctx, platforms)
		case "chart":
			err = c.chart(ctx)
		case "site":
			err = c.site(ctx)
		case "all":
			err = c.all(ctx, platforms)
		default:
			err = fmt.Errorf("%q is none of wheels, image, chart, site and all", what)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// openCheckout reads the version and the commit of the checkout that has this program.
func openCheckout(ctx context.Context, out, python string) (*checkout, error) {
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	c := &checkout{root: root, python: python, programs: map[platform]program{}}
	if c.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return nil, err
	}
	if c.version, err = versionOf(filepath.Join(root, "python/src/penstock/version.py")); err != nil {
		return nil, err
	}
	changes, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes == "" {
		if c.commit, err = output(ctx, root, "git", "rev-parse", "HEAD"); err != nil {
			return nil, err
		}
	}
	seconds, err := output(ctx, root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	c.time = time.Unix(n, 0).UTC()
	return c, err
}

// versionOf returns the version that a Python file assigns.
func versionOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(text), `__version__ = "`)
	version, _, ok := strings.Cut(after, `"`)
	if !ok {
		return "", fmt.Errorf("%s assigns no version", file)
	}
	return version, nil
}

// output runs a program and returns what it prints, without white space around it.
func output(ctx context.Context, folder, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = folder, os.Stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}
