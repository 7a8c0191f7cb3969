// Command penstock serves joined Iceberg tables to trainers over Arrow Flight,
// and shows on the terminal what it would serve.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitFindings    = 1 // of verify, whose failures are exitUnverified
	exitUnverified  = 3
	exitUsage       = 2
	exitInterrupted = 130 // as shells have it for SIGINT
)

// process is what the program has of the system around it, so that tests can
// run it in theirs.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) (string, bool)
	clock          func() time.Time
	width          int // columns of the terminal that stdout is; 0: it is none
}

func main() {
	p := process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, clock: time.Now, width: terminalWidth(os.Stdout)}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// run runs one command line and returns the exit code.
func (p process) run(ctx context.Context, args []string) int {
	began := false
	root := &cobra.Command{
		Use:   "penstock",
		Short: "Stream joined Iceberg tables to trainers",
		Long: "Penstock opens a training table and its staging tables in Apache Iceberg, joins them\n" +
			"bucket by bucket in memory, and streams the joined batches over Arrow Flight.",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		// What goes wrong before a command runs is a mistake in its use.
		PersistentPreRun: func(*cobra.Command, []string) { began = true },
		Version:          version(),
	}
	root.SetVersionTemplate(versionText())
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(p.serveCommand(), p.explainCommand(), p.catCommand(), p.verifyCommand(), p.datasetsCommand(), p.initCommand(), p.versionCommand()) //nolint:contextcheck // cobra hands ctx to the commands
	root.SetFlagErrorFunc(wrongFlag)
	if command, err := oneDash(root, args); err != nil {
		return p.ended(command, err)
	}
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !began {
		err = usageError{err}
	}
	return p.ended(command, err)
}

// interruptible is ctx until a signal asks the program to end.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, endings()...)
}

// endings returns the signals that ask the program to end: SIGTERM, and Ctrl-C and the end
// of its terminal unless it was started to ignore them, as by nohup.
func endings() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			ends = append(ends, s)
		}
	}
	return ends
}
