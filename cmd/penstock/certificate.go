package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/devcert"
)

// Defaults of certificate new.
const (
	certificateHosts    = "localhost,127.0.0.1,::1"
	certificateLifetime = 30 * 24 * time.Hour
)

func (p process) certificateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "certificate", Short: "Make certificates for tests", Args: cmdline.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.certificateNewCommand())
	return c
}

func (p process) certificateNewCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "new FOLDER", Short: "Make a CA and certificates of a server and a client, for tests",
		Long: "Make a CA and certificates of a server and a client, for tests and development: anyone who\n" +
			"reads the folder can make certificates that its users trust, and nothing revokes them.\n\n" +
			"The CA of the folder is used again, so that a second call replaces the certificates. They\n" +
			"are valid for 30 days, the CA for 300.",
		Example: "  penstock certificate new certificates --host localhost,loader.example.com",
	}
	hosts := cmdline.Text(c, "host", "NAME", "the names and addresses of the server, separated by commas (default "+certificateHosts+")")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cmdline.Errorf("%s needs one folder", c.CommandPath())
		}
		return nil
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *hosts == "" {
			*hosts = certificateHosts
		}
		folder := args[0]
		if err := devcert.Make(folder, strings.Split(*hosts, ","), p.clock(), certificateLifetime); err != nil {
			return err
		}
		at := func(name string) string { return filepath.Join(folder, name) }
		_, err := fmt.Fprintf(p.stdout, "server: --tls-cert %s --tls-key %s\nclients: --tls-ca %s\n", at(devcert.ServerCert), at(devcert.ServerKey), at(devcert.CA))
		p.note("  → for tests alone: %s can sign any certificate\n", at(devcert.CAKey))
		return err
	}
	return c
}
