package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// healthTimeout bounds a health check.
const healthTimeout = 5 * time.Second

func (p process) healthCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "health --uri URI", Short: "Check whether a server accepts calls", Args: cmdline.NoArguments,
		Long: "Check whether a server accepts calls: the health check of gRPC, which needs no token.\n\n" +
			"The exit code is 1 if it does not, as while it shuts down. This is for probes: over TLS, the\n" +
			"certificate of the server is not checked, and nothing is sent but the question.",
		Example: "  penstock health --uri grpc+tls://127.0.0.1:8815",
	}
	uri := cmdline.Text(c, "uri,u", "URI", "the server, as grpc://host:port or grpc+tls://host:port ("+envURI+")")
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
		_, err := fmt.Fprintln(p.stdout, "serving")
		return err
	}
	return c
}
