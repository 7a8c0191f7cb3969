package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/reload"
	"github.com/penstock/penstock/cmd/penstock/watch"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/telemetry"
)

// Environment variables for the source flags.
const (
	envConfig = "PENSTOCK_CONFIG"
	envURI    = "PENSTOCK_URI"
	envTLSCA  = "PENSTOCK_TLS_CA"
	envToken  = "PENSTOCK_TOKEN_FILE"
)

// configFlag adds --config.
func configFlag(c *cobra.Command) *string {
	return cmdline.Text(c, "config,c", "FILE", "the config file ("+envConfig+")")
}

// sourceFlags holds --config and --uri, and the TLS and token flags for --uri. Either a flag or the
// environment must name a config file or a server, but not both.
type sourceFlags struct {
	config, uri            *string
	tlsCA, tlsCert, tlsKey *string
	token                  *string
	passed                 bool // calls carry the tokens of others; see client.Security
	watched                bool // a changed config file is used again
}

func newSourceFlags(c *cobra.Command) sourceFlags {
	out := newServerFlags(c)
	out.config = configFlag(c)
	return out
}

// newServerFlags adds the source flags except --config.
func newServerFlags(c *cobra.Command) sourceFlags {
	return sourceFlags{
		config:  new(string),
		uri:     cmdline.Text(c, "uri,u", "URI", "the server to call, as grpc://host:port or grpc+tls://host:port ("+envURI+")"),
		tlsCA:   cmdline.Text(c, "tls-ca", "FILE", "the CA of the server's certificate in PEM form, instead of the system's ("+envTLSCA+")"),
		tlsCert: cmdline.Text(c, "tls-cert", "FILE", "the certificate of this client, for mutual TLS"),
		tlsKey:  cmdline.Text(c, "tls-key", "FILE", "the key of that certificate"),
		token:   cmdline.Text(c, "token-file", "FILE", "the file with this client's token ("+envToken+")"),
	}
}

// text returns the flags as text that can be appended to a command line, except those that the
// environment replaces. The text has the names of files, and no secrets.
func (f sourceFlags) text() string {
	var b strings.Builder
	for _, one := range []struct {
		name  string
		value *string
	}{
		{"config", f.config}, {"uri", f.uri}, {"tls-ca", f.tlsCA}, {"tls-cert", f.tlsCert}, {"tls-key", f.tlsKey}, {"token-file", f.token},
	} {
		if *one.value != "" {
			b.WriteString(" --" + one.name + " " + cmdline.Quote(*one.value))
		}
	}
	return b.String()
}

// sourceOf returns the source flags of a command. Flags that the command lacks are empty.
func sourceOf(c *cobra.Command) sourceFlags {
	text := func(name string) *string {
		value := ""
		if f := c.Flags().Lookup(name); f != nil {
			value = f.Value.String()
		}
		return &value
	}
	return sourceFlags{config: text("config"), uri: text("uri"), tlsCA: text("tls-ca"), tlsCert: text("tls-cert"), tlsKey: text("tls-key"), token: text("token-file")}
}

// completionTime bounds the time to look up names in catalogs or on a server.
const completionTime = time.Second

// environment reads the environment variables and the clock of the program, which tests replace.
// Its methods find and open config files and servers.
type environment struct {
	env func(string) (string, bool)
	// environ lists all variables, as os.Environ does; nil: there are none.
	environ func() []string
	clock   func() time.Time
	lookup  time.Duration // bounds the time to look up names for completion; 0 is completionTime
}

// serverOf reports whether the source is a server, and not a config file. The flags name the source
// or, without flags, the environment does.
func (e environment) serverOf(f sourceFlags) (bool, error) {
	if *f.config != "" || *f.uri != "" {
		if *f.config != "" && *f.uri != "" {
			return false, cmdline.Errorf("--config runs in process, --uri on a server: give one of them")
		}
		return *f.uri != "", nil
	}
	if e.orEnv("", envConfig) == "" {
		return true, nil // open reports the missing source
	}
	return e.orEnv("", envURI) != "", nil
}

