package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/openpage"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/cmd/penstock/webserver"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
)

// pageConnections is the maximum number of connections of browsers, or of the proxy of a team.
const pageConnections = 1024

func uiCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "ui", Short: "Show servers, datasets and tables in a browser", Args: cmdline.NoArguments,
		Long: "Show servers, datasets and tables in a browser: streams and what they wait for, memory and caches,\n" +
			"plans, columns, and the snapshots of tables. Branches can be published, and changes taken back. The pages\n" +
			"are a client of the servers: they have the rights of this command's token, and store nothing.\n\n" +
			"The command listens on the loopback and prints a link, which one browser can open once; then it prints\n" +
			"another link. With --behind-proxy, there is no link: a proxy on this machine signs viewers in, and passes on\n" +
			"their tokens as Authorization: Bearer. The servers apply the rights of these tokens.\n\n" +
			"With --config, pages can start stages and promotions, which run in separate processes.\n\n" +
			"--uri may name several replicas, separated by commas. The pages show the streams and memory of all of\n" +
			"them, and the datasets and tables of the first.",
		Example: "  penstock ui --uri grpc://127.0.0.1:8815\n" +
			"  penstock ui --config penstock.yaml\n" +
			"  penstock ui --uri grpc+tls://a:8815,grpc+tls://b:8815 --listen 127.0.0.1:8880 --behind-proxy penstock.example.com",
	}
	from := newSourceFlags(c)
	listen := cmdline.Text(c, "listen", "ADDRESS", "the address of the pages, on the loopback (default 127.0.0.1, at a free port)")
	memory := cmdline.Text(c, "child-memory", "SIZE", "with --config: the memory budget of each stage or promotion that a page starts (default: half of the config file's)")
	proxied := cmdline.Text(c, "behind-proxy", "HOST", "the host name of the proxy that signs viewers in")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *proxied != "" && p.orEnv(*from.token, envToken) != "" {
			return cmdline.Errorf("--behind-proxy passes on the tokens of viewers: --token-file and %s cannot be used with it", envToken)
		}
		if server, err := p.serverOf(from); err != nil || *proxied != "" && !server {
			return cmp.Or(err, cmdline.Errorf("--behind-proxy needs servers (--uri), which check the tokens of viewers: with --config, nothing does"))
		}
		if strings.ContainsAny(*proxied, "/:") {
			return cmdline.Errorf("--behind-proxy %s: want a host name without scheme, port and path", *proxied)
		}
		if *memory != "" && *from.uri != "" {
			return cmdline.Errorf("--child-memory is for stages and promotions that the pages of a config file (--config) start")
		}
		from.passed, from.watched = *proxied != "", true
		return p.serveUI(c.Context(), from, *listen, *proxied, *memory)
	}
	return c
}

// serveUI serves the pages until a termination signal.
func (p process) serveUI(ctx context.Context, from sourceFlags, listen, proxied, memory string) (err error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	options := ui.Options{Version: version()}
	clients, err := p.replicas(ctx, from)
	defer func() {
		for _, one := range clients {
			err = errors.Join(err, one.Close())
		}
	}()
	if err != nil {
		return err
	}
	for i, one := range clients {
		if several := p.resolved(one.Name(), from); several != nil {
			defer several.Close() //nolint:errcheck // no call needs its answer
			options.Resolved = append(options.Resolved, several)
			continue
		}
		options.Replicas = append(options.Replicas, ui.Replica{Name: one.Name(), Watched: clients[i]})
	}
	options.Read, options.Count, options.Measure, options.Propose, options.Change = clients[0], clients[0], clients[0], clients[0], clients[0]
	options.Host, options.Source = proxied, p.commandSource(from)
	if clients[0].InProcess() {
		commands, err := p.newChildCommands(p.orEnv(*from.config, envConfig), memory)
		if err != nil {
			return err
		}
		defer commands.Close()
		options.Promotions, options.Stages = promotions{commands, p}, &stages{childCommands: commands, latest: map[string]ui.Stage{}}
	}
	at, err := listenLoopback(ctx, listen)
	if err != nil {
		return err
	}
	base := "http://" + at.Addr().String()
	enter, path := ui.ByProxy, "/"
	options.Session = ui.TokenOf
	if proxied == "" {
		_, port, _ := net.SplitHostPort(at.Addr().String()) // it is the address of a listener
		link := ui.NewLink(port, func(path string) { p.note("the link was opened; another browser can open %s%s\n", base, path) })
		enter, path, options.Session = link.Require, link.Renew(), link.Session
	}
	pages, err := ui.New(options)
	if err != nil {
		return errors.Join(err, at.Close())
	}
	if proxied == "" {
		defer p.announce(from, base)()
	}
	if _, err := fmt.Fprintln(p.stdout, base+path); err != nil {
		return errors.Join(fault.New(fault.Unavailable, "write the address to standard output: %w", err), at.Close())
	}
	return serveUntil(ctx, webserver.New(webserver.ForLoopback(proxied, enter(pages)), pageConnections, telemetry.NewLogger(p.stderr, slog.LevelWarn, "text")), at)
}

