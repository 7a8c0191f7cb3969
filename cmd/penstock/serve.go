package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/cmd/penstock/auth"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/reload"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader/dataset"
)

func serveCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "serve --config FILE", Short: "Serve the datasets of a config file over Arrow Flight", Args: cmdline.NoArguments,
		Long: "Serve the datasets of a config file over Arrow Flight.\n\n" +
			"The first line on standard output is the address, as host:port or unix:///path; logs go\n" +
			"to standard error. Every setting can also be given in the file's server block (listen,\n" +
			"max_streams) or in the environment (PENSTOCK_LISTEN, PENSTOCK_MAX_STREAMS). Flags override\n" +
			"the environment, the environment overrides the file. docs/config.md describes them in full.\n\n" +
			"unix:///path serves on a Unix domain socket that only this user's programs can connect\n" +
			"to. With --local-socket, trainers of this user on this machine read batches from shared\n" +
			"memory, whatever address they connect to, in a fraction of the time.\n\n" +
			"Changes of the file's datasets take effect within seconds, or at once after SIGHUP. If the\n" +
			"file cannot be used, the server logs the error and keeps the previous datasets.\n\n" +
			"After SIGTERM or SIGINT, running streams may finish within the drain time; a second\n" +
			"signal ends them at once.",
		Example: "  penstock serve --config penstock.yaml --listen 127.0.0.1:8815",
	}
	file := configFlag(c)
	private := cmdline.Text(c, "private", "FOLDER", "serve only the process that starts this one, on a socket in an empty folder of mode 0700; end when standard input closes or the parent changes, and remove the folder")
	for _, s := range config.Settings() {
		if s.Switch() {
			c.Flags().Bool(s.Flag(), false, s.Usage)
			continue
		}
		usage := s.Usage
		if s.List {
			usage += "; separate several with commas"
		}
		if s.Default != "" {
			usage += fmt.Sprintf(" (default %s)", s.Default)
		}
		cmdline.Text(c, s.Flag(), s.Shape, usage)
	}
	cmdline.SetGroups(c, serveGroups())
	c.RunE = func(c *cobra.Command, _ []string) error {
		path := p.orEnv(*file, envConfig)
		if path == "" {
			return cmdline.Errorf("serve needs --config FILE, or %s", envConfig)
		}
		given := map[string]string{}
		for _, s := range config.Settings() {
			if f := c.Flags().Lookup(s.Flag()); f.Changed {
				given[s.Flag()] = f.Value.String()
			}
		}
		if *private != "" {
			return p.servePrivately(c.Context(), *private, path, given)
		}
		settings, err := p.load(path, given)
		if err != nil {
			return err
		}
		return p.serve(c.Context(), settings, func() (*config.Config, error) { return p.load(path, given) }, nil)
	}
	return c
}

// serverSignals returns two channels of signals: ends receives the signals that terminate the
// server, and hangups receives the signals to reload files. Both receive signals until restore is
// called.
func serverSignals() (ends, hangups chan os.Signal, restore func()) {
	ends, hangups = make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(ends, serverTerminations()...)
	signal.Notify(hangups, syscall.SIGHUP)
	return ends, hangups, func() {
		signal.Stop(ends)
		signal.Stop(hangups)
	}
}