// open returns a client of the source. The flags name the source or, without flags, the environment
// does. If the source is a config file, the server runs in this process and logs its bugs to log.
func (e environment) open(ctx context.Context, f sourceFlags, log io.Writer) (*client.Client, error) {
	file, uri := *f.config, *f.uri
	if file != "" && uri != "" {
		return nil, cmdline.Errorf("--config runs in process, --uri on a server: give one of them")
	}
	if file == "" && uri == "" {
		file, uri = e.orEnv("", envConfig), e.orEnv("", envURI)
	}
	switch {
	case uri != "" && file != "":
		return nil, cmdline.Errorf("%s and %s are both set: choose with --config or --uri", envConfig, envURI)
	case uri != "":
		return client.Dial(uri, e.security(f), version())
	case *f.tlsCA+*f.tlsCert+*f.tlsKey+*f.token != "":
		return nil, cmdline.Errorf("--token-file, --tls-ca, --tls-cert and --tls-key are for a server at --uri")
	case file != "":
		return e.openLocal(ctx, file, f.watched, log)
	}
	return nil, cmdline.Errorf("give --config FILE to run in process, or --uri grpc://host:port to call a server")
}

// security returns what authenticates servers and this client.
func (e environment) security(f sourceFlags) client.Security {
	return client.Security{CA: e.orEnv(*f.tlsCA, envTLSCA), Cert: *f.tlsCert, Key: *f.tlsKey, Token: e.orEnv(*f.token, envToken), Passed: f.passed}
}

// Open implements complete.Sources.
func (e environment) Open(ctx context.Context, c *cobra.Command) (*client.Client, error) {
	return e.open(ctx, sourceOf(c), io.Discard)
}

// Config implements complete.Sources. If the flags name neither a config file nor a server, the
// config file is that of the environment.
func (e environment) Config(c *cobra.Command) *config.Config {
	flags := sourceOf(c)
	file := *flags.config
	if file == "" && *flags.uri == "" {
		file = e.orEnv("", envConfig)
	}
	if file == "" {
		return nil
	}
	conf, err := e.load(file, nil)
	if err != nil {
		return nil
	}
	return conf
}

// orEnv returns flag or, if it is "", the environment variable with the given name.
func (e environment) orEnv(flag, name string) string {
	if flag != "" || e.env == nil {
		return flag
	}
	text, _ := e.env(name)
	return text
}

// configFile returns the config file that the flag or the environment names, for commands that
// cannot use a server.
func (e environment) configFile(flag string) (string, error) {
	if file := e.orEnv(flag, envConfig); file != "" {
		return file, nil
	}
	return "", cmdline.Errorf("give --config FILE, the config file with the table's catalog")
}

// load reads a config file. Flags and environment variables override the settings in the file.
func (e environment) load(file string, flags map[string]string) (*config.Config, error) {
	return config.Load(config.Origin{
		File: file, Env: e.env, Flags: flags, Memory: machineMemory(), Storage: engine.StorageProperties(),
	})
}

func machineMemory() int64 { return config.MachineMemory(os.DirFS("/")) }

// withConfig loads a config file, assembles its engine, and calls use with both. Termination
// signals end the context that use receives. For created, see engine.Assemble.
func (e environment) withConfig(ctx context.Context, flag string, created func(catalog, file string), use func(context.Context, *config.Config, *engine.Engine) error) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	file, err := e.configFile(flag)
	if err != nil {
		return err
	}
	c, err := e.load(file, nil)
	if err != nil {
		return err
	}
	return withEngine(ctx, c, created, use)
}

// withEngine assembles the engine of a configuration, and calls use with both.
func withEngine(ctx context.Context, c *config.Config, created func(catalog, file string), use func(context.Context, *config.Config, *engine.Engine) error) error {
	built, err := engine.Assemble(ctx, c, created)
	if err != nil {
		return err
	}
	defer built.Close()
	return use(ctx, c, built)
}

