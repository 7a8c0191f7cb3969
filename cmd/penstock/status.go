package main

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/statustext"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// clearScreen moves the cursor to the top left corner of a terminal, and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

func statusCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show the streams of a server, and what each waits for", Args: cmdline.NoArguments,
		Long: "Show the streams of a server, and what each waits for: its trainer, storage, memory, a slot,\n" +
			"or another stream that reads the same rows. With a policy, the streams of other clients, and the\n" +
			"memory and slots of the server, need the right status.\n\n" +
			"Rates and shares are averages since each stream began; with --watch, those of the last interval.\n" +
			"--json prints the answer of the server, whose counters only grow.",
		Example: "  penstock status --uri grpc://127.0.0.1:8815\n  penstock status --uri grpc://127.0.0.1:8815 --watch 2",
	}
	from := newServerFlags(c)
	asJSON := c.Flags().Bool("json", false, "print the answer of the server as JSON; with --watch, each in a line")
	watch := c.Flags().Float64("watch", 0, "repeat the output at this interval, in seconds, until interrupted")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case *watch < 0 || *watch > 0 && *watch < 0.1 || *watch > 86400:
			return cmdline.Errorf("--watch %v: want 0.1 to 86400 seconds", *watch)
		case p.orEnv(*from.uri, envURI) == "":
			return cmdline.Errorf("status needs a server: give --uri grpc://host:port, or set %s", envURI)
		}
		*from.uri = p.orEnv(*from.uri, envURI)
		return p.withClient(c, from, func(ctx context.Context, s *client.Client) error {
			if *watch > 0 {
				return p.watchStatus(ctx, s, time.Duration(*watch*float64(time.Second)), *asJSON)
			}
			now, sent, err := s.Status(ctx)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return p.printSent(sent, "  ")
			}
			err = statustext.Write(p.stdout, now, nil)
			p.notePage(ctx, from, "/")
			return err
		})
	}
	return c
}

// watchStatus prints the status at intervals.
func (p process) watchStatus(ctx context.Context, s *client.Client, every time.Duration, asJSON bool) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before *flight.ServerStatus
	for {
		now, sent, err := s.Status(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			err = p.printSent(sent, "")
		} else {
			err = p.printStatus(now, before)
		}
		if err != nil {
			return err
		}
		before = &now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// printStatus prints a status. On a terminal, it clears the screen first.
func (p terminal) printStatus(now flight.ServerStatus, before *flight.ServerStatus) error {
	var b bytes.Buffer
	switch {
	case p.width > 0:
		b.WriteString(clearScreen)
	case before != nil:
		b.WriteString("\n")
	}
	if err := statustext.Write(&b, now, before); err != nil {
		return err
	}
	_, err := p.stdout.Write(b.Bytes())
	return err
}

// printSent prints the JSON that the server sent. It indents the JSON, or prints it on one line if
// indent is "".
func (p terminal) printSent(sent json.RawMessage, indent string) error {
	var b bytes.Buffer
	err := json.Compact(&b, sent)
	if indent != "" {
		b.Reset()
		err = json.Indent(&b, sent, "", indent)
	}
	if err != nil {
		return fault.New(fault.Internal, "write JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err = p.stdout.Write(b.Bytes())
	return err
}

// healthTimeout bounds a health check.
const healthTimeout = 5 * time.Second

func healthCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "health --uri URI", Short: "Check whether a server accepts calls", Args: cmdline.NoArguments,
		Long: "Check whether a server accepts calls: the health check of gRPC, which needs no token.\n\n" +
			"The exit code is 1 if it does not, for example while it shuts down. Use it for probes: over TLS,\n" +
			"the certificate of the server is not checked, and no token is sent.",
		Example: "  penstock health --uri grpc+tls://127.0.0.1:8815",
	}
	uri := cmdline.Text(c, "uri,u", "URI", "the server, as grpc://host:port or grpc+tls://host:port ("+envURI+")")
	asJSON := c.Flags().Bool("json", false, "print the answer as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		at := p.orEnv(*uri, envURI)
		if at == "" {
			return cmdline.Errorf("health needs --uri grpc://host:port, or %s", envURI)
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		if err := client.Health(ctx, at); err != nil {
			return err
		}
		return p.printResult(*asJSON, map[string]string{"status": "serving"}, "serving\n")
	}
	return c
}
