package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, in the words of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// wheelTag returns the platform of a wheel's name. A static program needs no libc, but the name must have one. Those of macOS
// need the release that Go requires.
func (p platform) wheelTag() string {
	machine := map[string]string{"linux/amd64": "x86_64", "linux/arm64": "aarch64", "darwin/amd64": "x86_64", "darwin/arm64": "arm64"}[p.String()]
	if p.os == "linux" {
		return "manylinux_2_17_" + machine
	}
	return "macosx_12_0_" + machine
}

// parsePlatforms reads a list such as "linux/amd64,darwin/arm64".
func parsePlatforms(list string) ([]platform, error) {
	known := []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
	var out []platform
	for one := range strings.SplitSeq(list, ",") {
		if !slices.Contains(known, one) {
			return nil, fmt.Errorf("%q is none of the platforms %s", one, strings.Join(known, ", "))
		}
		system, arch, _ := strings.Cut(one, "/")
		out = append(out, platform{system, arch})
	}
	return out, nil
}

// program is one that was built for a platform.
type program struct {
	path  string
	build *buildinfo.BuildInfo
}

// build builds the server for a platform, once. Its bytes depend on the sources, the commit and the version of Go alone.
func (c *checkout) build(ctx context.Context, p platform) (program, error) {
	if built, ok := c.programs[p]; ok {
		return built, nil
	}
	built := program{path: filepath.Join(c.out, "programs", p.os+"-"+p.arch, "penstock")}
	link := "-s -w -buildid="
	if c.commit != "" {
		link += " -X main.linkedCommit=" + c.commit
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", link, "-o", built.path, "./cmd/penstock")
	command.Dir, command.Stderr = c.root, os.Stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	fmt.Printf("release: building %s for %s\n", c.version, p)
	if err := command.Run(); err != nil {
		return program{}, fmt.Errorf("go build for %s: %w", p, err)
	}
	if err := checkHeader(built.path, p); err != nil {
		return program{}, err
	}
	var err error
	if built.build, err = buildinfo.ReadFile(built.path); err != nil {
		return program{}, err
	}
	c.programs[p] = built
	return built, nil
}

// checkHeader checks that a program is of its platform, and needs no library of a Linux system.
func checkHeader(path string, p platform) error {
	if p.os == "linux" {
		return checkELF(path, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.arch])
	}
	f, err := macho.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a Mach-O program: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[p.arch]; f.Cpu != want || f.Type != macho.TypeExec {
		return fmt.Errorf("%s is a Mach-O %s for %s, not a program for %s", path, f.Type, f.Cpu, want)
	}
	return nil
}

func checkELF(path string, want elf.Machine) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not an ELF program: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if f.Machine != want {
		return fmt.Errorf("%s is for %s, not for %s", path, f.Machine, want)
	}
	for _, header := range f.Progs {
		if header.Type == elf.PT_INTERP || header.Type == elf.PT_DYNAMIC {
			return errors.New(path + " is linked dynamically")
		}
	}
	return nil
}