// Sizes of the server in this process, in bytes.
const (
	localBuffer  = 1 << 20       // the buffer of the connection, in each direction
	localMessage = math.MaxInt32 // the maximum that gRPC supports, because here only memory limits messages
	localDetails = 1 << 20       // the details of a failure, which here need not fit into the headers that other clients accept
)

// openLocal runs a server for a config file in this process, and returns a client that is connected
// to it in memory. So commands get the same answers as from any other server, and no port is
// opened. If the file is watched, the server uses it again after each change, until the client is closed.
func (e environment) openLocal(ctx context.Context, file string, watched bool, log io.Writer) (*client.Client, error) {
	c, err := e.load(file, nil)
	if err != nil {
		return nil, err
	}
	keys, err := ticket.RandomKeys(rand.Reader)
	if err != nil {
		return nil, err
	}
	built, err := engine.Assemble(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	state, unwatch, err := e.watchConfig(ctx, c, built, watched, log)
	if err != nil {
		built.Close()
		return nil, err
	}
	tables := built.TableWriter(1)
	server := flight.New(flight.Options{ //nolint:contextcheck // calls have their own contexts
		Loader: built.Loader, Verifier: built.Loader, ColumnSizes: built.Loader.ColumnSizes, Cache: built.CacheAdmin(), Keys: func() *ticket.Keys { return keys }, Clock: e.clock, MaxMessage: localMessage, MaxDetails: localDetails, Version: version(),
		Budget: built.Budget, History: built.Tables, Differ: built.Differ(1), Proposer: proposer{c, built.Tables.Untagged}, Describer: built.Describer(0, createdBy(), noteUnkept(log)), Tables: tables, Maintenance: tables, Promoter: built.Promoter(), MaxStages: 1, Config: state,
		// Log only bugs: the client reports other failures.
		Logger: telemetry.NewLogger(log, slog.LevelError, "text"),
	})
	listener := bufconn.Listen(localBuffer)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	end := func() error {
		// The client has closed its connection, so all calls end soon, and Shutdown needs no time
		// limit.
		unwatch()
		err := server.Shutdown(context.WithoutCancel(ctx))
		err = errors.Join(err, <-served)
		built.Close()
		return err
	}
	return client.Local(listener.DialContext, localMessage, end)
}

// watchConfig makes an engine use its config file again after each change, if the file is watched. It returns the state of that for the
// status, nil if the file is not watched, and a function that ends it.
func (e environment) watchConfig(ctx context.Context, c *config.Config, built *engine.Engine, watched bool, log io.Writer) (state func() flight.ConfigStatus, end func(), err error) {
	if !watched {
		return nil, func() {}, nil
	}
	logger := telemetry.NewLogger(log, slog.LevelWarn, "text")
	again := func() (*config.Config, error) { return e.load(c.File, nil) }
	reloader, watcher := reload.New(reload.Options{Read: again, ReadLists: built.ReadLists, Loader: built.Loader, Log: logger, Started: c, Clock: e.clock}), watch.New(logger)
	uncounted := func() func(telemetry.Reload) { return func(telemetry.Reload) {} }
	if err := reloader.Watch(ctx, watcher, uncounted); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx, nil) })
	return reloader.Status(), func() { cancel(); running.Wait() }, nil
}

// changeFlags are the flags of all commands that change tables.
type changeFlags struct {
	sourceFlags
	progress *string
}

func newChangeFlags(c *cobra.Command) changeFlags {
	return changeFlags{sourceFlags: newSourceFlags(c), progress: progressFlag(c)}
}

// change calls f with a client of the source that the flags name, and with the command's progress.
// It reports the error of f as the end of the command.
func (p process) change(c *cobra.Command, flags changeFlags, table string, f func(context.Context, *client.Client, *commandProgress) error) error {
	g, err := p.progressOf(*flags.progress, c.Name(), table)
	if err != nil {
		return err
	}
	return g.end(p.withClient(c, flags.sourceFlags, func(ctx context.Context, s *client.Client) error { return f(ctx, s, g) }))
}

// printResult prints the result of a command, as JSON or as text.
func (p terminal) printResult(asJSON bool, result any, text string) error {
	if asJSON {
		return p.printJSON(result)
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}
