package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// treeVersion is the version of this tree, and of the Python package in it
// (python/src/penstock/version.py).
const treeVersion = "0.1.0"

func (p process) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cmdline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.stdout, versionText())
			return err
		},
	}
}

// buildInfo is what the Go linker records of the program.
type buildInfo struct {
	module   string // the version of the module; "" if the build had none
	revision string // the commit; "" if unknown
	modified bool   // the checkout had uncommitted changes
}

func readBuildInfo() buildInfo {
	var b buildInfo
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
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
	return b
}

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
	return fmt.Sprintf("penstock %s\nmodule   %s\nrevision %s\ngo       %s %s/%s\n",
		treeVersion, cmp.Or(b.module, "unknown"), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