// serve runs the server until a termination signal arrives or, if the server is private, until its
// owners are gone. owner is nil unless the server is private. again reads the configuration anew.
func (p process) serve(ctx context.Context, c *config.Config, again func() (*config.Config, error), owner *privateServer) error {
	defer owner.clean()
	signals, hangups, restore := serverSignals()
	defer restore()
	log := p.serverLog(c)
	for _, warning := range c.Warnings {
		log.Warn("a property of a catalog is not read", "file", c.File, "property", warning)
	}
	entry, err := auth.Open(ctx, c.Server, log, p.clock, p.stderr)
	if err != nil {
		return err
	}
	defer entry.Close()
	listener, err := entry.Listen(ctx, "listen", c.Server.Listen)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // Serve usually closes it
	// While the server starts, a termination signal also cancels the reads that are in progress.
	starting, started := signal.NotifyContext(ctx, serverTerminations()...)
	defer started()
	e, err := owner.assemble(starting, c, log)
	if err != nil {
		return err
	}
	defer func() {
		// Calls that were abandoned may use the engine until the process ends, so the engine is
		// then not closed.
		if !errors.Is(err, flight.ErrCallsAbandoned) {
			e.Close()
		}
	}()
	if err := e.TrySpool(log); err != nil {
		return err
	}

	started()
	engine.BoundHeap(log, func(name string) string { return p.orEnv("", name) }, c.Server.Memory, machineMemory())
	metrics := telemetry.NewMetrics(version())
	if err := e.Prepare(ctx, c.Server, metrics, log); err != nil {
		return err
	}
	allowed, err := entry.OpenPolicy(ctx, c, e.Loader, listener)
	if err != nil {
		return err
	}
	reloader := reload.New(reload.Options{Read: again, ReadLists: e.ReadLists, Loader: e.Loader, Log: log, Started: c, Clock: p.clock})
	if err := cmp.Or(reloader.Watch(ctx, entry.Watcher, metrics.Reloads), allowed.WatchNames(ctx, reloader.LoadedLast())); err != nil {
		return err
	}
	mapped, err := e.ListenLocal(ctx, c.Server, log)
	if err != nil {
		return err
	}
	defer mapped.Close()
	tables, readiness := e.TableWriter(engine.StageCalls(c.Server.Memory)), newReadiness(metrics)
	server := flight.New(flight.Options{ //nolint:contextcheck // calls have their own contexts
		Loader: e.Streams, Verifier: e.Loader, Keys: entry.TicketKeys, Clock: p.clock, Lifetime: c.Server.TicketLifetime,
		Renewal: c.Server.TicketRenewal, Advertise: c.Server.Advertise,
		MaxConnections: maxConnections(c.Server.Memory, engine.OpenFiles(), log), Budget: e.Budget, Cores: e.Cores,
		MaxStreams: c.Server.Streams(), PeerShare: c.Server.MaxPeerShare, MaxTransit: c.Server.Memory / transitDivisor, Pressed: e.Budget.Pressed, Wanted: e.Budget.Wanted,
		StallTimeout: c.Server.StallTimeout, Version: version(), Logger: log, Observer: metrics.Observer(), Trace: e.Tracer,
		TLS: entry.Handshakes(listener), Authenticate: entry.Authenticate(), Policy: allowed.InUse, Audit: entry.Audits,
		Local: mapped.Sessions, LocalSocket: mapped.Path, Sharing: e.Sharing, ColumnSizes: e.Loader.ColumnSizes, Cache: e.CacheAdmin(),
		History: e.Tables, Differ: e.Differ(engine.StageCalls(c.Server.Memory)), Proposer: proposer{c, e.Tables.Untagged}, Describer: e.Describer(maxDescribed, createdBy(), unkeptLog(log)), Tables: tables, Maintenance: tables, Promoter: e.Promoter(), MaxStages: engine.StageCalls(c.Server.Memory), Config: reloader.Status(), Ready: readiness.ready,
	})
	metrics.Streams(server)
	mapped.Observe(metrics)
	running := &runningServer{log: log, signals: signals, hangups: hangups, server: server, engine: e, mapped: mapped, entry: entry, drain: c.Server.Drain, readiness: readiness, ownerGone: owner.ended()}
	if running.http, err = listenHTTP(ctx, entry, metrics, log); err != nil {
		return err
	}
	log.Info("penstock serves", "version", version(), "go", runtime.Version(), "platform", platform(), "listen", listener.Addr().String(), "config", c.File,
		"datasets", len(c.Datasets), "catalogs", len(c.Catalogs), "memory", c.Server.Memory)
	if _, err := fmt.Fprintln(p.stdout, listener.Addr()); err != nil && !isBrokenPipe(err) {
		return fault.New(fault.Unavailable, "write the address to standard output: %w", err)
	}
	return running.run(ctx, listener)
}

// serverLog returns the log of a server. It first logs environment variables that look like
// misspelled settings.
func (p process) serverLog(c *config.Config) *slog.Logger {
	log := telemetry.NewLogger(p.stderr, c.Server.LogLevel, c.Server.LogFormat)
	if p.environ == nil {
		return log
	}
	misspelled := config.MisspelledVariables(p.environ(), []string{envConfig, envURI, envTLSCA, envToken})
	for _, name := range slices.Sorted(maps.Keys(misspelled)) {
		log.Warn("the environment variable is not known, and is ignored", "variable", name, "did you mean", misspelled[name])
	}
	return log
}

// Batches that were sent but that clients have not read may take 1/transitDivisor of the memory
// budget.
const transitDivisor = 2

