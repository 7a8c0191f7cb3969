package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of this tree, which the Python package has too
// (python/src/penstock/version.py).
const release = "0.1.0"

func (p process) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.stdout, versionText())
			return err
		},
	}
}

// built is what the Go linker knows of the program.
type built struct {
	module   string // its version as a module; "" if it was built in a checkout without one
	revision string // the commit; "" if unknown
	modified bool   // there were changes that are in no commit
}

func readBuilt() built {
	var b built
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "(devel)" {
		b.module = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}

// version is the release and, if it is known, the commit that this program was built
// of, as logs, metrics and manifests have it: "0.1.0+e02146467bd4".
func version() string { return readBuilt().version() }

func (b built) version() string {
	const short = 12
	text := release
	if b.revision != "" {
		text += "+" + b.revision[:min(len(b.revision), short)]
		if b.modified {
			text += ".modified"
		}
	}
	return text
}

// versionText is what penstock version prints.
func versionText() string { return readBuilt().text() }

func (b built) text() string {
	revision := cmp.Or(b.revision, "unknown")
	if b.modified {
		revision += ", modified"
	}
	return fmt.Sprintf("penstock %s\nmodule   %s\nrevision %s\ngo       %s %s/%s\n",
		release, cmp.Or(b.module, "unknown"), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
