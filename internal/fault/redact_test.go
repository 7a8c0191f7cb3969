package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nothing to hide":                        "nothing to hide",
		"a = 'b' AND key = 3":                    "a = 'b' AND key = 3",
		"file:///data/user@host/a:b.parquet":     "file:///data/user@host/a:b.parquet",
		"grpc://host:8815/a@b":                   "grpc://host:8815/a@b",
		"grpc://[::1]:8815":                      "grpc://[::1]:8815",
		"read s3://user:hunter2@host/a, then":    "read s3://xxxxx@host/a, then",
		"s3://hunter2@host":                      "s3://xxxxx@host",
		`parse "a://user:hunter2@host:b": no`:    `parse "a://xxxxx@host:b": no`,
		`uri "a://user:hun\"ter2@host"`:          `uri "a://xxxxx@host"`,
		"a://user:hun/ter2@host/db":              "a://xxxxx@host/db",
		"a://u:hunter2@h b://u:hunter2@h/?x=1":   "a://xxxxx@h b://xxxxx@h/?x=1",
		"a://h/?user=u&password=hunter2&x=1#f":   "a://h/?user=u&password=xxxxx&x=1#f",
		"a://h?X-Amz-Security-Token=hunter2 end": "a://h?X-Amz-Security-Token=xxxxx end",
		"a://h?sslkey=hunter2;x=1":               "a://h?sslkey=xxxxx;x=1",
		"a://xxxxx@h?token=xxxxx":                "a://xxxxx@h?token=xxxxx",
	} {
		require.Equal(t, want, fault.Redact(text))
		require.Equal(t, want, fault.Redact(fault.Redact(text)))
	}
	for uri, want := range map[string]string{
		"user:hunter2@host:80":      "xxxxx@host:80",
		"a://user:hunt er2@host/db": "a://xxxxx@host/db",
		"a://h/?password=hunt er2":  "a://h/?password=xxxxx er2",
		"127.0.0.1:8815":            "127.0.0.1:8815",
		"unix:///run/a@b":           "unix:///run/a@b",
		"/a@b":                      "/a@b",
	} {
		require.Equal(t, want, fault.RedactURI(uri))
	}
}

// TestErrorsShowNoSecrets tries every way to create an error, and looks at all
// of its fields.
func TestErrorsShowNoSecrets(t *testing.T) {
	t.Parallel()
	const uri = "a://user:hunter2@host/db?token=hunter2"
	plain := errors.New("dial " + uri)
	field := fault.Field{Field: uri, Message: "not " + uri, Nearest: uri}
	for name, err := range map[string]error{
		"new":     fault.New(fault.Invalid, "%s: %w", uri, plain),
		"field":   fault.InvalidField("uri", "%q is wrong", uri),
		"fields":  fault.Fields([]fault.Field{field, field}),
		"remedy":  fault.New(fault.Invalid, "no").WithRemedy("not %s", uri),
		"in":      fault.New(fault.Invalid, "no").In(uri, uri),
		"op":      fault.Op(fault.New(fault.Invalid, "no"), "read %s", uri),
		"foreign": fault.Op(plain, "read"),
		"as":      fault.As(fmt.Errorf("wrapped: %w", plain)),
		"literal": &fault.Error{Message: uri, Remedy: uri, File: uri, Op: uri},
	} {
		require.NotContains(t, err.Error(), "hunter2", name)
		if name == "literal" {
			continue
		}
		e := *fault.As(err)
		e.Err = nil
		require.NotContains(t, fmt.Sprintf("%+v", e.Faults)+strings.Join([]string{e.Op, e.Message, e.Remedy, e.Table, e.File}, " "), "hunter2", name)
	}
	require.NotContains(t, field.String(), "hunter2")
}