// maxConnections returns the maximum number of open connections. gRPC uses about 60 KB per idle
// connection; their total must be small compared to the memory budget. The other half of the files that
// the process may open is for tables, the spool and metrics. 0 files are unknown.
func maxConnections(memory, files int64, log *slog.Logger) int {
	most := min(max(memory/(256<<10), 256), 4096)
	if files == 0 || files/2 >= most {
		return int(most)
	}
	log.Warn("the process may open few files: fewer connections can be open at a time; raise the limit (ulimit -n, or LimitNOFILE of systemd)",
		"files", files, "connections", files/2, "otherwise", most)
	return int(max(1, files/2))
}

// runningServer is a running server, with the channels that end it.
type runningServer struct {
	log     *slog.Logger
	signals <-chan os.Signal
	hangups <-chan os.Signal // each signal reloads the files
	server  *flight.Server
	engine  *engine.Engine
	mapped  engine.MappedMemory
	entry   *auth.Guard
	drain   time.Duration
	// ownerGone is closed when the owners of a private server are gone; nil for other servers.
	ownerGone <-chan struct{}
	readiness *readiness
	http      []httpServer
}

// run serves until a signal, the end of ctx, or a failure. After the first signal, running
// streams may continue for the drain time, or until the second signal.
func (s *runningServer) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	background, stop := context.WithCancel(ctx)
	group.Go(func() error {
		defer time.AfterFunc(readyLimit, s.readiness.begin).Stop()
		s.checkDatasets(background)
		s.readiness.begin()
		return nil
	})
	group.Go(func() error { s.engine.ReturnIdleMemory(background); return nil })
	// This goroutine is not in the group, because a file system that hangs must not prevent the
	// server from ending.
	go s.entry.Run(background, s.hangups)
	for _, one := range s.http {
		s.log.Info(one.setting, "listen", one.on.Addr().String())
		group.Go(func() error { return one.serve(ctx) })
	}
	group.Go(func() error { return s.server.Serve(listener) })
	group.Go(s.mapped.Serve)
	group.Go(func() error {
		defer stop()
		why := "the server failed"
		select {
		case <-ctx.Done():
		case sig := <-s.signals:
			why = sig.String()
		case <-s.ownerGone:
			why = "the owner has gone"
		}
		stop()
		s.readiness.end()
		s.log.Info("shutting down", "why", why, "streams", s.server.Streams(), "drain", s.drain)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
		defer cancel()
		quiet := make(chan struct{})
		defer close(quiet)
		go func() {
			select {
			case <-s.signals:
				cancel()
			case <-s.ownerGone:
				cancel()
			case <-quiet:
			}
		}()
		err := s.server.Shutdown(limit)
		s.mapped.Close()
		s.log.Info("shut down", "clean", err == nil)
		for _, one := range s.http {
			err = errors.Join(err, one.server.Close())
		}
		return err
	})
	return group.Wait()
}

// checkDatasets plans every dataset once, and logs the datasets that cannot be read. They are
// served nevertheless, because their tables may be created later.
func (s *runningServer) checkDatasets(ctx context.Context) {
	for _, d := range s.engine.Loader.Datasets() {
		if _, err := s.engine.Loader.Plan(ctx, dataset.Query{Rows: dataset.Rows{Dataset: d.Name}}); err != nil && ctx.Err() == nil {
			s.log.Warn("dataset cannot be read", "dataset", d.Name, "error", err)
		}
	}
}

// serveGroups returns the groups of flags in the help of serve. Every setting is in one group.
func serveGroups() []cmdline.FlagGroup {
	return []cmdline.FlagGroup{
		{Title: "General", Flags: []string{"config", "private", "help"}},
		{Title: "Listening", Flags: []string{"listen", "advertise", "local-socket"}},
		{Title: "TLS, tokens and rights", Flags: []string{"tls-cert", "tls-key", "tls-client-ca", "tokens", "jwt-issuer", "jwt-audience", "jwt-keys", "jwt-keys-max-age", "policy", "insecure"}},
		{Title: "Tickets", Flags: []string{"ticket-keys", "ticket-lifetime", "ticket-renewal"}},
		{Title: "Memory", Flags: []string{"memory", "cache-memory", "share-batches", "max-batch-bytes", "max-metadata"}},
		{Title: "Local disk", Flags: []string{"spool", "spool-limit", "cache-dir", "cache-disk"}},
		{Title: "Streams", Flags: []string{"max-streams", "max-peer-share", "stall-timeout", "drain"}},
		{Title: "Reading tables", Flags: []string{"storage-timeout", "require-checksums", "read-ahead", "read-size", "read-gap", "read-tail"}},
		{Title: "Logs and metrics", Flags: []string{"log-level", "log-format", "audit-log", "metrics", "pprof", "health", "trace", "trace-ca", "trace-every", "trace-headers"}},
	}
}
