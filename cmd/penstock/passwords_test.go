package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors about a bad URI never show its password.
//
// spec: catalog-11
func TestNoPasswordIsShown(t *testing.T) {
	const secret = "user:hunter2@host"
	l := lake{dir: t.TempDir()}
	catalogs := map[string]string{
		"no file":    `{type: sql, uri: "sqlite://` + secret + `/db"}`,
		"parameters": `{type: sql, uri: "sqlite:////tmp/a.db?password=hunter2"}`,
		"storage":    `{type: sql, uri: "sqlite:////tmp/a.db", warehouse: "s3://` + secret + `/w"}`,
		"type":       `{type: "rest://` + secret + `", uri: "http://` + secret + `"}`,
	}
	for name, catalog := range catalogs {
		config := l.file(t, "penstock.yaml", "catalogs: {default: "+catalog+"}\n")
		got := run(t, "serve", "--config", config, "--listen", "127.0.0.1:0")
		require.Equal(t, exitFailure, got.code, name)
		require.NotContains(t, got.stdout+got.stderr, "hunter2", name)
	}
	config := l.file(t, "penstock.yaml", "catalogs: {default: {type: sql, uri: \"postgresql://user:hunter2@127.0.0.1:1/db\"}}\n")
	got := run(t, "datasets", "--config", config)
	require.Equal(t, exitFailure, got.code)
	require.NotContains(t, got.stdout+got.stderr, "hunter2")
	server := start(t, "--config", config) // it starts without the catalog, and says so
	require.Equal(t, "default", server.stderr.find(t, "the catalog does not answer; its tables are unavailable until it does")["catalog"])
	require.NotContains(t, server.stderr.String(), "hunter2")
	config = l.file(t, "penstock.yaml", "catalogs: {default: {type: sql, uri: \"sqlite:////tmp/none.db\"}}\n")
	for _, args := range [][]string{
		{"serve", "--config", config, "--listen", secret},
		{"serve", "--config", config, "--listen", secret + ":80"},
		{"serve", "--config", config, "--metrics", "http://" + secret + ":80"},
		{"serve", "--config", config, "--advertise", "grpc://" + secret + ":80"},
		{"serve", "--config", config, "--no-such=grpc://" + secret + ":80"},
		{"datasets", "--uri", "grpc://" + secret + ":80"},
		{"datasets", "--uri", secret + ":80"},
		{"datasets", "--uri", "http://" + secret},
		{"datasets", "http://" + secret, "--uri", "http://" + secret},
	} {
		got := run(t, args...)
		require.NotZero(t, got.code, "%v", args)
		require.NotContains(t, got.stdout+got.stderr, "hunter2", "%v", args)
	}
}
