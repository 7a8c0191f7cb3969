package duckdb

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// Program is a program that runs SQL with DuckDB.
type Program struct {
	path string
	args []string
}

// pythonScript is a Python program that executes the SQL on its standard input. On an error, it
// prints DuckDB's text and nothing else. It ends without Python's own clean-up, in which the module
// may print more text.
const pythonScript = `import os, sys
import duckdb
code = 0
try:
    duckdb.connect().execute(sys.stdin.buffer.read().decode())
except duckdb.Error as failure:
    print(failure, file=sys.stderr, flush=True)
    code = 1
os._exit(code)
`

// killed is how long a process may take to end after it was killed.
const killed = 5 * time.Second

// Find finds DuckDB on the PATH: the program duckdb or, without it, a Python that has the module
// duckdb. It returns NotFound if there is neither.
func Find(ctx context.Context) (Program, error) {
	if path, err := exec.LookPath("duckdb"); err == nil {
		return Program{path, []string{"-init", "/dev/null", "-batch", "-bail"}}, nil
	}
	for _, python := range []string{"python3", "python"} {
		path, err := exec.LookPath(python)
		if err != nil {
			continue
		}
		if exec.CommandContext(ctx, path, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('duckdb') is None)").Run() == nil { //nolint:gosec // the user's own Python
			return Program{path, []string{"-c", pythonScript}}, nil
		}
		if ctx.Err() != nil {
			return Program{}, ctx.Err()
		}
	}
	return Program{}, fault.New(fault.NotFound, "--sql needs DuckDB: there is no program duckdb on the PATH, and no Python that has the module duckdb").
		WithRemedy("install the program (https://duckdb.org/docs/installation), or activate an environment in which you ran pip install duckdb")
}

// run executes statements. If one of them fails, run returns DuckDB's text as an Invalid error, or
// as an Exhausted error if DuckDB's memory was not enough.
func (p Program) run(ctx context.Context, script string) error {
	c := exec.CommandContext(ctx, p.path, p.args...) //nolint:gosec // the program that Find found
	c.Stdin, c.WaitDelay = strings.NewReader(script), killed
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(out.String())
	if _, exited := errors.AsType[*exec.ExitError](err); !exited || text == "" {
		return fault.New(fault.Unavailable, "run %s: %w", p.path, err).WithRemedy("run the program by itself to find out why it fails")
	}
	if strings.HasPrefix(text, "Out of Memory Error") {
		return fault.New(fault.Exhausted, "DuckDB: %s", text).WithRemedy("raise the setting memory, which is also the limit of DuckDB's memory, or read fewer rows in the SQL")
	}
	return refused("DuckDB: %s", text)
}