// runtimeFolder returns the folder for the addresses of open pages; "" if the user has none.
func (p process) runtimeFolder() string {
	if folder := p.orEnv("", "XDG_RUNTIME_DIR"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "penstock")
	}
	return ""
}

// sources returns the URIs of the servers that the flags or the environment name, or else the path of the config file.
func (p process) sources(from sourceFlags) []string {
	file, uri := *from.config, *from.uri
	if file == "" && uri == "" {
		file, uri = p.orEnv("", envConfig), p.orEnv("", envURI)
	}
	if uri != "" {
		return strings.Split(uri, ",")
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil
	}
	return []string{path}
}

// announce lets other commands of the user find the pages at an address. The function that it returns ends this.
func (p process) announce(from sourceFlags, address string) (end func()) {
	folder := p.runtimeFolder()
	if folder == "" {
		return func() {}
	}
	end, err := openpage.Announce(folder, p.sources(from), address)
	if err != nil {
		p.note("other commands do not find these pages: %s\n", fault.Redact(err.Error()))
		return func() {}
	}
	return end
}

// notePage says on standard error where pages about the source are shown, if they are and standard output is a terminal. The path is that of one of the pages.
func (p process) notePage(ctx context.Context, from sourceFlags, path string) {
	folder := p.runtimeFolder()
	if p.width == 0 || folder == "" {
		return
	}
	for _, source := range p.sources(from) {
		if base := openpage.Find(ctx, folder, source); base != "" {
			p.note("page: %s%s\n", base, path)
			return
		}
	}
}

// commandSource returns the flags that name the first server or the config file in the commands that pages show.
func (p process) commandSource(from sourceFlags) string {
	first, _, _ := strings.Cut(*from.uri, ",")
	if from.passed { // viewers have other machines and files
		return " --uri " + cmdline.Quote(cmp.Or(first, p.orEnv("", envURI)))
	}
	from.uri = &first
	return from.text()
}

// serveUntil serves until the context ends.
func serveUntil(ctx context.Context, server *http.Server, at net.Listener) error {
	var group errgroup.Group
	group.Go(func() error {
		if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			return fault.New(fault.Unavailable, "serve pages at %s: %w", at.Addr(), err)
		}
		return nil
	})
	<-ctx.Done()
	return errors.Join(server.Close(), group.Wait())
}

// replicas returns a client of each server that the flags name. After an error, the caller closes those that are returned as well.
func (p process) replicas(ctx context.Context, from sourceFlags) (out []*client.Client, err error) {
	uris := strings.Split(*from.uri, ",")
	if *from.uri == "" && *from.config == "" && p.orEnv("", envConfig) == "" {
		uris = strings.Split(p.orEnv("", envURI), ",")
	}
	for _, uri := range uris {
		one := from
		one.uri = &uri
		c, err := p.open(ctx, one, p.stderr)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// listenLoopback listens on an address of the loopback.
func listenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if address == "" {
		host, port, err = "127.0.0.1", "0", nil
	}
	if err != nil {
		return nil, fault.InvalidField("listen", "%v", err).WithRemedy("write --listen 127.0.0.1:8880")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fault.InvalidField("listen", "%q is not an address of the loopback: the pages are served without TLS", host).
			WithRemedy("write --listen 127.0.0.1:%s, and let a proxy on this machine serve them to others (--behind-proxy)", port)
	}
	var config net.ListenConfig
	at, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "listen on %s: %w", net.JoinHostPort(host, port), err).WithRemedy("choose another port with --listen")
	}
	return at, nil
}
