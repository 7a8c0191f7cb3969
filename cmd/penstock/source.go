package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
)

// Variables of the environment that name the source.
const (
	envConfig = "PENSTOCK_CONFIG"
	envURI    = "PENSTOCK_URI"
)

// configFlag adds --config.
func configFlag(c *cobra.Command) *string {
	return cmdline.Text(c, "config,c", "FILE", "the config file ("+envConfig+")")
}

// sourceFlags are --config and --uri, one of which is required.
type sourceFlags struct {
	config, uri *string
}

func newSourceFlags(c *cobra.Command) sourceFlags {
	return sourceFlags{
		config: configFlag(c),
		uri:    cmdline.Text(c, "uri,u", "URI", "the server to read from, as grpc://host:port ("+envURI+")"),
	}
}

// open returns a client of the source that the flags name, or else the environment.
func (p process) open(ctx context.Context, f sourceFlags) (*client.Client, error) {
	file, uri := *f.config, *f.uri
	if file != "" && uri != "" {
		return nil, cmdline.Errorf("--config reads in process, --uri from a server: give one of them")
	}
	if file == "" && uri == "" {
		file, uri = p.orEnv("", envConfig), p.orEnv("", envURI)
	}
	switch {
	case uri != "" && file != "":
		return nil, cmdline.Errorf("%s and %s are both set: choose with --config or --uri", envConfig, envURI)
	case uri != "":
		return client.Dial(uri)
	case file != "":
		return p.openLocal(ctx, file)
	}
	return nil, cmdline.Errorf("give --config FILE to read in process, or --uri grpc://host:port to read from a server")
}

// orEnv returns the text of a flag, or else of a variable.
func (p process) orEnv(flag, name string) string {
	if flag != "" || p.env == nil {
		return flag
	}
	text, _ := p.env(name)
	return text
}
