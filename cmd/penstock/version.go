package main

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// treeVersion is the version of this tree, and of the Python package in it
// (python/src/penstock/version.py).
const treeVersion = "0.1.0"

// linkedCommit is the commit of a build that has no VCS stamp, such as a build from a source
// archive. Set it with go build -ldflags "-X main.linkedCommit=$(git rev-parse HEAD)".
var linkedCommit string //nolint:gochecknoglobals // the linker sets variables only

// commitForm matches the id of a commit. Values that it does not match, such as paths of the build
// machine, are not printed.
var commitForm = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

func versionCommand(p process) *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cmdline.NoArguments}
	asJSON := c.Flags().Bool("json", false, "print the version as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		b := readBuildInfo()
		return p.printResult(*asJSON, versionJSON{
			Version: treeVersion, Module: b.module, Revision: b.revision, Modified: b.modified, Go: runtime.Version(), Platform: platform(),
		}, b.text())
	}
	return c
}

// versionJSON is the JSON form of the version.
type versionJSON struct {
	Version  string `json:"version"`
	Module   string `json:"module,omitempty"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildInfo is the version information that the Go linker records.
type buildInfo struct {
	module   string // the version of the module; "" if the build had none
	revision string // the commit; "" if unknown
	modified bool   // the checkout had uncommitted changes
}

func readBuildInfo() buildInfo {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return buildInfoOf(build, linkedCommit)
}

// buildInfoOf returns the version information in build. If build has no commit, it uses the linked
// commit.
func buildInfoOf(build *debug.BuildInfo, linked string) buildInfo {
	var b buildInfo
	if build.Main.Version != "(devel)" {
		b.module = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	if b.revision == "" && commitForm.MatchString(linked) {
		b.revision = linked
	}
	return b
}

// platform returns the operating system and the architecture of this program, as "linux/amd64".
func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// version returns the version and, if known, the commit of this program, as it appears in
// logs, metrics and manifests: "0.1.0+e02146467bd4".
func version() string { return readBuildInfo().version() }

func (b buildInfo) version() string {
	const short = 12
	text := treeVersion
	if b.revision != "" {
		text += "+" + b.revision[:min(len(b.revision), short)]
		if b.modified {
			text += ".modified"
		}
	}
	return text
}

// versionText returns the output of penstock version.
func versionText() string { return readBuildInfo().text() }

func (b buildInfo) text() string {
	revision := cmp.Or(b.revision, "unknown")
	if b.modified {
		revision += ", modified"
	}
	module := "" // releases are built without it
	if b.module != "" {
		module = "module   " + b.module + "\n"
	}
	return fmt.Sprintf("penstock %s\n%srevision %s\ngo       %s %s\n", treeVersion, module, revision, runtime.Version(), platform())
}
